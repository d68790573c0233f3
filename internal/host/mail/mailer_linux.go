package mail

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/job"
)

// DefaultTimeout is the time limit of a mailer for which none is configured.
const DefaultTimeout = 30 * time.Second

// systemPath is the PATH of mailers, which are often scripts.
const systemPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// DefaultUser is the user of the mailer of a daemon that runs as root, if Command names none.
const DefaultUser = "nobody"

// maxOutput is the maximum size of a mailer's stored output, in bytes.
const maxOutput = 1024

// Mailer is the mailer of sge_conf(5).
type Mailer struct {
	Command string // "[user@]path [arguments]"; empty for none
	// Users finds the user of Command; nil is the name service switch.
	Users   func(name string) (*userdb.User, error)
	Timeout time.Duration // 0 is DefaultTimeout
	// Shun is a user ID that the mailer never gets, because other processes of this user could take control of it and of the
	// rights that it gains from set-group-ID programs; 0 for none, because the mailer never runs as root.
	Shun uint32
}

// split returns the user and the words of Command, at least one word.
func (m *Mailer) split() (user string, words []string, err error) {
	user, words = job.Procedure(m.Command)
	if words[0] == "" {
		return "", nil, errors.New("no mailer is configured")
	}
	return user, words, nil
}

// Check returns the reason why no mail can be sent, or nil if mail can be sent.
func (m *Mailer) Check() error {
	_, words, err := m.split()
	if err != nil {
		return err
	}
	if err := unix.Access(words[0], unix.X_OK); err != nil {
		return fmt.Errorf("the mailer %s cannot be executed: %w", words[0], err)
	}
	return nil
}

// Send runs the mailer as mailer -s SUBJECT ADDRESS..., with the text on standard input, like
// mail(1), and waits for its end. The mailer runs as the user that Command names, otherwise as the
// user of this process, or if that is root, as DefaultUser.
//
// It does not run as the owner of the job, because mail(1) executes commands of ~/.mailrc, and the
// processes of a mailer have no limits of the job and do not end with the job.
func (m *Mailer) Send(ctx context.Context, owner *userdb.User, message Message) error {
	name, words, err := m.split()
	if err != nil {
		return err
	}
	if len(message.To) == 0 {
		return errors.New("the mail has no address")
	}
	root := os.Geteuid() == 0
	if name == "" && root {
		name = DefaultUser
	}
	user := owner
	if name == "" && int(owner.UID) != os.Geteuid() { // the daemon is a front without root's rights
		if user, err = userdb.System().UserID(uint32(os.Geteuid())); err != nil {
			return fmt.Errorf("cannot determine the user of the mailer: %w", err)
		}
	}
	if name != "" && name != owner.Name {
		if user, err = m.user(name); err != nil {
			return fmt.Errorf("user %q of the mailer: %w", name, err)
		}
	}
	if root {
		if err := (trust.Users{}).With(user.UID).Program(words[0]); err != nil {
			return fmt.Errorf("cannot run the mailer as user %s: %w", user.Name, err)
		}
	}
	if user.UID == 0 {
		return fmt.Errorf("%s would run as root with addresses and names that users have chosen; put the name of another user and @ in front of it", words[0])
	}
	if m.Shun != 0 && user.UID == m.Shun {
		return fmt.Errorf("%s would run as user %s, whose other processes could take control of it; put the name of another user and @ in front of it", words[0], user.Name)
	}
	for _, address := range message.To {
		if err := checkAddress(address, user == owner && !root); err != nil {
			return err
		}
	}
	timeout := m.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("it has not ended within %s", timeout))
	defer cancel()
	return run(ctx, user, append(words, append([]string{"-s", message.Subject}, message.To...)...), unescaped(message.Text))
}

// unescaped returns a text whose lines are no commands for the mailer: some versions of mail(1)
// interpret a tilde at the beginning of a line, such as "~!" for a shell command, even if the text
// does not come from a terminal, and take a single dot for the end.
func unescaped(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "~") || strings.TrimSpace(line) == "." {
			b.WriteByte(' ')
		}
		b.WriteString(line)
	}
	return b.String()
}

func (m *Mailer) user(name string) (*userdb.User, error) {
	if m.Users != nil {
		return m.Users(name)
	}
	return userdb.System().User(name)
}

// plain matches addresses that no mailer takes for anything else.
var plain = lazyregexp.New(`^[A-Za-z0-9_][A-Za-z0-9_.+=-]*(@[A-Za-z0-9_][A-Za-z0-9_.-]*)?$`)

// IsAddress reports whether a text is an address that no mailer takes for anything else.
func IsAddress(text string) bool { return plain().MatchString(text) }

// checkAddress refuses addresses that could be options. Unless the mailer runs with the rights of
// the job's owner, it also refuses addresses that some mailers take for files or commands
// (mailx(1), -s).
func checkAddress(address string, own bool) error {
	if strings.HasPrefix(address, "-") || !own && !plain().MatchString(address) {
		return fmt.Errorf("invalid mail address %q: expected user or user@host", address)
	}
	return nil
}

// run runs a mailer in a session of its own: signals of a terminal do not reach it, and its process
// group can be killed as a whole.
func run(ctx context.Context, user *userdb.User, words []string, text string) error {
	out := program.Head{Most: maxOutput}
	c := program.Command{
		Path: words[0], Args: words[1:], Dir: "/",
		Env: []string{
			"PATH=" + systemPath, "HOME=" + user.Home, "USER=" + user.Name, "LOGNAME=" + user.Name, "SHELL=/bin/sh",
		},
		Stdin: strings.NewReader(text), Stdout: &out, Stderr: &out, WaitDelay: time.Second,
		Leave:  true, // a process that delivers the mail may outlive the mailer
		Signal: kill,
	}
	if int(user.UID) != os.Geteuid() {
		credential, err := credentialOf(user)
		if err != nil {
			return err
		}
		c.As = credential
	}
	err := program.Run(ctx, &c)
	if err == nil {
		return nil
	}
	if said := strings.TrimSpace(string(out.Kept)); said != "" && ctx.Err() == nil {
		return fmt.Errorf("%s: %w: %s", words[0], err, said)
	}
	return fmt.Errorf("%s: %w", words[0], err)
}

// kill is kill(2); tests replace it.
var kill = unix.Kill

func credentialOf(u *userdb.User) (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, fmt.Errorf("only root can run the mailer as user %s", u.Name)
	}
	groups, err := userdb.System().Groups(u.Name, u.GID)
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: groups}, err
}
