package scheduler

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/execd-project/execd/scheduler/value"
)

// usable returns the instances that the run may use. It drops the others with a reason, in the
// order of the original's checks: unavailable, suspend alarm, load alarm, calendar, disabled, full.
func (r *run) usable(all []InstanceID, conditions []condition) []InstanceID {
	// Instances that are full or closed by a calendar may still be reserved.
	defer func() {
		for _, reason := range r.decisions.Dropped {
			if reason.kind == droppedFull || r.byCalendar(reason) {
				r.postponed = append(r.postponed, InstanceID(reason.place))
			}
		}
	}()
	for _, keep := range conditions {
		all = slices.DeleteFunc(all, func(id InstanceID) bool {
			reason, ok := keep(id)
			// An instance that a calendar suspends and a user has disabled has no reason (tested).
			if !ok && r.instances[id].status&(unavailable|DisabledByUser) != SuspendedByCalendar|DisabledByUser {
				reason.place, reason.model = int32(id), r.model
				r.decisions.Dropped = append(r.decisions.Dropped, reason)
			}
			return !ok
		})
	}
	return all
}

// condition is a condition of an instance. If the instance does not meet it, there is a reason.
type condition func(InstanceID) (Reason, bool)

// conditions returns the conditions of every instance, in the order of the original's checks. The
// condition that the instance is not full comes last, if it is requested.
func (r *run) conditions() []condition {
	return []condition{r.notUnavailable, r.noSuspendAlarm, r.noLoadAlarm, r.notDisabled}
}

// byCalendar reports whether an instance was dropped because of its calendar. If a user has
// disabled it as well, the answer is true if the calendar disables it. If the calendar suspends it,
// it is dropped without a reason (tested).
func (r *run) byCalendar(dropped Reason) bool {
	switch status := r.instances[dropped.place].status; dropped.kind {
	case droppedUnavailable:
		return status&unavailable == SuspendedByCalendar
	case droppedDisabled:
		return status&DisabledByCalendar != 0
	}
	return false
}

func (r *run) notUnavailable(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedUnavailable}, r.instances[id].status&unavailable == 0 && r.model.instances[id].ambiguous == nil
}

func (r *run) noSuspendAlarm(id InstanceID) (Reason, bool) {
	text, alarm := r.alarm(id, r.model.instances[id].suspend)
	if !alarm {
		return Reason{}, true
	}
	return Reason{kind: suspendAlarm, text: fmt.Sprintf("queue instance %q is in suspend alarm: %s", r.model.instances[id].name, text)}, false
}

func (r *run) noLoadAlarm(id InstanceID) (Reason, bool) {
	text, alarm := r.alarm(id, r.model.instances[id].load)
	return Reason{kind: droppedOverload, text: text}, !alarm
}

func (r *run) notDisabled(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedDisabled}, r.instances[id].status&(DisabledByUser|DisabledByCalendar) == 0
}

func (r *run) notFull(id InstanceID) (Reason, bool) {
	return Reason{kind: droppedFull}, r.UsedSlots(id) < r.model.instances[id].settings.Slots
}

// stillUsable checks an instance again after a task has started on its host.
func (r *run) stillUsable(id InstanceID) bool {
	keep := func(reason Reason, ok bool) bool {
		if !ok {
			reason.place, reason.model = int32(id), r.model
			r.decisions.Dropped = append(r.decisions.Dropped, reason)
		}
		return ok
	}
	if r.subordinated(id) {
		return keep(Reason{kind: droppedSuspended}, false)
	}
	if len(r.model.adjustments) > 0 && len(r.model.instances[id].load) > 0 && !keep(r.noLoadAlarm(id)) {
		return false
	}
	return keep(r.notFull(id))
}

// subordinated reports whether queue-wise subordination suspends an instance once the tasks of this
// run have started (queue_conf(5), subordinate_list). Grid Engine's scheduler does not know of slot-wise
// subordination: it takes the instance for suspended in the run in which the superordinate one becomes
// full (tested).
func (r *run) subordinated(id InstanceID) bool {
	for _, over := range r.model.hosts[r.model.instances[id].host].instances {
		for _, sub := range r.model.instances[over].subordinates {
			if sub.instance == id && r.Subordinates(over, sub.slots) && (!sub.slotWise || r.filled(over)) {
				return true
			}
		}
	}
	return false
}

