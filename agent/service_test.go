package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// onManual gives an agent a clock that stands still.
func onManual(t *testing.T, change ...func(*Options)) (*world, *clock.Manual) {
	t.Helper()
	now := clock.NewManual(time.Now())
	return newWorld(t, append(change, func(o *Options) { o.Clock = now })...), now
}

// trial lets the pause before a trial pass.
func (w *world) trial(now *clock.Manual, pause time.Duration) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := now.WaitFor(ctx, pause); err != nil {
		w.Fatalf("no trial comes after %s: %v", pause, err)
	}
	now.Advance(pause)
}

// inService waits until the host takes jobs.
func (w *world) inService() {
	w.Helper()
	w.until("the host takes jobs", func() bool { return w.agent.Health().Draining == "" })
}

// outOfService checks that a start is refused, for a reason that everybody sees.
func (w *world) outOfService(s *Start, reason string) {
	w.Helper()
	_, err := w.agent.Start(w.Context(), s)
	if codeOf(err) != Unavailable || !strings.Contains(err.Error(), reason) {
		w.Errorf("a start: %v, expected a refusal that says %q", err, reason)
	}
	h := w.agent.Health()
	if !strings.Contains(h.Draining, reason) || !strings.Contains(strings.Join(h.Troubles, "\n"), reason) {
		w.Errorf("the health is %+v, expected %q", h, reason)
	}
	if b := w.service(); b == nil || !strings.Contains(b.Draining, reason) {
		w.Errorf("the report of the service is %+v, expected %q", b, reason)
	}
}

// service returns the report whether the host takes jobs, as a master gets it that begins.
func (w *world) service() *ServiceReport {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	b, err := w.agent.Reports(ctx, 0)
	if err != nil {
		w.Fatal(err)
	}
	return b.Service
}

// TestRemovedSpoolStopsStarts removes the spool directory. The host takes no jobs, although the
// agent could use its open descriptors, and takes jobs again when the directory is back.
func TestRemovedSpoolStopsStarts(t *testing.T) {
	w, now := onManual(t)
	path, aside := w.spool.Path(), w.spool.Path()+".aside"
	w.mustStart(w.job(1, "/bin/true"))
	w.ended(job.ID{Job: 1})
	w.gone(job.ID{Job: 1})
	if b := w.service(); b == nil || b.Draining != "" {
		t.Errorf("the report of the service is %+v", b)
	}

	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.Rename(path, aside))
	for id := 2; id < 12; id++ {
		w.outOfService(w.job(id, "/bin/true"), "cannot use spool directory "+path+": no such file or directory")
	}
	if jobs := w.agent.Jobs(); len(jobs) > 0 {
		t.Errorf("jobs were taken: %+v", jobs)
	}

	must(os.Mkdir(path, 0o755)) // another one
	w.trial(now, firstPause)
	w.until("the reason is another one", func() bool { return strings.Contains(w.agent.Health().Draining, "another directory") })
	w.outOfService(w.job(2, "/bin/true"), "another directory has this path")

	must(os.Remove(path))
	must(os.Rename(aside, path))
	w.trial(now, 2*firstPause)
	w.inService()
	if b := w.service(); b.Draining != "" {
		t.Errorf("the report of the service is %+v", b)
	}
	w.mustStart(w.job(2, "/bin/sh", "-c", "exit 3"))
	if o := w.ended(job.ID{Job: 2}); o.ExitStatus != 3 {
		t.Errorf("a job afterwards: %+v", o)
	}
	if troubles := w.agent.Health().Troubles; len(troubles) > 0 {
		t.Errorf("troubles: %q", troubles)
	}
}

// TestSupervisorThatDoesNotWork sends jobs one after another to a host whose supervisor does not
// work: only one of them is lost.
func TestSupervisorThatDoesNotWork(t *testing.T) {
	good, err := os.ReadFile(shepherd)
	if err != nil {
		t.Fatal(err)
	}
	for name, broken := range map[string]string{
		"it is cut off":                     string(good[:4096]),
		"it ends before it writes anything": "#!/bin/sh\nexit 3\n",
		"it is killed at once":              "#!/bin/sh\nkill -9 $$\n",
		"its interpreter is missing":        "#!/nonexistent\n",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sge_shepherd-go")
			replace := func(text []byte) {
				t.Helper()
				err := errors.Join(os.WriteFile(path+".new", text, 0o755), os.Rename(path+".new", path))
				if err != nil {
					t.Fatal(err)
				}
			}
			testenv.LetIn(t, filepath.Dir(path))
			replace(good)
			w, now := onManual(t, func(o *Options) { o.Shepherd = path })
			replace([]byte(broken))
			w.mustStart(w.job(1, "/bin/true"))
			if o := w.ended(job.ID{Job: 1}); o.Ran || o.Failed == job.FailedNone {
				t.Errorf("the first job: %+v", o)
			}
			w.gone(job.ID{Job: 1})
			w.outOfService(w.job(2, "/bin/true"), path)
			replace(good)
			w.trial(now, firstPause)
			w.inService()
			w.mustStart(w.job(2, "/bin/true"))
			if o := w.ended(job.ID{Job: 2}); !o.Ran || o.Failed != job.FailedNone {
				t.Errorf("a job afterwards: %+v", o)
			}
		})
	}
}

