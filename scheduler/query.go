package scheduler

import "github.com/execd-project/execd/scheduler/diagram"

// query is a question that goes down the walk through quotas, the cluster, queues, hosts and queue
// instances: where and when could a job run, and under which conditions? Each function on the way
// answers it for one place or one condition, and adds the cause of a refusal to the trace. No
// function changes the query that it gets; a function with a different question makes its own
// query.
type query struct {
	job      *Job // nil if only the category matters
	category *Category
	span          // when the job would run, and for how long
	mode     mode // the conditions of the question
	trace    *trace
	sorted   *sortedOut // places that quotas rule out for a serial job that starts
}

// mode is a set of conditions of a query. Without any, the job would start now, in any usable
// instance.
type mode uint8

const (
	// starting is set if the task starts when there is a place, rather than only asking.
	starting mode = 1 << iota
	// later is set for a place in the future: the search includes instances that are full now or
	// closed by a calendar, and ignores current alarms.
	later
	// fewest is set to look for the smallest number of slots of a parallel job. Otherwise the
	// search looks for the largest.
	fewest
	// exempt is set if quotas do not apply (sge_resource_quota(5)).
	exempt
	// withFull is set to compare full instances as well for reasons, see compared.
	withFull
	// leaving asks for the capacity of a place after the jobs that share it have finished.
	leaving
	// alarming is set for a place in the future that load thresholds and job_load_adjustments limit as
	// they do now.
	alarming
)

// atTheEnd is a time after the end of everything in a plan.
var atTheEnd = span{diagram.Forever - 1, 1}

func (q *query) is(m mode) bool { return q.mode&m != 0 }

// silent returns the same query without a trace.
func (q *query) silent() query {
	quiet := *q
	quiet.trace = nil
	return quiet
}

// in returns the same query with other conditions and without a trace.
func (q *query) in(m mode) query {
	quiet := q.silent()
	quiet.mode = m
	return quiet
}

// during returns the same query for another time, without a trace.
func (q *query) during(at span) query {
	quiet := q.silent()
	quiet.span = at
	return quiet
}

// because adds a reason to the trace, if there is one. It always returns false, the answer that the
// reason explains.
func (q *query) because(r Reason) bool {
	if q.trace == nil {
		return false
	}
	r.model, r.category = q.category.model, q.category
	q.trace.add(r)
	return false
}
