package admission

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// Book holds the configuration, the load and the booked jobs of a host. Make one with New.
type Book struct {
	mu sync.Mutex
	world
	load     map[string]string // nil until it is known
	topology topologyText
	jobs     map[job.ID]*entry
}

// topologyText holds the cores of the host, in the form of m_topology and m_topology_inuse.
type topologyText struct{ all, inUse string }

// entry is a job that is booked.
type entry struct {
	Booking
	run *scheduler.Running
	// incomplete is set if the configuration lacks an object that the job uses.
	incomplete bool
}

// world is a configuration with the usage under it.
type world struct {
	host    string // its name in the configuration
	cluster *qconf.Cluster
	model   *scheduler.Model
	state   *scheduler.State
}

// New returns the book of a host without jobs. problems lists the contradictions of the
// configuration; the objects concerned are not used. If the configuration names no host at all,
// each queue is on this host.
//
// Before the first SetLoad, no job is admitted.
func New(cluster *qconf.Cluster, host string) (b *Book, problems []error) {
	b = &Book{jobs: map[job.ID]*entry{}}
	b.world, problems = newWorld(cluster, host, nil)
	return b, problems
}

func newWorld(cluster *qconf.Cluster, host string, orphans []scheduler.Orphan) (world, []error) {
	places := slices.Clone(orphans)
	if namesNoHost(cluster) {
		for _, name := range cluster.QueueNames() {
			if q, err := cluster.Queue(name); err == nil {
				places = append(places, scheduler.Orphan{Queue: q, Host: host})
			}
		}
	}
	w := world{cluster: cluster}
	var problems []error
	w.model, problems = scheduler.NewModel(cluster, scheduler.Options{Only: host, Orphans: places})
	w.state = scheduler.NewState(w.model)
	w.host = nameIn(w.model, host)
	return w, problems
}

// nameIn returns the name that a configuration uses for a host, with or without a domain.
func nameIn(m *scheduler.Model, host string) string {
	if id, ok := m.Host(host); ok {
		return m.HostName(id)
	}
	for id := range m.Hosts() {
		if name := m.HostName(scheduler.HostID(id)); qconf.SameHost(name, host) {
			return name
		}
	}
	return host
}

// namesNoHost reports whether a configuration names no host, and so applies to any host.
func namesNoHost(c *qconf.Cluster) bool {
	if len(c.HostNames()) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.QueueNames(), func(name string) bool {
		q, err := c.Queue(name)
		return err == nil && len(c.HostGroups().Resolve(q.Hosts)) > 0
	})
}

// Admit checks whether a job could start now with the resources of its booking, and changes
// nothing. The error is a *RefusedError if the job does not fit; any other error means that the
// booking is invalid.
func (b *Book) Admit(x *Booking, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, err := b.admit(x, now)
	return err
}

func (b *Book) admit(x *Booking, now time.Time) (*scheduler.Running, error) {
	if err := x.check(); err != nil {
		return nil, err
	}
	if b.jobs[x.ID] != nil {
		return nil, fmt.Errorf("cannot place job %s: this host has it already", x.ID)
	}
	if b.load == nil {
		return nil, refused("the load of host %q is not known yet", b.host)
	}
	c, pe, err := b.resolve(x)
	if err != nil {
		return nil, err
	}
	r, err := b.running(x, c, pe)
	if err != nil {
		return nil, err
	}
	reasons, err := b.state.Admit(r, now.Unix())
	if err != nil {
		return nil, fmt.Errorf("cannot place job %s: %w", x.ID, err)
	}
	if len(reasons) > 0 {
		e := &RefusedError{}
		for i := range reasons {
			e.Reasons = append(e.Reasons, reasons[i].Text())
		}
		return nil, e
	}
	return r, nil
}

// Take does Admit and Start in one step: it books an admitted job before another job can take its
// place. It sets Started of the booking to now if it is zero.
func (b *Book) Take(x *Booking, now time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if x.Started.IsZero() {
		x.Started = now
	}
	r, err := b.admit(x, now)
	if err != nil {
		return err
	}
	if err := b.state.Start(r); err != nil {
		return &RefusedError{Reasons: []string{err.Error()}}
	}
	b.jobs[x.ID] = &entry{Booking: *x, run: r}
	return nil
}

// Start books a running job, for example after a restart, even if it would not be admitted. A queue
// instance that is no longer in the configuration exists as an orphaned one while it is in use. If
// a complex or a parallel environment of the job was removed, Start does not count it, books the
// job nevertheless, and returns a *RefusedError that says so. After any other error the job is not
// booked.
func (b *Book) Start(x *Booking) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := x.check(); err != nil {
		return err
	}
	if b.jobs[x.ID] != nil {
		return fmt.Errorf("cannot book job %s: it is booked already", x.ID)
	}
	e := &entry{Booking: *x}
	if slices.ContainsFunc(x.Grants, func(g Grant) bool { _, ok := b.model.Instance(g.Queue, b.host); return !ok }) {
		b.jobs[x.ID] = e
		e.incomplete = true
		if _, err := b.rebuild(b.cluster); err != nil {
			delete(b.jobs, x.ID)
			return err
		}
		_, _, missing := b.resolveRunning(x)
		return missing
	}
	missing, err := b.enter(e)
	if err != nil {
		return err
	}
	b.jobs[x.ID] = e
	return missing
}

