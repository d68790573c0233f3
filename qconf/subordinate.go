package qconf

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Subordination is subordinate_list of queue_conf(5): the queues on the same
// host whose jobs make room for those of this queue. The zero value is NONE.
type Subordination struct {
	// Slots is the threshold of slot-wise subordination, slots=N(...): more
	// running tasks than that in the whole tree suspend single tasks. 0 for
	// queue-wise subordination, where a whole queue is suspended.
	Slots  int
	Queues []Subordinate
}

// Subordinate is one queue of a subordinate list.
type Subordinate struct {
	Queue string
	// Slots, of queue-wise subordination, is how many used slots of the
	// superordinate queue suspend this one; 0 for all of them.
	Slots int
	// SeqNo and Action are those of slot-wise subordination: tasks in queues
	// with higher numbers are suspended first, and Action says which of them.
	SeqNo  int
	Action SubordinateAction
}

// SubordinateAction says which task is suspended first.
type SubordinateAction string

// The actions of slot-wise subordination.
const (
	ShortestRunning SubordinateAction = "sr" // the shortest run time
	LongestRunning  SubordinateAction = "lr" // the longest run time
)

// subordinates returns the notation of subordinate_list: NONE, "q=slots, q" or
// "slots=N(q:seq:action, q)".
func subordinates[T any](field func(*T) *Subordination) kind[T] {
	return kind[T]{breaks: betweenItems, keeps: true, read: func(dst *T, s string) (string, error) {
		v, err := parseSubordination(s)
		*field(dst) = v
		return v.String(), err
	}}
}

// parseSubordination returns the valid elements of a list together with the joined errors of the
// others.
func parseSubordination(s string) (Subordination, error) {
	var sub Subordination
	if isWord(s, none) {
		return sub, nil
	}
	list, slotwise := s, false
	if head, tail, ok := strings.Cut(s, "("); ok {
		value, isSlots := strings.CutPrefix(strings.TrimRight(head, blanks), "slots=")
		if !isSlots || !strings.HasSuffix(tail, ")") {
			return sub, fmt.Errorf("%q is not a subordinate list, expected queue=slots,... or slots=N(queue:seq_no:action,...)", s)
		}
		n, err := parseNumber(value, 1, maxSlots)
		if err != nil {
			return sub, fmt.Errorf("threshold: %w", err)
		}
		sub.Slots, slotwise, list = n, true, strings.TrimSuffix(tail, ")")
	}
	var errs []error
	for _, item := range words(list) {
		parse := parseQueueWise
		if slotwise {
			parse = parseSlotWise
		}
		q, err := parse(item)
		if err == nil {
			err = CheckName(q.Queue)
		}
		for _, other := range sub.Queues {
			// Grid Engine accepts both, but they contradict each other.
			if err == nil && other.Queue == q.Queue {
				err = fmt.Errorf("%q comes twice", q.Queue)
			}
		}
		if err != nil {
			errs = addError(errs, err)
			continue
		}
		sub.Queues = append(sub.Queues, q)
	}
	if len(sub.Queues) == 0 && errs == nil {
		errs = addError(errs, fmt.Errorf("%q names no queue", s))
	}
	return sub, errJoin(errs)
}

func parseQueueWise(item string) (Subordinate, error) {
	queue, slots, ok := strings.Cut(item, "=")
	q := Subordinate{Queue: queue}
	var err error
	if ok {
		q.Slots, err = parseNumber(slots, 0, maxSlots)
	}
	return q, err
}

func parseSlotWise(item string) (Subordinate, error) {
	fields := strings.Split(item, ":")
	q := Subordinate{Queue: fields[0], Action: ShortestRunning}
	if len(fields) > 3 {
		return q, fmt.Errorf("%q has %d parts, expected queue:seq_no:action", item, len(fields))
	}
	// queue[:seq_no][:action]: either may be left out.
	for i, f := range fields[1:] {
		n, err := parseNumber(f, 0, math.MaxInt32)
		switch {
		case err == nil && i == 0:
			q.SeqNo = n
		case i == len(fields)-2 && (f == string(ShortestRunning) || f == string(LongestRunning)):
			q.Action = SubordinateAction(f)
		default:
			return q, fmt.Errorf("%q in %q is unknown, expected queue:seq_no:action with the action sr or lr", f, item)
		}
	}
	return q, nil
}

// String returns the list in the notation of qconf.
func (s Subordination) String() string {
	if len(s.Queues) == 0 {
		return none
	}
	items := make([]string, len(s.Queues))
	for i, q := range s.Queues {
		items[i] = q.Queue
		if s.Slots > 0 {
			items[i] += ":" + strconv.Itoa(q.SeqNo) + ":" + string(q.Action)
		} else if q.Slots > 0 {
			items[i] += "=" + strconv.Itoa(q.Slots)
		}
	}
	list := strings.Join(items, ", ")
	if s.Slots > 0 {
		return "slots=" + strconv.Itoa(s.Slots) + "(" + list + ")"
	}
	return list
}
