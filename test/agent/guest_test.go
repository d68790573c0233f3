package agent

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// setClock moves the wall clock of the guest.
func setClock(t *testing.T, by time.Duration) {
	t.Helper()
	now := unix.NsecToTimespec(time.Now().Add(by).UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &now); err != nil {
		t.Fatal(err)
	}
}

// uptime returns the time since boot, which setting the clock does not affect.
func uptime(t *testing.T) time.Duration {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}

// watching reads reports until found returns true.
func (n *node) watching(ctx context.Context, after uint64, what string, found func(api.Report) bool) (number uint64) {
	n.Helper()
	over := errors.New("found")
	err := n.client.Reports(ctx, after, func(r api.Report) error {
		number = r.Number
		if found(r) {
			return over
		}
		return nil
	})
	if !errors.Is(err, over) {
		n.Fatalf("waiting for %s: %v\n%s", what, err, n.log())
	}
	return number
}

// TestClockIsSet checks that setting the host's clock forwards or backwards by hours does not affect
// jobs, their limits, load reports and the agent's own timers.
func TestClockIsSet(t *testing.T) {
	testenv.Require(t, testenv.Guest)
	n := newNode(t, "")
	n.write("sensor", "#!/bin/sh\nwhile read l; do test \"$l\" = quit && break; n=$((n+1)); echo begin; echo "+host+":count:$n; echo end; done\n")
	if err := os.Chmod(filepath.Join(n.dir, "sensor"), 0o755); err != nil {
		t.Fatal(err)
	}
	n.write("conf/conf/global", "gid_range "+groupIDs()+"\nload_report_time 0:0:1\nload_sensor "+n.dir+"/sensor\n")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()

	const limit = 45 * time.Second
	limited, busy, free := n.job(1, "exec sleep 100000\n"), n.job(2, "while :; do :; done\n"), n.job(3, "exec sleep 100000\n")
	limited.Command = append([]string{"-l", "h_rt=45"}, limited.Command...)
	busy.Command = append([]string{"-l", "h_cpu=1000"}, busy.Command...)
	var began time.Duration
	for _, s := range []api.Start{limited, busy, free} {
		if s.Job == 1 {
			began = uptime(t)
		}
		n.mustStart(ctx, s)
	}
	after := uint64(0)
	running := func(when string) {
		t.Helper()
		// Three load reports, one report of the busy job's usage, and the sensor's value.
		loads, counts := 0, 0
		after = n.watching(ctx, after, "load reports "+when, func(r api.Report) bool {
			if r.Load != nil {
				loads++
				for _, v := range r.Load.Values {
					if v.Name == "count" {
						counts++
					}
				}
			}
			return loads >= 3 && counts >= 3
		})
		for number := range 3 {
			id := api.ID{Job: number + 1}
			j, err := n.client.Job(ctx, id)
			if err != nil || number > 0 && j.State != api.Running && j.State != api.Starting {
				t.Errorf("%s: job %d: %v, %+v", when, number+1, err, j)
			}
			if j.Usage != nil && (j.Usage.CPU < 0 || j.Usage.CPU > 600 || j.Usage.Wallclock < 0 || j.Usage.Wallclock > 600) {
				t.Errorf("%s: job %d has used %+v", when, number+1, j.Usage)
			}
			if number == 0 && uptime(t)-began < limit-5*time.Second && j.Outcome != nil {
				t.Errorf("%s: the job was ended %s after its start: %+v", when, uptime(t)-began, j.Outcome)
			}
		}
	}
	running("before")
	setClock(t, 5*time.Hour)
	running("5 hours later")
	setClock(t, -11*time.Hour)
	running("6 hours before")
	n.agent.Kill()
	setClock(t, 24*time.Hour)
	n.start()
	running("a day later, after a restart of the agent")
	setClock(t, -24*time.Hour)

	// h_rt counts elapsed time.
	var end *api.Outcome
	n.watching(ctx, 0, "the end at h_rt", func(r api.Report) bool {
		if r.Job != nil && r.Job.Job == 1 && r.Job.Outcome != nil {
			end = r.Job.Outcome
		}
		return end != nil
	})
	took := uptime(t) - began
	if end.Failed != 37 || end.Limit == nil || end.Limit.Name != "h_rt" || took < limit || end.Usage.Wallclock < limit.Seconds() || end.Usage.Wallclock > took.Seconds() {
		t.Errorf("after %s: %+v", took, end)
	}
	// Jobs run normally with a wrong clock.
	n.mustStart(ctx, n.job(4, "exit 7\n"))
	n.watching(ctx, 0, "the end of a job", func(r api.Report) bool {
		if r.Job == nil || r.Job.Job != 4 || r.Job.Outcome == nil {
			return false
		}
		if o := r.Job.Outcome; o.ExitStatus != 7 || o.Failed != 0 || o.Usage.Wallclock < 0 || o.Usage.Wallclock > 600 {
			t.Errorf("%+v", o)
		}
		return true
	})
}

