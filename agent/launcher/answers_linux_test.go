package launcher

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// next reads an answer.
func (w *world) next() *answer {
	w.Helper()
	b, fds, err := w.conn.read(make([]byte, mostMessage+1))
	closeAll(fds)
	a := &answer{}
	if err == nil {
		err = decodeAnswer(b, a)
	}
	if err != nil {
		w.Fatal(err)
	}
	return a
}

// until waits until something has happened.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	const patience = 30 * time.Second
	for end := time.Now().Add(patience); !is(); <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestLaunchAndWait checks that the launcher answers an order to launch a second time, when the supervisor has ended.
func TestLaunchAndWait(t *testing.T) {
	w, s := makeWorld(t)
	s.Shepherd = "/bin/true"
	w.serve(s)
	id := job.ID{Job: 7}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(id), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	text, _, err := packOrder(kindLaunch, 99, &ofJob{id}, flagWait)
	if err != nil {
		t.Fatal(err)
	}
	var launched launchAnswer
	var ended waitAnswer
	first := w.exchange(string(text))
	if _, err := open(reply{answer: first}, &launched); err != nil || !first.more || launched.PID == 0 {
		t.Errorf("the first answer is %+v, %+v (%v)", first, launched, err)
	}
	second := w.next()
	if _, err := open(reply{answer: second}, &ended); err != nil || second.more || second.Number != 99 || ended.Outcome == nil {
		t.Errorf("the second answer is %+v, %+v (%v)", second, ended, err)
	}
	text[2] = compactKinds[kindCollect]
	w.refusedWith("another order with two answers", w.send(string(text)), "has one answer")
	text, _, err = packOrder(kindLaunch, 1, &ofJob{job.ID{Job: 8}}, flagWait)
	if err != nil {
		t.Fatal(err)
	}
	w.refusedWith("a job that is not there", w.send(string(text)), "neither prepared nor opened") // and no second answer
	if err := w.ask(kindRemove, &removeBody{ID: id}); err != nil {
		t.Fatal(err)
	}
	w.nothingIsHere()
}

// TestNoteWithoutAnswer checks that the launcher makes a mark for which the front does not wait, and that it writes nothing
// else in that way.
func TestNoteWithoutAnswer(t *testing.T) {
	w, s := makeWorld(t)
	w.serve(s)
	id := job.ID{Job: 7}
	note := func(n launch.Note) {
		t.Helper()
		n.Soon = true
		if err := w.conn.write([]byte(w.text(kindNote, &noteBody{id, &n}))); err != nil {
			t.Fatal(err)
		}
	}
	mark := launch.Note{File: "ended", How: launch.NoteMark, Mark: "told"}
	note(mark) // as for a job that was removed meanwhile
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(id), Script: true}, w.script()); err != nil {
		t.Fatal(err) // the first answer is that of this order
	}
	dir, err := w.spool.Open(id)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	note(mark) // without the marked file
	until(t, "the mark is there", func() bool { there, err := dir.Exists("told"); return there && err == nil })
	if audits := w.audits(); len(audits) > 0 {
		t.Errorf("the audit log has %q", audits)
	}
	for want, n := range map[string]launch.Note{
		"without an answer":            {File: "ended", How: launch.NoteWrite, Data: []byte("x")},
		`the mark "config" is`:         {File: "ended", How: launch.NoteMark, Mark: "config"},
		`the file "config" is unknown`: {File: "config", How: launch.NoteMark, Mark: "told"},
	} {
		note(n)
		var audits []string
		until(t, "the order is refused", func() bool { audits = append(audits, w.audits()...); return len(audits) > 0 })
		if len(audits) != 1 || !strings.Contains(audits[0], want) {
			t.Errorf("the audit log has %q, expected %q", audits, want)
		}
	}
	if _, err := dir.ReadFile("ended"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was written: %v", err)
	}
	if err := w.ask(kindRemove, &removeBody{ID: id}); err != nil {
		t.Fatal(err)
	}
	w.nothingIsHere()
}

