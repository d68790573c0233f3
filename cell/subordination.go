package cell

import (
	"cmp"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// subordination decides which queue instances and tasks give way to others on the same host
// (queue_conf(5), subordinate_list). There are two kinds. Queue-wise: an instance with enough used
// slots suspends its subordinate instances. Slot-wise: an instance is the root of a tree of
// instances, and tasks in the tree are suspended while more than a number of them run.
//
// It decides only: Cell suspends and resumes.
type subordination struct {
	model     *scheduler.Model
	state     *scheduler.State
	instances []instance
	// suspending is, by instance, the number of superordinate instances that suspend it queue-wise.
	suspending []int
}

func newSubordination(model *scheduler.Model, state *scheduler.State, instances []instance) subordination {
	return subordination{model: model, state: state, instances: instances, suspending: make([]int, len(instances))}
}

// usedSlots returns the used slots of the instances of hosts, to be compared with later.
func (s *subordination) usedSlots(hosts []scheduler.HostID) map[scheduler.InstanceID]int {
	used := map[scheduler.InstanceID]int{}
	for _, h := range hosts {
		for _, id := range s.model.InstancesOn(h) {
			used[id] = s.state.UsedSlots(id)
		}
	}
	return used
}

// subordinate is a queue instance that another one suspends queue-wise.
type subordinate struct {
	instance  scheduler.InstanceID
	threshold int // number of used slots of the superordinate instance from which it is suspended
}

// queueWise returns the instances that an instance suspends queue-wise.
func (s *subordination) queueWise(over scheduler.InstanceID) []subordinate {
	settings := s.model.Settings(over)
	if settings.Subordinates.Slots > 0 {
		return nil
	}
	host := s.model.HostName(s.model.HostOf(over))
	var list []subordinate
	for _, sub := range settings.Subordinates.Queues {
		if id, ok := s.model.Instance(sub.Queue, host); ok && id != over {
			list = append(list, subordinate{instance: id, threshold: cmp.Or(sub.Slots, settings.Slots)})
		}
	}
	return list
}

// reached reports whether a number of used slots suspends a subordinate instance.
func (x subordinate) reached(used int) bool { return used > 0 && used >= x.threshold }

// crossing is a subordinate instance with a superordinate instance that has begun, or ceased, to
// suspend it.
type crossing struct {
	instance scheduler.InstanceID
	suspends bool
}

// crossings compares the used slots of a host with those of before. It returns the thresholds that
// were crossed, in the order of the superordinate instances, and the number of slots that were
// taken; negative if slots were given back.
func (s *subordination) crossings(h scheduler.HostID, before map[scheduler.InstanceID]int) (list []crossing, taken int) {
	for _, over := range s.model.InstancesOn(h) {
		now := s.state.UsedSlots(over)
		taken += now - before[over]
		if now == before[over] {
			continue
		}
		for _, sub := range s.queueWise(over) {
			if is := sub.reached(now); is != sub.reached(before[over]) {
				list = append(list, crossing{instance: sub.instance, suspends: is})
			}
		}
	}
	return list, taken
}

// count takes a crossing into account. It reports whether any instance suspends the subordinate one
// afterwards.
func (s *subordination) count(x crossing) bool {
	n := &s.suspending[x.instance]
	if x.suspends {
		*n++
	} else {
		*n = max(0, *n-1)
	}
	return *n > 0
}

// branch is a subordinate instance of a tree of slot-wise subordination.
type branch struct {
	instance scheduler.InstanceID
	seqNo    int
	longest  bool // the task that runs longest is suspended first (lr)
}

// slotTree is a tree of slot-wise subordination.
type slotTree struct {
	levels    [][]branch // the root alone at the top
	threshold int        // number of tasks that may run in it
}

// trees returns the trees on a host.
func (s *subordination) trees(h scheduler.HostID) []slotTree {
	var list []slotTree
	for _, root := range s.model.InstancesOn(h) {
		if n := s.model.Settings(root).Subordinates.Slots; n > 0 {
			list = append(list, slotTree{levels: s.levels(root), threshold: n})
		}
	}
	return list
}

// levels returns the levels of a tree.
func (s *subordination) levels(root scheduler.InstanceID) [][]branch {
	host := s.model.HostName(s.model.HostOf(root))
	seen := map[scheduler.InstanceID]bool{root: true}
	levels := [][]branch{{{instance: root}}}
	for {
		var next []branch
		for _, b := range levels[len(levels)-1] {
			settings := s.model.Settings(b.instance).Subordinates
			if settings.Slots == 0 {
				continue
			}
			for _, sub := range settings.Queues {
				if id, ok := s.model.Instance(sub.Queue, host); ok && !seen[id] {
					seen[id] = true
					next = append(next, branch{instance: id, seqNo: sub.SeqNo, longest: sub.Action == qconf.LongestRunning})
				}
			}
		}
		if next == nil {
			return levels
		}
		levels = append(levels, next)
	}
}

// running returns the number of tasks that run in a tree. A parallel task counts once on each host
// where it has slots (tested).
func (s *subordination) running(t slotTree) int {
	n := 0
	for _, level := range t.levels {
		for _, b := range level {
			for _, x := range s.instances[b.instance].tasks {
				if x.run.Suspended == 0 {
					n++
				}
			}
		}
	}
	return n
}

// toSuspend returns the task of a tree that is suspended next: one of the deepest level that has a
// running task, in the queue with the highest sequence number there. It returns nil if there is
// none.
func (s *subordination) toSuspend(t slotTree) *Task {
	for _, level := range slices.Backward(t.levels[1:]) {
		var best *Task
		bestBranch := branch{}
		for _, b := range level {
			for _, x := range s.instances[b.instance].tasks {
				if x.run.Suspended != 0 {
					continue
				}
				if best == nil || b.seqNo > bestBranch.seqNo || b.seqNo == bestBranch.seqNo && b.before(x, best) {
					best, bestBranch = x, b
				}
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// toResume returns the task of a tree that is resumed next: one of the highest level that has a task
// suspended slot-wise, in the queue with the lowest sequence number, and there first the tasks that
// nothing else suspends. It returns nil if there is none.
func (s *subordination) toResume(t slotTree) *Task {
	for _, level := range t.levels[1:] {
		var best *Task
		bestBranch := branch{}
		for _, b := range level {
			for _, x := range s.instances[b.instance].tasks {
				if !x.slotwise {
					continue
				}
				better := best == nil
				if !better {
					order := cmp.Or(cmp.Compare(b.seqNo, bestBranch.seqNo), cmp.Compare(s.otherwise(b, x), s.otherwise(bestBranch, best)))
					better = order < 0 || order == 0 && b.after(x, best)
				}
				if better {
					best, bestBranch = x, b
				}
			}
		}
		if best != nil {
			return best
		}
	}
	return nil
}

// otherwise returns 1 if a task is suspended for other reasons, too, and 0 if not.
func (s *subordination) otherwise(b branch, t *Task) int {
	if t.run.Suspended == scheduler.BySubordinate && s.state.Status(b.instance)&scheduler.Subordinated == 0 {
		return 0
	}
	return 1
}

// before reports whether a task is suspended before another one. Of tasks that were started
// together the last one is suspended first, and also resumed first (tested).
func (b branch) before(t, other *Task) bool {
	if t.Started == other.Started {
		return compareStarts(t, other) > 0
	}
	return b.longest == (t.Started < other.Started)
}

// after reports whether a task is resumed before another one.
func (b branch) after(t, other *Task) bool {
	if t.Started == other.Started {
		return compareStarts(t, other) > 0
	}
	return b.before(other, t)
}

func (c *Cell) hostsOf(grants []scheduler.Grant) []scheduler.HostID {
	var hosts []scheduler.HostID
	for _, g := range grants {
		if h := c.model.HostOf(g.Instance); !slices.Contains(hosts, h) {
			hosts = append(hosts, h)
		}
	}
	return hosts
}

func master(t *Task) scheduler.InstanceID { return t.run.Grants[0].Instance }

// subordinate applies subordination on hosts after slots were taken or released. before holds the
// slots that were used until then.
func (c *Cell) subordinate(hosts []scheduler.HostID, before map[scheduler.InstanceID]int) {
	for _, h := range hosts {
		list, taken := c.subordination.crossings(h, before)
		for _, x := range list {
			c.followCrossing(x)
		}
		// A start resumes no task there, and an end suspends none (tested).
		c.balanceSlots(h, taken >= 0, taken <= 0)
	}
}

// followCrossing suspends or resumes a queue instance after a superordinate one has begun or ceased
// to suspend it.
func (c *Cell) followCrossing(x crossing) {
	status := c.state.Status(x.instance) &^ scheduler.Subordinated
	if c.subordination.count(x) {
		status |= scheduler.Subordinated
	}
	c.setStatus(x.instance, status)
}

// resubordinate applies subordination on a host after the configuration has changed.
func (c *Cell) resubordinate(h scheduler.HostID) {
	before := map[scheduler.InstanceID]int{}
	for _, id := range c.model.InstancesOn(h) {
		before[id] = 0
	}
	c.subordinate([]scheduler.HostID{h}, before)
	c.balanceSlots(h, true, true)
}

// subordinations restores which instances are suspended queue-wise. It suspends no tasks: their
// records say whether they are suspended.
func (r *restoring) subordinations() {
	c := r.cell
	for i := range c.instances {
		over := scheduler.InstanceID(i)
		for _, sub := range c.subordination.queueWise(over) {
			if sub.reached(c.state.UsedSlots(over)) {
				c.subordination.count(crossing{instance: sub.instance, suspends: true})
				c.state.SetStatus(sub.instance, c.state.Status(sub.instance)|scheduler.Subordinated)
			}
		}
	}
}

// balanceSlots applies slot-wise subordination on a host. If suspend is set, it suspends tasks until
// no more than the threshold run in each tree. If resume is set, it resumes tasks while fewer run.
// A parallel task is suspended and resumed on any of its hosts (tested).
func (c *Cell) balanceSlots(h scheduler.HostID, suspend, resume bool) {
	for _, tree := range c.subordination.trees(h) {
		running := c.subordination.running(tree)
		for ; suspend && running > tree.threshold; running-- {
			if !c.suspendSlotwise(c.subordination.toSuspend(tree), true) {
				break
			}
		}
		for ; resume && running < tree.threshold; running++ {
			if !c.suspendSlotwise(c.subordination.toResume(tree), false) {
				break
			}
		}
	}
}

// suspendSlotwise suspends or resumes a task slot-wise. It returns false if there is no such task.
func (c *Cell) suspendSlotwise(t *Task, suspended bool) bool {
	if t == nil {
		return false
	}
	t.slotwise = suspended
	c.touchTask(t)
	c.resuspend(t)
	return true
}