// filled reports whether the tasks of this run have taken the last slots of a full instance.
func (r *run) filled(id InstanceID) bool {
	before := r.UsedSlots(id)
	for _, t := range r.started {
		for _, g := range t.Grants {
			if g.Instance == id {
				before -= g.Slots
			}
		}
	}
	return before < r.model.instances[id].settings.Slots
}

// Subordinates reports whether a superordinate instance uses enough slots to suspend an instance
// with this threshold. Threshold 0 means all slots.
func (s *State) Subordinates(superordinate InstanceID, threshold int) bool {
	if threshold == 0 {
		threshold = s.model.instances[superordinate].settings.Slots
	}
	used := s.UsedSlots(superordinate)
	return used > 0 && used >= threshold
}

// LoadAlarm reports whether a queue instance is in load alarm at a time (queue_conf(5),
// load_thresholds), and returns the first crossed threshold, as qstat shows it.
func (s *State) LoadAlarm(id InstanceID, now int64) (text string, alarm bool) {
	return newView(s, now).alarm(id, s.model.instances[id].load)
}

// SuspendAlarm does what LoadAlarm does, for suspend_thresholds.
func (s *State) SuspendAlarm(id InstanceID, now int64) (text string, alarm bool) {
	return newView(s, now).alarm(id, s.model.instances[id].suspend)
}

// alarm finds the first crossed threshold.
func (v *view) alarm(id InstanceID, thresholds []threshold) (string, bool) {
	for i := range thresholds {
		if text, crossed := v.crossed(id, &thresholds[i]); crossed {
			return text, true
		}
	}
	return "", false
}

func (v *view) crossed(id InstanceID, t *threshold) (string, bool) {
	if t.attribute == None {
		return fmt.Sprintf("no complex attribute for threshold %q", t.name), true
	}
	host := v.model.instances[id].host
	a := &v.model.attributes[t.attribute]
	x, from, ok := v.thresholdValue(id, host, t.attribute)
	switch {
	case !ok && v.reported && a.consumable():
		return "", false
	case !ok:
		return fmt.Sprintf("no value for complex attribute %q", a.Name), true
	case t.err != nil:
		return fmt.Sprintf("threshold %s=%s is not a value of the type %s", a.Name, t.text, a.Type), true
	case a.Type.IsText():
		if t.pattern.Match(value.Equal, x) {
			return "", false
		}
		return fmt.Sprintf("%s=%s (no load adjustment) != %s", a.Name, x, t.text), true
	}
	relop := a.Relop
	if a.Type == value.Bool {
		relop = value.Equal
	}
	if !relop.Holds(x.Number(), t.limit.Number()) {
		return "", false
	}
	shown := x.Format(value.Reason)
	if a.Type != value.Bool {
		shown = fmt.Sprintf("%f", x.Number())
	}
	return fmt.Sprintf("%s=%s %s %s %s", a.Name, shown, v.explainLoad(from, t.attribute, a), relop, t.text), true
}

// thresholdValue returns the value that a threshold is compared with: the host's, otherwise the
// cluster's, otherwise the queue's. For a consumable it is the remaining amount.
func (v *view) thresholdValue(id InstanceID, host HostID, a AttributeID) (value.Value, HostID, bool) {
	consumable := v.model.attributes[a].consumable()
	if consumable && !v.reported {
		if r, ok := v.over(a, AtGlobal(), AtHost(host), AtInstance(id)); ok {
			return r.Value, None - 1, true
		}
		return value.Value{}, 0, false
	}
	for _, h := range [...]HostID{host, GlobalHost} {
		if x, _ := v.loadAt(h, a); x.IsValid() {
			return x, h, true
		}
	}
	if consumable {
		return value.Value{}, 0, false
	}
	x, ok := v.configuredAt(AtInstance(id), a)
	return x, None - 1, ok
}

// explainLoad returns the text about the correction of a load value.
func (v *view) explainLoad(h HostID, a AttributeID, attribute *Attribute) string {
	if h < GlobalHost {
		return "(no load value)"
	}
	if v.model.adjusted[a] == 0 || len(v.running) == 0 || v.reported {
		return "(no load adjustment)"
	}
	raw, ok := v.texts[rawKey{h, a}]
	if !ok {
		raw = fmt.Sprintf("%f", v.loadValue(h, a).Number())
	}
	lc := v.correction[v.loadIndex(h)] / 100
	text := fmt.Sprintf("(= %s + %.2f * %f", raw, v.model.adjusted[a], lc)
	if isPerCore(attribute.Name) {
		text += fmt.Sprintf(" with nproc=%.0f", v.processors(h))
	}
	return text + ")"
}

