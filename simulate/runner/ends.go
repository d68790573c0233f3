package runner

import (
	"cmp"

	"github.com/execd-project/execd/cell"
)

// end is the end of a running task.
type end struct {
	at        int64 // seconds since 1970; never if nothing ends the task
	job, task uint32
	attempt   int
	record    int   // index in the result
	started   int64 // seconds since 1970
	left      int64 // seconds until the end of a suspended task
}

// ends is a heap with the next end at the top.
type ends []end

func (e ends) next() int64 {
	if len(e) == 0 {
		return never
	}
	return e[0].at
}

// find returns the index of a task, -1 if it is not running.
func (e ends) find(t *cell.Task) int {
	for i := range e {
		if e[i].job == t.Job.ID() && e[i].task == t.Number && e[i].attempt == t.Restarts {
			return i
		}
	}
	return -1
}

func (e ends) Len() int { return len(e) }
func (e ends) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].job, e[j].job), cmp.Compare(e[i].task, e[j].task)) < 0
}
func (e ends) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push and Pop are for package heap.
func (e *ends) Push(x any) { *e = append(*e, x.(end)) }

// Pop implements heap.Interface.
func (e *ends) Pop() any {
	old := *e
	x := old[len(old)-1]
	*e = old[:len(old)-1]
	return x
}
