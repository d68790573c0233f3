package agent

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// startMany starts jobs of a script, in batches.
func (n *node) startMany(ctx context.Context, first, jobs int, script string) {
	n.Helper()
	n.mustStart(ctx, n.job(first, script)) // the agent accepts jobs
	var starts []api.Start
	for id := first + 1; id < first+jobs; id++ {
		starts = append(starts, n.job(id, script))
	}
	for batch := range chunks(starts) {
		results, err := n.client.StartBatch(ctx, batch)
		if err != nil {
			n.Fatalf("%v\n%s", err, n.log())
		}
		for _, r := range results {
			if r.Error != nil {
				n.Fatalf("%v\n%s", r.Error, n.log())
			}
		}
	}
}

func chunks(list []api.Start) func(yield func([]api.Start) bool) {
	const size = 100
	return func(yield func([]api.Start) bool) {
		for len(list) > 0 {
			k := min(size, len(list))
			if !yield(list[:k]) {
				return
			}
			list = list[k:]
		}
	}
}

// states waits until a number of jobs have been reported in a state.
func (n *node) states(ctx context.Context, state api.State, jobs int) {
	n.Helper()
	seen := map[api.ID]bool{}
	err := n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job != nil && r.Job.State == state {
			seen[r.Job.ID] = true
		}
		if len(seen) >= jobs {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) {
		n.Fatalf("%d of %d jobs are %s: %v\n%s", len(seen), jobs, state, err, n.log())
	}
}

// TestManySleepingJobs runs a thousand jobs at once, and kills the agent. The next agent finds all
// of them again, without a thread for each.
func TestManySleepingJobs(t *testing.T) {
	const jobs = 1000
	n := newNode(t, "")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.startMany(ctx, 1, jobs, "exec sleep 100000\n")
	n.states(ctx, api.Running, jobs)
	n.agent.Kill()
	n.start()
	n.states(ctx, api.Running, jobs)
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", n.agent.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	if len(threads) > 64 {
		t.Errorf("the agent has %d threads", len(threads))
	}
}

// TestSoakManyShortJobs runs five thousand short jobs one after the other.
func TestSoakManyShortJobs(t *testing.T) {
	testenv.Soak(t)
	const jobs, batch = 5000, 500
	n := newNode(t, "")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	var after uint64
	for first := 1; first <= jobs; first += batch {
		n.startMany(ctx, first, batch, "exit 3\n")
		ends := 0
		err := n.client.Reports(ctx, after, func(r api.Report) error {
			after = r.Number
			if r.Job == nil || !r.Job.State.Over() {
				return nil
			}
			if r.Job.Outcome.ExitStatus != 3 || r.Job.Outcome.Failed != 0 {
				t.Errorf("job %d: %+v", r.Job.Job, r.Job.Outcome)
			}
			if ends++; ends == batch {
				return errors.Join(n.client.Acknowledge(ctx, r.Number), errEnough)
			}
			return nil
		})
		if !errors.Is(err, errEnough) {
			t.Fatalf("%v\n%s", err, n.log())
		}
	}
	if err := n.forgotten(ctx); err != nil {
		t.Fatal(err)
	}
	if records := lines(t, filepath.Join(n.spool(), "accounting")); len(records) != jobs {
		t.Errorf("the accounting has %d records", len(records))
	}
	n.clean("spool/active_jobs", "spool/job_scripts", "tmp")
}

// TestFullDisk fills the spool area while a job runs: the agent keeps its jobs, reports why it
// accepts no others, and recovers when there is space.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	n := newNode(t, "")
	if err := os.Mkdir(n.spool(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", n.spool(), "tmpfs", 0, "mode=0755,size=4m"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(n.spool(), unix.MNT_DETACH) })
	gate := filepath.Join(n.open("out"), "gate")
	if err := unix.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.mustStart(ctx, n.job(1, "read x < "+gate+"\nexit 9\n"))
	n.states(ctx, api.Running, 1)

	filler := filepath.Join(n.spool(), "filler")
	fill(t, filler)
	_, err := n.client.Start(ctx, n.job(2, "exit 0\n"))
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.ResourceExhausted {
		t.Errorf("a start on a full disk: %v", err)
	}
	h, err := n.client.Health(ctx)
	if err != nil || len(h.Troubles) == 0 {
		t.Errorf("the agent has no troubles: %+v, %v", h, err)
	}
	// The job ends, and the agent is killed, before there is space again.
	if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
		t.Fatal(err)
	}
	var outcome *api.Outcome
	err = n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job != nil && r.Job.State.Over() {
			outcome = r.Job.Outcome
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || outcome.ExitStatus != 9 {
		t.Fatalf("the job was reported as %+v, %v\n%s", outcome, err, n.log())
	}
	n.agent.Kill()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	n.start()
	n.mustStart(ctx, n.job(2, "exit 0\n"))
	n.states(ctx, api.Reported, 2)
	if err := n.forgotten(ctx); err != nil {
		t.Fatalf("%v\n%s", err, n.log())
	}
	if records := lines(t, filepath.Join(n.spool(), "accounting")); len(records) != 2 {
		t.Errorf("the accounting has %q", records)
	}
}

// fill writes until the file system is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 16; size > 0; {
		_, err := f.Write(make([]byte, size))
		switch {
		case errors.Is(err, unix.ENOSPC):
			size /= 2
		case err != nil:
			t.Fatal(err)
		}
	}
}

