package view

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// maxWaiting is the maximum number of reasons in plain words, and maxPlaces the maximum number of
// places for each.
const (
	maxWaiting = 12
	maxPlaces  = 4
)

// waiting explains in plain words why a job is pending. start is the time (Unix seconds) from which
// it may start, or 0 if that is unknown.
func (v *View) waiting(j *cell.Job) (lines []string, start int64) {
	if !Pending(j) {
		return nil, 0
	}
	if j.Problem != "" {
		return []string{"a change of the configuration: " + j.Problem + "; qalter can change the request"}, 0
	}
	lines = append(v.failed(j), v.refused(j)...)
	back, next := v.comebacks(j)
	lines = append(lines, back...)
	own, start := v.ownReasons(j)
	lines = append(lines, own...)
	if len(own) > 0 {
		return lines, start
	}
	if j.Scheduled().Tasks.IsEmpty() {
		if len(j.TaskPredecessors()) > 0 {
			lines = append(lines, "tasks of "+v.jobsText(j.TaskPredecessors())+" (-hold_jid_ad)")
		}
		return lines, next
	}
	places, at := v.places(j)
	return append(lines, places...), at
}

// failed returns tasks in error state.
func (v *View) failed(j *cell.Job) (lines []string) {
	for _, w := range v.cell.WaitingTasks(j) {
		if w.Error == "" {
			continue
		}
		text := "its error to be cleared with qmod -cj " + number(j.ID())
		if j.IsArray() {
			text += " (tasks " + w.Tasks.String() + ")"
		}
		lines = append(lines, text+": "+w.Error)
	}
	return lines
}

// refused describes the tasks that their hosts refused.
func (v *View) refused(j *cell.Job) (lines []string) {
	type refusal struct{ host, reason string }
	tasks := map[refusal][]int{}
	next := map[refusal]int64{}
	var order []refusal
	for _, t := range j.Tasks() {
		host, reason, again, ok := t.Refusal()
		if !ok {
			continue
		}
		r := refusal{host, reason}
		if _, known := next[r]; !known {
			if len(order) == maxPlaces {
				continue
			}
			order = append(order, r)
			next[r] = again
		}
		tasks[r] = append(tasks[r], int(t.Number))
		next[r] = min(next[r], again)
	}
	for _, r := range order {
		text := "host " + r.host + " to take it"
		if j.IsArray() {
			text += " (tasks " + rangelist.List{}.AddAll(tasks[r]).String() + ")"
		}
		again := "in the next scheduling run"
		if at := next[r]; at > v.now {
			again = "in " + duration(at-v.now)
		}
		lines = append(lines, text+", which is tried again "+again+": "+r.reason)
	}
	return lines
}

// comebacks describes the tasks that wait until they run again; next is when the first
// of them may start, 0 for none.
func (v *View) comebacks(j *cell.Job) (lines []string, next int64) {
	var numbers []int
	most := 0
	for _, t := range j.Tasks() {
		runs, until, ok := t.Comeback(v.now)
		if !ok {
			continue
		}
		numbers = append(numbers, int(t.Number))
		most = max(most, runs)
		if next == 0 || until < next {
			next = until
		}
	}
	tasks := rangelist.List{}.AddAll(numbers)
	if tasks.IsEmpty() {
		return nil, 0
	}
	text := "its next run"
	if j.IsArray() {
		text = "the next run of tasks " + tasks.String()
	}
	text += ", in " + duration(next-v.now) + ": it ended to be run again (exit status 99)"
	if most > 1 {
		text = fmt.Sprintf("%s, %d times in a row; the pause grows each time", text, most)
	}
	return []string{text}, next
}

func number(id uint32) string { return fmt.Sprint(id) }

// ownReasons returns the reasons that are due to the job and not to the cluster, and the time (Unix
// seconds) at which it can start, if known.
func (v *View) ownReasons(j *cell.Job) (lines []string, start int64) {
	if held(j) {
		for _, h := range [...]struct {
			hold submit.Holds
			text string
		}{
			{submit.HoldUser, "its user hold to be taken off: qrls "},
			{submit.HoldOperator, "an operator to take the hold off: qrls -h o "},
			{submit.HoldSystem, "a manager to take the hold off: qrls -h s "},
		} {
			if v.holds(j)&h.hold != 0 {
				lines = append(lines, h.text+number(j.ID()))
			}
		}
	}
	if p := j.Predecessors(); len(p) > 0 {
		lines = append(lines, v.jobsText(p)+" to end (-hold_jid)")
	}
	if j.Start > v.now {
		lines = append(lines, "its start time (-a), in "+duration(j.Start-v.now))
		start = j.Start
	}
	if id := j.Request().Reservation; id != 0 {
		for _, r := range v.cell.Reservations() {
			if int(r.ID) == id && r.Start > v.now {
				lines = append(lines, fmt.Sprintf("its advance reservation %d, in %s", id, duration(r.Start-v.now)))
				start = max(start, r.Start)
			}
		}
	}
	if held(j) || len(j.Predecessors()) > 0 {
		start = 0
	}
	return lines, start
}

