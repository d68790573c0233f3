package cell

import (
	"cmp"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// usage are the used slots of the instances of a host, to be compared with later.
func (c *Cell) usedSlots(hosts []scheduler.HostID) map[scheduler.InstanceID]int {
	used := map[scheduler.InstanceID]int{}
	for _, h := range hosts {
		for _, id := range c.model.InstancesOn(h) {
			used[id] = c.state.UsedSlots(id)
		}
	}
	return used
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

// subordinates returns the instances that queue-wise subordination suspends.
func (c *Cell) subordinates(id scheduler.InstanceID) qconf.Subordination {
	s := c.model.Settings(id).Subordinates
	if s.Slots > 0 {
		return qconf.Subordination{}
	}
	return s
}

// subordinate applies queue-wise subordination (queue_conf(5), subordinate_list) after
// slots have been taken or given back. What counts is that a threshold is crossed: an
// instance has a counter of the superordinate ones that suspend it.
func (c *Cell) subordinate(hosts []scheduler.HostID, before map[scheduler.InstanceID]int) {
	for _, h := range hosts {
		taken := 0
		for _, over := range c.model.InstancesOn(h) {
			now := c.state.UsedSlots(over)
			taken += now - before[over]
			if now == before[over] {
				continue
			}
			list := c.subordinates(over)
			for _, sub := range list.Queues {
				threshold := sub.Slots
				if threshold == 0 {
					threshold = c.model.Settings(over).Slots
				}
				was, is := full(before[over], threshold), full(now, threshold)
				if id, ok := c.model.Instance(sub.Queue, c.model.HostName(h)); ok && was != is && id != over {
					c.countSubordination(id, is)
				}
			}
		}
		// What starts resumes nobody there, and what ends suspends nobody (tested).
		c.balanceSlots(h, taken >= 0, taken <= 0)
	}
}

func full(used, threshold int) bool { return used > 0 && used >= threshold }

func (c *Cell) countSubordination(id scheduler.InstanceID, up bool) {
	p := &c.places[id]
	if up {
		p.subordinations++
	} else {
		p.subordinations = max(0, p.subordinations-1)
	}
	status := c.state.Status(id) &^ scheduler.Subordinated
	if p.subordinations > 0 {
		status |= scheduler.Subordinated
	}
	c.setStatus(id, status)
}

// resubordinate counts subordinations of a host again, after the configuration has
// changed.
func (c *Cell) resubordinate(h scheduler.HostID) {
	before := map[scheduler.InstanceID]int{}
	for _, id := range c.model.InstancesOn(h) {
		before[id] = 0
	}
	c.subordinate([]scheduler.HostID{h}, before)
	c.balanceSlots(h, true, true)
}

// subordinations restores the counters of what queue-wise subordination suspends, without
// anything that follows from it.
func (r *restoring) subordinations() {
	c := r.cell
	for i := range c.places {
		over := scheduler.InstanceID(i)
		host := c.model.HostName(c.model.HostOf(over))
		for _, sub := range c.subordinates(over).Queues {
			id, ok := c.model.Instance(sub.Queue, host)
			if ok && id != over && full(c.state.UsedSlots(over), cmp.Or(sub.Slots, c.model.Settings(over).Slots)) {
				c.places[id].subordinations++
				c.state.SetStatus(id, c.state.Status(id)|scheduler.Subordinated)
			}
		}
	}
}

// balanceSlots applies slot-wise subordination on a host: it suspends tasks, resumes tasks, or
// does whichever there is to do.
func (c *Cell) balanceSlots(h scheduler.HostID, suspend, resume bool) {
	for _, root := range c.model.InstancesOn(h) {
		if c.model.Settings(root).Subordinates.Slots > 0 {
			c.balanceTree(root, suspend, resume)
		}
	}
}

// branch is a subordinate instance of a tree of slot-wise subordination.
type branch struct {
	instance scheduler.InstanceID
	seqNo    int
	longest  bool // the one that runs longest is suspended first (lr)
}

// slotTree returns the levels of a tree, the root alone at the top.
func (c *Cell) slotTree(root scheduler.InstanceID) [][]branch {
	host := c.model.HostName(c.model.HostOf(root))
	seen := map[scheduler.InstanceID]bool{root: true}
	levels := [][]branch{{{instance: root}}}
	for {
		var next []branch
		for _, b := range levels[len(levels)-1] {
			s := c.model.Settings(b.instance).Subordinates
			if s.Slots == 0 {
				continue
			}
			for _, sub := range s.Queues {
				if id, ok := c.model.Instance(sub.Queue, host); ok && !seen[id] {
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

// balanceTree suspends tasks until no more than the threshold run in a tree, if suspend is
// set, or resumes some if there are fewer and resume is set (queue_conf(5), subordinate_list,
// slot-wise). A parallel task counts once on each host where it has slots, and is suspended
// and resumed on any of them (tested).
func (c *Cell) balanceTree(root scheduler.InstanceID, suspend, resume bool) {
	threshold := c.model.Settings(root).Subordinates.Slots
	levels := c.slotTree(root)
	running := 0
	for _, level := range levels {
		for _, b := range level {
			for _, t := range c.places[b.instance].tasks {
				if t.run.Suspended == 0 {
					running++
				}
			}
		}
	}
	for ; suspend && running > threshold; running-- {
		if !c.suspendOne(levels) {
			return
		}
	}
	for ; resume && running < threshold; running++ {
		if !c.resumeOne(levels) {
			return
		}
	}
}

func master(t *Task) scheduler.InstanceID { return t.run.Grants[0].Instance }

// suspendOne suspends a task of the deepest level that has one running, in the queue with
// the highest sequence number there.
func (c *Cell) suspendOne(levels [][]branch) bool {
	for _, level := range slices.Backward(levels[1:]) {
		var best *Task
		bestBranch := branch{}
		for _, b := range level {
			for _, t := range c.places[b.instance].tasks {
				if t.run.Suspended != 0 {
					continue
				}
				if best == nil || b.seqNo > bestBranch.seqNo || b.seqNo == bestBranch.seqNo && b.before(t, best) {
					best, bestBranch = t, b
				}
			}
		}
		if best != nil {
			best.slotwise = true
			c.touchTask(best)
			c.resuspend(best)
			return true
		}
	}
	return false
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

// resumeOne resumes a task of the highest level that has one suspended so, in the queue
// with the lowest sequence number; those that nothing else suspends first.
func (c *Cell) resumeOne(levels [][]branch) bool {
	for _, level := range levels[1:] {
		var best *Task
		bestBranch := branch{}
		rank := func(b branch, t *Task) int {
			only := 1
			if t.run.Suspended == scheduler.BySubordinate && c.state.Status(b.instance)&scheduler.Subordinated == 0 {
				only = 0
			}
			return only
		}
		for _, b := range level {
			for _, t := range c.places[b.instance].tasks {
				if !t.slotwise {
					continue
				}
				better := best == nil
				if !better {
					order := cmp.Or(cmp.Compare(b.seqNo, bestBranch.seqNo), cmp.Compare(rank(b, t), rank(bestBranch, best)))
					better = order < 0 || order == 0 && b.after(t, best)
				}
				if better {
					best, bestBranch = t, b
				}
			}
		}
		if best != nil {
			best.slotwise = false
			c.touchTask(best)
			c.resuspend(best)
			return true
		}
	}
	return false
}
