package launch

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// TestTrustedVariablesAreNotTheUsers submits jobs of every kind with variables of any name
// and value. Those that the description calls trusted have the values that they have without
// them, and stand once in the environment.
func TestTrustedVariablesAreNotTheUsers(t *testing.T) {
	names := []string{
		"SGE_ROOT", "SGE_CELL", "SGE_BINARY_PATH", "SGE_RSH_COMMAND", "SGE_CKPT_DIR", "SGE_CKPT_ENV", "SGE_JOB_SPOOL_DIR", "PE", "PE_HOSTFILE",
		"QUEUE", "JOB_ID", "SGE_TASK_ID", "SGE_TASK_FIRST", "TZ", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_NOTIFY_KILL_SIGNAL", "PATH", "HOME",
		"TMPDIR", "LD_LIBRARY_PATH", "NSLOTS", "ARC", "SGE_BINDING", "SGE_JOBEXIT_STAT", "ENVIRONMENT", "JOB_SCRIPT",
	}
	rapid.Check(t, func(t *rapid.T) {
		yes := func(what string) bool { return rapid.Bool().Draw(t, what) }
		o := &Assignment{
			Request: &submit.Request{Name: "n", Command: "/bin/true", Binary: yes("binary")},
			Owner:   &userdb.User{Name: "alice", Home: "/home/alice"}, Host: "h", Config: &qconf.Configuration{}, Slots: 1,
			Queue: qconf.QueueInstance{Queue: "q"}, Arch: "lx-amd64",
		}
		if yes("root") {
			o.SGERoot, o.SGECell = "/sge", "default"
		}
		if yes("library path") {
			o.Config.ExecdParams.SetLibPath = true
		}
		d := &job.Description{ID: job.ID{Job: 1}, Name: "n", Command: job.Command{File: "/bin/true", Shell: "/bin/sh"}, Tmpdir: "/tmp/1"}
		if yes("array") {
			d.ID.Task, o.Request.Array = 3, &submit.Array{First: 1, Last: 5, Step: 2}
		}
		if yes("parallel") {
			o.PE = &qconf.ParallelEnvironment{Name: "smp", ControlSlaves: yes("control")}
			d.PE = &job.ParallelEnvironment{Name: "smp", HostFile: "/hosts"}
			d.NotifyKill = job.Notification{Kind: job.NotifySignal, Signal: "TERM"}
		}
		if yes("checkpoint") {
			d.Ckpt = &job.Checkpoint{Name: "c"}
			if yes("directory") {
				d.Ckpt.Dir = "/ckpt"
			}
		}
		without := o.environment(d, jobdir.Area("/spool"))
		if !slices.Contains(without.list, "SGE_CELL=default") { // the original sets it if nothing names the cell
			t.Fatalf("the environment is %q", without.list)
		}
		for range rapid.IntRange(1, 10).Draw(t, "n") {
			name := rapid.OneOf(rapid.SampledFrom(names), rapid.StringMatching(`[A-Z_]{1,8}`)).Draw(t, "name")
			o.Request.Env = append(o.Request.Env, submit.Variable{Name: name, Value: rapid.String().Draw(t, "value")})
		}
		with := o.environment(d, jobdir.Area("/spool"))
		if !slices.Equal(with.trusted, without.trusted) {
			t.Fatalf("trusted are %q, without the user's %q", with.trusted, without.trusted)
		}
		for _, name := range with.trusted {
			if slices.Contains([]string{"PATH", "HOME", "TMPDIR", "TMP", "LD_LIBRARY_PATH", "SHELL", "PWD", "TERM"}, name) {
				t.Fatalf("%s is trusted", name)
			}
			of := func(v *variables) (values []string) {
				for _, s := range v.list {
					if n, value, _ := strings.Cut(s, "="); n == name {
						values = append(values, value)
					}
				}
				return values
			}
			if got, want := of(with), of(without); len(got) != 1 || !slices.Equal(got, want) {
				t.Fatalf("%s has the values %q, expected %q", name, got, want)
			}
		}
	})
}

// TestLimitsOfProcedures checks that requests of the job do not lower limits of the site's procedures,
// and that limits which the master has merged into those of the queue are recognised.
func TestLimitsOfProcedures(t *testing.T) {
	queue := job.Unlimited()
	queue[job.Fsize] = job.Limit{Soft: 1 << 20, Hard: 1 << 30}
	queue[job.RT] = job.Limit{Soft: 10, Hard: 20}
	merged := job.Unlimited()
	merged[job.Fsize] = job.Limit{Soft: 1, Hard: 1}
	params := job.Unlimited()
	params[job.MemoryLocked] = job.Limit{Soft: 8192, Hard: 8192}
	for name, o := range map[string]*Assignment{
		"a queue of ours":             {Queue: qconf.QueueInstance{Limits: queue}},
		"a queue that qmaster lowers": {Queue: qconf.QueueInstance{Limits: merged}, ProcedureLimits: &queue},
	} {
		o.Config = &qconf.Configuration{}
		o.Config.ExecdParams.Limits = params
		o.Request = &submit.Request{}
		got := o.procedureLimits()
		if got[job.Fsize] != queue[job.Fsize] || got[job.MemoryLocked] != params[job.MemoryLocked] || got[job.RT] != job.Unlimited()[job.RT] {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
