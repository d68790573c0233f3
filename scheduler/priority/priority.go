package priority

import (
	"math"
	"slices"
)

// Weights are the weights of sched_conf(5) for the parts of the priority.
type Weights struct {
	Priority    float64 // weight_priority, of npprior
	Urgency     float64 // weight_urgency, of nurg
	Ticket      float64 // weight_ticket, of ntckts
	WaitingTime float64 // weight_waiting_time, of a second
	Deadline    float64 // weight_deadline
	// ReportPJobTickets is report_pjob_tickets. Without it, parts with weight 0 are not shown and
	// not computed: they are 0.5.
	ReportPJobTickets bool
}

// Job is a pending or running task, or all pending tasks of an array job with the
// tickets of the first.
type Job struct {
	ID        uint32
	Task      uint32  // 0 for none; orders the tasks of a job
	Submitted int64   // seconds since 1970
	Deadline  int64   // seconds since 1970; 0 for none (qsub(1), -dl)
	Priority  int     // -1023 to 1024 (qsub(1), -p)
	Resources float64 // the result of ResourceContribution
	Tickets   float64 // tckts, the sum over the ticket policies
}

// Priority holds the priority of a job and its parts, as qstat -pri and qstat -urg show them
// (qstat(1); the formulas are in sge_priority(5)).
type Priority struct {
	ResourceContribution    float64 // rrcontr
	WaitingTimeContribution float64 // wtcontr
	DeadlineContribution    float64 // dlcontr
	Urgency                 float64 // urg, the sum of these
	NormalizedPriority      float64 // npprior
	NormalizedUrgency       float64 // nurg
	NormalizedTickets       float64 // ntckts
	Priority                float64 // prio
}

// Bounds are the smallest and largest values among the pending and running jobs of
// a scheduling run, between which values are normalized. They stay the same during
// a run, though jobs start.
type Bounds struct {
	MinUrgency, MaxUrgency float64
	MaxTickets             float64 // the smallest number of tickets is always 0
}

// epsilon is the smallest distance between two bounds at which values between them are
// distinguished.
const epsilon = 0.00001

// posixShift is added to a POSIX priority and posixRange divides it: 0 becomes 0.5,
// 1024 becomes 1, and -1023, the lowest, not quite 0.
const (
	posixShift = 1024
	posixRange = 2048
)

// half is the normalized value if all values are equal, or if they are not computed.
const half = 0.5

func normalize(v, low, high float64) float64 {
	if high-low < epsilon {
		return half
	}
	return (v - low) / (high - low)
}

// urgency computes urg and its parts (sge_priority(5), urgency policy) and leaves
// all other fields 0.
func (w *Weights) urgency(j *Job, now int64) Priority {
	p := Priority{
		ResourceContribution:    j.Resources,
		WaitingTimeContribution: WaitingTimeContribution(w.WaitingTime, j.Submitted, now),
		DeadlineContribution:    DeadlineContribution(w.Deadline, j.Deadline, now),
	}
	p.Urgency = p.ResourceContribution + p.WaitingTimeContribution + p.DeadlineContribution
	return p
}

// Calculate computes the priorities of all pending and running jobs of a scheduling run
// (sge_priority(5)). maxTickets is the largest number of tickets that any of their tasks has, or
// has had in the run, from package tickets. The result is written to dst, which is extended if it
// is too short, and returned.
//
// The sum is neither divided by the sum of the weights nor kept below 1.
func (w *Weights) Calculate(dst []Priority, jobs []Job, maxTickets float64, now int64) ([]Priority, Bounds) {
	dst = slices.Grow(dst[:0], len(jobs))[:len(jobs)]
	// The maximum of the urgencies starts at 0: if all urgencies are negative, no job reaches 1, as
	// in Grid Engine.
	b := Bounds{MinUrgency: math.MaxFloat64, MaxUrgency: smallestNormal, MaxTickets: max(maxTickets, 0)}
	for i := range jobs {
		dst[i] = w.urgency(&jobs[i], now)
		b.MinUrgency = min(b.MinUrgency, dst[i].Urgency)
		b.MaxUrgency = max(b.MaxUrgency, dst[i].Urgency)
	}
	for i := range jobs {
		w.combine(&dst[i], &jobs[i], &b)
	}
	return dst, b
}

// smallestNormal is DBL_MIN of C.
const smallestNormal = 0x1p-1022

// One computes the priority of a single job between the bounds of a run, for example of the next task
// of an array job after the previous task was started.
func (w *Weights) One(j *Job, b *Bounds, now int64) Priority {
	p := w.urgency(j, now)
	w.combine(&p, j, b)
	return p
}

// Number returns only the prio of One's result.
func (w *Weights) Number(j *Job, b *Bounds, now int64) float64 {
	p := w.urgency(j, now)
	w.combine(&p, j, b)
	return p.Priority
}

// UrgencyOf returns the urg of One's result. It does not need the bounds of a run, which are
// computed from it.
func (w *Weights) UrgencyOf(j *Job, now int64) float64 {
	p := w.urgency(j, now)
	return p.Urgency
}

func (w *Weights) combine(p *Priority, j *Job, b *Bounds) {
	p.NormalizedPriority, p.NormalizedUrgency, p.NormalizedTickets = half, half, half
	if w.ReportPJobTickets || w.Priority != 0 {
		p.NormalizedPriority = float64(j.Priority+posixShift) / posixRange
	}
	if w.ReportPJobTickets || w.Urgency != 0 {
		p.NormalizedUrgency = normalize(p.Urgency, b.MinUrgency, b.MaxUrgency)
	}
	p.NormalizedTickets = normalize(j.Tickets, 0, b.MaxTickets)
	p.Priority = w.Urgency*p.NormalizedUrgency + w.Priority*p.NormalizedPriority + w.Ticket*p.NormalizedTickets
}
