package cell

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// Reconfigure replaces the configuration. Jobs keep their resources, usage and dependencies. A
// removed queue instance remains as orphaned until its tasks and reservations have finished. A job
// whose request names a removed object is pending, with a Problem, until the object exists again or
// the job is altered.
//
// After an error nothing has changed: the new configuration could not keep the running tasks.
func (c *Cell) Reconfigure(now int64, cluster *qconf.Cluster) (*Answer, error) {
	c.tick(now)
	if err := c.reconfigure(now, cluster); err != nil {
		return nil, err
	}
	return c.done(&Answer{}), nil
}

func (c *Cell) reconfigure(now int64, cluster *qconf.Cluster) error {
	m := move{cell: c, old: c.world, categories: map[uint32]*scheduler.Category{}, frozen: map[*scheduler.Job]*scheduler.Job{}}
	m.next = c.newWorld(now, cluster, &m.old, nil)
	if orphans := m.orphans(); len(orphans) > 0 {
		m.next = c.newWorld(now, cluster, &m.old, orphans)
	}
	if err := m.prepare(); err != nil {
		return err
	}
	c.touchLedger() // including removed ones
	m.next.state.KeepExperience(c.state)
	c.world = m.next
	c.policy = c.policy.renew(cluster)
	c.state.Entitlements = c.policy.Entitlements
	m.commit()
	c.touchConfiguration(&m.old)
	c.decisions = nil
	for h := range c.model.Hosts() {
		c.resubordinate(scheduler.HostID(h))
	}
	return nil
}

// move is a transition from one world to the next.
type move struct {
	cell         *Cell
	old, next    world
	categories   map[uint32]*scheduler.Category // of the jobs, in the next world
	frozen       map[*scheduler.Job]*scheduler.Job
	tasks        []movedTask
	reservations []*scheduler.Reservation
}

type movedTask struct {
	task *Task
	run  *scheduler.Running
	own  bool // it keeps the requests of its job
}

// orphans returns the instances in use that do not exist in the next world.
func (m *move) orphans() []scheduler.Orphan {
	seen := map[scheduler.InstanceID]bool{}
	var list []scheduler.Orphan
	look := func(grants []scheduler.Grant) {
		for _, g := range grants {
			settings := m.old.model.Settings(g.Instance)
			if _, ok := m.next.instance(settings.Queue, settings.Host); ok || seen[g.Instance] {
				continue
			}
			seen[g.Instance] = true
			list = append(list, scheduler.Orphan{Queue: m.old.model.QueueObject(m.old.model.QueueOf(g.Instance)), Host: settings.Host})
		}
	}
	for _, r := range m.cell.reservations.list {
		look(r.sched.Grants)
	}
	for _, j := range m.cell.Jobs() {
		for _, t := range j.tasks {
			if t.run != nil {
				look(t.run.Grants)
			}
		}
	}
	slices.SortFunc(list, compareOrphans)
	return list
}

func compareOrphans(a, b scheduler.Orphan) int {
	return cmp.Or(cmp.Compare(a.Queue.Name, b.Queue.Name), cmp.Compare(a.Host, b.Host))
}

// prepare builds the next world. It does not change jobs and tasks.
func (m *move) prepare() error {
	c := m.cell
	for _, host := range slices.Sorted(maps.Keys(c.loads)) {
		if _, ok := m.next.model.Host(host); ok {
			if err := m.next.state.SetLoad(host, c.loads[host]); err != nil {
				return err
			}
		}
	}
	for _, r := range c.reservations.list {
		if err := m.reservation(r); err != nil {
			return err
		}
	}
	var running []*Task
	for _, j := range c.Jobs() {
		if category, err := m.next.model.Category(j.requests()); err == nil {
			m.categories[j.ID()] = category
		}
		for _, t := range j.tasks {
			if t.run != nil {
				running = append(running, t)
			}
		}
	}
	slices.SortStableFunc(running, compareOrder)
	for _, t := range running {
		if err := m.task(t); err != nil {
			return fmt.Errorf("cannot change the configuration while job %d runs: %w", t.Job.ID(), err)
		}
	}
	return nil
}

// compareOrder compares tasks by the order of their starts.
func compareOrder(a, b *Task) int {
	return compareStarted(a.Started, b.Started, a.run.Job.StartOrder, b.run.Job.StartOrder)
}

func compareStarted(a, b, orderOfA, orderOfB int64) int {
	return cmp.Or(cmp.Compare(a, b), cmp.Compare(orderOfA, orderOfB))
}

