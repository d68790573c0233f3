package cell

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Restore makes a cell of the records that Changes has returned over time, without records that
// were replaced or removed. The cell equals the original one, except that no host has reported yet
// and that there are no decisions before the next scheduling run. Its next Changes contain only new
// changes.
//
// Restore treats records that do not fit the configuration as Reconfigure would: tasks continue in
// removed queue instances, and jobs that request removed objects are pending. problems names the
// records that cannot be read or used, with the reasons. These records are not removed; their jobs
// are not in the cell, and their numbers are not assigned again.
//
// Timers that have expired meanwhile fire with the first event. It is unknown which actions reached
// the execution side, so the caller derives pending actions from the tasks: Transferring tasks may
// have to be started, Deleted tasks killed, and Suspended tasks suspended.
func Restore(now int64, cluster *qconf.Cluster, o Options, records iter.Seq2[string, []byte]) (c *Cell, problems []error) {
	r := &restoring{
		cell: New(now, cluster, o), jobs: map[uint32]*restoredJob{}, queues: map[string]string{}, users: map[string]*userRecord{},
		projects: map[string]*projectRecord{}, instances: map[string]*instanceRecord{}, hosts: map[string]*hostRecord{},
		started: map[startedKey]*scheduler.Job{},
	}
	r.requests.known = map[requestSum]*asked{}
	for key, value := range records {
		if err := r.read(key, value); err != nil {
			r.problem(key, err)
		}
	}
	c = r.cell
	c.now, c.commons, c.finishedCommons = now, newCommons(), newCommons()
	r.all()
	c.unsaved.on, c.keeping.unwritten = true, 0
	r.touchReplaced()
	return c, r.problems
}

// touchReplaced marks records that the configuration has changed, so that no number belongs to two
// users.
func (r *restoring) touchReplaced() {
	c := r.cell
	for name, i := range c.policy.users.index {
		if x := r.users[name]; x == nil || x.Number != i {
			c.touchUser(name)
		}
	}
	for name := range r.users {
		if c.policy.users.indexOf(name) == tickets.None {
			c.touchUser(name)
		}
	}
	for name, i := range c.policy.projects.index {
		if x := r.projects[name]; x == nil || x.Number != i {
			c.touchProject(name)
		}
	}
	for name := range r.projects {
		if c.policy.projects.indexOf(name) == tickets.None {
			c.touchProject(name)
		}
	}
	for name := range r.instances {
		if _, ok := c.model.Instance(splitInstance(name)); !ok {
			touch(c, &c.unsaved.instances, name)
		}
	}
	for name := range r.queues {
		touch(c, &c.unsaved.orphans, name)
	}
	for i := range c.instances {
		if id := scheduler.InstanceID(i); c.state.Status(id)&scheduler.Orphaned != 0 {
			touch(c, &c.unsaved.orphans, c.model.InstanceName(id))
		}
	}
}

// restoring is the state of one call of Restore.
type restoring struct {
	cell     *Cell
	problems []error
	requests requestPool

	counters     counterRecord
	decay        *decayRecord
	jobs         map[uint32]*restoredJob
	tasks        []*restoredTask
	ended        []*endedTask
	users        map[string]*userRecord
	projects     map[string]*projectRecord
	hosts        map[string]*hostRecord
	instances    map[string]*instanceRecord
	queues       map[string]string // texts of orphaned queues
	reservations []*restoredReservation
	started      map[startedKey]*scheduler.Job
}

type restoredJob struct {
	jobRecord
	state   bool // its record exists
	request *asked
	sum     requestSum
	script  *scriptRecord
	kept    jobSizes
	job     *Job
}

type restoredTask struct {
	taskRecord
	job, number uint32
	kept        int64
}

type endedTask struct {
	usageRecord
	job, number uint32
}

type restoredReservation struct {
	reservationRecord
	id   uint32
	kept int64
}

func (r *restoring) problem(key string, err error) {
	r.problems = append(r.problems, fmt.Errorf("record %q: %w", key, err))
}

