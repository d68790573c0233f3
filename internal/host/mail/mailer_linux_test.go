package mail

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
)

// office is a directory in which everybody may make files, with a mailer.
type office struct {
	dir   string
	owner *userdb.User
}

// newOffice makes a mailer of a shell script, in which $DIR is the directory.
func newOffice(t *testing.T, script string) *office {
	t.Helper()
	o := &office{t.TempDir(), &userdb.User{Name: "owner", UID: uint32(os.Getuid()), GID: uint32(os.Getgid()), Home: "/home/owner"}}
	if os.Getuid() == 0 {
		o.owner.UID, o.owner.GID = 54321, 54321
	}
	if err := errors.Join(os.Chmod(filepath.Dir(o.dir), 0o755), os.Chmod(o.dir, fs.ModeSticky|0o777)); err != nil {
		t.Fatal(err)
	}
	script = "#!/bin/sh\nDIR='" + o.dir + "'\n" + script
	if err := os.WriteFile(o.mailer(), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *office) mailer() string { return o.dir + "/mailer" }

func (o *office) read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(o.dir + "/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// pid reads a process number from a file.
func (o *office) pid(t *testing.T, name string) int {
	t.Helper()
	pid, err := strconv.Atoi(strings.TrimSpace(o.read(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

var letterToTwo = Message{To: []string{"a@x", "b"}, Subject: "Job 1 (it's $HOME) Started", Text: "one\ntwo\n"}

func TestSend(t *testing.T) {
	o := newOffice(t, `for a; do echo "<$a>"; done >"$DIR/got"; { cat; id -u; pwd; env; } >>"$DIR/got"`)
	m := Mailer{Command: o.mailer() + " -v"}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	if err := m.Send(t.Context(), o.owner, letterToTwo); err != nil {
		t.Fatal(err)
	}
	got := o.read(t, "got")
	as := o.owner
	if os.Getuid() == 0 {
		var err error
		if as, err = userdb.System().User(DefaultUser); err != nil {
			t.Fatal(err)
		}
	}
	want := fmt.Sprintf("<-v>\n<-s>\n<%s>\n<a@x>\n<b>\none\ntwo\n%d\n/\n", letterToTwo.Subject, as.UID)
	if !strings.HasPrefix(got, want) {
		t.Errorf("the mailer got\n%s\nwant\n%s", got, want)
	}
	if strings.Contains(got, "GOCACHE") || !strings.Contains(got, "\nHOME="+as.Home+"\n") {
		t.Errorf("the environment of the mailer is not its own:\n%s", got)
	}
}

// TestMailTextCannotCommandMailer checks that no line of a mail is a command to the mailer.
func TestMailTextCannotCommandMailer(t *testing.T) {
	o := newOffice(t, `cat >"$DIR/got"`)
	m := Mailer{Command: o.mailer()}
	message := letterToTwo
	message.Text = "~!touch /tmp/x\n.\none\n~~\n. \n"
	if err := m.Send(t.Context(), o.owner, message); err != nil {
		t.Fatal(err)
	}
	if got, want := o.read(t, "got"), " ~!touch /tmp/x\n .\none\n ~~\n . \n"; got != want {
		t.Errorf("the mailer got %q, want %q", got, want)
	}
}

func TestMailerOfAUser(t *testing.T) {
	testenv.Require(t, testenv.Root)
	o := newOffice(t, `id -u >"$DIR/got"`)
	users := func(name string) (*userdb.User, error) {
		switch name {
		case "post":
			return &userdb.User{Name: "post", UID: 54322, GID: 54322}, nil
		case "root":
			return &userdb.User{Name: "root"}, nil
		}
		return nil, userdb.ErrUnknown
	}
	m := Mailer{Command: "post@" + o.mailer(), Users: users}
	if err := m.Send(t.Context(), o.owner, letterToTwo); err != nil || o.read(t, "got") != "54322\n" {
		t.Errorf("sent: %v; as %q", err, o.read(t, "got"))
	}
	// A way to what only that user may do.
	for _, address := range []string{"-Sexec=x", "|sh", "/home/post/.ssh/authorized_keys", "+inbox", "a b", "a\nb", "~root", `"|sh"@x`, ":include:/etc/passwd", "x@-y"} {
		if err := m.Send(t.Context(), o.owner, Message{To: []string{address}}); err == nil {
			t.Errorf("mail was sent to %q", address)
		}
	}
	for _, address := range []string{"alice", "alice.b+jobs@x.example.org", "_a%b@x"} {
		err := m.Send(t.Context(), o.owner, Message{To: []string{address}})
		if refused := err != nil; refused != strings.Contains(address, "%") {
			t.Errorf("mail to %q: %v", address, err)
		}
	}
	for command, owner := range map[string]*userdb.User{
		"root@" + o.mailer(): o.owner, "nobody-here@" + o.mailer(): o.owner, o.mailer(): {Name: "root"},
	} {
		err := (&Mailer{Command: command, Users: users}).Send(t.Context(), owner, letterToTwo)
		if err == nil {
			t.Errorf("%s has run for %s", command, owner.Name)
		}
	}
}

// TestMailersRunNothingOfUsers checks that the mailer runs nothing that the owner of a job chooses:
// mail(1) reads the file .mailrc of its user. A daemon of root starts it outside of the job, so that
// the limits and the end of the job do not affect it.
func TestMailersRunNothingOfUsers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	o := newOffice(t, `[ ! -f "$HOME/.mailrc" ] || . "$HOME/.mailrc"; id -u >"$DIR/got"`)
	o.owner.Home = o.dir
	if err := os.WriteFile(o.dir+"/.mailrc", []byte(`touch "$DIR/fooled"`), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := (&Mailer{Command: o.mailer()}).Send(t.Context(), o.owner, letterToTwo); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(o.dir + "/fooled"); err == nil {
		t.Errorf("the mailer has run what the owner of the job says, as user id %s", o.read(t, "got"))
	}
	if err := (&Mailer{Command: o.mailer()}).Send(t.Context(), o.owner, Message{To: []string{"|sh"}}); err == nil {
		t.Error("mail was sent to a command")
	}
}

// TestUntrustedMailer checks that a mailer that another user can change does not get the rights of the
// user whom the configuration names for it.
func TestUntrustedMailer(t *testing.T) {
	testenv.Require(t, testenv.Root)
	users := func(string) (*userdb.User, error) { return &userdb.User{Name: "post", UID: 54322, GID: 54322}, nil }
	for says, change := range map[string]func(mailer string) error{
		"belongs to 54321":            func(mailer string) error { return os.Chown(mailer, 54321, 0) },
		"may be written by everybody": func(mailer string) error { return os.Chmod(mailer, 0o777) },
	} {
		o := newOffice(t, `id -u >"$DIR/got"`)
		if err := change(o.mailer()); err != nil {
			t.Fatal(err)
		}
		m := Mailer{Command: "post@" + o.mailer(), Users: users}
		if err := m.Send(t.Context(), o.owner, letterToTwo); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %s", err, says)
		}
		if _, err := os.Stat(o.dir + "/got"); err == nil {
			t.Errorf("it has run, and %s", says)
		}
	}
}

func TestMailerThatFails(t *testing.T) {
	tests := map[string]struct{ command, script, err string }{
		"it says why":       {"", "echo no post today >&2; exit 3", "/mailer: exit status 3: no post today"},
		"it says too much":  {"", "yes | head -c 1000000; exit 4", "exit status 4: y\ny"},
		"it is missing":     {"/missing/mailer", "", "no such file or directory"},
		"there is none":     {" ", "", "no mailer is configured"},
		"an option to mail": {"", "exit 0", `invalid mail address "-x"`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, test.script)
			m := Mailer{Command: o.mailer()}
			if test.command != "" {
				m.Command = test.command
			}
			message := letterToTwo
			if strings.Contains(test.err, "-x") {
				message.To = []string{"a", "-x"}
			}
			err := m.Send(t.Context(), o.owner, message)
			if err == nil || !strings.Contains(err.Error(), test.err) || len(err.Error()) > 2*maxOutput {
				t.Errorf("the error is %.3000v, want %q in it", err, test.err)
			}
		})
	}
}

// TestMailerThatHangs looks for its child after the deadline.
func TestMailerThatHangs(t *testing.T) {
	o := newOffice(t, `sleep 1000 & echo $! >"$DIR/child"; : >"$DIR/ready"; wait`)
	if err := unix.Mkfifo(o.dir+"/ready", 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(o.dir+"/ready", 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	failed := make(chan error, 1)
	go func() {
		m := Mailer{Command: o.mailer(), Timeout: time.Hour}
		failed <- m.Send(ctx, o.owner, letterToTwo)
	}()
	if _, err := os.ReadFile(o.dir + "/ready"); err != nil { // it waits for the mailer
		t.Fatal(err)
	}
	child, err := unix.PidfdOpen(o.pid(t, "child"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(child)
	cancel(errors.New("enough"))
	if err := <-failed; err == nil || !strings.HasSuffix(err.Error(), "/mailer: enough") {
		t.Errorf("the error is %v", err)
	}
	if !testenv.Ended(child, 3*time.Minute) {
		t.Fatal("the child of the mailer lives on")
	}

	m := Mailer{Command: o.mailer(), Timeout: time.Nanosecond}
	if err := m.Send(t.Context(), o.owner, letterToTwo); err == nil || !strings.Contains(err.Error(), "within 1ns") {
		t.Errorf("after the deadline the error is %v", err)
	}
}

// TestMailerLeavesChildProcess runs a mailer that leaves a process behind for the delivery, as
// sendmail does: the process is not killed.
func TestMailerLeavesChildProcess(t *testing.T) {
	o := newOffice(t, `sleep 1000 & echo $! >"$DIR/child"`)
	if err := (&Mailer{Command: o.mailer()}).Send(t.Context(), o.owner, letterToTwo); err != nil {
		t.Error(err)
	}
	if err := unix.Kill(o.pid(t, "child"), unix.SIGKILL); err != nil {
		t.Errorf("the deliverer was ended: %v", err)
	}
}

func TestOutbox(t *testing.T) {
	o := newOffice(t, `cat >/dev/null; echo "$2" >>"$DIR/got"; test "$2" != bad`)
	var mu sync.Mutex
	failed := map[string]error{}
	users := func(name string) (*userdb.User, error) {
		if name == "owner" || name == DefaultUser {
			return o.owner, nil
		}
		return nil, userdb.ErrUnknown
	}
	box := NewOutbox(users, func(owner string, m Message, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed[owner+" "+m.Subject] = err
	})
	for i := range 20 {
		box.Post(o.mailer(), "owner", Message{To: []string{"a"}, Subject: fmt.Sprint(i)})
	}
	box.Post(o.mailer(), "owner", Message{To: []string{"a"}, Subject: "bad"})
	box.Post(o.mailer(), "stranger", Message{To: []string{"a"}, Subject: "0"})
	box.Close(t.Context())
	box.Post(o.mailer(), "owner", Message{To: []string{"a"}, Subject: "late"})
	if n := strings.Count(o.read(t, "got"), "\n"); n != 21 {
		t.Errorf("%d mails were sent, want 21", n)
	}
	if len(failed) != 3 || failed["owner bad"] == nil || !errors.Is(failed["stranger 0"], userdb.ErrUnknown) || failed["owner late"] == nil {
		t.Errorf("failed: %v", failed)
	}
}

// TestOutboxIsBounded posts more mail than the outbox holds, while the mailers hang. The mail of one owner takes
// only a part of it.
func TestOutboxIsBounded(t *testing.T) {
	o := newOffice(t, `echo >>"$DIR/begun"; exec sleep 1000`)
	var mu sync.Mutex
	var failed []string
	box := NewOutbox(func(string) (*userdb.User, error) { return o.owner, nil }, func(_ string, _ Message, err error) {
		mu.Lock()
		defer mu.Unlock()
		failed = append(failed, err.Error())
	})
	const (
		first = maxMailers + maxWaitingOwner + 10
		n     = first + maxWaiting
	)
	post := func(count int, owner func(i int) string, least, most int, text string) {
		t.Helper()
		mu.Lock()
		before := len(failed)
		mu.Unlock()
		for i := range count {
			box.Post(o.mailer(), owner(i), letterToTwo)
		}
		mu.Lock()
		defer mu.Unlock()
		if refused := failed[before:]; len(refused) < least || len(refused) > most || least > 0 && !strings.Contains(refused[0], text) {
			t.Errorf("%d mails were refused, expected %d to %d: %.300q", len(refused), least, most, refused)
		}
	}
	post(first, func(int) string { return "owner" }, 10, 10+maxMailers, "other mails of jobs of owner wait")
	rest := maxWaiting - maxWaitingOwner
	post(rest, func(i int) string { return fmt.Sprint("other", i%5) }, 0, 0, "")
	post(maxWaitingOwner, func(i int) string { return fmt.Sprint("late", i) }, maxWaitingOwner-maxMailers, maxWaitingOwner, "other mails wait")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	box.Close(ctx) // kills those that hang
	if len(failed) != n {
		t.Errorf("%d of %d mails are said to have failed", len(failed), n)
	}
}

// TestMailerThatEndsAsItIsKilled checks that the process ID of a mailer is not collected while its
// group is being killed: the number could then belong to another process.
func TestMailerThatEndsAsItIsKilled(t *testing.T) {
	o := newOffice(t, `echo $$ >"$DIR/self"; echo >"$DIR/runs"; read end <"$DIR/end"`)
	for _, fifo := range []string{"runs", "end"} {
		if err := errors.Join(unix.Mkfifo(o.dir+"/"+fifo, 0o666), os.Chmod(o.dir+"/"+fifo, 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	killed := make(chan bool, 1)
	kill = func(group int, _ unix.Signal) error {
		if err := os.WriteFile(o.dir+"/end", []byte("\n"), 0); err != nil {
			t.Error(err)
		}
		collected := false
		for end := time.Now().Add(100 * time.Millisecond); time.Now().Before(end) && !collected; {
			collected = errors.Is(unix.Kill(group, 0), unix.ESRCH) // also while it is a zombie there is one
		}
		killed <- collected
		return nil
	}
	t.Cleanup(func() { kill = unix.Kill })
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan error, 1)
	go func() { sent <- (&Mailer{Command: o.mailer()}).Send(ctx, o.owner, letterToTwo) }()
	if _, err := os.ReadFile(o.dir + "/runs"); err != nil {
		t.Fatal(err)
	}
	cancel()
	if <-killed {
		t.Errorf("the mailer, process %d, is gone before its group was killed", o.pid(t, "self"))
	}
	if err := <-sent; err != nil {
		t.Error(err)
	}
}