// TestUserDatabaseHangs checks that while the user database does not answer, the agent keeps its jobs,
// even over a restart, and refuses new jobs with the reason. It accepts jobs again when the database
// answers.
func TestUserDatabaseHangs(t *testing.T) {
	testenv.Require(t, testenv.Guest)
	const getent, nsswitch = "/usr/bin/getent", "/etc/nsswitch.conf"
	replace := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path+".new", []byte(text), mode), os.Rename(path+".new", path)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{getent, nsswitch} {
		former, err := os.ReadFile(path)
		mode := os.FileMode(0o755)
		if path == nsswitch {
			mode = 0o644
		}
		t.Cleanup(func() {
			if err != nil {
				_ = os.Remove(path)
				return
			}
			replace(path, string(former), mode)
		})
	}
	// Users come from a directory service: carol is in no file.
	answers := "#!/bin/sh\ncase \"$1 $2\" in\n\"passwd carol\") echo 'carol:*:5000:5001::/:/bin/sh';;\n\"initgroups carol\") echo 'carol 5001';;\n*) exit 2;;\nesac\n"
	replace(nsswitch, "passwd: files directory\ngroup: files directory\ninitgroups: files directory\n", 0o644)
	replace(getent, answers, 0o755)
	n := newNode(t, "")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), 5*patience)
	defer cancel()
	job := func(number int, script string) api.Start {
		s := n.job(number, script)
		s.Owner = "carol"
		return s
	}
	n.mustStart(ctx, job(1, "exec sleep 100000\n"))
	state := func(number int, want api.State) {
		t.Helper()
		n.watching(ctx, 0, "job to be "+string(want), func(r api.Report) bool {
			return r.Job != nil && r.Job.Job == number && r.Job.State == want
		})
	}
	state(1, api.Running)

	replace(getent, "#!/bin/sh\nexec sleep 100000\n", 0o755)
	refused := func(number int, want string) {
		t.Helper()
		_, err := n.client.Start(ctx, job(number, "exit 0\n"))
		if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Unavailable || !strings.Contains(e.Message, want) {
			t.Errorf("job %d: %v\n%s", number, err, n.log())
		}
	}
	refused(2, "the user database does not work: the user database has not answered in time")
	refused(3, "the host takes no jobs: the user database does not work")
	if h, err := n.client.Health(ctx); err != nil || len(h.Troubles) != 1 || !strings.Contains(h.Draining, "user database") {
		t.Errorf("%+v, %v", h, err)
	}
	for order, want := range map[api.Order]api.State{api.Suspend: api.Suspended} {
		if err := n.client.Signal(ctx, api.ID{Job: 1}, order); err != nil {
			t.Error(err)
		}
		state(1, want)
	}
	n.agent.Kill()
	n.start()
	state(1, api.Suspended)
	if err := n.client.Signal(ctx, api.ID{Job: 1}, api.Kill); err != nil {
		t.Error(err)
	}
	n.watching(ctx, 0, "the end of a job", func(r api.Report) bool {
		return r.Job != nil && r.Job.Job == 1 && r.Job.Outcome != nil && r.Job.Outcome.ExitStatus == 137
	})
	refused(4, "the user database does not work") // a new agent notices it as well

	replace(getent, answers, 0o755)
	n.mustStart(ctx, job(5, "exit 7\n"))
	n.watching(ctx, 0, "the end of a job", func(r api.Report) bool {
		return r.Job != nil && r.Job.Job == 5 && r.Job.Outcome != nil && r.Job.Outcome.ExitStatus == 7
	})

	// The database stops answering after the agent's request, when a supervisor asks for the
	// groups. The job is requeued without a failure of its own, and the agent does not wait.
	replace(getent, strings.Replace(answers, "echo 'carol 5001'", "exec sleep 100000", 1), 0o755)
	n.mustStart(ctx, job(8, "exit 0\n"))
	if h, err := n.client.Health(ctx); err != nil || h.Draining != "" {
		t.Errorf("%+v, %v", h, err)
	}
	n.watching(ctx, 0, "the end of a job", func(r api.Report) bool {
		if r.Job == nil || r.Job.Job != 8 || r.Job.Outcome == nil {
			return false
		}
		if o := r.Job.Outcome; o.Ran || o.Class != "queue error" || o.Effect != "requeued" || !strings.Contains(o.Reason+o.FailedText, "has not answered in time") {
			t.Errorf("%+v", o)
		}
		return true
	})
	replace(getent, answers, 0o755)

	// A pipe in place of the file must not block the agent.
	const passwd = "/etc/passwd"
	former, err := os.ReadFile(passwd)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(unix.Mkfifo(passwd+".pipe", 0o644), os.Rename(passwd+".pipe", passwd)); err != nil {
		t.Fatal(err)
	}
	_, err = n.client.Start(ctx, job(6, "exit 0\n"))
	if e, ok := errors.AsType[*api.Error](err); !ok || e.Code != api.Unavailable || !strings.Contains(e.Message, "it is not a regular file") {
		t.Errorf("%v", err)
	}
	replace(passwd, string(former), 0o644)
	n.mustStart(ctx, job(7, "exit 0\n"))
}
