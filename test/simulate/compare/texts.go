package compare

import (
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
)

var numeral = regexp.MustCompile(`-?\d+(\.\d+)?`)

// nearly reports whether two lines about a load with a correction are the same but
// for how much the correction has decayed (load_adjustment_decay_time of
// sched_conf(5)): by a tenth, which are 45 seconds of the usual 7:30 minutes.
func nearly(want, got string) bool {
	const correction = "(= "
	if !strings.Contains(want, correction) || !strings.Contains(got, correction) {
		return false
	}
	if numeral.ReplaceAllString(want, "0") != numeral.ReplaceAllString(got, "0") {
		return false
	}
	w, g := numeral.FindAllString(want, -1), numeral.FindAllString(got, -1)
	for i := range w {
		if x, y := number(w[i]), number(g[i]); math.Abs(x-y) > 0.1*math.Abs(x)+0.011 {
			return false
		}
	}
	return true
}

// instance is the output of qstat -f for a queue instance.
type instance struct {
	columns map[string]string
	lines   []string // reasons of states, resources
	jobs    []*row
	text    string
}

// parseQueues reads what qstat -f printed: the queue instances, and the pending
// jobs.
func parseQueues(text string) (map[string]*instance, []*row, error) {
	all := map[string]*instance{}
	var pending []*row
	var current *instance
	seen := numbering{}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0, f[0] == "queuename", strings.HasPrefix(line, "---"):
		case strings.HasPrefix(line, "###"), strings.HasPrefix(line, " - PENDING"):
			current = nil
		case strings.Contains(f[0], "@"):
			if len(f) < 5 || len(f) > 6 {
				return nil, nil, fmt.Errorf("%q is no line about a queue instance", line)
			}
			current = &instance{text: strings.TrimSuffix(line, "\n"), columns: map[string]string{"qtype": f[1], "resv/used/tot.": f[2], "load_avg": f[3], "arch": f[4], "states": ""}}
			if len(f) == 6 {
				current.columns["states"] = f[5]
			}
			all[f[0]] = current
		case id.MatchString(f[0]) && !strings.HasPrefix(line, "\t"):
			r, err := parseRow(queueHeader, line)
			if err != nil {
				return nil, nil, err
			}
			if current == nil {
				seen.number(r)
				pending = append(pending, r)
			} else {
				current.jobs = append(current.jobs, r)
			}
		case current == nil:
			return nil, nil, fmt.Errorf("%q is about no queue instance", line)
		default:
			current.lines = append(current.lines, words(line))
		}
	}
	return all, pending, nil
}

// queues compares what qstat -f and qstat -F printed.
func (s *step) queues(want, got string) error {
	w, pendingWant, err := parseQueues(want)
	if err != nil {
		return fmt.Errorf("what is wanted: %w", err)
	}
	g, pendingGot, err := parseQueues(got)
	if err != nil {
		s.differ("", "table", "(what qstat -f prints)", err.Error())
		return nil
	}
	back := map[string]string{}
	for from, to := range s.rename {
		back[to] = from
	}
	for _, name := range sortedKeys(w, g) {
		a, b := w[name], g[name]
		switch {
		case a == nil:
			s.differ(name, "listed", Absent, "(present)")
		case b == nil:
			s.differ(name, "listed", "(present)", Absent)
		default:
			// What jobs do to an instance is looked for where they are; what it is by
			// itself stays.
			jobs := b
			if from, ok := back[name]; ok && g[from] != nil {
				jobs = g[from]
			}
			s.instance(name, a, b, jobs)
		}
	}
	s.head(want, got)
	s.jobs("", pendingWant, pendingGot)
	return nil
}

func (s *step) instance(name string, want, got, exchanged *instance) {
	if maps.Equal(want.columns, got.columns) {
		s.layout(name, want.text, got.text)
	}
	for _, column := range sortedKeys(want.columns) {
		w, g := want.columns[column], got.columns[column]
		switch column {
		case "resv/used/tot.":
			g = exchangedSlots(g, exchanged.columns[column])
		case "states":
			g = exchanged.columns[column]
		}
		if w != g {
			s.differ(name, column, w, g)
		}
	}
	s.sets(name, want.lines, exchanged.lines, nearly)
	s.jobs(name, want.jobs, exchanged.jobs)
}

// exchangedSlots returns "resv/used/tot." with the total of one instance and the use of another.
func exchangedSlots(total, use string) string {
	return use[:strings.LastIndexByte(use, '/')+1] + total[strings.LastIndexByte(total, '/')+1:]
}

