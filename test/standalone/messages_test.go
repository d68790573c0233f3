package standalone

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/messages"
)

// TestMessages makes the site's webhook and program receive all messages about jobs, with a daemon that
// is killed in the middle of an array job. Another webhook hangs all the time.
func TestMessages(t *testing.T) {
	m := newMachine(t, 4)
	u := someUsers(t, 1)[0]
	received := make(chan messages.Message, 100)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var x messages.Message
		if err := json.NewDecoder(r.Body).Decode(&x); err != nil {
			t.Error(err)
		}
		received <- x
	}))
	t.Cleanup(hook.Close)
	leave := make(chan struct{})
	hangs := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-leave }))
	t.Cleanup(hangs.Close)
	t.Cleanup(func() { close(leave) })
	dir := m.open("tmp")
	m.write("conf/messages", "webhook started,ended,array,failed,pending:1 "+hook.URL+" http\nwebhook started "+hangs.URL+" http\n"+
		"program failed "+m.dir+"/told.sh\n")
	m.write("told.sh", "#!/bin/sh\n{ id -un; cat; } >"+dir+"/told.$EXECD_JOB.new && mv "+dir+"/told.$EXECD_JOB.new "+dir+"/told.$EXECD_JOB\n")
	if err := os.Chmod(filepath.Join(m.dir, "told.sh"), 0o755); err != nil { //nolint:gosec // the receivers' user runs it
		t.Fatal(err)
	}
	m.write("tmp/gate.sh", "#!/bin/sh\nread line <"+dir+"/gate.$SGE_TASK_ID\nexit ${line:-0}\n")
	gates := map[string]*os.File{}
	for _, task := range []string{"1", "2", "3"} {
		path := filepath.Join(dir, "gate."+task)
		err := errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666))
		if gates[task], _ = os.OpenFile(path, os.O_RDWR, 0); err != nil || gates[task] == nil {
			t.Fatal(err)
		}
		defer gates[task].Close()
	}
	pass := func(task, line string) {
		t.Helper()
		if _, err := gates[task].WriteString(line + "\n"); err != nil {
			t.Fatal(err)
		}
	}
	m.start()
	submit := func(words ...string) {
		t.Helper()
		if r := m.as(u, "qsub", append([]string{"-wd", dir, "-j", "y", "-o", "/dev/null"}, words...)...); r.status != 0 {
			t.Fatalf("qsub %v: %+v", words, r)
		}
	}
	next := func(job uint32, event messages.Event, text string) messages.Message {
		t.Helper()
		x := <-received
		if x.Job.ID != job || x.Event != event || !strings.Contains(x.Text, text) || x.Job.Owner != u.Username || x.ID == "" {
			t.Errorf("%+v, expected %s of job %d with %q", x, event, job, text)
		}
		return x
	}
	inAnyOrder := func(events map[messages.Event]string, job uint32) { // several helpers deliver messages at the same time
		t.Helper()
		for range len(events) {
			x := <-received
			if text, ok := events[x.Event]; !ok || x.Job.ID != job || !strings.Contains(x.Text, text) {
				t.Errorf("%+v, expected one of job %d and %v", x, job, events)
			}
			delete(events, x.Event)
		}
	}

	submit("-b", "y", "-N", "good", "true")
	inAnyOrder(map[messages.Event]string{messages.Started: "job 1 (good) of " + u.Username, messages.Ended: "finished after"}, 1)
	submit("-b", "y", "-N", "bad", "false")
	inAnyOrder(map[messages.Event]string{messages.Started: "started", messages.Failed: "exit status 1"}, 2)
	told := filepath.Join(dir, "told.2")
	m.until("the program has got its message", func() bool { _, err := os.Stat(told); return err == nil })
	as := u.Username
	if os.Getuid() == 0 {
		as = "nobody"
	}
	if text, err := os.ReadFile(told); err != nil || !strings.HasPrefix(string(text), as+"\n{") || !strings.Contains(string(text), `"exit_status":1`) {
		t.Errorf("%s (%v)", text, err)
	}

	// One message at the start, and one at the end, for all tasks of an array job.
	submit("-t", "1-3", dir+"/gate.sh")
	next(3, messages.Started, "array job 3 (gate.sh)")
	pass("1", "0")
	m.until("a task has finished", func() bool { return strings.Count(m.as(u, "qstat").stdout, "gate.sh") == 2 })
	m.daemon.Kill()
	m.start()
	pass("2", "4")
	pass("3", "0")
	x := next(3, messages.Array, "2 tasks succeeded, 1 failed: 2 (")
	if x.Tasks == nil || len(x.Tasks.Failures) != 1 || x.Tasks.Failures[0].ExitStatus != 4 {
		t.Errorf("%+v", x.Tasks)
	}

	submit("-h", "-b", "y", "true")
	next(4, messages.Pending, "has been pending for more than 1s")
	if r := m.as(u, "qdel", "4"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if len(received) > 0 {
		t.Errorf("%+v", <-received)
	}
}

// TestOwnMessages shows and tests the receivers of the user of this test, who has none or a file that
// the test leaves alone.
func TestOwnMessages(t *testing.T) {
	m := newMachine(t, 1)
	u, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(u.HomeDir, messages.UserFile)); err == nil {
		t.Skip("this user has receivers")
	}
	if r := m.as(u, "../execd", "messages", "--test"); r.status != 0 || !strings.Contains(r.stdout, "You get no messages: there is no file "+u.HomeDir) {
		t.Errorf("%+v", r)
	}
}