// shortage creates a shortage on the host while a job runs. The agent must keep its jobs, refuse
// new ones with the given code and a reason, and recover by itself when the shortage ends. The job
// ends afterwards, or during the shortage if meanwhile is set.
func shortage(t *testing.T, n *node, meanwhile bool, refused api.Code, begin, end func()) {
	t.Helper()
	gate := filepath.Join(n.open("out"), "gate")
	if err := unix.Mkfifo(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(gate, 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.start()
	n.mustStart(ctx, n.job(1, "echo $$ > "+gate+".pid\nread x < "+gate+"\nexit 9\n"))
	n.states(ctx, api.Running, 1)
	ends := func() {
		if err := os.WriteFile(gate, []byte("\n"), 0); err != nil {
			t.Fatal(err)
		}
		pid, err := os.ReadFile(gate + ".pid")
		if err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(patience); time.Now().Before(end); {
			if _, err := os.Stat("/proc/" + strings.TrimSpace(string(pid))); err != nil {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
		t.Fatal("the job does not end")
	}
	begin()
	_, err := n.client.Start(ctx, n.job(2, "exit 0\n"))
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != refused {
		t.Errorf("a start meanwhile: %v\n%s", err, n.log())
	}
	if h, err := n.client.Health(ctx); err != nil || len(h.Troubles) == 0 || h.Used != 1 {
		t.Errorf("the health is %+v, %v", h, err)
	}
	if meanwhile {
		ends()
	}
	end()
	n.mustStart(ctx, n.job(2, "exit 0\n"))
	if h, err := n.client.Health(ctx); err != nil || len(h.Troubles) > 0 {
		t.Errorf("afterwards the health is %+v, %v", h, err)
	}
	if !meanwhile {
		ends()
	}
	statuses := map[int]int{}
	err = n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job != nil && r.Job.State.Over() {
			statuses[r.Job.Job] = r.Job.Outcome.ExitStatus
		}
		_, one := statuses[1]
		if _, two := statuses[2]; one && two {
			return errEnough
		}
		return nil
	})
	if !errors.Is(err, errEnough) || statuses[1] != 9 || statuses[2] != 0 {
		t.Errorf("the jobs ended with %v, %v\n%s", statuses, err, n.log())
	}
	if err := n.forgotten(ctx); err != nil {
		t.Fatalf("%v\n%s", err, n.log())
	}
}

// TestReadOnlySpool makes the job directories read-only while a job runs, as a file system does
// after an internal error. It excludes files that the agent has open for writing: the kernel does
// not make a mount with such files read-only.
func TestReadOnlySpool(t *testing.T) {
	testenv.Require(t, testenv.Root)
	n := newNode(t, "")
	var dirs []string
	for _, name := range []string{"active_jobs", "job_scripts"} {
		dir := filepath.Join(n.spool(), name)
		if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount(dir, dir, "", unix.MS_BIND, "")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
		dirs = append(dirs, dir)
	}
	remount := func(flags uintptr) {
		for _, dir := range dirs {
			var err error = unix.EBUSY // a process has a file open for writing there
			for end := time.Now().Add(patience); errors.Is(err, unix.EBUSY) && time.Now().Before(end); {
				err = unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|flags, "")
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	shortage(t, n, true, api.ResourceExhausted, func() { remount(unix.MS_RDONLY) }, func() { remount(0) })
}

func TestNoDescriptorsLeft(t *testing.T) {
	n := newNode(t, "")
	var former unix.Rlimit
	shortage(t, n, false, api.ResourceExhausted, func() {
		pid := n.agent.Pid()
		// The minimum over some time: some descriptors are closed a moment later, such as that of
		// the stream of reports that has just ended.
		open := math.MaxInt
		for range 30 {
			list, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			if err != nil {
				t.Fatal(err)
			}
			open = min(open, len(list))
			<-time.After(10 * time.Millisecond)
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, nil, &former); err != nil {
			t.Fatal(err)
		}
		if err := unix.Prlimit(pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: uint64(open) + 1, Max: former.Max}, nil); err != nil {
			t.Fatal(err)
		}
	}, func() {
		if err := unix.Prlimit(n.agent.Pid(), unix.RLIMIT_NOFILE, &former, nil); err != nil {
			t.Fatal(err)
		}
	})
}

// TestNoProcessesLeft checks that only the job for which no process could be created is lost, and runs
// elsewhere.
func TestNoProcessesLeft(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Pids)
	dir, err := os.MkdirTemp(testenv.PidsHierarchy, "execd-test-") //nolint:usetesting // it is not a directory of files
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // after the agent has stopped
	n := newNode(t, "")
	set := func(text string) {
		if err := os.WriteFile(dir+"/pids.max", []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	// The failed start of job 3 puts the host out of service.
	shortage(t, n, false, api.Unavailable, func() {
		if err := os.WriteFile(dir+"/cgroup.procs", fmt.Appendf(nil, "%d", n.agent.Pid()), 0); err != nil {
			t.Fatal(err)
		}
		set("1")
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		n.mustStart(ctx, n.job(3, "exit 0\n"))
		n.states(ctx, api.Reported, 1)
	}, func() { set("max") })
}