// jobs compares the jobs of an instance, or the pending ones. With -explain the
// recordings list those of root, who has none.
func (s *step) jobs(about string, want, got []*row) {
	if strings.HasPrefix(s.file, "qstat-explain") {
		return
	}
	index := map[string]*row{}
	for _, r := range got {
		index[r.key] = r
	}
	for _, r := range want {
		if other := index[r.key]; other == nil {
			s.missing(r, about, r.String(), Absent)
		} else {
			s.row(r, other)
		}
		delete(index, r.key)
	}
	for _, key := range sortedKeys(index) {
		s.missing(index[key], about, Absent, index[key].String())
	}
}

// missing reports a job that is on an instance in one of the recordings only.
func (s *step) missing(r *row, about, want, got string) {
	if !s.unlisted[r.key] {
		s.differ(r.key, words("listed "+about), want, got)
	}
}

// reasons compares the scheduling info of pending jobs, sets of lines.
func (s *step) reasons(want, got string) error {
	w, g := parseReasons(want), parseReasons(got)
	for _, job := range sortedKeys(w, g) {
		s.sets(job, s.anonymousAll(w[job]), s.anonymousAll(g[job]), nearly)
	}
	return nil
}

func (s *step) anonymousAll(lines []string) []string {
	var all []string
	for _, l := range lines {
		all = append(all, s.anonymous(l))
	}
	return all
}

// parseReasons reads the blocks "== job N" of schedinfo.txt. A job without reasons
// has an empty list. The original says "job dropped because of user limitations" again for
// each time it looked, which tells nobody anything.
func parseReasons(text string) map[string][]string {
	jobs := map[string][]string{}
	job := ""
	for line := range strings.Lines(text) {
		if after, ok := strings.CutPrefix(line, "== job "); ok {
			job = strings.TrimSpace(after)
			jobs[job] = nil
			continue
		}
		line = words(strings.TrimPrefix(strings.TrimSpace(line), "scheduling info:"))
		if line != "" && !slices.Contains(jobs[job], line) {
			jobs[job] = append(jobs[job], line)
		}
	}
	return jobs
}

// used compares the slots of each queue instance.
func (s *step) used(want, got string) error {
	w, g := pairs(want), pairs(got)
	for _, name := range sortedKeys(w, g) {
		a, b := w[name], g[name]
		for from, to := range s.rename {
			if to == name && b != "" && g[from] != "" {
				b = exchangedSlots(b, g[from])
			}
		}
		if a != b {
			s.differ(name, "resv/used/tot.", a, b)
		}
	}
	return nil
}

func pairs(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) == 2 {
			all[f[0]] = f[1]
		}
	}
	return all
}

var timestamp = regexp.MustCompile(`\d\d/\d\d/\d{4} \d\d:\d\d:\d\d`)

// lines compares two sets of lines. "###" begins a set of its own.
func (s *step) lines(want, got string) error {
	w, g := s.blocks(want), s.blocks(got)
	for _, name := range sortedKeys(w, g) {
		s.sets(name, w[name], g[name], nil)
	}
	return nil
}

func (s *step) blocks(text string) map[string][]string {
	blocks := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		if after, ok := strings.CutPrefix(line, "### "); ok {
			name = strings.TrimSpace(after)
			continue
		}
		if line = words(timestamp.ReplaceAllString(line, "TIME")); line != "" && !strings.HasPrefix(line, "---") {
			blocks[name] = append(blocks[name], s.anonymous(line))
		}
	}
	return blocks
}

// hosts compares what qhost -F printed of each execution host but the master's,
// which is a real one.
func (s *step) hosts(want, got string) error {
	w, g := parseHosts(want), parseHosts(got)
	for _, name := range sortedKeys(w, g) {
		if name != "master" {
			s.sets(name, w[name], g[name], nil)
		}
	}
	return nil
}

func parseHosts(text string) map[string][]string {
	hosts := map[string][]string{}
	name := ""
	for line := range strings.Lines(text) {
		switch f := strings.Fields(line); {
		case len(f) == 0, f[0] == "HOSTNAME", strings.HasPrefix(line, "---"):
		case line[0] != ' ':
			name = f[0]
			hosts[name] = append(hosts[name], words(line))
		default:
			hosts[name] = append(hosts[name], words(strings.TrimPrefix(strings.TrimSpace(line), "Host Resource(s):")))
		}
	}
	return hosts
}
