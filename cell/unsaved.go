package cell

import (
	"maps"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// Change is a record to be stored, or, with a nil Value, a record to be removed. Keys sort as
// strings; values are JSON.
type Change struct {
	Key   string
	Value []byte
	// Script is a text that the record refers to by its ScriptSum, for Options.SeparateScripts; nil
	// if it was returned before. The caller must store it before the record, and keep it as long as
	// a record refers to it (ScriptOf).
	Script []byte
}

// Changes returns the records that have changed since the last call, sorted by key. Its cost
// depends on the number of changes, not on the size of the cell. The first call returns all
// records; before it the cell does not track changes.
//
// A record that the caller could not store is not returned again: the caller keeps it, and stores
// the records of the next call after it.
//
// Some things are not stored: load values, which hosts report again; decisions; and pending actions, which
// follow from the states of tasks.
func (c *Cell) Changes() []Change {
	if !c.unsaved.on {
		c.unsaved.on = true
		c.touchAll()
	}
	u := c.unsaved
	c.unsaved = unsaved{on: true}
	var list changes
	if u.counters {
		list.put(counterKey, c.counterRecord())
	}
	if u.decay && c.policy.decay != nil {
		list.put(decayKey, c.decayRecord())
	}
	for _, j := range u.jobs {
		c.jobChanges(j, &list)
	}
	for _, t := range u.tasks {
		c.taskChanges(t, &list)
	}
	for name := range u.users {
		list.put(userKey(name), c.userRecord(name))
	}
	for name := range u.projects {
		list.put(projectKey(name), c.projectRecord(name))
	}
	for name := range u.hosts {
		list.put(hostKey(name), c.hostRecord(name))
	}
	for name := range u.instances {
		list.put(instanceKey(name), c.instanceRecord(name))
	}
	for name := range u.orphans {
		list.put(orphanKey(name), c.orphanRecord(name))
	}
	for id := range u.reservations {
		c.reservationChange(id, &list)
	}
	c.keeping.unwritten = 0
	slices.SortFunc(list, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// changes is a list under construction.
type changes []Change

// put adds a record with a key. If r is nil, the record with this key is removed.
func (l *changes) put(key string, r record) {
	if r == nil {
		*l = append(*l, Change{Key: key})
		return
	}
	l.putEncoded(key, encode(r))
}

func (l *changes) putEncoded(key string, value []byte) {
	*l = append(*l, Change{Key: key, Value: value})
}

// unsaved is the set of changes since the last call of Changes.
type unsaved struct {
	on              bool // nothing is tracked before the first call
	counters, decay bool
	jobs            []*Job
	tasks           []*Task
	users, projects map[string]bool
	hosts           map[string]bool
	instances       map[string]bool // queue@host
	orphans         map[string]bool // queue@host
	reservations    map[uint32]bool
}

// jobParts is a set of records of a job.
type jobParts uint8

const (
	jobState   jobParts = 1 << iota
	jobRequest          // changes with qalter(1) only
	jobScript           // never changes
	allParts   = jobState | jobRequest | jobScript
)

// touchJob marks a job as changed, added or removed.
func (c *Cell) touchJob(j *Job, parts jobParts) {
	if !c.unsaved.on {
		return
	}
	if j.unsaved == 0 {
		c.unsaved.jobs = append(c.unsaved.jobs, j)
	}
	j.unsaved |= parts
}

// touchTask marks a task as changed, added or removed.
func (c *Cell) touchTask(t *Task) {
	if c.unsaved.on && !t.unsaved {
		t.unsaved = true
		c.unsaved.tasks = append(c.unsaved.tasks, t)
	}
}

func (c *Cell) touchCounters() { c.unsaved.counters = c.unsaved.on }

func touch[K comparable](c *Cell, set *map[K]bool, key K) {
	if !c.unsaved.on {
		return
	}
	if *set == nil {
		*set = map[K]bool{}
	}
	(*set)[key] = true
}

func (c *Cell) touchUser(name string)    { touch(c, &c.unsaved.users, name) }
func (c *Cell) touchProject(name string) { touch(c, &c.unsaved.projects, name) }
func (c *Cell) touchReservation(id uint32) {
	touch(c, &c.unsaved.reservations, id)
}

func (c *Cell) touchHost(name string) {
	if name != qconf.GlobalHost { // always exists
		touch(c, &c.unsaved.hosts, name)
	}
}

func (c *Cell) touchInstance(id scheduler.InstanceID) {
	if c.unsaved.on {
		touch(c, &c.unsaved.instances, c.model.InstanceName(id))
	}
}

// touchAll marks everything as changed.
func (c *Cell) touchAll() {
	c.touchCounters()
	c.unsaved.decay = true
	for _, j := range c.Jobs() {
		c.touchJob(j, allParts)
		for _, t := range j.tasks {
			c.touchTask(t)
		}
	}
	for _, t := range c.unbooked {
		c.touchTask(t)
	}
	c.touchConfiguration(nil)
	for name := range c.loads {
		c.touchHost(name)
	}
	for name := range c.wasUp {
		c.touchHost(name)
	}
	for name := range c.lost {
		c.touchHost(name)
	}
	for _, r := range c.reservations.list {
		c.touchReservation(r.ID)
	}
}

// touchConfiguration marks the objects that a change of the configuration adds or removes. old is
// the previous configuration.
func (c *Cell) touchConfiguration(old *world) {
	if !c.unsaved.on {
		return
	}
	c.touchLedger()
	for _, w := range []*world{old, &c.world} {
		if w == nil {
			continue
		}
		for i := range w.instances {
			id := scheduler.InstanceID(i)
			touch(c, &c.unsaved.instances, w.model.InstanceName(id))
			if w.state.Status(id)&scheduler.Orphaned != 0 {
				touch(c, &c.unsaved.orphans, w.model.InstanceName(id))
			}
		}
	}
}

// touchLedger marks all users and projects as changed.
func (c *Cell) touchLedger() {
	for name := range maps.Keys(c.policy.users.index) {
		c.touchUser(name)
	}
	for name := range maps.Keys(c.policy.projects.index) {
		c.touchProject(name)
	}
}
