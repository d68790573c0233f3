package cell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
)

// Options are what a configuration directory does not say.
type Options struct {
	// Queues is the order in which the cluster queues were created, see
	// scheduler.Options.
	Queues []string
	// PEs is the same for parallel environments.
	PEs   []string
	Hosts expression.HostNames
	// Zone is the time zone of calendars and of what people type; UTC if it is nil.
	Zone *time.Location
	// Up are hosts that are known to be up before they have reported anything.
	Up []string
	// Managers and Operators (qconf(1), -sm and -so). root is always a manager.
	Managers, Operators []string
}

// Cell is the state of a master.
type Cell struct {
	world
	zone                *time.Location
	managers, operators map[string]bool
	options             Options

	lastJob uint32
	jobs    map[uint32]*Job
	order   []uint32 // the numbers of jobs ascending, with some that have left
	perUser map[string]int
	named   map[ownName][]uint32 // ascending

	successors     map[uint32][]uint32 // by predecessor (-hold_jid), ascending
	taskSuccessors map[uint32][]uint32 // likewise (-hold_jid_ad)
	timers         timers
	immediate      []*Job

	loads        map[string]map[string]string // what hosts have reported last
	policy       entitlements
	reservations reservations

	decisions *scheduler.Decisions // of the last run
	actions   []Action
	unbooked  []*Task // with usage that is not in the ledger
	now       int64
}

// world is what is made anew when the configuration changes.
type world struct {
	cluster   *qconf.Cluster
	model     *scheduler.Model
	state     *scheduler.State
	places    []place // by queue instance
	calendars []*calendarState
	problems  []error
}