// TestRemovalWithScript checks that the launcher removes the script with the last task of a job, and says so.
func TestRemovalWithScript(t *testing.T) {
	w, s := makeWorld(t)
	w.serve(s)
	for task := 1; task <= 2; task++ {
		if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 7, Task: task}), Script: true}, w.script()); err != nil {
			t.Fatal(err)
		}
	}
	for task, keep := range map[int]bool{1: false, 2: true} {
		var a removeAnswer
		w.must(kindRemove, &removeBody{ID: job.ID{Job: 7, Task: task}, Keep: keep}, &a)
		scripts, err := w.spool.Scripts()
		if a.Script || len(scripts) != 1 || err != nil {
			t.Errorf("task %d: %+v, there are the scripts %v (%v)", task, a, scripts, err)
		}
	}
	path := jobdir.Area(w.spool.Path()).JobPath(job.ID{Job: 7, Task: 2})
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := w.ask(kindRemoveScript, &scriptBody{7}); err != nil {
		t.Error(err)
	}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: 8}), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	var a removeAnswer
	if w.must(kindRemove, &removeBody{ID: job.ID{Job: 8}}, &a); !a.Script {
		t.Error("the script of the only task stays")
	}
	w.nothingIsHere()
}

// TestDirectories checks that the launcher lists the directories of jobs only as long as a job may have one.
func TestDirectories(t *testing.T) {
	var d directories
	there, lists := []job.ID{{Job: 7, Task: 1}}, 0
	has := func(number int, want bool, listed int) {
		t.Helper()
		lists = 0
		got, err := d.has(number, func() ([]job.ID, error) { lists++; return there, nil })
		if got != want || lists != listed || err != nil {
			t.Errorf("job %d: %v after %d lists (%v), expected %v after %d", number, got, lists, err, want, listed)
		}
	}
	if _, err := d.has(8, func() ([]job.ID, error) { return nil, unix.EIO }); !errors.Is(err, unix.EIO) {
		t.Errorf("%v, expected the error of the list", err)
	}
	has(8, false, 1)
	has(8, false, 0)
	has(7, true, 1)
	d.made(job.ID{Job: 8, Task: 3})
	there = append(there, job.ID{Job: 8, Task: 3})
	has(8, true, 1)
	there = there[:1]
	d.removed(job.ID{Job: 8, Task: 3})
	has(8, false, 0)
	d.made(job.ID{Job: 9, Task: 1}) // whose preparation has failed
	has(9, false, 1)
	has(9, false, 0)
}

// TestOrdersOfJob checks how many orders a job needs, and that the client gets along with them.
func TestOrdersOfJob(t *testing.T) {
	w, s := makeWorld(t)
	s.Shepherd = "/bin/true"
	w.serve(s)
	fd, err := w.conn.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	own := -1
	if err := fd.Control(func(fd uintptr) { own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := Connect(t.Context(), ClientOptions{Descriptor: own, Lost: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, err := submit.Parse(submit.Input{Args: []string{"-N", "n", "-wd", "/", "-b", "y", "true"}, Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	r.Binary, r.Command, r.Script = false, "", []byte("true\n")
	o, err := launch.Resolve(qconf.Builtin(1), r, "all.q", "host")
	if err != nil {
		t.Fatal(err)
	}
	o.Owner, o.Privileged, o.Queue.Tmpdir, o.Lookup, o.Record = w.owner, true, w.tmp, userdb.System().User, []byte("{}\n")
	j, err := c.Prepare(o, job.ID{Job: 7}, false)
	if err != nil {
		t.Fatal(err)
	}
	if record, err := j.Record(); string(record) != "{}\n" || err != nil {
		t.Errorf("the record is %q (%v)", record, err)
	}
	if err := j.Launch(""); err != nil {
		t.Fatal(err)
	}
	status, err := j.Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if o := j.Collect(status); o == nil || o.Failed != job.FailedBeforeProlog {
		t.Errorf("the outcome is %+v", o)
	}
	if err := errors.Join(
		j.Files().WriteDurably("ended", []byte("{}\n")), j.MarkSoon("ended", "told"), j.MarkSoon("ended", "acknowledged"), j.Remove(false), c.RemoveScript(7),
	); err != nil {
		t.Error(err)
	}
	// Prepare, which has two numbers; launch, ended, told, acknowledged and remove.
	const want = 7
	if c.number != want || len(c.waits)+len(c.scripts)+len(c.outcomes)+len(c.known) > 0 {
		t.Errorf("there were %d numbers, expected %d; left are %v, %v, %v and %v", c.number, want, c.waits, c.scripts, c.outcomes, c.known)
	}
	if err := c.RemoveScript(7); err != nil || c.number != want+1 {
		t.Errorf("there were %d numbers, expected one more (%v)", c.number, err)
	}
	w.nothingIsHere()
	if audits := w.audits(); len(audits) > 0 {
		t.Errorf("the audit log has %q", audits)
	}
}
