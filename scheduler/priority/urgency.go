package priority

import "math"

// SlotsUrgency is the urgency of the complex "slots" in a new cluster. Each job
// requests it implicitly, with the amount 1 (complex(5), urgency; the default
// complexes).
const SlotsUrgency = 1000

// Request is a hard request of a job for the urgency policy (sge_priority(5), hrr; complex(5),
// urgency). The caller adds the implicit request for "slots". Soft requests and the defaults of
// consumables do not count.
type Request struct {
	Urgency float64 // of the complex; may be negative
	// Amount is the requested amount per slot: bytes for MEMORY, seconds for TIME, 1 and 0 for
	// BOOL. This also applies to consumables of the kind JOB.
	Amount float64
	// Text is set for STRING, CSTRING, RESTRING and HOST: such a request counts once, regardless of
	// its value and of the number of slots.
	Text bool
}

// Slots is a part of a range of slots as in -pe (qsub(1)). Max is at least Min;
// Unbounded stands for a range that is open at its end.
type Slots struct{ Min, Max int }

// Unbounded is the Max of a range of slots without an end.
const Unbounded = math.MaxInt

// Rule is the rule by which a parallel environment assesses a range of slots (sge_pe(5),
// urgency_slots).
type Rule int

// The rules of urgency_slots of sge_pe(5).
const (
	Min   Rule = iota // the smallest number
	Max               // the largest number
	Avg               // the average of all numbers, its fraction cut off
	Fixed             // a number of the parallel environment
)

// AssumedSlots returns the number of slots with which a job counts in the urgency policy
// (sge_priority(5), assumed_slot_allocation; sge_pe(5), urgency_slots). ranges are the ranges of
// -pe in ascending order, without overlaps; nil for a serial job. fixed is the number of the rule
// Fixed. limit is the number of slots of the parallel environment, at which open ranges end. The
// average ignores numbers above limit, and is 0 if no others remain (tested).
//
// A job that requests a single number counts with that number, whatever the rule is.
func AssumedSlots(rule Rule, fixed, limit int, ranges []Slots) int {
	if len(ranges) == 0 {
		return 1
	}
	first, last := ranges[0].Min, ranges[len(ranges)-1].Max
	if first == last {
		return first
	}
	switch rule {
	case Fixed:
		return fixed
	case Max:
		return closed(last, ranges[len(ranges)-1].Min, limit)
	case Avg:
		// Sums of arithmetic series: a range may have ten million numbers.
		var sum, count float64
		for _, r := range ranges {
			high := min(r.Max, limit)
			n := float64(max(high-r.Min+1, 0))
			count += n
			sum += n * (float64(r.Min) + float64(high)) / 2
		}
		if count == 0 {
			return 0
		}
		return int(sum / count)
	}
	return first
}

// closed returns the end of a range that starts at low. An explicit end may exceed the slots of the
// parallel environment; Grid Engine does not cut it.
func closed(high, low, limit int) int {
	if high != Unbounded {
		return high
	}
	return max(low, limit)
}

// ResourceContribution returns rrcontr of sge_priority(5): the sum of urgency x amount x slots over
// the requests, and of the urgency alone for requests of a text type. slots is the result of
// AssumedSlots.
func ResourceContribution(requests []Request, slots int) float64 {
	var sum float64
	for _, r := range requests {
		if r.Text {
			sum += r.Urgency
		} else {
			sum += r.Urgency * r.Amount * float64(slots)
		}
	}
	return sum
}

// WaitingTimeContribution returns wtcontr of sge_priority(5): the seconds since the submission,
// weighted by weight_waiting_time of sched_conf(5). It continues to grow while the job runs.
func WaitingTimeContribution(weight float64, submitted, now int64) float64 {
	return weight * float64(now-submitted)
}

// DeadlineContribution returns dlcontr of sge_priority(5): weight_deadline of sched_conf(5) divided
// by the seconds until the deadline (qsub(1), -dl), at least 1: from a second before the deadline
// the contribution is the weight itself. deadline 0 means none.
//
// The permission for a deadline (sge_intro(1), the user set deadlineusers) is checked at the
// submission; a user who has left the set since keeps the deadline.
func DeadlineContribution(weight float64, deadline, now int64) float64 {
	if deadline == 0 {
		return 0
	}
	return weight / float64(max(deadline-now, 1))
}