// New is an empty cell: nothing is submitted, and no host has reported. Until a host does,
// its queue instances are unknown.
func New(now int64, cluster *qconf.Cluster, o Options) *Cell {
	c := &Cell{
		zone: cmp.Or(o.Zone, time.UTC), options: o, managers: set(o.Managers), operators: set(o.Operators),
		jobs: map[uint32]*Job{}, perUser: map[string]int{}, named: map[ownName][]uint32{},
		successors: map[uint32][]uint32{}, taskSuccessors: map[uint32][]uint32{},
		loads: map[string]map[string]string{},
	}
	for _, host := range o.Up {
		c.loads[host] = map[string]string{}
	}
	c.policy.init(cluster)
	c.world = c.newWorld(now, cluster, nil)
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

// newWorld compiles a configuration, and gives its queue instances the states that those
// of the world before have.
func (c *Cell) newWorld(now int64, cluster *qconf.Cluster, old *world) world {
	w := world{cluster: cluster}
	w.model, w.problems = scheduler.NewModel(cluster, scheduler.Options{Queues: c.options.Queues, PEs: c.options.PEs, Hosts: c.options.Hosts})
	w.state = scheduler.NewState(w.model)
	w.places = make([]place, w.model.Instances())
	for i := range w.places {
		id := scheduler.InstanceID(i)
		settings := w.model.Settings(id)
		var status scheduler.Status
		if _, reported := c.loads[settings.Host]; !reported {
			status = scheduler.Unknown
		}
		if was, ok := old.instance(settings.Queue, settings.Host); ok {
			status |= old.state.Status(was) & (scheduler.Failed | scheduler.DisabledByUser | scheduler.SuspendedByUser)
			w.places[i].errors, w.places[i].checked = old.places[was].errors, old.places[was].checked
			w.state.ThresholdChecked(id, w.places[i].checked)
		} else if settings.InitialState == qconf.InitialDisabled {
			status |= scheduler.DisabledByUser
		}
		w.state.SetStatus(id, status)
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

// Problems are contradictions of the configuration: what they concern is not used.
func (c *Cell) Problems() []error { return c.problems }

// Reconfigure replaces the configuration. What jobs have, use and wait for stays. A task
// that runs in a queue instance that is no longer there goes on there (the instance is
// orphaned) and counts for the host no more. A job that requests what is no longer there
// waits, with the Problem, until it is there again or the job is altered.
//
// If the error is not nil, nothing has changed.
func (c *Cell) Reconfigure(now int64, cluster *qconf.Cluster) (*Answer, error) {
	old := c.world
	next := c.newWorld(now, cluster, &old)
	entitled := c.policy.renew(cluster)
	for _, host := range slices.Sorted(maps.Keys(c.loads)) {
		if _, ok := next.model.Host(host); ok {
			if err := next.state.SetLoad(host, c.loads[host]); err != nil {
				return nil, err
			}
		}
	}
	for _, id := range c.ids() {
		if j := c.jobs[id]; len(j.tasks) > 0 {
			if err := c.checkMove(j, &next); err != nil {
				return nil, err
			}
		}
	}
	c.world = next
	c.policy = entitled
	c.state.Entitlements = c.policy.Entitlements
	c.moveReservations(&old)
	for _, id := range c.ids() {
		c.move(c.jobs[id], &old)
	}
	c.decisions = nil
	for h := range c.model.Hosts() {
		c.resubordinate(now, scheduler.HostID(h))
	}
	return c.done(&Answer{}), nil
}

// checkMove reports whether what a job's tasks run in can be booked in a new world.
func (c *Cell) checkMove(j *Job, next *world) error {
	for _, t := range j.tasks {
		if t.run == nil {
			continue
		}
		if _, err := next.model.Category(t.requests()); err != nil {
			return fmt.Errorf("cannot change the configuration while job %d runs: %w", j.ID(), err)
		}
		if t.run.PE != scheduler.None && !t.orphan {
			name := c.model.PEName(t.run.PE)
			if _, ok := next.model.PE(name); !ok {
				return fmt.Errorf("cannot change the configuration: the parallel environment %q is in use by job %d", name, j.ID())
			}
		}
	}
	return nil
}

// move brings a job into the world that has just been made.
func (c *Cell) move(j *Job, old *world) {
	old.state.Dequeue(&j.sched)
	j.Problem = ""
	if category, err := c.model.Category(j.requests()); err == nil {
		j.sched.Category = category
	} else {
		j.Problem = err.Error()
	}
	c.entitle(j)
	for _, t := range j.tasks {
		if t.run != nil && !t.orphan {
			c.moveTask(t, old)
		}
	}
	c.refresh(j)
}

// requests are what a running task was started with.
func (t *Task) requests() *scheduler.Requests {
	r := *t.run.Job.Category.Requests()
	// Jobs of a category may have different owners, as far as that has made no difference.
	r.User, r.Group, r.Project = t.Job.Owner(), t.Job.Group, t.Job.Project
	return &r
}

func (c *Cell) moveTask(t *Task, old *world) {
	was := t.run
	if was.Job != &t.Job.sched {
		frozen := *was.Job
		// checkMove has made it before.
		frozen.Category, _ = c.model.Category(t.requests())
		frozen.User, frozen.Project, frozen.Department, frozen.Leaf = t.Job.sched.User, t.Job.sched.Project, t.Job.sched.Department, t.Job.sched.Leaf
		was = &scheduler.Running{Job: &frozen, Task: was.Task, Started: was.Started, PE: was.PE, Grants: was.Grants, Limit: was.Limit}
	}
	run := &scheduler.Running{Job: was.Job, Task: was.Task, Started: was.Started, PE: scheduler.None, Limit: was.Limit}
	if was.PE != scheduler.None {
		run.PE, _ = c.model.PE(old.model.PEName(was.PE))
	}
	orphaned := false
	for _, g := range was.Grants {
		settings := old.model.Settings(g.Instance)
		id, ok := c.model.Instance(settings.Queue, settings.Host)
		if !ok {
			orphaned = true
			continue
		}
		run.Grants = append(run.Grants, scheduler.Grant{Instance: id, Slots: g.Slots, Things: g.Things, Cores: g.Cores})
	}
	t.run = run
	if orphaned {
		t.run, t.orphan, t.orphaned = was, true, old.model.InstanceName(was.Grants[0].Instance)
		return
	}
	if err := c.state.Start(run); err != nil {
		// A sum that cannot be kept exactly.
		t.run, t.orphan, t.orphaned = was, true, old.model.InstanceName(was.Grants[0].Instance)
		return
	}
	c.occupy(t)
	c.resuspend(t)
}

// ids are the numbers of the jobs, ascending.
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

// Model is the configuration as the scheduler knows it.
func (c *Cell) Model() *scheduler.Model { return c.model }

// State is what the scheduler knows at the moment. Callers must not change it.
func (c *Cell) State() *scheduler.State { return c.state }

// Cluster is the configuration.
func (c *Cell) Cluster() *qconf.Cluster { return c.cluster }

// Decisions are those of the last scheduling run, nil before the first one and after a
// change of the configuration.
func (c *Cell) Decisions() *scheduler.Decisions { return c.decisions }

// Job returns a job that has not left, nil if there is none with the number.
func (c *Cell) Job(id uint32) *Job { return c.jobs[id] }

// Jobs are the jobs that have not left, by their numbers.
func (c *Cell) Jobs() []*Job {
	var list []*Job
	for _, id := range c.ids() {
		list = append(list, c.jobs[id])
	}
	return list
}
