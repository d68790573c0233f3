package cell

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
)

// The conversion of the cell's state to records.

func (c *Cell) counterRecord() record {
	return &counterRecord{Job: c.lastJob, Reservation: c.reservations.last, Changes: c.changes, Starts: c.state.Starts()}
}

func (c *Cell) decayRecord() record {
	r := &decayRecord{Hours: number(c.policy.halftimes.hours)}
	for _, e := range c.policy.halftimes.exceptions {
		r.Exceptions = append(r.Exceptions, halfLifeRecord{Usage: usageName(e.Type), Minutes: number(e.Minutes)})
	}
	return r
}

// usageName returns the configuration's name of a type of usage.
func usageName(t tickets.UsageType) string {
	for name, other := range usageTypes {
		if other == t {
			return name
		}
	}
	return ""
}

// jobChanges appends the changes of a job. A removed job removes all its records.
func (c *Cell) jobChanges(j *Job, list *changes) {
	parts := j.unsaved
	j.unsaved = 0
	id := j.ID()
	records := []struct {
		part   jobParts
		prefix string
		make   func(*Job) []byte
	}{{jobState, jobPrefix, c.jobRecord}, {jobRequest, requestPrefix, encodedRequest}, {jobScript, scriptPrefix, scriptRecordOf}}
	there := c.jobs[id] == j
	if !there {
		c.uncountScriptFile(j)
	}
	for i, r := range records {
		if !there {
			c.keep(j.Owner(), &j.kept[i], 0)
		}
		switch {
		case there && parts&r.part != 0 && (r.part != jobScript || j.scriptFile != nil || j.script() != nil):
			j.saved |= r.part
			value := r.make(j)
			c.keep(j.Owner(), &j.kept[i], int64(len(value))+recordRoom)
			list.putEncoded(jobKey(r.prefix, id), value)
			if r.part == jobScript && j.scriptFile != nil {
				(*list)[len(*list)-1].Script, j.scriptFile.text = j.scriptFile.text, nil
			}
		case !there && j.saved&r.part != 0:
			j.saved &^= r.part
			list.put(jobKey(r.prefix, id), nil)
		}
	}
}

func (c *Cell) jobRecord(j *Job) []byte {
	return encode(&jobRecord{
		Owner: j.Owner(), Group: j.Group, Host: j.Host, Submission: j.Submission, Project: j.Project, Submitted: j.Submitted(), Start: j.Start, Deadline: j.Deadline(),
		Holds: holdLetters(j.Holds), Waiting: rangesRecord(j.Waiting), Alteration: j.Version, Override: number(j.sched.Override),
		Changed: j.sched.Changed, Started: j.sched.StartOrder, Immediate: slices.Contains(c.immediate, j),
		Ran: j.ran, Ending: (*endingRecord)(j.ending), Predecessors: j.predecessors.jobs, TaskPredecessors: j.predecessors.tasks,
	})
}

// encodedRequest returns the record of a job's request.
func encodedRequest(j *Job) []byte {
	if value := j.encoded; value != nil {
		j.encoded = nil
		return value
	}
	return encode(requestRecordOf(j))
}

func requestRecordOf(j *Job) record {
	fields := requestFields(*j.Request())
	return &requestRecord{Request: &fields, Origin: (*originRecord)(j.Origin)}
}

func scriptRecordOf(j *Job) []byte {
	if b := j.scriptFile; b != nil {
		return encode(&scriptRecord{Sum: b.sum, Size: b.size})
	}
	return encode(&scriptRecord{Text: string(j.script())})
}