// read processes a record.
func (r *restoring) read(key string, value []byte) error {
	prefix, rest, found := strings.Cut(key, "/")
	if found {
		prefix += "/"
	}
	switch prefix {
	case counterKey:
		return decode(value, &r.counters)
	case decayKey:
		x := &decayRecord{}
		if err := decode(value, x); err != nil {
			return err
		}
		r.decay = x
	case userPrefix:
		return readNamed(r.users, rest, value)
	case projectPrefix:
		return readNamed(r.projects, rest, value)
	case hostPrefix:
		return readNamed(r.hosts, rest, value)
	case instancePrefix:
		return readNamed(r.instances, rest, value)
	case orphanPrefix:
		x := &orphanRecord{}
		if err := decode(value, x); err != nil {
			return err
		}
		r.queues[rest] = x.Text
	default:
		return r.readNumbered(prefix, rest, value)
	}
	return nil
}

// recordOf is the constraint for pointers to a record type.
type recordOf[T any] interface {
	*T
	record
}

func readNamed[T any, R recordOf[T]](to map[string]R, name string, value []byte) error {
	x := R(new(T))
	if err := decode(value, x); err != nil {
		return err
	}
	to[name] = x
	return nil
}

// readNumbered processes a record of a job, a task or a reservation.
func (r *restoring) readNumbered(prefix, rest string, value []byte) error {
	first, second, _ := strings.Cut(rest, "/")
	id, err := parseNumber(first)
	if err != nil {
		return err
	}
	number, size := uint32(0), int64(len(value))+recordRoom
	if prefix == taskPrefix || prefix == usagePrefix {
		if number, err = parseNumber(second); err != nil {
			return err
		}
	}
	switch prefix {
	case jobPrefix:
		j := r.job(id)
		err := decode(value, &j.jobRecord)
		j.state, j.kept[0] = err == nil, size
		return err
	case requestPrefix:
		j := r.job(id)
		j.kept[1] = size
		j.request, j.sum, err = r.requests.read(value)
		return err
	case scriptPrefix:
		x := &scriptRecord{}
		if err := decode(value, x); err != nil {
			return err
		}
		j := r.job(id)
		j.script, j.kept[2] = x, size
	case taskPrefix:
		r.job(id)
		x := &restoredTask{job: id, number: number, kept: size}
		if err := decode(value, &x.taskRecord); err != nil {
			return err
		}
		r.tasks = append(r.tasks, x)
	case usagePrefix:
		x := &endedTask{job: id, number: number}
		if err := decode(value, &x.usageRecord); err != nil {
			return err
		}
		r.ended = append(r.ended, x)
	case reservationPrefix:
		r.counters.Reservation = max(r.counters.Reservation, id)
		x := &restoredReservation{id: id, kept: size}
		if err := decode(value, &x.reservationRecord); err != nil {
			return err
		}
		r.reservations = append(r.reservations, x)
	default:
		return fmt.Errorf("it is of a kind that this program does not know")
	}
	return nil
}

func parseNumber(text string) (uint32, error) {
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("its key has %q where a number is expected", text)
	}
	return uint32(n), nil
}

// job returns the object that collects the records of a job.
func (r *restoring) job(id uint32) *restoredJob {
	j := r.jobs[id]
	if j == nil {
		j = &restoredJob{}
		r.jobs[id] = j
	}
	return j
}

