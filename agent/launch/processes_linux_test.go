package launch

import (
	"runtime"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// TestJobsHaveALimitOfProcesses checks that each job has a limit of processes by default, which grows
// with its slots up to half of the host's limit, and that the administrator's number is not lowered.
func TestJobsHaveALimitOfProcesses(t *testing.T) {
	half := threadsOfHost() / 2
	for sentence, c := range map[string]struct {
		params string
		slots  int
		want   uint64
	}{
		"the default":                         {slots: 1, want: 8192},
		"a job without slots":                 {slots: 0, want: 8192},
		"for each slot":                       {params: "pids_limit=10", slots: 3, want: 30},
		"half of the host":                    {slots: 1 << 20, want: half},
		"more for one slot than that":         {params: "pids_limit=2147483647", slots: 2, want: 1<<31 - 1},
		"none":                                {params: "pids_limit=0", slots: 4, want: 0},
		"none, in the words of a Grid Engine": {params: "pids_limit=INFINITY", slots: 4, want: 0},
	} {
		config, err := qconf.ParseConfiguration("global", []byte("cgroups_params cpuset=true,"+c.params+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := mostThreads(config.CgroupsParams, c.slots); got != c.want {
			t.Errorf("%s: %d, expected %d", sentence, got, c.want)
		}
	}
}

// TestLimitOfTheHostIsReadOnce checks that a burst of jobs reads the limit of the host once, and that a
// later change of it is noticed.
func TestLimitOfTheHostIsReadOnce(t *testing.T) {
	reads := 0
	most := threads{read: func() uint64 { reads++; return uint64(reads) }, keep: time.Hour}
	for range 3 {
		if got := most.get(); got != 1 {
			t.Errorf("the limit is %d after %d reads, expected that of the first", got, reads)
		}
	}
	most.at = most.at.Add(-most.keep)
	if got := most.get(); got != 2 {
		t.Errorf("the limit is %d an hour later, expected that of the second read", got)
	}
}

// TestProcessesWithoutAGroup checks that the limit counts the processes of the user where those of the
// job cannot be counted.
func TestProcessesWithoutAGroup(t *testing.T) {
	_, o := orderOf(t)
	d, err := o.Describe(job.ID{Job: 7}, "/spool", "")
	if err != nil {
		t.Fatal(err)
	}
	without := int(mostThreads(o.Config.CgroupsParams, runtime.NumCPU()))
	for sentence, c := range map[string]struct {
		groups *Groups
		kill   bool
		want   int
	}{
		"no groups at all":                  {nil, true, without},
		"a job that has none":               {o.Groups, false, without},
		"a group that counts or not, as is": {o.Groups, true, map[bool]int{true: 0, false: without}[o.Groups.manager.System().Check(cgroup.PidsLimit) == nil]},
	} {
		d := *d
		d.AddGroupKill = c.kill
		p := Plan{Description: &d, Processes: without}
		if got := p.mostOfUser(c.groups); got != c.want {
			t.Errorf("%s: %d, expected %d", sentence, got, c.want)
		}
	}
}
