package agent

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// params returns an option that makes the agent use this global configuration.
func params(t *testing.T, global string) func(*Options) {
	c := load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\npe_list smp\nh_vmem 4G\n",
		"pes/smp":      "pe_name smp\nslots 100\nallocation_rule $pe_slots\ncontrol_slaves TRUE\n",
		"conf/global":  global,
	})
	return func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "test", nil }
	}
}

// TestIneffectiveParameters checks that parameters without effect are logged once, and other
// parameters are not.
func TestIneffectiveParameters(t *testing.T) {
	var log testenv.Transcript
	w := newWorld(t, params(t, "execd_params USE_SMAPS=true,PROF_EXECD=1,NO_SECURITY=false,SOMETHING=7,USE_QSUB_GID=true,KEEP_ACTIVE=false\n"), func(o *Options) {
		o.Log = hclog.New(&hclog.LoggerOptions{Output: &log})
	})
	if err := w.agent.Configure(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(log.String()) {
		if _, name, ok := strings.Cut(strings.TrimSpace(line), "has no effect here, see execd-conf(5): parameter="); ok {
			got = append(got, name)
		}
	}
	slices.Sort(got)
	if want := []string{"PROF_EXECD", "SOMETHING", "USE_SMAPS"}; !slices.Equal(got, want) {
		t.Errorf("%q, expected %q", got, want)
	}
}

// TestSubmitGroup checks that with USE_QSUB_GID a job runs with the group of its submission.
func TestSubmitGroup(t *testing.T) {
	testenv.Require(t, testenv.Root)
	groups := func(o *Options) {
		o.Groups = func(name string) (uint32, error) {
			if name == "team" {
				return 4711, nil
			}
			return 0, userdb.ErrUnknown
		}
	}
	w := newWorld(t, params(t, "execd_params USE_QSUB_GID=true\n"), groups)
	s := w.job(1, "true")
	s.Group = "team"
	id := w.mustStart(s).ID
	w.agent.table.mu.Lock()
	gid := w.agent.table.jobs[id].run.Description.QsubGID
	w.agent.table.mu.Unlock()
	if gid != 4711 {
		t.Errorf("the job runs with group %d", gid)
	}
	w.ended(id)
	s = w.job(2, "true")
	s.Group = "strangers"
	if _, err := w.agent.Start(t.Context(), s); code(err) != InvalidArgument || !strings.Contains(err.Error(), "the primary group of its submission, strangers") {
		t.Error(err)
	}
	w = newWorld(t, groups)
	if id = w.mustStart(s).ID; w.ended(id).Failed != 0 {
		t.Error("without the parameter the group counts")
	}
}

// TestShepherdCommand checks that the agent runs shepherd_cmd instead of the supervisor, and that
// jobs do not start if it does not exist.
func TestShepherdCommand(t *testing.T) {
	dir := t.TempDir()
	command, called := filepath.Join(dir, "wrapper"), filepath.Join(dir, "called")
	configuration := params(t, "shepherd_cmd "+command+"\n")
	w := newWorld(t, configuration)
	id := w.mustStart(w.job(1, "true")).ID
	if o := w.ended(id); o.Failed != job.FailedBeforeJob || o.Effect != job.Requeued || !strings.Contains(o.Reason, "cannot execute shepherd_cmd "+command) {
		t.Errorf("%+v", o)
	}
	if got := w.agent.Health().Troubles; len(got) != 1 || !strings.Contains(got[0], "shepherd_cmd") {
		t.Errorf("%q", got)
	}
	script := "#!/bin/sh\necho called >>" + called + "\nexec " + shepherd + "\n"
	if err := os.WriteFile(command, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	id = w.mustStart(w.job(2, "sh", "-c", "exit 3")).ID
	if o := w.ended(id); o.ExitStatus != 3 || o.Failed != 0 {
		t.Errorf("%+v", o)
	}
	if b, err := os.ReadFile(called); err != nil || string(b) != "called\n" {
		t.Errorf("%q, %v", b, err)
	}
	if got := w.agent.Health().Troubles; len(got) > 0 {
		t.Errorf("%q", got)
	}
	// Its supervisor is found again by the next agent.
	id = w.mustStart(w.job(3, "sleep", "1000")).ID
	w.await(id, Running)
	w.stop()
	w.start(configuration)
	if err := w.agent.Signal(t.Context(), id, Kill); err != nil {
		t.Error(err)
	}
	if o := w.ended(id); o.ExitStatus != 137 {
		t.Errorf("%+v", o)
	}
}

// TestReservedUsage checks that the reserved usage is accounted and reported if the configuration
// says so.
func TestReservedUsage(t *testing.T) {
	for name, want := range map[string]struct{ accounted, reported bool }{
		"ACCT_RESERVED_USAGE": {true, false}, "SHARETREE_RESERVED_USAGE": {false, true}, "KEEP_ACTIVE": {},
	} {
		var mu sync.Mutex
		var usage job.Usage
		w := newWorld(t, params(t, "execd_params "+name+"=true\n"), func(o *Options) {
			o.Account = func(_ *Record, _ *job.Description, o *job.Outcome, _ bool) error {
				mu.Lock()
				defer mu.Unlock()
				usage = o.Usage
				return nil
			}
		})
		s := w.job(1, "-l", "h_vmem=1G", "-pe", "smp", "3", "true")
		s.PE, s.Grants[0].Slots = "smp", 3
		reported := w.ended(w.mustStart(s).ID).Usage
		mu.Lock()
		accounted := usage
		mu.Unlock()
		for what, u := range map[string]struct {
			job.Usage
			reserved bool
		}{"accounted": {accounted, want.accounted}, "reported": {reported, want.reported}} {
			if got := u.CPU == 3*u.Wallclock && u.MaxVmem == 3<<30; got != u.reserved {
				t.Errorf("%s: %s is %+v", name, what, u.Usage)
			}
		}
	}
}

// TestNoAccounting checks that reporting_params can switch off accounting records.
func TestNoAccounting(t *testing.T) {
	var records atomic.Int32
	w := newWorld(t, params(t, "reporting_params accounting=false\n"), func(o *Options) {
		o.Account = func(_ *Record, _ *job.Description, _ *job.Outcome, _ bool) error {
			records.Add(1)
			return nil
		}
	})
	if o := w.ended(w.mustStart(w.job(1, "true")).ID); !o.Ran {
		t.Errorf("%+v", o)
	}
	if n := records.Load(); n != 0 {
		t.Errorf("%d records", n)
	}
}

// TestSimulatedJobs checks that simulated jobs take the requested time, and that no process runs.
func TestSimulatedJobs(t *testing.T) {
	configuration := params(t, "execd_params SIMULATE_JOBS=true\nshepherd_cmd /nonexistent\n")
	w := newWorld(t, configuration)
	short := w.mustStart(w.job(1, "/nonexistent", "1", "ignored")).ID
	long := w.mustStart(w.job(2, "/nonexistent", "never")).ID
	w.await(long, Running)
	if o := w.ended(short); !o.Ran || o.Failed != 0 || o.ExitStatus != 0 || o.Usage.Wallclock != 1 || o.Usage.CPU != 0.5 {
		t.Errorf("%+v", o)
	}
	if err := w.agent.Signal(t.Context(), long, Suspend); err != nil {
		t.Error(err)
	}
	w.await(long, Suspended)
	w.agent.lookAtUsage()
	if r, _ := w.agent.Job(long); r.Slave || r.Usage.Wallclock <= 0 || r.Usage.CPU != r.Usage.Wallclock/2 {
		t.Errorf("%+v", r)
	}
	if _, err := w.agent.StartTask(t.Context(), &TaskStart{Job: long, Key: "x", Owner: w.owner.Username, Command: []string{"true"}}); code(err) != FailedPrecondition {
		t.Error(err)
	}
	w.stop()
	w.start(configuration)
	w.await(long, Suspended)
	if err := w.agent.Signal(t.Context(), long, Terminate); err != nil {
		t.Error(err)
	}
	if o := w.ended(long); o.Failed != job.FailedAfterJob || o.ExitStatus != 137 {
		t.Errorf("%+v", o)
	}
	// One whose time is over while there is no agent has ended when it was to end.
	id := w.mustStart(w.job(3, "/nonexistent", "1")).ID
	w.await(id, Running)
	w.stop()
	w.start(configuration)
	if o := w.ended(id); o.Usage.Wallclock != 1 || o.End.Sub(o.Start).Seconds() != 1 {
		t.Errorf("%+v", o)
	}
}
