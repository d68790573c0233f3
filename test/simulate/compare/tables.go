package compare

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// state returns the state of a job without how far it has come on its way to a host. Of a job that
// is suspended qstat does not say that it runs.
func state(s string) string {
	s = strings.ReplaceAll(s, "t", "r")
	if strings.ContainsAny(s, "sST") {
		s = strings.ReplaceAll(s, "r", "")
	}
	return s
}

// table compares tables of qstat.
func (s *step) table(want, got string) error {
	w, err := parseTable(want)
	if err != nil {
		return fmt.Errorf("what is wanted: %w", err)
	}
	g, err := parseTable(got)
	if err != nil {
		s.differ("", "table", "(a table of qstat)", err.Error())
		return nil
	}
	index := map[string]*row{}
	for _, r := range g {
		index[r.key] = r
	}
	for _, r := range w {
		other := index[r.key]
		if other == nil {
			s.differ(r.key, "listed", r.String(), Absent)
			continue
		}
		delete(index, r.key)
		s.row(r, other)
	}
	for _, key := range sortedKeys(index) {
		s.differ(key, "listed", Absent, index[key].String())
	}
	s.head(want, got)
	if s.file == "qstat.txt" {
		s.order(w, g)
		s.sameRun(w, g)
	}
	return nil
}

// row compares the columns of two rows about the same job, and where these are the
// same, how they are laid out.
func (s *step) row(want, got *row) {
	same := true
	for _, name := range sortedKeys(want.columns, got.columns) {
		w, known := want.columns[name]
		if !known {
			w = Absent
		}
		g, known := got.columns[name]
		if !known {
			g = Absent
		}
		if !s.sameValue(name, w, g) {
			s.differ(want.key, name, w, g)
		}
		same = same && (w == g || name == "submit/start_at")
	}
	if same {
		s.layout(want.key, want.text, got.text)
	}
}

// layout compares lines with the same contents, but for the time, byte by byte.
func (s *step) layout(about, want, got string) {
	want, got = timestamp.ReplaceAllString(want, "MM/DD/YYYY hh:mm:ss"), timestamp.ReplaceAllString(got, "MM/DD/YYYY hh:mm:ss")
	if want != got {
		s.differ(about, "layout", want, got)
	}
}

// head compares the first lines of two tables, unless one is empty.
func (s *step) head(want, got string) {
	w, _, _ := strings.Cut(want, "\n")
	g, _, _ := strings.Cut(got, "\n")
	if w != "" && g != "" {
		s.layout("", w, g)
	}
}

// rounding is how far apart the last digits of rounded numbers may be, in units of
// the last but one so that it does not fall prey to rounding itself.
const rounding = 1.01

// slack is the permitted difference between the clocks of two recordings.
const slack = 5.0 // seconds

// sameValue reports whether a column has the same value in both recordings.
func (s *step) sameValue(column, want, got string) bool {
	switch column {
	case "submit/start_at":
		return true
	case "state":
		return state(want) == state(got)
	case "queue":
		return want == s.renamed(got)
	}
	if want == got {
		return true
	}
	w, err := strconv.ParseFloat(want, 64)
	g, err2 := strconv.ParseFloat(got, 64)
	if err != nil || err2 != nil {
		return false
	}
	off := math.Abs(w - g)
	switch column {
	case "tckts", "ovrts", "otckt", "ftckt", "stckt":
		return off <= rounding || s.c.decay && off <= w/100
	case "share":
		return off <= 0.01*rounding
	case "npprior":
		return off <= 0.00001*rounding
	case "prior", "nurg", "ntckts":
		if s.c.waitingWeight != 0 || s.c.deadlines || s.c.decay {
			return off <= 0.02
		}
		return off <= 0.00001*rounding
	case "wtcontr":
		return off <= s.c.waitingWeight*slack+rounding
	case "dlcontr":
		return s.c.deadlines && sameDeadline(w, g, number(s.c.conf["weight_deadline"]))
	case "urg":
		return s.c.waitingWeight != 0 && off <= s.c.waitingWeight*slack+rounding || s.c.deadlines && off <= w/10
	}
	return false
}

// sameDeadline reports whether two contributions of a deadline (sge_priority(5)) are
// of about the same time.
func sameDeadline(want, got, weight float64) bool {
	return want > 0 && got > 0 && math.Abs(weight/want-weight/got) <= slack+rounding
}

// order compares the order of the pending jobs, which is that of dispatch.
func (s *step) order(want, got []*row) {
	place := map[string]int{}
	for i, r := range got {
		place[r.key] = i + 1
	}
	var w []*row
	for _, r := range want {
		if r.pending && place[r.key] > 0 {
			w = append(w, r)
		}
	}
	for i := 1; i < len(w); i++ {
		a, b := w[i-1], w[i]
		// Where the clock decides, jobs of nearly the same priority may change places.
		if place[a.key] < place[b.key] || a.columns["prior"] != b.columns["prior"] && s.sameValue("prior", a.columns["prior"], b.columns["prior"]) {
			continue
		}
		s.differ(a.key, "order", "before "+b.key, "behind")
	}
}

// sameRun compares which tasks were started together. Orders of one run may be
// carried out in two seconds.
func (s *step) sameRun(want, got []*row) {
	if !s.c.held {
		return
	}
	other := map[string]*row{}
	for _, r := range got {
		other[r.key] = r
	}
	running := slices.DeleteFunc(slices.Clone(want), func(r *row) bool { return r.pending || other[r.key] == nil })
	slices.SortStableFunc(running, func(a, b *row) int {
		return strings.Compare(a.columns["submit/start_at"], b.columns["submit/start_at"])
	})
	for i := 1; i < len(running); i++ {
		a, b := running[i-1], running[i]
		w, g := together(a, b), together(other[a.key], other[b.key])
		if w != g {
			s.differ(b.key, "started with "+a.key, strconv.FormatBool(w), strconv.FormatBool(g))
		}
	}
}

func together(a, b *row) bool {
	const layout = "01/02/2006 15:04:05"
	x, err := time.Parse(layout, a.columns["submit/start_at"])
	y, err2 := time.Parse(layout, b.columns["submit/start_at"])
	return err == nil && err2 == nil && y.Sub(x).Abs() <= time.Second
}

// slots compares what qstat -g t printed: the slots of each task on each instance,
// and its master.
func (s *step) slots(want, got string) error {
	w, err := parseSlots(want)
	if err != nil {
		return fmt.Errorf("what is wanted: %w", err)
	}
	g, err := parseSlots(got)
	if err != nil {
		s.differ("", "table", "(a table of qstat -g t)", err.Error())
		return nil
	}
	s.head(want, got)
	// Some recordings are of qstat -g t -s r, which leaves pending jobs out.
	if !slices.ContainsFunc(sortedKeys(w), isPending) {
		maps.DeleteFunc(g, func(key string, _ map[string]int) bool { return isPending(key) })
	}
	for _, key := range sortedKeys(w, g) {
		a, b := slotText(w[key], nil), slotText(g[key], s.rename)
		if a != b && !s.unlisted[key] {
			s.differ(key, "slots", a, b)
		}
	}
	return nil
}

// slotText describes the slots of a task on each instance.
func slotText(slots map[string]int, rename map[string]string) string {
	if slots == nil {
		return Absent
	}
	var parts []string
	for _, key := range sortedKeys(slots) {
		kind, instance, _ := strings.Cut(key, " ")
		if to, ok := rename[instance]; ok {
			instance = to
		}
		parts = append(parts, words(fmt.Sprintf("%d %s %s", slots[key], kind, instance)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
