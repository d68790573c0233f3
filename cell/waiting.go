package cell

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// WaitingTasks holds tasks of a job that are pending in the same state: a line of qstat(1).
type WaitingTasks struct {
	Tasks rangelist.List // {1} for a job that is not an array job
	State string         // in the letters of qstat
	// Again is set for tasks that have been started before.
	Again bool
	// Error is the reason for the error state of the first of the tasks, empty if they are not in
	// error. The other tasks may have other reasons: each contains at least its own time.
	Error string
	// Kept is set for tasks that were started before and now take no part in scheduling runs: they
	// keep the Priority and NormalizedTickets of the last start (tested).
	Kept                        bool
	Priority, NormalizedTickets float64
}

// waitingKind distinguishes groups of pending tasks.
type waitingKind struct {
	again, blocked, failed bool
	holds                  submit.Holds
	kept                   keptPriority
}

type keptPriority struct {
	is                          bool
	priority, normalizedTickets float64
}

// compare sorts tasks that were started before to the front, and tasks that depend on tasks of
// other arrays to the end (tested).
func (k waitingKind) compare(o waitingKind) int {
	rank := func(k waitingKind) int {
		switch {
		case k.again || k.failed:
			return 0
		case k.blocked:
			return 2
		}
		return 1
	}
	number := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(rank(k), rank(o)), cmp.Compare(k.holds, o.holds), cmp.Compare(number(k.failed), number(o.failed)), cmp.Compare(number(o.again), number(k.again)),
		cmp.Compare(o.kept.priority, k.kept.priority), cmp.Compare(o.kept.normalizedTickets, k.kept.normalizedTickets))
}

// WaitingTasks returns the pending tasks of a job, as qstat lists them.
func (c *Cell) WaitingTasks(j *Job) []WaitingTasks {
	kinds := map[waitingKind]rangelist.List{}
	reasons := map[waitingKind]string{}
	if !j.Waiting.IsEmpty() {
		free := c.unblocked(j, j.Waiting)
		blocked := rangelist.List{}
		switch {
		case free.IsEmpty():
			blocked = j.Waiting
		case free.Len() < j.Waiting.Len():
			blocked = j.Waiting.Without(free)
		}
		for _, x := range []struct {
			list    rangelist.List
			blocked bool
		}{{free, false}, {blocked, true}} {
			if !x.list.IsEmpty() {
				kinds[waitingKind{holds: j.Holds, blocked: x.blocked}] = x.list
			}
		}
	}
	numbers := map[waitingKind][]int{}
	for _, t := range j.tasks {
		if t.run != nil {
			continue
		}
		k := waitingKind{again: t.Again(), holds: t.Holds, failed: t.Error != ""}
		k.blocked = !k.again && !k.failed && len(j.predecessors.tasks) > 0 && c.blocked(j, int(t.Number))
		if k.failed || t.Restarts > 0 && (k.holds != 0 || len(j.predecessors.jobs) > 0) {
			k.kept = keptPriority{true, t.Priority, t.NormalizedTickets}
		}
		numbers[k] = append(numbers[k], int(t.Number))
		reasons[k] = cmp.Or(reasons[k], t.Error)
	}
	for k, list := range numbers {
		kinds[k] = kinds[k].AddAll(list)
	}
	order := make([]waitingKind, 0, len(kinds))
	for k := range kinds {
		order = append(order, k)
	}
	slices.SortFunc(order, waitingKind.compare)
	var list []WaitingTasks
	for _, k := range order {
		list = append(list, WaitingTasks{
			Tasks: kinds[k], State: k.state(len(j.predecessors.jobs) > 0), Again: k.again, Error: reasons[k],
			Kept: k.kept.is, Priority: k.kept.priority, NormalizedTickets: k.kept.normalizedTickets,
		})
	}
	return list
}

// state returns the state in the letters of qstat, in their order.
func (k waitingKind) state(dependent bool) string {
	var b strings.Builder
	for _, x := range []struct {
		letter byte
		on     bool
	}{{'E', k.failed}, {'h', k.holds != 0 || k.blocked || dependent}, {'R', k.again}, {'q', true}, {'w', !k.again}} {
		if x.on {
			b.WriteByte(x.letter)
		}
	}
	return b.String()
}