// all builds the cell from the collected records.
func (r *restoring) all() {
	c := r.cell
	slices.SortFunc(r.tasks, func(a, b *restoredTask) int {
		return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.number, b.number))
	})
	slices.SortFunc(r.ended, func(a, b *endedTask) int { return cmp.Or(cmp.Compare(a.job, b.job), cmp.Compare(a.number, b.number)) })
	slices.SortFunc(r.reservations, func(a, b *restoredReservation) int { return cmp.Compare(a.id, b.id) })
	r.policies()
	if orphans := r.orphans(); len(orphans) > 0 {
		c.world = c.newWorld(c.now, c.cluster, nil, orphans)
	}
	c.state.Entitlements = c.policy.Entitlements
	r.instanceStates()
	r.allReservations()
	r.allJobs()
	r.leaveDependencies()
	r.allTasks()
	r.subordinations()
	for _, x := range c.reservations.list {
		c.lookAtReservation(x)
	}
	for _, j := range c.Jobs() {
		c.exclude(j)
		for _, t := range j.tasks {
			if t.run != nil {
				t.run.Suspended = c.suspensions(t)
			}
		}
		c.refresh(j)
	}
	for _, host := range slices.Sorted(maps.Keys(r.hosts)) {
		if x := r.hosts[host]; x.GivenUp != 0 {
			c.giveUpAt(host, x.GivenUp)
		} else {
			c.wasUp[host] = x.Up
		}
	}
}

// policies restores users and projects with their usage, under their numbers.
func (r *restoring) policies() {
	c := r.cell
	old := newEntitlements()
	for _, name := range slices.Sorted(maps.Keys(r.projects)) {
		x := r.projects[name]
		i := old.projects.put(name, x.Number, sparse(len(r.projects)))
		old.Projects, old.Ledger.Projects = grown(old.Projects, i), grown(old.Ledger.Projects, i)
		old.Ledger.Projects[i] = tickets.StampedUsage{Usage: x.Usage.usage(), Stamp: x.Stamp}
	}
	for _, name := range slices.Sorted(maps.Keys(r.users)) {
		x := r.users[name]
		i := old.users.put(name, x.Number, sparse(len(r.users)))
		old.Users, old.Ledger.Users = grown(old.Users, i), grown(old.Ledger.Users, i)
		old.Ledger.Users[i] = old.usageOf(x)
		if !x.Automatic {
			continue
		}
		old.automatic[name] = expiry{}
		old.Users[i] = tickets.Entity{FunctionalShares: float64(x.Shares), OverrideTickets: float64(x.Override)}
		if x.Expires != 0 {
			old.automatic[name] = expiry{at: x.Expires, due: x.Due}
			c.timers.add(timer{at: x.Due, kind: userExpires, name: name})
		}
	}
	if r.decay != nil {
		h := halftimes{hours: float64(r.decay.Hours)}
		for _, e := range r.decay.Exceptions {
			if t, ok := usageTypes[e.Usage]; ok {
				h.exceptions = append(h.exceptions, tickets.HalfLife{Type: t, Minutes: float64(e.Minutes)})
			}
		}
		old.setHalftimes(h)
	}
	c.policy = old.renew(c.cluster)
}

// sparse returns the largest allowed number for so many names, because names are removed over time.
func sparse(names int) int { return 4*names + 1024 }

func (e *entitlements) usageOf(x *userRecord) tickets.UserUsage {
	u := tickets.UserUsage{Usage: x.Usage.usage(), Stamp: x.Stamp}
	for _, p := range x.ByProject {
		if i := e.projects.indexOf(p.Project); i != tickets.None {
			u.ByProject = append(u.ByProject, tickets.ProjectUsage{Project: i, Usage: p.usage()})
		}
	}
	slices.SortFunc(u.ByProject, func(a, b tickets.ProjectUsage) int { return cmp.Compare(a.Project, b.Project) })
	return u
}

// instanceStates restores the states of existing queue instances.
func (r *restoring) instanceStates() {
	c := r.cell
	for name, x := range r.instances {
		id, ok := c.model.Instance(splitInstance(name))
		if !ok {
			continue
		}
		status := c.state.Status(id) &^ keptStatus
		for _, s := range []struct {
			on  bool
			bit scheduler.Status
		}{{x.Disabled, scheduler.DisabledByUser}, {x.Suspended, scheduler.SuspendedByUser}, {x.Failed, scheduler.Failed}} {
			if s.on {
				status |= s.bit
			}
		}
		c.state.SetStatus(id, status)
		c.instances[id].errors, c.instances[id].checked = x.Errors, x.Checked
		c.state.ThresholdChecked(id, x.Checked)
	}
}
