package replay

import (
	"strings"

	"github.com/execd-project/execd/simulate/script"
)

// holding finds the lines during which all queues were disabled, so that one scheduling run sees the
// submitted jobs together. held marks these lines. A script may enable queues without a line that
// disables them. before is then the line before which they must have been disabled; otherwise it is -1.
//
// That line is the first submission. But if the script submitted jobs and then waited without a look at
// the result, it is the first submission after the wait.
func holding(lines []script.Line) (before int, held []bool) {
	held = make([]bool, len(lines))
	before = -1
	enable := -1
	from := -1
	for i := range lines {
		if isEnable(&lines[i]) {
			enable = i
			break
		}
		if from < 0 && lines[i].Kind == script.Command && strings.HasPrefix(lines[i].Command, "qmod -d ") {
			from = i
		}
	}
	if enable < 0 {
		if from < 0 && looksBefore(lines) {
			before = 0
		}
		return before, held
	}
	if from < 0 {
		from = firstHeld(lines[:enable])
		before = from
	}
	for i := max(from, 0); i < enable; i++ {
		held[i] = true
	}
	return before, held
}

func isSubmission(l *script.Line) bool {
	return l.Kind == script.Command && strings.HasPrefix(l.Command, "qsub ")
}

// looksBefore reports whether the script has a single capture, named "before": such scripts show the
// priorities of jobs while no job can start. Their queues stay disabled.
func looksBefore(lines []script.Line) bool {
	captures := 0
	for i := range lines {
		if lines[i].Kind == script.Capture {
			if captures++; captures > 1 || lines[i].Capture != "before" {
				return false
			}
		}
	}
	return captures == 1
}

// firstHeld returns the first of the submissions that were released together.
func firstHeld(lines []script.Line) int {
	first := -1
	for i := range lines {
		switch {
		case lines[i].Kind == script.Capture && first >= 0:
			return first
		case !isSubmission(&lines[i]):
		case first < 0 || i > 1 && lines[i-1].Kind == script.Wait && isSubmission(&lines[i-2]):
			first = i
		}
	}
	return first
}