// TestFailuresInARowStopStarts checks failures that a trial does not detect: after some failures in
// a row the host takes no jobs for a while, which grows.
func TestFailuresInARowStopStarts(t *testing.T) {
	wrapper := filepath.Join(t.TempDir(), "wrapper")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(wrapper, []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write("exit 1\n")
	w, now := onManual(t, params(t, "shepherd_cmd "+wrapper+"\n"))
	id := 0
	lose := func() {
		t.Helper()
		id++
		w.mustStart(w.job(id, "/bin/true"))
		if o := w.ended(job.ID{Job: id}); o.Failed != job.FailedBeforeJob {
			t.Errorf("a job that cannot be started: %+v", o)
		}
		w.gone(job.ID{Job: id})
	}
	for range mostFailed {
		lose()
	}
	for pause := firstPause; pause < maxPauseByStarts; pause *= 2 {
		w.outOfService(w.job(id+1, "/bin/true"), "starts in a row have failed")
		w.trial(now, pause)
		w.inService()
		lose()
	}
	w.trial(now, maxPauseByStarts)
	w.inService()
	write("exec " + shepherd + "\n")
	for range 2 {
		id++
		w.mustStart(w.job(id, "/bin/true"))
		if o := w.ended(job.ID{Job: id}); o.Failed != job.FailedNone {
			t.Errorf("a job afterwards: %+v", o)
		}
	}
	write("exit 1\n")
	lose() // that is counted from the beginning
	if why := w.agent.Health().Draining; why != "" {
		t.Errorf("after one failure no jobs are taken: %s", why)
	}
}

// TestFailuresOfUsers checks that failures caused by users fail only their jobs, however many there
// are.
func TestFailuresOfUsers(t *testing.T) { failuresOfUsers(t, 60) }

func TestSoakFailuresOfUsers(t *testing.T) {
	testenv.Soak(t)
	failuresOfUsers(t, 1000)
}

func hostPath(path string) []submit.HostPath { return []submit.HostPath{{Path: path}} }

func failuresOfUsers(t *testing.T, jobs int) {
	kinds := map[string]func(s *Start){
		"no such command":          func(s *Start) { s.Request.Command = "/nonexistent/command" },
		"no such shell":            func(s *Start) { s.Request.Shell = hostPath("/nonexistent/shell") },
		"no such directory":        func(s *Start) { s.Request.WorkingDir = "/nonexistent/directory" },
		"output that is forbidden": func(s *Start) { s.Request.Output = hostPath("/proc/1/forbidden") },
		"input that is missing":    func(s *Start) { s.Request.Input = hostPath("/nonexistent/input") },
		"too many arguments": func(s *Start) {
			s.Request.Shell, s.Request.NoShell, s.Request.Args = nil, false, []string{strings.Repeat("x", 1<<17)}
		},
		"a bad end": func(s *Start) { s.Request.Args = []string{"-c", "kill -9 $$"} },
	}
	w := newWorld(t)
	var names []string
	for name := range kinds {
		names = append(names, name)
	}
	const together = 10
	failed := map[string]int{}
	for first := 1; first <= jobs; first += together {
		var wait sync.WaitGroup
		var mu sync.Mutex
		for id := first; id < first+together; id++ {
			name := names[id%len(names)]
			s := w.job(id, "/bin/sh", "-c", "exit 0")
			s.Request.Shell = nil
			if name == "no such shell" {
				s.Request.Binary, s.Request.Script = false, []byte("exit 0\n")
			}
			kinds[name](s)
			wait.Go(func() {
				if _, err := w.agent.Start(t.Context(), s); err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				o := w.ended(s.ID)
				mu.Lock()
				defer mu.Unlock()
				if o.Class != job.ClassNone && o.Class != job.ClassJob {
					t.Errorf("%s: the failure is that of the queue or the host: %s", name, o.Reason)
				}
				if o.Failed != job.FailedNone || o.ExitStatus != 0 {
					failed[name]++
				}
			})
		}
		wait.Wait()
		if h := w.agent.Health(); h.Draining != "" || len(h.Troubles) > 0 {
			t.Fatalf("after %d jobs: %+v", first+together-1, h)
		}
	}
	total := 0
	for _, n := range failed {
		total += n
	}
	if t.Attr("failed", fmt.Sprint(failed)); total < jobs {
		t.Errorf("of %d jobs %d failed: %v", jobs, total, failed)
	}
	if s := &w.agent.starts; s.doubt || s.failed > 0 || s.out != nil || s.pause != 0 {
		t.Errorf("the starts of supervisors: in doubt %t, failed %d, out of service %v, pause %v", s.doubt, s.failed, s.out, s.pause)
	}
}
