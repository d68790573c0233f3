package cell

import (
	"slices"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
)

// QueueOperation is an operation of qmod(1) on queue instances.
type QueueOperation uint8

// The operations.
const (
	DisableQueue    QueueOperation = iota // -d
	EnableQueue                           // -e
	SuspendQueue                          // -s, -sq
	UnsuspendQueue                        // -us, -usq
	ClearQueueError                       // -c, -cq
	RescheduleQueue                       // -rq
)

// ModifyQueues executes qmod(1) for queue instances. References have the form of -q in qsub(1).
// With force it also reschedules jobs that are not rerunnable.
func (c *Cell) ModifyQueues(now int64, by Caller, op QueueOperation, references []string, force bool) *Answer {
	c.tick(now)
	a := &Answer{}
	for _, text := range references {
		ids := c.matchInstances(text)
		if len(ids) == 0 {
			a.deny(Event{Kind: NoSuchQueue, Name: text})
		}
		for _, id := range ids {
			c.modifyQueue(by, op, id, force, a)
		}
	}
	return c.done(a)
}

// matchInstances returns the queue instances that match a wc_queue of sge_types(5).
func (c *Cell) matchInstances(text string) []scheduler.InstanceID {
	r, err := expression.CompileQueueReference(c.options.Hosts, text)
	if err != nil {
		return nil
	}
	var ids []scheduler.InstanceID
	var names []string
	for q := range c.model.Queues() {
		names = append(names, c.model.QueueName(scheduler.QueueID(q)))
	}
	slices.Sort(names)
	for _, name := range c.InListOrder(names) {
		queue, ok := c.model.Queue(name)
		if !ok {
			continue
		}
		for _, id := range c.model.InstancesOf(queue) {
			if r.Match(c.model.QueueName(queue), c.model.HostName(c.model.HostOf(id)), c.hostGroups) {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// hostGroups returns the host groups that contain a host, for references.
func (c *Cell) hostGroups(host string) []string {
	groups := c.cluster.HostGroups()
	return slices.DeleteFunc(groups.Names(), func(g string) bool { return !groups.Contains(g, host) })
}

// mayModify reports whether a user may change the state of a queue. Its owners may (queue_conf(5),
// owner_list); only managers may reschedule all its jobs (qmod(1), -rq).
func (c *Cell) mayModify(by Caller, op QueueOperation, id scheduler.InstanceID) bool {
	if op == RescheduleQueue {
		return c.isManager(by.User)
	}
	return c.isOperator(by.User) || slices.Contains(c.model.Settings(id).OwnerList, by.User)
}

// queueChange maps operations to changes of an instance's status.
var queueChange = map[QueueOperation]struct{ set, clear scheduler.Status }{
	DisableQueue:    {set: scheduler.DisabledByUser},
	EnableQueue:     {clear: scheduler.DisabledByUser},
	SuspendQueue:    {set: scheduler.SuspendedByUser},
	UnsuspendQueue:  {clear: scheduler.SuspendedByUser},
	ClearQueueError: {clear: scheduler.Failed},
}

func (c *Cell) modifyQueue(by Caller, op QueueOperation, id scheduler.InstanceID, force bool, a *Answer) {
	name := c.model.InstanceName(id)
	if !c.mayModify(by, op, id) {
		kind := MayNotModifyQueue
		if op == RescheduleQueue && c.mayModify(by, DisableQueue, id) {
			kind = MayNotReschedule
		}
		a.deny(Event{Kind: kind, User: by.User, Name: name})
		return
	}
	if op == RescheduleQueue {
		for _, t := range slices.Clone(c.instances[id].tasks) {
			c.rescheduleByHand(t, force, a)
		}
		return
	}
	change := queueChange[op]
	before := c.state.Status(id)
	after := before&^change.clear | change.set
	if after == before && !force {
		a.deny(Event{Kind: QueueUnchanged, Name: name, Operation: op})
		return
	}
	if (change.set|change.clear)&scheduler.SuspendedByUser != 0 && before&scheduler.SuspendedByCalendar != 0 && !force {
		return // without a message (tested)
	}
	if op == ClearQueueError {
		c.instances[id].errors = nil
		c.touchInstance(id)
		after |= failedBy(c.ErrorsOf(id))
	}
	c.setStatus(id, after)
	a.say(Event{Kind: QueueChanged, User: by.User, Host: by.Host, Name: name, Operation: op, Force: force})
}
