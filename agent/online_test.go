package agent

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// lookedAt returns an agent with jobs that have a directory and no supervisor.
func lookedAt(t *testing.T, jobs int) *Agent {
	t.Helper()
	spool, err := jobdir.OpenSpool(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(spool.Close)
	a := &Agent{
		options: Options{Host: host}, launcher: launch.Local{Spool: spool}, clock: clock.System(), log: hclog.NewNullLogger(),
		table: newTable(hclog.NewNullLogger()),
	}
	a.settings.replace(cluster(t), nil)
	a.table.online = newOnlineWatch()
	for end := time.Now().Add(patience); a.table.online.fd < 0; a.table.online = newOnlineWatch() { // others of this user may have all
		if time.Now().After(end) {
			t.Fatal("the kernel gives no instance of inotify: see fs.inotify.max_user_instances")
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Cleanup(a.table.online.close)
	for i := range jobs {
		e := newEntry(job.ID{Job: i + 1}, Record{})
		dir, err := spool.Begin(e.id, jobdir.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { dir.Close() })
		e.state, e.run = Running, &launch.Job{Dir: dir, Description: &job.Description{}}
		a.table.insert(e)
	}
	return a
}

// TestOnlyWrittenOnlineFilesAreRead checks that the agent reads only those online files that
// supervisors have written, and all of them if the kernel has lost events.
func TestOnlyWrittenOnlineFilesAreRead(t *testing.T) {
	a := lookedAt(t, 2)
	one, two := a.table.jobs[job.ID{Job: 1}], a.table.jobs[job.ID{Job: 2}]
	write := func(e *entry, cpu float64) {
		t.Helper()
		if err := e.run.Dir.WriteOnline(&jobdir.Online{At: time.Now(), CPU: cpu}); err != nil {
			t.Fatal(err)
		}
	}
	// behind changes the content of the file in place. A supervisor never does this: it replaces the file
	// by another one.
	behind := func(e *entry, cpu float64) {
		t.Helper()
		path := filepath.Join(e.run.Dir.Path(), jobdir.FileOnline)
		if err := os.WriteFile(path, jobdir.FormatOnline(&jobdir.Online{At: time.Now(), CPU: cpu}), 0o644); err != nil {
			t.Fatal(err)
		}
		other := time.Now().Add(time.Duration(cpu) * time.Hour)
		if err := os.Chtimes(path, other, other); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, want1, want2 float64) {
		t.Helper()
		a.lookAtUsage()
		if one.usage.CPU != want1 || two.usage.CPU != want2 {
			t.Errorf("%s: %v and %v have been used, expected %v and %v", when, one.usage.CPU, two.usage.CPU, want1, want2)
		}
	}
	check("nothing is written", 0, 0)
	write(one, 1)
	check("first", 1, 0) // of the second one is still looked for the file
	write(two, 2)
	check("second", 1, 2)
	behind(two, 3)
	write(one, 4)
	check("one has written", 4, 2)
	write(two, 5)
	check("the other has, too", 4, 5)
	if err := one.run.Dir.WriteFile("other", nil); err != nil {
		t.Fatal(err)
	}
	behind(one, 6)
	check("another file", 4, 5)

	// One that cannot be read is looked at again.
	if err := one.run.Dir.WriteFile(jobdir.FileOnline, []byte("garbage")); err != nil {
		t.Fatal(err)
	}
	check("garbage", 4, 5)
	behind(one, 7)
	check("the same file, readable", 7, 5)

	lost := make([]byte, unix.SizeofInotifyEvent)
	binary.NativeEndian.PutUint32(lost, ^uint32(0))
	binary.NativeEndian.PutUint32(lost[4:], unix.IN_Q_OVERFLOW)
	if a.table.online.take(lost, func(*entry) { t.Error("nothing is known of any job") }) {
		t.Error("nobody says that events were lost")
	}
	behind(one, 8)
	behind(two, 9)
	fd := a.table.online.fd
	a.table.online.fd = 1 << 30 // from which nothing can be read
	check("events are lost", 8, 9)
	a.table.online.fd = fd
}

// TestPrioritiesUseOnlineUsage checks that priorities use the usage that was written since the last
// report, and that the next report contains it as well.
func TestPrioritiesUseOnlineUsage(t *testing.T) {
	a := lookedAt(t, 1)
	e := a.table.jobs[job.ID{Job: 1}]
	check := func(when string, shared, reported float64) {
		t.Helper()
		if jobs, _, _ := a.sharers(); len(jobs) != 1 || jobs[0].CPU != shared || e.usage.CPU != reported {
			t.Errorf("%s: %+v, and %v in the report, expected %v and %v", when, jobs, e.usage.CPU, shared, reported)
		}
	}
	for cpu := range 3 { // not watched at first
		if err := e.run.Dir.WriteOnline(&jobdir.Online{At: time.Now(), CPU: float64(1 + cpu)}); err != nil {
			t.Fatal(err)
		}
		check("before a report", float64(1+cpu), float64(cpu))
		check("once more", float64(1+cpu), float64(cpu))
		a.lookAtUsage()
		check("after a report", float64(1+cpu), float64(1+cpu))
	}
}

// TestOnlineWatchEnds checks that the agent polls jobs that cannot be watched, and keeps no data of
// removed jobs.
func TestOnlineWatchEnds(t *testing.T) {
	a := lookedAt(t, 3)
	a.lookAtUsage()
	if n := len(a.table.online.jobs); n != 3 {
		t.Fatalf("%d of 3 jobs are watched", n)
	}
	a.table.drop(a.table.jobs[job.ID{Job: 1}]) // its directory stays
	second := a.table.jobs[job.ID{Job: 2}]
	if err := os.RemoveAll(second.run.Dir.Path()); err != nil {
		t.Fatal(err)
	}
	a.table.mu.Lock()
	a.table.set(second, Ended)
	a.table.mu.Unlock()
	second.run.Dir.Close() // till then it is there
	a.lookAtUsage()
	if n := len(a.table.online.jobs); n != 1 {
		t.Errorf("%d jobs are watched, expected the third alone", n)
	}
	a.table.online.remove(&entry{}) // was never watched
	e := a.table.jobs[job.ID{Job: 3}]
	a.table.online.remove(e)
	a.table.online.remove(e)
	if n := len(a.table.online.jobs); n != 0 {
		t.Errorf("%d jobs are watched", n)
	}
	a.table.online.close()
	a.table.online.fd = -1
	e.watched = false
	for _, cpu := range []float64{1, 2} {
		if err := e.run.Dir.WriteOnline(&jobdir.Online{At: time.Now(), CPU: cpu}); err != nil {
			t.Fatal(err)
		}
		if a.lookAtUsage(); e.usage.CPU != cpu || e.watched {
			t.Errorf("without a watch %v is seen, expected %v", e.usage.CPU, cpu)
		}
	}
}