// taskChanges appends the changes of a task. The usage of a finished task stays until the next
// scheduling run.
func (c *Cell) taskChanges(t *Task, list *changes) {
	t.unsaved = false
	id, saved := t.Job.ID(), t.saved
	there := c.jobs[id] == t.Job && t.Job.task(t.Number) == t
	ended := !there && t.dirty
	t.saved = savedTask{state: there, usage: ended}
	if !there {
		c.keep(t.Job.Owner(), &t.kept, 0)
	}
	switch {
	case there:
		value := encode(c.taskRecord(t))
		c.keep(t.Job.Owner(), &t.kept, int64(len(value))+recordRoom)
		list.putEncoded(taskKey(taskPrefix, id, t.Number), value)
	case saved.state:
		list.put(taskKey(taskPrefix, id, t.Number), nil)
	}
	switch {
	case ended:
		list.put(taskKey(usagePrefix, id, t.Number), usageRecordOf(t))
	case saved.usage:
		list.put(taskKey(usagePrefix, id, t.Number), nil)
	}
}

// savedTask says which records of a task were returned.
type savedTask struct{ state, usage bool }

func usageRecordOf(t *Task) record {
	return &usageRecord{User: t.Job.Owner(), Project: t.Job.Project, Used: amountsOf(t.Used), Booked: amountsOf(t.booked)}
}

func (c *Cell) taskRecord(t *Task) record {
	r := &taskRecord{
		Holds: holdLetters(t.Holds), Error: t.Error, Message: t.Message, Deleted: t.Deleted, DeletedBy: t.DeletedBy, Restarts: t.Restarts, Refusals: t.Refusals,
		Priority: number(t.Priority), Normalized: number(t.NormalizedTickets),
		Used: amountsOf(t.Used), Booked: amountsOf(t.booked), Reported: t.dirty,
	}
	if k := t.Tickets; k != (tickets.Tickets{}) {
		r.Tickets = &ticketsRecord{
			Share: number(k.Share), Functional: number(k.Functional), Override: number(k.Override), Total: number(k.Total), Portion: number(k.Portion),
		}
	}
	for _, u := range t.unclean {
		r.Unclean = append(r.Unclean, uncleanRecord{Attempt: u.attempt, Host: u.host})
	}
	if t.comeback != (backoff{}) {
		back := t.comeback.record()
		r.Back = &back
	}
	if f := t.refused; f != nil {
		r.Refused = &refusedRecord{backoffRecord: f.record(), Host: f.host, Reason: f.reason}
	}
	if t.run != nil {
		r.Run = c.runRecord(t)
	}
	return r
}

func (c *Cell) runRecord(t *Task) *runRecord {
	r := &runRecord{
		Transferring: t.Phase == Transferring, Started: t.Started, Grants: recordOfGrants(c.model, t.run.Grants),
		Limit: t.run.Limit, Urgency: number(t.run.Urgency),
	}
	if t.run.PE != scheduler.None {
		r.PE = c.model.PEName(t.run.PE)
	}
	for _, why := range []struct {
		name string
		on   bool
	}{{suspendedByUser, t.byUser}, {suspendedByThreshold, t.byThreshold}, {suspendedSlotwise, t.slotwise}, {resumed, t.resumed}} {
		if why.on {
			r.Suspended = append(r.Suspended, why.name)
		}
	}
	if s := t.run.Job; s != &t.Job.sched {
		r.Frozen = &frozenRecord{
			Requests: recordOfRequests(s.Category.Requests()), Deadline: s.Deadline, Changed: s.Changed, Started: s.StartOrder,
			Priority: s.Priority, Reserve: s.Reserve, TaskLimit: s.TaskLimit, Shares: number(s.Shares), Override: number(s.Override),
		}
	}
	return r
}

// The reasons for the suspension of a task that do not follow from the states of queues.
const (
	suspendedByUser      = "user"
	suspendedByThreshold = "threshold"
	suspendedSlotwise    = "slotwise"
	resumed              = "resumed" // not suspended, although one of its queue instances is
)

// The layers of elements of resource maps.
const (
	layerGlobal = "global"
	layerHost   = "host"
	layerQueue  = "queue"
)

