package replay

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/simulate/script"
)

// The duration of a line of a script if nothing else is known, in milliseconds. The duration of a
// capture grows with the number of jobs.
const (
	commandTakes = 150
	captureTakes = 1000
	jobTakes     = 100
	loadTakes    = 2500
)

// loadArrives returns the delay, in milliseconds, until a host has reported a changed load value, if the
// script waits for so long: two scheduling runs during the wait know the value, if it is long enough.
func (t *timetable) loadArrives(wait time.Duration) int64 {
	const latest = 3500
	return min(latest, max(0, loadTakes+wait.Milliseconds()-2*t.interval))
}

// runsAt is the time of a scheduling run within its second, in milliseconds.
const runsAt = 500

// timetable holds the times of lines and scheduling runs, in milliseconds since 1970.
type timetable struct {
	at       []int64 // start of each line
	runs     []int64 // known scheduling runs, ascending
	interval int64
}

// span is the interval in which an event may have happened, including both ends.
type span struct{ from, to int64 }

var always = span{math.MinInt64 / 4, math.MaxInt64 / 4}

func (s span) and(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// within returns the span of a second, in milliseconds.
func within(second int64) span { return span{second * 1000, second*1000 + 999} }

// epoch is the start time of a case without any known time.
const epoch = 1767225600 // the first of January 2026, UTC

const hour = 3600

// makeTimetable finds times for all lines that agree with the known facts.
func makeTimetable(lines []script.Line, e *evidence, held []bool, interval int64, zone *time.Location) *timetable {
	t := &timetable{at: make([]int64, len(lines)), interval: interval}
	for _, r := range e.runs {
		t.runs = append(t.runs, r*1000+runsAt)
	}
	known := make([]span, len(lines))
	for i := range lines {
		known[i] = t.known(lines, i, e, held, zone)
	}
	latest := make([]int64, len(lines)+1)
	latest[len(lines)] = always.to
	for i := len(lines) - 1; i >= 0; i-- {
		latest[i] = min(latest[i+1]-lines[i].Duration(), known[i].to)
	}
	// A job that a run has started was submitted after the previous run, unless the job had to wait
	// for something; a later line then limits its time.
	for i := range lines {
		if s, ok := e.started[jobOf(&lines[i])]; ok && !held[i] {
			known[i].from = max(known[i].from, min(latest[i], t.before(s*1000+runsAt)+1))
		}
	}
	now := t.beginning(lines, known, latest, zone)
	jobs := 0
	for i := range lines {
		if i > 0 {
			now += takes(&lines[i-1], jobs)
		}
		if isSubmission(&lines[i]) {
			jobs++
		}
		// If facts contradict each other, times that only move forward take precedence.
		earliest := known[i].from
		if i > 0 {
			earliest = max(earliest, t.at[i-1]+lines[i-1].Duration())
		}
		now = max(min(now, latest[i]), earliest)
		t.at[i] = now
		now += lines[i].Duration()
	}
	return t
}

// takes returns the time, in milliseconds, that a line takes after the given number of jobs was
// submitted.
func takes(l *script.Line, jobs int) int64 {
	switch l.Kind {
	case script.Command:
		return commandTakes
	case script.Capture:
		return captureTakes + int64(jobs)*jobTakes
	case script.LoadChange:
		return loadTakes
	}
	return 0
}

// beginning returns the possible time of the first line.
func (t *timetable) beginning(lines []script.Line, known []span, latest []int64, zone *time.Location) int64 {
	at, passed, jobs := always.to, int64(0), 0
	for i := range lines {
		if latest[i] < always.to/2 {
			// For a second that a comment names, its beginning.
			begin := latest[i]
			if lines[i].Kind == script.Clock || lines[i].Kind == script.Reservation {
				begin = min(begin, known[i].from)
			}
			at = min(at, begin-passed)
		}
		if isSubmission(&lines[i]) {
			jobs++
		}
		passed += lines[i].Duration() + takes(&lines[i], jobs)
	}
	if at < always.to {
		return at
	}
	// A command with a date is run before that date, but not long before, unless the date is meant
	// to be in the past.
	past := always.to
	for i := range lines {
		if date, ok := dateOption(lines[i].Command, zone); ok && date >= epoch {
			at = min(at, (date-hour)*1000)
		} else if ok {
			past = min(past, (date-hour)*1000)
		}
	}
	if at < always.to {
		return at
	}
	if past < always.to {
		return past
	}
	return epoch * 1000
}

// before returns the time of the scheduling run before another one.
func (t *timetable) before(run int64) int64 {
	i, _ := slices.BinarySearch(t.runs, run)
	if i > 0 && t.runs[i-1] > run-t.interval {
		return t.runs[i-1]
	}
	return run - t.interval
}

// known returns the interval in which a line may have been run.
func (t *timetable) known(lines []script.Line, i int, e *evidence, held []bool, zone *time.Location) span {
	l := &lines[i]
	s := always
	switch l.Kind {
	case script.Clock:
		return within(l.Epoch)
	case script.Capture:
		if at, ok := e.captured[l.Capture]; ok {
			s = s.and(within(at))
		}
		if samples := e.samples[l.Capture]; len(samples) > 0 {
			s = s.and(span{always.from, samples[0]*1000 + 999})
		}
	case script.Reservation:
		if i+1 < len(lines) {
			if at, ok := dateOption(lines[i+1].Command, zone); ok {
				return within(at - int64(l.Wait/time.Second))
			}
		}
	case script.Command:
		if isEnable(l) {
			if at, ok := firstStart(lines, i, e, held); ok {
				return span{t.before(at*1000+runsAt) + 1, at*1000 + runsAt - 1}
			}
		}
		id := jobOf(l)
		if at, ok := e.submitted[id]; ok {
			s = within(at)
		}
		if at, ok := e.started[id]; ok {
			s.to = min(s.to, at*1000+runsAt-1)
		}
	}
	return s
}

// firstStart returns the time at which the first of the jobs released by an enable command was
// started.
func firstStart(lines []script.Line, enable int, e *evidence, held []bool) (at int64, ok bool) {
	for i := enable - 1; i >= 0 && !isEnable(&lines[i]); i-- {
		if s, known := e.started[jobOf(&lines[i])]; known && held[i] && (!ok || s < at) {
			at, ok = s, true
		}
	}
	return at, ok
}

// nextRun returns the first scheduling run after a time. last is the time of the previous run.
func (t *timetable) nextRun(after, last int64) int64 {
	i, _ := slices.BinarySearch(t.runs, after+1)
	next := always.to
	if i < len(t.runs) {
		next = t.runs[i]
	}
	regular := last + t.interval
	if last == 0 {
		// The first run is in phase with the known ones.
		regular = after - after%1000 + runsAt
		if next < always.to {
			regular = next - (next-after-1)/t.interval*t.interval
		}
	}
	for regular <= after {
		regular += t.interval
	}
	if next-regular < t.interval {
		return next
	}
	return regular
}

var submittedID = lazyregexp.New(`^Your (?:immediate )?job(?:-array)? (\d+)`)

// jobOf returns the number of the job that a line has submitted, according to its answer; 0 for
// none.
func jobOf(l *script.Line) int {
	for _, a := range l.Answer {
		if m := submittedID().FindStringSubmatch(a); m != nil {
			if id, err := strconv.Atoi(m[1]); err == nil {
				return id
			}
		}
	}
	return 0
}

func isEnable(l *script.Line) bool {
	return l.Kind == script.Command && strings.HasPrefix(l.Command, "qmod -e ")
}

var startOption = lazyregexp.New(` -(?:a|dl) (\d{12}(?:\.\d\d)?)(?: |$)`)

// dateOption returns the first date in a command that has a century.
func dateOption(command string, zone *time.Location) (int64, bool) {
	m := startOption().FindStringSubmatch(command)
	if m == nil {
		return 0, false
	}
	format := "200601021504.05"
	at, err := time.ParseInLocation(format[:len(m[1])], m[1], zone)
	return at.Unix(), err == nil
}