// headroom returns the number of slots that one job can take on a host before the load, increased
// by the job load adjustments, crosses a load threshold of the instance (queue_conf(5)).
// Adjustments for other jobs that have just started do not count (tested).
func (v *view) headroom(id InstanceID) int {
	room := math.MaxInt
	host := v.model.instances[id].host
	for i := range v.model.instances[id].load {
		t := &v.model.instances[id].load[i]
		if t.attribute == None || t.err != nil {
			continue
		}
		adj := v.model.adjusted[t.attribute]
		if adj == 0 {
			continue
		}
		a := &v.model.attributes[t.attribute]
		load := v.loadValue(host, t.attribute)
		if !load.IsValid() {
			continue
		}
		if isPerCore(a.Name) {
			if n := v.processors(host); n > 1 {
				adj /= n
			}
		}
		gap := t.limit.Number() - load.Number()
		if !larger(a.Relop) {
			gap = -gap
		}
		room = min(room, max(0, int(gap/adj)+1))
	}
	return room
}

// suspendByThreshold decides which tasks suspend thresholds suspend and resume (queue_conf(5),
// suspend_thresholds). In each suspend_interval an alarm suspends nsuspend running tasks, the most
// recently started first. Without an alarm, nsuspend of the tasks suspended this way resume, the
// one that started earliest first.
func (r *run) suspendByThreshold() {
	var (
		byInstance map[InstanceID][]*Running
		chosen     map[*Running]bool
	)
	for id := range r.model.instances {
		i := &r.model.instances[id]
		at := &r.instances[id]
		interval := int64(min(seconds(i.settings.SuspendInterval), math.MaxInt32))
		if len(i.suspend) == 0 || interval == 0 || i.settings.NSuspend == 0 || at.checked+interval > r.now {
			continue
		}
		if byInstance == nil {
			byInstance, chosen = r.tasksByInstance(), map[*Running]bool{}
		}
		_, alarm := r.alarm(InstanceID(id), i.suspend)
		if alarm && at.status&Suspended != 0 {
			continue
		}
		tasks := slices.DeleteFunc(byInstance[InstanceID(id)], func(t *Running) bool {
			if alarm {
				return r.suspendedItself(t) || chosen[t]
			}
			return t.Suspended&ByThreshold == 0 || t.Grants[0].Instance != InstanceID(id)
		})
		slices.SortStableFunc(tasks, func(a, b *Running) int {
			// Tasks that were started in the same second are ordered by the last change of their
			// jobs (tested).
			since := cmp.Compare(a.Started, b.Started)
			if alarm {
				since = -since
			}
			return cmp.Or(since, cmp.Compare(a.Job.StartOrder, b.Job.StartOrder))
		})
		for _, t := range tasks[:min(len(tasks), i.settings.NSuspend)] {
			chosen[t] = true // a parallel task may run in several instances
			r.decisions.Suspensions = append(r.decisions.Suspensions, ThresholdAction{Task: t, Instance: InstanceID(id), Resume: !alarm})
		}
	}
}

// suspendedItself reports whether a task is suspended for another reason than the suspension of an
// instance in which it has slots. If a parallel task is suspended only with the instance of one of
// its slaves, a threshold of another instance can suspend it as well (tested).
func (s *State) suspendedItself(t *Running) bool {
	with := Suspension(0)
	for _, g := range t.Grants {
		status := s.instances[g.Instance].status
		if status&(SuspendedByUser|SuspendedByCalendar) != 0 {
			with |= ByQueue
		}
		if status&Subordinated != 0 {
			with |= BySubordinate
		}
	}
	return t.Suspended&^with != 0
}

// ThresholdChecked records that a suspend threshold of an instance has suspended or resumed a task.
// The next action follows after suspend_interval.
func (s *State) ThresholdChecked(id InstanceID, now int64) { s.instances[id].checked = now }

// tasksByInstance returns the running tasks of each instance, by the numbers of the jobs.
func (r *run) tasksByInstance() map[InstanceID][]*Running {
	by := map[InstanceID][]*Running{}
	for _, t := range r.runningByID() {
		for _, g := range t.Grants {
			by[g.Instance] = append(by[g.Instance], t)
		}
	}
	return by
}