// recordOfGrants returns grants by names, since the numbers of a model are not permanent.
func recordOfGrants(m *scheduler.Model, grants []scheduler.Grant) []grantRecord {
	list := make([]grantRecord, 0, len(grants))
	for _, g := range grants {
		settings := m.Settings(g.Instance)
		r := grantRecord{Queue: settings.Queue, Host: settings.Host, Slots: g.Slots}
		for _, element := range g.Elements {
			x := elementsRecord{Complex: m.Attributes()[element.Attribute].Name, Layer: layerHost, IDs: element.IDs}
			switch element.At {
			case scheduler.AtGlobal():
				x.Layer = layerGlobal
			case scheduler.AtInstance(g.Instance):
				x.Layer = layerQueue
			}
			r.Elements = append(r.Elements, x)
		}
		for _, core := range g.Cores {
			r.Cores = append(r.Cores, [2]int{core.Socket, core.Core})
		}
		list = append(list, r)
	}
	return list
}

func (c *Cell) userRecord(name string) record {
	i := c.policy.users.indexOf(name)
	if i == tickets.None {
		return nil
	}
	u := &c.policy.Ledger.Users[i]
	r := &userRecord{
		Number: i, Automatic: c.policy.isAutomatic(name), Expires: c.policy.automatic[name].at, Due: c.policy.automatic[name].due, Stamp: u.Stamp, Usage: ledgerOf(&u.Usage),
	}
	if r.Automatic {
		r.Shares, r.Override = number(c.policy.Users[i].FunctionalShares), number(c.policy.Users[i].OverrideTickets)
	}
	for k := range u.ByProject {
		p := &u.ByProject[k]
		r.ByProject = append(r.ByProject, projectUsageRecord{Project: c.policy.projects.name(p.Project), ledgerRecord: ledgerOf(&p.Usage)})
	}
	return r
}

func (c *Cell) projectRecord(name string) record {
	i := c.policy.projects.indexOf(name)
	if i == tickets.None {
		return nil
	}
	p := &c.policy.Ledger.Projects[i]
	return &projectRecord{Number: i, Stamp: p.Stamp, Usage: ledgerOf(&p.Usage)}
}

func (c *Cell) hostRecord(name string) record {
	_, up := c.loads[name]
	at, lost := c.lost[name]
	if up = up || c.wasUp[name]; !up && !lost {
		return nil
	}
	return &hostRecord{Up: up, GivenUp: at}
}

func (c *Cell) instanceRecord(name string) record {
	id, ok := c.model.Instance(splitInstance(name))
	if !ok {
		return nil
	}
	status, p := c.state.Status(id), &c.instances[id]
	if len(p.errors) == 0 && len(c.ErrorsOf(id)) > 0 {
		status &^= scheduler.Failed // the host reports it again
	}
	return &instanceRecord{
		Disabled: status&scheduler.DisabledByUser != 0, Suspended: status&scheduler.SuspendedByUser != 0, Failed: status&scheduler.Failed != 0,
		Errors: p.errors, Checked: p.checked,
	}
}

func (c *Cell) orphanRecord(name string) record {
	id, ok := c.model.Instance(splitInstance(name))
	if !ok || c.state.Status(id)&scheduler.Orphaned == 0 {
		return nil
	}
	return &orphanRecord{Text: c.model.QueueObject(c.model.QueueOf(id)).Format(qconf.SingleLine)}
}

// reservationChange appends the change of an advance reservation.
func (c *Cell) reservationChange(id uint32, list *changes) {
	r := c.reservations.find(id)
	if r == nil {
		list.put(reservationKey(id), nil)
		return
	}
	value := encode(c.reservationRecord(r))
	c.keep(r.Owner, &r.kept, int64(len(value))+recordRoom)
	list.putEncoded(reservationKey(id), value)
}

func (c *Cell) reservationRecord(r *Reservation) record {
	fields := reservationFields(*r.Request)
	x := &reservationRecord{
		Owner: r.Owner, Group: r.Group, Submitted: r.Submitted, Start: r.Start, End: r.End, Deleted: r.Deleted,
		Grants: recordOfGrants(c.model, r.sched.Grants), Request: &fields,
	}
	if r.sched.PE != scheduler.None {
		x.PE = c.model.PEName(r.sched.PE)
	}
	return x
}
