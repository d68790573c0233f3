package launch

import (
	"context"
	"os"

	"github.com/execd-project/execd/agent/ptf"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Launcher makes, finds and removes the jobs of an agent. Local does so in this process; with the
// client of package launcher another process does, which has the rights of root.
//
// The arguments for control groups come from Groups, which returns nil if another process has its
// own groups. All methods may be called by several goroutines, but only one at a time for the same
// job.
type Launcher interface {
	// Privileged reports whether jobs run as their owners, even if this process is not root's.
	Privileged() bool
	// Area is the place of job directories and scripts.
	Area() jobdir.Area
	// Groups makes the control groups that a configuration requires; gpus is as for OpenGroupsFor.
	// The error names the unusable part of the configuration.
	Groups(config *qconf.Configuration, gpus bool) (*Groups, error)
	// Check reports whether the paths of the spool area still lead to it: see jobdir.Spool.Check.
	Check() error
	// Jobs and Scripts list the jobs and scripts on the disk.
	Jobs() ([]job.ID, error)
	Scripts() ([]int, error)
	// Prepare writes the script of a job and prepares the job: see the functions StoreScript, Prepare and
	// PrepareSlave.
	Prepare(o *Assignment, id job.ID, slave bool) (*Job, error)
	Open(groups *Groups, lookup func(name string) (*userdb.User, error), id job.ID) (*Job, Stage, error)
	Discard(groups *Groups, id job.ID) error
	RemoveScript(number int) error
	// Supervisor returns the path of the supervisor for a configuration: see ShepherdFor.
	Supervisor(config *qconf.Configuration) (string, error)
	Try(ctx context.Context, groups *Groups, config *qconf.Configuration) error
	Sweep(groups *Groups) error
	// Prioritise gives running jobs priorities: see ptf.Apply. priorities[i] belongs to jobs[i], as does the
	// i-th result.
	Prioritise(jobs []*Job, priorities []ptf.Priority) []ptf.Result
}

// Local is the Launcher of this process.
type Local struct {
	Spool    *jobdir.Spool
	Shepherd string // path of the supervisor's executable
}

var _ Launcher = Local{}

// Privileged reports whether this process is root's.
func (l Local) Privileged() bool { return os.Geteuid() == 0 }

// Area returns the area of the spool.
func (l Local) Area() jobdir.Area { return jobdir.Area(l.Spool.Path()) }

// Groups calls OpenGroupsFor.
func (l Local) Groups(config *qconf.Configuration, gpus bool) (*Groups, error) {
	return OpenGroupsFor(l.Spool, config, gpus)
}

// Check calls jobdir.Spool.Check.
func (l Local) Check() error { return l.Spool.Check() }

// Jobs calls jobdir.Spool.Jobs.
func (l Local) Jobs() ([]job.ID, error) { return l.Spool.Jobs() }

// Scripts calls jobdir.Spool.Scripts.
func (l Local) Scripts() ([]int, error) { return l.Spool.Scripts() }

// Prepare calls the functions StoreScript and Prepare, or for a slave job only PrepareSlave, which
// needs no script.
func (l Local) Prepare(o *Assignment, id job.ID, slave bool) (*Job, error) {
	if slave {
		return PrepareSlave(l.Spool, o, id)
	}
	if err := StoreScript(l.Spool, o, id.Job); err != nil {
		return nil, err
	}
	return Prepare(l.Spool, o, id)
}

// Open calls the function Open.
func (l Local) Open(groups *Groups, lookup func(name string) (*userdb.User, error), id job.ID) (*Job, Stage, error) {
	return Open(l.Spool, groups, lookup, id)
}

// Discard calls the function Discard.
func (l Local) Discard(groups *Groups, id job.ID) error { return Discard(l.Spool, groups, id) }

// RemoveScript calls jobdir.Spool.RemoveScript.
func (l Local) RemoveScript(number int) error { return l.Spool.RemoveScript(number) }

// Supervisor calls ShepherdFor.
func (l Local) Supervisor(config *qconf.Configuration) (string, error) {
	return ShepherdFor(config, l.Shepherd)
}

// Try calls the function Try.
func (l Local) Try(ctx context.Context, groups *Groups, config *qconf.Configuration) error {
	return Try(ctx, l.Spool, groups, config, l.Shepherd)
}

// Sweep calls Groups.Sweep.
func (l Local) Sweep(groups *Groups) error { return groups.Sweep(l.Spool) }

// Prioritise calls ptf.Apply.
func (l Local) Prioritise(jobs []*Job, priorities []ptf.Priority) []ptf.Result {
	targets := make([]ptf.Target, len(jobs))
	for i, j := range jobs {
		targets[i] = ptf.Target{Group: j.Group(), GroupID: j.Description.AddGroupID}
	}
	return ptf.Apply(targets, priorities)
}
