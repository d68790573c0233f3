package messages_test

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/internal/messages"
	"github.com/execd-project/execd/internal/messages/deliver"
	"github.com/execd-project/execd/internal/testenv"
)

// TestMain runs the tests, or the process that delivers messages.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == deliver.Word {
		var o deliver.Order
		if err := json.NewDecoder(os.Stdin).Decode(&o); err != nil {
			os.Exit(3)
		}
		for _, r := range deliver.All(context.Background(), &o) {
			_ = json.NewEncoder(os.Stdout).Encode(r)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// office is an outbox whose users have their homes in a directory of the test.
type office struct {
	*testing.T
	*messages.Outbox
	dir      string
	failures chan string
	lookups  atomic.Int32 // of users
	passed   atomic.Int64 // time since the beginning, for the outbox
}

func open(t *testing.T, site string) *office {
	t.Helper()
	testenv.Require(t, testenv.Root)
	o := &office{T: t, dir: t.TempDir(), failures: make(chan string, 1000)}
	testenv.LetIn(t, o.dir)
	self := filepath.Join(o.dir, "helper")
	text, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(self, text, 0o755) //nolint:gosec // all users execute it
	}
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	o.Outbox = messages.NewOutbox(messages.Options{
		Now:    func() time.Time { return begin.Add(time.Duration(o.passed.Load())) },
		Helper: []string{self, deliver.Word},
		Site: func() ([]byte, error) {
			if site == "" {
				return nil, fs.ErrNotExist
			}
			return []byte(site), nil
		},
		Lookup: func(name string) (program.Identity, error) {
			o.lookups.Add(1)
			id, err := program.Lookup(name)
			id.Home = filepath.Join(o.dir, name)
			return id, err
		},
		Failed: func(owner string, err error) { o.failures <- owner + ": " + err.Error() },
	})
	t.Cleanup(func() { o.Close(t.Context()) })
	return o
}

// home makes the home directory of a user with a file of receivers, and returns it.
func (o *office) home(name, receivers string) string {
	o.Helper()
	id, err := program.Lookup(name)
	if err != nil {
		o.Fatal(err)
	}
	home := filepath.Join(o.dir, name)
	testenv.WriteFile(o, filepath.Join(home, messages.UserFile), receivers)
	err = filepath.WalkDir(home, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, int(id.UID), int(id.GID)))
	})
	if err != nil {
		o.Fatal(err)
	}
	return home
}

// script makes a program that belongs to root.
func (o *office) script(name, text string) string {
	o.Helper()
	path := filepath.Join(o.dir, name)
	testenv.WriteFile(o, path, "#!/bin/sh\n"+text+"\n")
	if err := os.Chmod(path, 0o755); err != nil { //nolint:gosec // all users execute it
		o.Fatal(err)
	}
	return path
}

// pipe makes a pipe to which all users may write.
func (o *office) pipe(name string) string {
	o.Helper()
	path := filepath.Join(o.dir, name)
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666)); err != nil {
		o.Fatal(err)
	}
	return path
}