// enter books a job in a world. missing names the objects of the job that were removed from the
// configuration.
func (w *world) enter(e *entry) (missing, err error) {
	c, pe, missing := w.resolveRunning(&e.Booking)
	if c == nil {
		return nil, missing
	}
	r, err := w.running(&e.Booking, c, pe)
	switch {
	case r == nil:
		return nil, err
	case err != nil:
		missing = errors.Join(missing, err)
	}
	if err := w.state.Start(r); err != nil {
		return nil, fmt.Errorf("cannot book job %s: %w", e.ID, err)
	}
	e.run = r
	e.incomplete = missing != nil
	return missing, nil
}

// End removes the booking of a job. It returns false if the job is not booked.
func (b *Book) End(id job.ID) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.jobs[id]
	if e == nil {
		return false
	}
	delete(b.jobs, id)
	if err := b.state.End(e.run); err != nil {
		// Normally the booking can be subtracted; otherwise all bookings are counted again.
		_, _ = b.rebuild(b.cluster)
	}
	return true
}

// SetLoad replaces the load values of the host, by the names of their complexes (sge_execd(8)).
// Values that cannot be read count as not reported; problems lists them. m_topology_inuse is
// ignored, because it includes the cores of booked jobs, see SetTopology.
func (b *Book) SetLoad(values map[string]string) (problems []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.load = maps.Clone(values)
	if b.load == nil {
		b.load = map[string]string{}
	}
	return b.reportLoad(&b.world)
}

// SetTopology sets the cores of the host (m_topology) and, in lower case in inUse, the cores used
// by others than booked jobs. inUse may be empty.
func (b *Book) SetTopology(all, inUse string) (problems []error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	former := b.topology
	b.topology = topologyText{all, inUse}
	if b.load == nil || b.topology == former {
		return nil
	}
	return b.reportLoad(&b.world)
}

func (b *Book) reportLoad(w *world) (problems []error) {
	values := maps.Clone(b.load)
	delete(values, "m_topology_inuse")
	if b.topology.all != "" {
		values["m_topology"] = b.topology.all
		values["m_topology_inuse"] = cmp.Or(b.topology.inUse, b.topology.all)
	}
	id, ok := w.model.Host(w.host)
	if !ok {
		return nil // nothing of the configuration is about this host
	}
	if err := w.state.SetLoad(w.host, values); err != nil {
		return []error{err}
	}
	return w.state.Problems(id)
}

// Usage returns the number of slots of all queue instances of the host, and the number of used
// ones. Free slots of orphaned instances do not count.
func (b *Book) Usage() (slots, used int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	host, ok := b.model.Host(b.host)
	if !ok {
		return 0, 0
	}
	for _, id := range b.model.InstancesOn(host) {
		n := b.state.UsedSlots(id)
		used += n
		if b.state.Status(id)&scheduler.Orphaned != 0 {
			slots += n
		} else {
			slots += b.model.Settings(id).Slots
		}
	}
	return slots, used
}

// Reconfigure replaces the configuration and keeps all bookings. A removed queue instance stays,
// orphaned, until it is empty and the configuration is replaced again. If a running job needs a
// parallel environment or a complex that was removed, Reconfigure returns an error and changes
// nothing.
func (b *Book) Reconfigure(cluster *qconf.Cluster) (problems []error, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.rebuild(cluster)
}

// rebuild makes a new world and books all jobs in it.
func (b *Book) rebuild(cluster *qconf.Cluster) (problems []error, err error) {
	next, problems := newWorld(cluster, b.host, nil)
	if orphans := b.orphans(&next); len(orphans) > 0 {
		next, problems = newWorld(cluster, b.host, orphans)
		for _, o := range orphans {
			if id, ok := next.model.Instance(o.Queue.Name, b.host); ok {
				next.state.SetStatus(id, scheduler.Orphaned)
			}
		}
	}
	if b.load != nil {
		b.reportLoad(&next)
	}
	entries := make(map[job.ID]*entry, len(b.jobs))
	for _, id := range b.ids() {
		e := *b.jobs[id]
		missing, err := next.enter(&e)
		if err == nil && !b.jobs[id].incomplete {
			err = missing
		}
		if err != nil {
			return nil, fmt.Errorf("cannot change the configuration while job %s runs: %w", id, err)
		}
		entries[id] = &e
	}
	b.world, b.jobs = next, entries
	return problems, nil
}

// ids returns the IDs of the booked jobs, sorted.
func (b *Book) ids() []job.ID {
	return slices.SortedFunc(maps.Keys(b.jobs), func(x, y job.ID) int {
		return cmp.Or(cmp.Compare(x.Job, y.Job), cmp.Compare(x.Task, y.Task), cmp.Compare(x.PETask, y.PETask))
	})
}

// orphans returns the queue instances that are in use and that the next world does not have.
func (b *Book) orphans(next *world) (list []scheduler.Orphan) {
	slots := map[string]int{}
	for _, e := range b.jobs {
		for _, g := range e.Grants {
			if _, ok := next.model.Instance(g.Queue, b.host); !ok {
				slots[g.Queue] += g.Slots
			}
		}
	}
	for _, queue := range slices.Sorted(maps.Keys(slots)) {
		o := scheduler.Orphan{Host: b.host}
		if id, ok := b.model.Instance(queue, b.host); ok {
			o.Queue = b.model.QueueObject(b.model.QueueOf(id))
		} else if q, err := qconf.ParseQueue("", fmt.Appendf(nil, "qname %s\nslots %d\n", queue, slots[queue])); err == nil {
			o.Queue = q
		} else {
			continue // no queue can have such a name
		}
		list = append(list, o)
	}
	return list
}
