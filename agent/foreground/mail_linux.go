package foreground

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/nss"
)

// mailTimeout bounds the wait for the mailer.
const mailTimeout = 30 * time.Second

// mailSystemPath is the PATH of mailers, which are often scripts.
const mailSystemPath = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// checkMailer says why no mail can be sent although -m asks for some.
func (s *session) checkMailer() error {
	if s.request.MailOptions == 0 {
		return nil
	}
	mailer := s.order.Config.Mailer
	if mailer == "" {
		return errors.New("no mailer is configured")
	}
	if _, path, ok := strings.Cut(mailer, "@"); ok && strings.HasPrefix(path, "/") {
		mailer = path
	}
	words := strings.Fields(mailer)
	if err := unix.Access(words[0], unix.X_OK); err != nil {
		return fmt.Errorf("the mailer %s cannot be executed: %w", words[0], err)
	}
	return nil
}

// mail sends what -m asks for (sge_submit(1)) through the configured mailer,
// which is called as mailer -s SUBJECT ADDRESS... with the text on standard
// input. Mail that cannot be sent is said and does not fail the job.
func (s *session) mail(d *job.Description, occasion job.MailOptions, o *job.Outcome) {
	if o != nil && o.Failed != job.FailedNone {
		// At the end, or because it was aborted: one mail for both.
		occasion |= job.MailAtAbort
	}
	if d.MailOptions&occasion == 0 || s.checkMailer() != nil {
		return
	}
	subject, text := mailText(d, occasion, o)
	if err := s.send(subject, text, strings.Split(d.MailList, ",")); err != nil {
		s.say("cannot send mail: " + err.Error())
	}
}

// send runs the mailer: as the user that its configuration names, and else as
// the owner of the job, who has chosen the addresses. To some mailers an
// address is a file or a command.
func (s *session) send(subject, text string, to []string) error {
	command := strings.Fields(s.order.Config.Mailer)
	user := s.owner
	if name, path, ok := strings.Cut(command[0], "@"); ok && strings.HasPrefix(path, "/") {
		var err error
		if user, err = s.order.Lookup(name); err != nil {
			return err
		}
		command[0] = path
	}
	ctx, cancel := context.WithTimeout(context.Background(), mailTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], append(append(command[1:], "-s", subject), to...)...)
	cmd.Dir = "/"
	cmd.Env = []string{
		"PATH=" + mailSystemPath, "HOME=" + user.Home, "USER=" + user.Name, "LOGNAME=" + user.Name, "SHELL=/bin/sh",
	}
	cmd.Stdin = strings.NewReader(text)
	cmd.WaitDelay = time.Second
	// Out of reach of the terminal's signals.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if user.UID != s.caller.UID {
		credential, err := credentialOf(user)
		if err != nil {
			return err
		}
		cmd.SysProcAttr.Credential = credential
	}
	out, err := cmd.CombinedOutput()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("%s has not ended within %s", command[0], mailTimeout)
	case err != nil:
		err = fmt.Errorf("%s: %w: %s", command[0], err, strings.TrimSpace(string(out)))
	}
	return err
}

func credentialOf(u *nss.User) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, fmt.Errorf("only root can run the mailer as user %s", u.Name)
	}
	groups, err := nss.System().Groups(u.Name, u.GID)
	return &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: groups}, err
}

// mailText has the form that users of Grid Engine filter their mail by.
func mailText(d *job.Description, occasion job.MailOptions, o *job.Outcome) (subject, text string) {
	kind, word := "Job", "Started"
	if d.ID.Task != 0 {
		kind = "Job-array task"
	}
	switch {
	case o != nil && o.Failed != job.FailedNone:
		word = "Aborted"
	case o != nil:
		word = "Complete"
	case occasion&job.MailAtSuspend != 0:
		word = "Suspended"
	}
	subject = fmt.Sprintf("%s %s (%s) %s", kind, d.ID, d.Name, word)
	var b strings.Builder
	line := func(name, value string) { fmt.Fprintf(&b, " %-16s = %s\n", name, value) }
	b.WriteString(subject + "\n")
	if o != nil && o.Ran {
		line("Exit Status", fmt.Sprint(o.ExitStatus))
		if o.Signal != 0 {
			line("Signal", job.SignalName(syscall.Signal(o.Signal)))
		}
	}
	line("User", d.Owner)
	line("Queue", d.Queue+"@"+d.Host)
	line("Host", d.Host)
	const layout = "01/02/2006 15:04:05"
	if o == nil {
		line(map[bool]string{true: "Start Time", false: "Time"}[word == "Started"], time.Now().Format(layout))
		return subject, b.String()
	}
	if o.Ran {
		u := o.Usage
		line("Start Time", o.Start.Format(layout))
		line("End Time", o.End.Format(layout))
		line("User Time", clock(u.UserTime))
		line("System Time", clock(u.SystemTime))
		line("Wallclock Time", clock(u.Wallclock))
		line("CPU", clock(u.CPU))
		line("Max RSS", size(u.MaxRSS))
	}
	if o.Reason != "" {
		b.WriteString("\nThe job " + strings.TrimPrefix(o.Reason, "job ") + ".\n")
	}
	return subject, b.String()
}

// clock is a time as h:mm:ss.
func clock(seconds float64) string {
	n := int(seconds)
	return fmt.Sprintf("%02d:%02d:%02d", n/3600, n/60%60, n%60)
}
