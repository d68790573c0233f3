package cell

import (
	"errors"
	"fmt"
	"slices"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// grants returns the grants of records. It drops the parts that belong to removed complexes.
func (w *world) grants(list []grantRecord) ([]scheduler.Grant, error) {
	grants := make([]scheduler.Grant, 0, len(list))
	for _, r := range list {
		id, ok := w.instance(r.Queue, r.Host)
		if !ok {
			return nil, fmt.Errorf("the queue instance \"%s@%s\" is in use", r.Queue, r.Host)
		}
		if r.Slots < 1 {
			return nil, fmt.Errorf("%d slots of \"%s@%s\"", r.Slots, r.Queue, r.Host)
		}
		g := scheduler.Grant{Instance: id, Slots: r.Slots}
		for _, element := range r.Elements {
			a, ok := w.model.Attribute(element.Complex)
			if !ok {
				continue
			}
			at := scheduler.AtHost(w.model.HostOf(id))
			switch element.Layer {
			case layerGlobal:
				at = scheduler.AtGlobal()
			case layerQueue:
				at = scheduler.AtInstance(id)
			}
			g.Elements = append(g.Elements, scheduler.MapElements{Attribute: a, At: at, IDs: element.IDs})
		}
		for _, core := range r.Cores {
			g.Cores = append(g.Cores, topology.Pair{Socket: core[0], Core: core[1]})
		}
		grants = append(grants, g)
	}
	return grants, nil
}

// orphans returns the queue instances of records that the configuration lacks. An orphan has the
// settings of its queue or, if the queue was removed while the cell ran, the queue's previous
// settings.
func (r *restoring) orphans() []scheduler.Orphan {
	var list []scheduler.Orphan
	seen := map[string]bool{}
	look := func(grants []grantRecord) {
		for _, g := range grants {
			name := g.Queue + "@" + g.Host
			if _, ok := r.cell.instance(g.Queue, g.Host); ok || seen[name] {
				continue
			}
			seen[name] = true
			queue, err := r.cell.cluster.Queue(g.Queue)
			if text, ok := r.queues[name]; ok {
				queue, err = qconf.ParseQueue(orphanKey(name), []byte(text))
			}
			if err != nil {
				queue, err = qconf.ParseQueue(orphanKey(name), []byte("qname "+g.Queue+"\nhostlist NONE\nslots 0\n"))
			}
			if err != nil {
				r.problem(orphanKey(name), err)
				continue
			}
			list = append(list, scheduler.Orphan{Queue: queue, Host: g.Host})
		}
	}
	for _, x := range r.reservations {
		look(x.Grants)
	}
	for _, t := range r.tasks {
		if t.Run != nil {
			look(t.Run.Grants)
		}
	}
	slices.SortFunc(list, compareOrphans)
	return list
}

// run restores a running task. It gives no order to the execution side.
func (r *restoring) run(t *Task, x *runRecord) error {
	c := r.cell
	grants, err := c.grants(x.Grants)
	if err != nil {
		return err
	}
	if len(grants) == 0 {
		return errors.New("it has no grants")
	}
	run := &scheduler.Running{Task: t.Number, Started: x.Started, Grants: grants, Limit: x.Limit, Urgency: float64(x.Urgency)}
	if err := r.book(run, t, x); err != nil {
		return err
	}
	t.run, t.Started, t.Phase = run, x.Started, Running
	if x.Transferring {
		t.Phase = Transferring
	}
	t.byUser = slices.Contains(x.Suspended, suspendedByUser)
	t.byThreshold = slices.Contains(x.Suspended, suspendedByThreshold)
	t.slotwise = slices.Contains(x.Suspended, suspendedSlotwise)
	t.resumed = slices.Contains(x.Suspended, resumed)
	t.Job.sched.Active++
	c.occupy(t)
	return nil
}

// lessAndLess removes requests for removed objects, step by step.
var lessAndLess = []func(*scheduler.Requests){
	func(*scheduler.Requests) {},
	func(q *scheduler.Requests) { q.Queues, q.SoftQueues, q.MasterQueues = "", "", "" },
	func(q *scheduler.Requests) { q.PE, q.Slots = "", rangelist.List{} },
	func(q *scheduler.Requests) { q.Hard, q.Soft, q.Reservation = nil, nil, 0 },
}

// book books a running task. If the cell cannot book all its resources, that is a problem, but the
// task continues. Removed queues are not a problem, as with Reconfigure.
func (r *restoring) book(run *scheduler.Running, t *Task, x *runRecord) error {
	requests, order := t.Job.requests(), t.Job.sched.StartOrder
	if x.Frozen != nil {
		var err error
		if requests, err = requestsOfRecord(x.Frozen.Requests, t.Job); err != nil {
			return err
		}
		order = x.Frozen.Started
	}
	var first error
	for i, without := range lessAndLess {
		without(requests)
		err := r.bookAs(run, t, x, requests)
		if err == nil {
			run.Job.StartOrder = order
			if i > 1 {
				r.problem(taskKey(taskPrefix, t.Job.ID(), t.Number), fmt.Errorf("cannot book all resources of a task: %w", first))
			}
			return nil
		}
		if first == nil || i == 1 {
			first = err
		}
	}
	return first
}

func (r *restoring) bookAs(run *scheduler.Running, t *Task, x *runRecord, requests *scheduler.Requests) error {
	category, err := r.cell.model.Category(requests)
	if err != nil {
		return err
	}
	run.PE = scheduler.None
	if x.PE != "" && requests.PE != "" {
		pe, ok := r.cell.model.PE(x.PE)
		if !ok {
			return fmt.Errorf("the parallel environment %q is in use", x.PE)
		}
		run.PE = pe
	}
	run.Job = r.startedAs(t.Job, x.Frozen, category)
	return r.cell.state.Start(run)
}

// startedAs returns the job that a task was started as: its job, or the job before it was altered.
func (r *restoring) startedAs(j *Job, frozen *frozenRecord, category *scheduler.Category) *scheduler.Job {
	if frozen == nil && category == j.sched.Category {
		return &j.sched
	}
	key := startedKey{j.ID(), "", category}
	if frozen != nil {
		key.frozen = string(encode(&frozenJobRecord{Frozen: frozen}))
	}
	if s := r.started[key]; s != nil { // tasks with equal start values share them
		return s
	}
	s := new(scheduler.Job)
	*s = j.sched
	s.Category = category
	if frozen != nil {
		s.Deadline, s.Changed, s.Priority, s.Reserve, s.TaskLimit = frozen.Deadline, frozen.Changed, frozen.Priority, frozen.Reserve, frozen.TaskLimit
		s.Shares, s.Override = float64(frozen.Shares), float64(frozen.Override)
	}
	r.started[key] = s
	return s
}

// startedKey distinguishes the starts of a job's tasks.
type startedKey struct {
	job      uint32
	frozen   string
	category *scheduler.Category
}

type frozenJobRecord struct {
	recordHeader
	Frozen *frozenRecord `json:"frozen"`
}