// requests returns the requests with which a running task was started.
func (t *Task) requests() *scheduler.Requests {
	r := *t.run.Job.Category.Requests()
	// Jobs of a category may have different owners if no decision depends on the owner.
	r.User, r.Group, r.Project = t.Job.Owner(), t.Job.Group, t.Job.Project
	return &r
}

// task books a running task in the next world. It keeps the requests that it was started with, see
// Cell.freeze.
func (m *move) task(t *Task) error {
	x := movedTask{task: t, own: t.run.Job == &t.Job.sched && m.categories[t.Job.ID()] != nil}
	frozen, known := m.frozen[t.run.Job]
	if !known {
		frozen = new(scheduler.Job)
		*frozen = *t.run.Job
		m.frozen[t.run.Job] = frozen
		var err error
		if frozen.Category = m.categories[t.Job.ID()]; !x.own {
			frozen.Category, err = m.category(t.requests())
		}
		if err != nil {
			return err
		}
	}
	run := &scheduler.Running{Job: frozen, Task: t.run.Task, Started: t.run.Started, Limit: t.run.Limit, Urgency: t.run.Urgency}
	var err error
	if run.PE, err = m.pe(t.run.PE); err != nil {
		return err
	}
	if run.Grants, err = m.grants(t.run.Grants); err != nil {
		return err
	}
	if err := m.next.state.Start(run); err != nil {
		return err
	}
	run.Job.StartOrder = t.run.Job.StartOrder
	x.run = run
	m.tasks = append(m.tasks, x)
	return nil
}

// category returns the category for requests of a task that has its slots already. The queues that
// they name may have been removed.
func (m *move) category(r *scheduler.Requests) (*scheduler.Category, error) {
	category, err := m.next.model.Category(r)
	if err == nil {
		return category, nil
	}
	r.Queues, r.SoftQueues, r.MasterQueues = "", "", ""
	return m.next.model.Category(r)
}

func (m *move) pe(id scheduler.PEID) (scheduler.PEID, error) {
	if id == scheduler.None {
		return id, nil
	}
	name := m.old.model.PEName(id)
	next, ok := m.next.model.PE(name)
	if !ok {
		return next, fmt.Errorf("the parallel environment %q is in use", name)
	}
	return next, nil
}

func (m *move) grants(old []scheduler.Grant) ([]scheduler.Grant, error) {
	return m.next.grants(recordOfGrants(m.old.model, old))
}

// reservation books an advance reservation in the next world.
func (m *move) reservation(r *Reservation) error {
	next := &scheduler.Reservation{ID: r.ID, Start: r.Start, End: r.End, Failed: r.sched.Failed}
	var err error
	if next.Category, err = m.category(requestsOf(Caller{User: r.Owner, Group: r.Group}, r.Request)); err == nil {
		next.PE, err = m.pe(r.sched.PE)
	}
	if err == nil {
		next.Grants, err = m.grants(r.sched.Grants)
	}
	if err == nil {
		err = m.next.state.AddReservation(next)
	}
	if err != nil {
		return fmt.Errorf("cannot change the configuration while there is advance reservation %d: %w", r.ID, err)
	}
	m.reservations = append(m.reservations, next)
	return nil
}

// commit moves jobs, tasks and reservations to the next world.
func (m *move) commit() {
	c := m.cell
	c.state.SetStarts(m.old.state.Starts())
	for i, r := range c.reservations.list {
		r.sched = m.reservations[i]
	}
	for _, j := range c.Jobs() {
		m.old.state.Dequeue(&j.sched)
		if category := m.categories[j.ID()]; category != nil {
			j.sched.Category, j.Problem = category, ""
		} else {
			_, err := c.model.Category(j.requests())
			j.Problem = fmt.Sprint(err)
		}
		c.entitle(j)
		c.exclude(j)
	}
	for _, x := range m.tasks {
		s := &x.task.Job.sched
		if x.own {
			x.run.Job = s
		}
		c.touchTask(x.task)
		x.run.Job.User, x.run.Job.Project, x.run.Job.Department, x.run.Job.Leaf = s.User, s.Project, s.Department, s.Leaf
		x.task.run = x.run
		c.occupy(x.task)
		c.resuspend(x.task)
	}
	for _, r := range c.reservations.list {
		c.lookAtReservation(r)
	}
	for _, j := range c.Jobs() {
		c.refresh(j)
	}
}

// tidy removes orphaned instances that are no longer in use.
func (c *Cell) tidy() {
	if c.stale {
		c.stale = false
		// After an error they remain.
		_ = c.reconfigure(c.now, c.cluster)
	}
}
