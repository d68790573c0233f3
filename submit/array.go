package submit

import (
	"errors"
	"iter"
	"math"
	"strconv"
	"strings"
)

// Array is the range of task numbers of an array job: First, First+Step, … up to Last. Last itself
// need not be a task (1-10:2 ends with 9); it is the value of SGE_TASK_LAST.
type Array struct {
	First, Last, Step int // all from 1
}

// maxTask is the largest task number (sge_submit(1), -t). The cluster's
// max_aj_tasks may be lower.
const maxTask = math.MaxInt32

// ParseArray reads the value of -t: n[-m[:s]] with 1 <= n <= m and a positive step (sge_submit(1)).
// The original accepts more than its manual says. ParseArray refuses 5-1, which the original reads
// as 1-5, and a list of ranges.
func ParseArray(s string) (Array, error) {
	if strings.ContainsAny(s, ", \t") {
		return Array{}, errors.New(strconv.Quote(s) + " is a list, expected one range n[-m[:s]]")
	}
	tasks, step, hasStep := strings.Cut(s, ":")
	first, last, isRange := strings.Cut(tasks, "-")
	if first == "" && isRange {
		return Array{}, errors.New("Range specifier " + strconv.Quote(s) + " has unknown trailer " + strconv.Quote(s[1:]))
	}
	a := Array{Step: 1}
	var err error
	if a.First, err = taskID(first, s); err != nil {
		return Array{}, err
	}
	a.Last = a.First
	if isRange {
		if a.Last, err = taskID(last, s); err != nil {
			return Array{}, err
		}
	}
	if a.Last < a.First {
		return Array{}, errors.New("the range " + strconv.Quote(s) + " ends before it begins")
	}
	if hasStep {
		if !isRange {
			return Array{}, errors.New(strconv.Quote(s) + " has a step but no range, expected n[-m[:s]]")
		}
		if strings.HasPrefix(step, "-") || step != "" && strings.Trim(step, "0") == "" {
			return Array{}, errors.New("Negative or zero step in range is not allowed") //nolint:staticcheck // the original's text
		}
		if a.Step, err = positive(step, maxTask); err != nil {
			return Array{}, errors.New("step of " + strconv.Quote(s) + ": " + err.Error())
		}
	}
	return a, nil
}

// taskID reads a number of a task range. The first two texts are the original's.
func taskID(number, whole string) (int, error) {
	if strings.TrimLeft(number, "0123456789") == number && number != "" {
		return 0, errors.New("The initial portion of string " + strconv.Quote(number) + " contains no decimal number")
	}
	if number != "" && strings.Trim(number, "0") == "" {
		return 0, errors.New("job rejected: 0 is an invalid task id")
	}
	n, err := positive(number, maxTask)
	if err != nil {
		return 0, errors.New("task range " + strconv.Quote(whole) + ": " + err.Error())
	}
	return n, nil
}

// String returns the range in the notation that ParseArray reads, with all parts.
func (a Array) String() string {
	return strconv.Itoa(a.First) + "-" + strconv.Itoa(a.Last) + ":" + strconv.Itoa(a.Step)
}

// Len returns the number of tasks.
func (a Array) Len() int {
	if a.Step < 1 || a.Last < a.First {
		return 0
	}
	return (a.Last-a.First)/a.Step + 1
}

// Tasks yields the task numbers in ascending order.
func (a Array) Tasks() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i := range a.Len() {
			if !yield(a.First + i*a.Step) {
				return
			}
		}
	}
}
