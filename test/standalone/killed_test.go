package standalone

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// TestKilledDaemon kills the daemon at random moments under submissions and deletions: each
// submission that was answered exists once, runs once unless it was deleted, and is in the
// accounting once.
func TestKilledDaemon(t *testing.T) {
	killed(t, 0)
}

// TestSoakKilledDaemon does so many times.
func TestSoakKilledDaemon(t *testing.T) {
	testenv.Soak(t)
	for seed := range 20 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { killed(t, uint64(seed+1)) })
	}
}

func killed(t *testing.T, seed uint64) {
	m := newMachine(t, 8)
	killedMachine(t, m, seed, func(*rand.Rand) {
		m.daemon.Kill()
		m.start()
	})
}

// killedMachine does so on a machine, with its own way to kill the daemon and start it again.
func killedMachine(t *testing.T, m *machine, seed uint64, kill func(*rand.Rand)) {
	const clients, each, kills = 4, 15, 6
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\necho run >> "+out+"/$JOB_ID\n")
	m.start()
	users := someUsers(t, clients)

	var mu sync.Mutex
	jobs := map[string]bool{} // by number: whether it was deleted
	var submitting sync.WaitGroup
	for c := range clients {
		u := users[c%len(users)]
		submitting.Go(func() {
			random := rand.New(rand.NewPCG(seed, uint64(c)))
			for range each {
				r := m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh")
				id := strings.TrimSpace(r.stdout)
				if r.status != 0 || id == "" {
					t.Errorf("qsub: %+v", r)
					return
				}
				mu.Lock()
				if _, twice := jobs[id]; twice {
					t.Errorf("job %s was submitted twice", id)
				}
				jobs[id] = false
				mu.Unlock()
				if random.IntN(4) == 0 {
					r := m.as(u, "qdel", id)
					mu.Lock()
					jobs[id] = r.status == 0
					mu.Unlock()
				}
			}
		})
	}
	done := make(chan struct{})
	go func() {
		submitting.Wait()
		close(done)
	}()
	random := rand.New(rand.NewPCG(seed, 99))
	for range kills {
		select { // in the middle of something, which is another one each time
		case <-time.After(time.Duration(random.IntN(400)) * time.Millisecond):
		case <-done:
		}
		kill(random)
	}
	<-done
	if t.Failed() {
		return
	}
	m.until("all jobs have left", func() bool { r := m.root("qstat", "-u", "*"); return r.status == 0 && r.stdout == "" })

	records := map[string]int{}
	for _, line := range lines(t, filepath.Join(m.place(), "accounting")) {
		records[strings.Split(line, ":")[5]]++
	}
	for id, deleted := range jobs {
		runs := len(lines(t, filepath.Join(out, id)))
		switch {
		case runs > 1 || records[id] > 1:
			t.Errorf("job %s has run %d times and is in the accounting %d times", id, runs, records[id])
		case !deleted && (runs != 1 || records[id] != 1):
			t.Errorf("job %s has run %d times and is in the accounting %d times, and was not deleted", id, runs, records[id])
		}
	}
	entries, err := os.ReadDir(out)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, known := jobs[e.Name()]; !known {
			t.Errorf("job %s has run, and nobody was told its number", e.Name())
		}
	}
	if len(jobs) != clients*each {
		t.Errorf("%d jobs, want %d", len(jobs), clients*each)
	}
}

// TestRunAgain checks that jobs that are to run again do so, however soon they end.
func TestRunAgain(t *testing.T) {
	m := newMachine(t, 2)
	m.write("conf/sched_conf", "schedule_interval 0:0:1\n")
	out := m.open("out")
	m.write("again.sh", "#!/bin/sh\necho run >> "+out+"/$JOB_ID\n[ $(wc -l < "+out+"/$JOB_ID) -ge 3 ] || exit 99\n")
	m.write("pushed.sh", "#!/bin/sh\necho run >> "+out+"/$JOB_ID\n[ $(wc -l < "+out+"/$JOB_ID) -ge 2 ] || exec sleep 1000\n")
	m.start()
	u := someUsers(t, 1)[0]
	m.as(u, "qsub", "-wd", "/", "-o", "/dev/null", "-j", "y", "again.sh")
	m.as(u, "qsub", "-r", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "pushed.sh")
	m.until("the second job runs", func() bool { return len(lines(t, filepath.Join(out, "2"))) == 1 })
	if r := m.as(u, "qmod", "-rj", "2"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	m.until("all jobs have left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	for id, want := range map[string]int{"1": 3, "2": 2} {
		if runs := len(lines(t, filepath.Join(out, id))); runs != want {
			t.Errorf("job %s has run %d times, want %d", id, runs, want)
		}
	}
}

// TestWhatUsersMayTry checks that no user can end the daemon, or make other users wait.
func TestWhatUsersMayTry(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qrsh", "-w", "v", "true"); !strings.Contains(r.stdout+r.stderr, "verification") {
		t.Errorf("%+v", r)
	}
	client, err := api.Dial(m.socket(), patience, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"", strings.Repeat("k", 40_000), "a b", "../x"} {
		if a, err := client.Command(t.Context(), &api.CommandRequest{Key: key, Name: "qdel", Directory: "/"}); err == nil {
			t.Errorf("the key %.20q is taken: %+v", key, a)
		}
	}
	// One who waits learns that the job is deleted, even if it never ran.
	done := make(chan result, 1)
	go func() { done <- m.as(u, "qsub", "-sync", "y", "-h", "-b", "y", "true") }()
	m.until("the job waits", func() bool { return strings.Contains(m.root("qstat", "-u", "*").stdout, "hqw") })
	m.root("qdel", "-u", "*")
	if r := <-done; r.status != 1 || !strings.Contains(r.stderr, "deleted before it ran") {
		t.Errorf("%+v", r)
	}
	if r := m.as(u, "qstat"); r.status != 0 {
		t.Errorf("%+v", r)
	}
}

// TestWaitOverRestart checks that a command that waits for a job goes on waiting while the daemon is
// killed, and while it is stopped.
func TestWaitOverRestart(t *testing.T) {
	m := newMachine(t, 2)
	out := m.open("out")
	m.write("wait.sh", "#!/bin/sh\necho run >> "+out+"/$SGE_TASK_ID\nuntil [ -e "+out+"/go ]; do sleep 0.1; done\nexit $SGE_TASK_ID\n")
	m.start()
	u := someUsers(t, 1)[0]
	done := make(chan result, 1)
	go func() {
		done <- m.as(u, "qsub", "-sync", "y", "-t", "1-2", "-wd", "/", "-o", "/dev/null", "-j", "y", "wait.sh")
	}()
	m.until("both tasks run", func() bool { return len(lines(t, filepath.Join(out, "2"))) == 1 })
	m.daemon.Kill()
	m.start()
	m.until("the daemon answers", func() bool { return m.root("qstat").status == 0 })
	daemon, gone := m.daemon.Process()
	if err := daemon.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-gone
	m.start()
	m.write("out/go", "")
	r := <-done
	for _, want := range []string{"Job 1.1 exited with exit code 1.", "Job 1.2 exited with exit code 2."} {
		if strings.Count(r.stdout+r.stderr, want) != 1 {
			t.Errorf("no or several %q: %+v", want, r)
		}
	}
	if r.status == 0 {
		t.Errorf("%+v", r)
	}
}
