package compare

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// shares compares what sge_share_mon printed: the last list of nodes.
func (s *step) shares(want, got string) error {
	w, g := parseShares(want), parseShares(got)
	for _, node := range sortedKeys(w, g) {
		for _, column := range sortedKeys(w[node], g[node]) {
			a, known := w[node][column]
			if !known {
				a = Absent
			}
			b, known := g[node][column]
			if !known {
				b = Absent
			}
			if !sameShare(column, a, b) {
				s.differ(node, column, a, b)
			}
		}
	}
	return nil
}

// unfilled are the columns that are 0 in the original whatever runs.
var unfilled = []string{"job_count", "long_target_share", "short_target_share"}

// sameShare allows for what usage decays to within seconds.
func sameShare(column, want, got string) bool {
	if want == got || column == "curr_time" || column == "usage_time" || slices.Contains(unfilled, column) {
		return true
	}
	w, err := strconv.ParseFloat(want, 64)
	g, err2 := strconv.ParseFloat(got, 64)
	return err == nil && err2 == nil && math.Abs(w-g) <= 0.000001*rounding+0.005*math.Abs(w)
}

func parseShares(text string) map[string]map[string]string {
	var names []string
	nodes := map[string]map[string]string{}
	for line := range strings.Lines(text) {
		f := strings.Split(strings.TrimRight(line, "\n"), "\t")
		switch {
		case f[0] == "curr_time":
			names, nodes = f, map[string]map[string]string{}
		case len(names) > 2 && len(f) >= len(names)-1:
			node := map[string]string{}
			for i, name := range names {
				if name != "" && i < len(f) {
					node[name] = f[i]
				}
			}
			nodes[node["node_name"]] = node
		}
	}
	return nodes
}

// schedule compares the last run of a schedule file (sge_schedule(5)). Starts are
// compared with the first of them.
func (s *step) schedule(want, got string) error {
	w, g := parseSchedule(want), parseSchedule(got)
	s.sets("", w.lines, g.lines, func(a, b string) bool {
		return stripStart(a) == stripStart(b) && math.Abs(w.starts[a]-g.starts[b]) <= slack
	})
	return nil
}

type scheduleRun struct {
	lines  []string
	starts map[string]float64
}

// stripStart returns a line without its fourth field, the start.
func stripStart(line string) string {
	f := strings.Split(line, ":")
	return strings.Join(append(slices.Clone(f[:min(3, len(f))]), f[min(4, len(f)):]...), ":")
}

func parseSchedule(text string) scheduleRun {
	run := scheduleRun{starts: map[string]float64{}}
	next := true
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		f := strings.Split(line, ":")
		if strings.Trim(line, ":") == "" || len(f) < 9 {
			next = true
			continue
		}
		if next {
			run, next = scheduleRun{starts: map[string]float64{}}, false
		}
		run.lines = append(run.lines, line)
		run.starts[line] = number(f[3])
	}
	first := math.Inf(1)
	for _, start := range run.starts {
		first = min(first, start)
	}
	for line := range run.starts {
		run.starts[line] -= first
	}
	return run
}
