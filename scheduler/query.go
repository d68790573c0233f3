package scheduler

// query is a question that goes down the walk through quotas, the cluster, queues, hosts and queue
// instances: where a job could run, when, and in which sense. Each function on the way answers it
// for one place or one condition, and adds the cause of a refusal to the trace. No function changes
// the query that it gets: one that has to ask something else asks a query of its own.
type query struct {
	job      *Job // nil where only the category matters
	category *Category
	span          // when the job would run, and for how long
	mode     mode // in which sense it is asked
	trace    *trace
}

// mode is a set of the senses in which a query can be asked. None of them: the job may start now,
// in any usable instance.
type mode uint8

const (
	// starting is a query for a task that starts if there is a place, as opposed to one that only
	// wants to know.
	starting mode = 1 << iota
	// later is a query for a place in the future: instances that are full now, or closed by a
	// calendar, count, and alarms of the present do not.
	later
	// fewest is a query of a parallel job for its smallest number of slots; without it the largest
	// number is looked for.
	fewest
	// exempt is a query for which quotas do not count (sge_resource_quota(5)).
	exempt
	// withFull is a query for reasons that compares instances that are full, too, see lookedAt.
	withFull
	// leaving is a query for what a place has once the jobs that share it have left.
	leaving
)

func (q *query) is(m mode) bool { return q.mode&m != 0 }

// silent returns the same query for the answer alone: nothing is added to the trace.
func (q *query) silent() query {
	quiet := *q
	quiet.trace = nil
	return quiet
}

// in returns the same query in other senses, without a trace.
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

// because adds a reason to the trace, if there is one. It returns false, the answer for which this
// is the reason.
func (q *query) because(r Reason) bool {
	if q.trace == nil {
		return false
	}
	r.model, r.category = q.category.model, q.category
	q.trace.add(r)
	return false
}
