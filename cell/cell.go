package cell

import (
	"cmp"
	"slices"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
)

// Options are settings that a configuration directory does not contain.
type Options struct {
	// Queues is the order in which the cluster queues were created, see
	// scheduler.Options.
	Queues []string
	// PEs is the order in which the parallel environments were created.
	PEs   []string
	Hosts expression.HostNames
	// Zone is the time zone of calendars and of times on command lines; UTC if it is nil.
	Zone *time.Location
	// Up lists hosts that count as up before their first report.
	Up []string
	// Unexplained makes scheduling runs faster: they do not determine why jobs are pending.
	Unexplained bool
	// Managers and Operators are managers and operators in addition to those of the configuration
	// (qconf(1), -sm and -so). root is always a manager.
	Managers, Operators []string
	// SeparateScripts means that the caller of Changes stores the texts of large scripts in files
	// instead of records (Change.Script). The cell then does not keep them.
	SeparateScripts bool
}

// Cell is the state of a master.
type Cell struct {
	world
	zone                *time.Location
	managers, operators map[string]bool
	options             Options

	modified     map[string]int // cluster queues: the order of their modification, see InListOrder
	lastModified int

	lastJob uint32
	changes int64 // of jobs, since the start
	jobs    map[uint32]*Job
	order   []uint32 // job numbers, ascending, including some jobs that have left
	perUser map[string]int
	buckets map[string]bucket    // by submitting user, if there is a limit
	named   map[ownName][]uint32 // ascending

	dependencies dependencies
	work         work // of the current command
	timers       timers
	immediate    []*Job
	finished     []Finished // in the order in which they left; more than Finished returns

	loads        map[string]map[string]string // the last reports of hosts
	wasUp        map[string]bool              // hosts that were up before Restore and have not reported since
	lost         map[string]int64             // hosts without reports: when the cell gives them up
	refusing     map[string]string            // hosts that accept no jobs: the reason (HostService)
	policy       entitlements
	reservations reservations

	decisions *scheduler.Decisions // of the last run
	actions   []Action
	unbooked  []*Task // with usage that is not in the ledger yet
	now       int64
	unsaved   unsaved
	keeping   keeping
	commons   *commons // nil during Restore, and in a cell that is not stored
	// The same for finished jobs.
	finishedCommons *commons
}

// world holds the state that is rebuilt when the configuration changes.
type world struct {
	cluster       *qconf.Cluster
	model         *scheduler.Model
	state         *scheduler.State
	instances     []instance // by queue instance
	subordination subordination
	calendars     []*calendarState
	problems      []error
	// stale is set when the last task has left an orphaned instance, so that the instance must be
	// removed.
	stale bool
}

// New returns an empty cell without jobs. The queue instances of a host are in state unknown until
// the host reports.
func New(now int64, cluster *qconf.Cluster, o Options) *Cell {
	c := &Cell{
		zone: cmp.Or(o.Zone, time.UTC), options: o, managers: set(o.Managers), operators: set(o.Operators),
		jobs: map[uint32]*Job{}, perUser: map[string]int{}, buckets: map[string]bucket{}, named: map[ownName][]uint32{},
		dependencies: newDependencies(),
		loads:        map[string]map[string]string{}, lost: map[string]int64{}, wasUp: map[string]bool{},
	}
	for _, host := range o.Up {
		c.loads[host] = map[string]string{}
	}
	c.policy = newEntitlements()
	c.policy.read(cluster)
	c.world = c.newWorld(now, cluster, nil, nil)
	c.state.Entitlements = c.policy.Entitlements
	return c
}

func set(names []string) map[string]bool {
	m := map[string]bool{}
	for _, n := range names {
		m[n] = true
	}
	return m
}

// newWorld compiles a configuration and gives its queue instances the states of the previous world.
func (c *Cell) newWorld(now int64, cluster *qconf.Cluster, old *world, orphans []scheduler.Orphan) world {
	w := world{cluster: cluster}
	w.model, w.problems = scheduler.NewModel(cluster, scheduler.Options{
		Queues: c.options.Queues, PEs: c.options.PEs, Hosts: c.options.Hosts, Orphans: orphans,
	})
	w.state = scheduler.NewState(w.model)
	w.state.SetExplaining(!c.options.Unexplained)
	w.instances = make([]instance, w.model.Instances())
	w.subordination = newSubordination(w.model, w.state, w.instances)
	for i := range w.instances {
		id := scheduler.InstanceID(i)
		settings := w.model.Settings(id)
		var status scheduler.Status
		if _, reported := c.loads[settings.Host]; !reported {
			status = scheduler.Unknown
		}
		if was, ok := old.instance(settings.Queue, settings.Host); ok {
			status |= old.state.Status(was) & keptStatus
			w.instances[i].errors, w.instances[i].checked = old.instances[was].errors, old.instances[was].checked
			w.state.ThresholdChecked(id, w.instances[i].checked)
		} else if settings.InitialState == qconf.InitialDisabled {
			status |= scheduler.DisabledByUser
		}
		if c.refusing[settings.Host] != "" {
			status |= scheduler.Failed
		}
		w.state.SetStatus(id, status)
	}
	for _, o := range orphans {
		if id, ok := w.model.Instance(o.Queue.Name, o.Host); ok {
			w.state.SetStatus(id, w.state.Status(id)|scheduler.Orphaned)
		}
	}
	w.compileCalendars(now, c.zone)
	return w
}

func (w *world) instance(queue, host string) (scheduler.InstanceID, bool) {
	if w == nil {
		return 0, false
	}
	return w.model.Instance(queue, host)
}

// Problems returns contradictions in the configuration. The cell ignores the settings concerned.
func (c *Cell) Problems() []error { return c.problems }

// ids returns the numbers of the jobs, ascending.
func (c *Cell) ids() []uint32 {
	if len(c.order) > 2*len(c.jobs)+16 {
		c.order = slices.DeleteFunc(c.order, func(id uint32) bool { return c.jobs[id] == nil })
	}
	live := make([]uint32, 0, len(c.jobs))
	for _, id := range c.order {
		if c.jobs[id] != nil {
			live = append(live, id)
		}
	}
	return live
}

// Model returns the compiled configuration for the scheduler.
func (c *Cell) Model() *scheduler.Model { return c.model }

// State returns the scheduler's current state. Callers must not change it.
func (c *Cell) State() *scheduler.State { return c.state }

// Cluster returns the configuration.
func (c *Cell) Cluster() *qconf.Cluster { return c.cluster }

// Zone returns the time zone of calendars and of the dates of requests.
func (c *Cell) Zone() *time.Location { return c.zone }

// Decisions returns the result of the last scheduling run. It is nil before the first run and after
// a change of the configuration.
func (c *Cell) Decisions() *scheduler.Decisions { return c.decisions }

// Job returns a job that has not left the cell, or nil if there is none with the number.
func (c *Cell) Job(id uint32) *Job { return c.jobs[id] }

// Jobs returns the jobs that have not left the cell, by number.
func (c *Cell) Jobs() []*Job {
	ids := c.ids()
	list := make([]*Job, len(ids))
	for i, id := range ids {
		list[i] = c.jobs[id]
	}
	return list
}