func (v *View) holds(j *cell.Job) submit.Holds {
	holds := submit.Holds(0)
	if !j.Waiting.IsEmpty() {
		holds = j.Holds
	}
	for _, t := range j.Tasks() {
		if t.Running() == nil {
			holds |= t.Holds
		}
	}
	return holds
}

// jobsText names jobs: job 12 (prepare), which runs.
func (v *View) jobsText(ids []uint32) string {
	var texts []string
	for _, id := range ids {
		text := "job " + number(id)
		if j := v.cell.Job(id); j != nil {
			text += " (" + j.Name() + ")"
		}
		texts = append(texts, text)
		if len(texts) == maxPlaces && len(ids) > maxPlaces {
			texts = append(texts, fmt.Sprintf("%d others", len(ids)-maxPlaces))
			break
		}
	}
	return strings.Join(texts, ", ")
}

// places returns the reasons why the job cannot run at its possible places, and the start of its
// reservation in Unix seconds (0 for none).
func (v *View) places(j *cell.Job) (lines []string, start int64) {
	if v.decisions == nil {
		return []string{"the next scheduling run"}, 0
	}
	for i := range v.decisions.Reservations {
		if r := &v.decisions.Reservations[i]; r.Job == j.Scheduled() {
			start = r.At
		}
	}
	reasons := slices.Concat(v.decisions.Dropped, v.decisions.Reasons(j.Scheduled()))
	b := placeList{view: v}
	var other []string
	for i := range reasons {
		place, text, elsewhere := reasons[i].Plain()
		if quota := v.cell.State().Exceeded(&reasons[i], v.now); quota != "" {
			text = quota
		}
		switch {
		case text == "":
		case elsewhere && place != "":
			other = append(other, place+": "+text)
		case elsewhere:
			other = append(other, text)
		default:
			b.add(place, text)
		}
	}
	lines = b.lines()
	if start == 0 {
		start = b.opens
	}
	slices.Sort(other)
	switch {
	case len(lines) == 0 && len(other) > 0:
		lines = append([]string{"a place that fits: no queue meets the requests"}, other[:min(len(other), maxPlaces)]...)
	case len(lines) == 0:
		lines = []string{"its turn: the next scheduling run looks for a place"}
	}
	if start != 0 && start <= v.now {
		start = 0
	}
	return lines, start
}

// placeList groups places that have the same problem.
type placeList struct {
	view  *View
	texts []string
	at    map[string][]string
	opens int64 // when the first closed place opens, 0 for none
}

func (b *placeList) add(place, text string) {
	if at, ok := b.view.opens(place); ok {
		text = "closed by its calendar for another " + duration(at-b.view.now)
		if b.opens == 0 || at < b.opens {
			b.opens = at
		}
	} else if strings.HasPrefix(text, "all slots") || strings.HasPrefix(text, "no slot") {
		b.opens = math.MinInt64 // unknown
	}
	if b.at == nil {
		b.at = map[string][]string{}
	}
	if _, ok := b.at[text]; !ok {
		b.texts = append(b.texts, text)
	}
	if !slices.Contains(b.at[text], place) {
		b.at[text] = append(b.at[text], place)
	}
}

func (b *placeList) lines() (lines []string) {
	if b.opens == math.MinInt64 {
		b.opens = 0
	}
	// The order in which places were dropped tells people nothing.
	slices.Sort(b.texts)
	for _, text := range b.texts {
		places := b.at[text]
		slices.Sort(places)
		if n := len(places); n > maxPlaces+1 {
			places = append(slices.Clone(places[:maxPlaces]), fmt.Sprintf("%d other places", n-maxPlaces))
		}
		if len(places) == 1 && places[0] == "" {
			lines = append(lines, text)
		} else {
			lines = append(lines, "room in "+strings.Join(places, ", ")+": "+text)
		}
		if len(lines) == maxWaiting {
			break
		}
	}
	return lines
}

// opens returns when the calendar of a queue instance opens it.
func (v *View) opens(instance string) (int64, bool) {
	queue, host, ok := strings.Cut(instance, "@")
	if !ok {
		return 0, false
	}
	id, ok := v.model.Instance(queue, host)
	if !ok || v.cell.State().Status(id)&(scheduler.DisabledByCalendar|scheduler.SuspendedByCalendar) == 0 {
		return 0, false
	}
	return v.cell.Opens(id)
}

// duration formats seconds as hours:minutes:seconds, preceded by days if there are any.
func duration(seconds int64) string {
	text := fmt.Sprintf("%d:%02d:%02d", seconds/3600%24, seconds/60%60, seconds%60)
	if days := seconds / (24 * 3600); days > 0 {
		text = fmt.Sprintf("%d days and ", days) + text
	}
	return text
}

// progress returns the numbers of pending, running and finished tasks of an array job, or nil for
// other jobs.
func progress(j *cell.Job) *qstat.Progress {
	a := j.Request().Array
	if a == nil {
		return nil
	}
	p := &qstat.Progress{Total: a.Len()}
	left := j.Waiting.Len()
	for _, t := range j.Tasks() {
		left++
		switch {
		case t.Running() != nil:
			p.Running++
		case t.Error != "":
			p.Failed++
		}
	}
	p.Done = p.Total - left
	return p
}