func (o *office) read(path string) string {
	o.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		o.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func about(owner string) *messages.Message {
	return &messages.Message{ID: "m", Event: messages.Ended, Job: messages.Job{ID: 7, Owner: owner}, Outcome: &messages.Outcome{}}
}

// TestRights checks that a program of a user runs as this user, and one of the site as the user
// that the site's file names.
func TestRights(t *testing.T) {
	o := open(t, "")
	pipe := o.pipe("pipe")
	ids := o.script("ids", "{ id -u; id -g; id -G; echo $HOME; } >"+pipe)
	home := o.home("nobody", "program ended "+ids+"\n")
	o.Post(about("nobody"))
	nobody, err := program.Lookup("nobody")
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := strconv.Itoa(int(nobody.UID)), strconv.Itoa(int(nobody.GID))
	if got, want := o.read(pipe), uid+"\n"+gid+"\n"+gid+"\n"+home; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	site := open(t, "user daemon\nprogram ended "+ids+"\n")
	site.Post(about("nobody"))
	daemon, err := program.Lookup("daemon")
	if err != nil {
		t.Fatal(err)
	}
	if got := o.read(pipe); !strings.HasPrefix(got, strconv.Itoa(int(daemon.UID))+"\n") {
		t.Errorf("%q", got)
	}
}

// TestHostileReceivers checks that a user can neither make root read a file through a link, nor
// make it run programs that other users may change, and that the site can disable the receivers of
// users.
func TestHostileReceivers(t *testing.T) {
	o := open(t, "")
	marker := filepath.Join(testenv.Open(t, filepath.Join(o.dir, "open")), "marker")
	touch := o.script("touch", "touch "+marker)
	home := o.home("nobody", "")
	path := filepath.Join(home, messages.UserFile)
	hidden := filepath.Join(o.dir, "hidden")
	if err := errors.Join(os.WriteFile(hidden, []byte("program ended "+touch+"\n"), 0o600), os.Remove(path), os.Symlink(hidden, path)); err != nil {
		t.Fatal(err)
	}
	o.Post(about("nobody"))
	weak := o.script("weak", "touch "+marker)
	if err := os.Chmod(weak, 0o777); err != nil { //nolint:gosec // that is the point
		t.Fatal(err)
	}
	o.home("daemon", "program ended "+weak+"\n")
	o.Post(about("daemon"))
	if got := <-o.failures; !strings.HasPrefix(got, "daemon: message about job 7: receiver in line 1: program: ") || !strings.Contains(got, "may be written by everybody") {
		t.Error(got)
	}
	o.home("games", "\nhttps://h/key\n")
	o.Post(about("games"))
	if got := <-o.failures; !strings.Contains(got, "games/.config/execd/messages: mistake in line 2") || strings.Contains(got, "key") {
		t.Error(got)
	}
	o.home("root", "program ended "+touch+"\n")
	o.Post(about("root"))
	no := open(t, "users no\nprogram ended /x\nuser root\n")
	no.home("nobody", "program ended "+touch+"\n")
	no.Post(about("nobody"))
	if got := <-no.failures; !strings.HasPrefix(got, ": ") || !strings.Contains(got, "cannot deliver messages as root") {
		t.Error(got)
	}
	o.Close(t.Context())
	no.Close(t.Context())
	if _, err := os.Lstat(marker); err == nil {
		t.Error("a program was run that must not run")
	}
	if len(o.failures)+len(no.failures) > 0 {
		t.Error(<-o.failures)
	}
}

// TestTimes checks that the request for times, which comes every few seconds, reads no file and looks
// up no user for a minute, and that a message reads the current file.
func TestTimes(t *testing.T) {
	o := open(t, "")
	o.home("nobody", "program pending:2h /x\n")
	ask := func() time.Duration {
		t.Helper()
		answer := make(chan []time.Duration, 1)
		for { // a question is ignored while the one before it ends
			o.Times("nobody", func(list []time.Duration) {
				select {
				case answer <- list:
				default:
				}
			})
			select {
			case list := <-answer:
				return list[0]
			case <-time.After(time.Millisecond):
			}
		}
	}
	for _, step := range []struct {
		after   time.Duration
		want    time.Duration
		lookups int32
	}{{0, 2 * time.Hour, 1}, {59 * time.Second, 2 * time.Hour, 1}, {time.Second, 3 * time.Hour, 2}} {
		o.passed.Add(int64(step.after))
		if got := ask(); got != step.want || o.lookups.Load() != step.lookups {
			t.Errorf("after %s: %s, %d look-ups", step.after, got, o.lookups.Load())
		}
		o.home("nobody", "program pending:3h /x\n")
	}
	o.home("nobody", "program ended "+o.script("go", "echo here >"+o.pipe("pipe"))+"\n")
	o.passed.Add(int64(time.Second))
	o.Post(about("nobody"))
	if got := o.read(filepath.Join(o.dir, "pipe")); got != "here" {
		t.Errorf("%q", got)
	}
}

// TestHangingReceiver checks that receivers that hang do not delay other users, and delay only a
// limited number of messages of their own user.
func TestHangingReceiver(t *testing.T) {
	o := open(t, "")
	gate, pipe := o.pipe("gate"), o.pipe("pipe")
	o.home("nobody", "program ended "+o.script("hang", "read line <"+gate)+"\n")
	o.home("daemon", "program ended "+o.script("go", "echo here >"+pipe)+"\n")
	for range 200 {
		o.Post(about("nobody"))
	}
	o.Post(about("daemon"))
	if got := o.read(pipe); got != "here" {
		t.Errorf("%q", got)
	}
	if got := <-o.failures; got != "nobody: message about job 7: 100 others are waiting" {
		t.Error(got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o.Close(ctx) // kills them
}
