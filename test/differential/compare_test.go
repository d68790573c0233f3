package differential

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A difference is a field of a case with different values in the two cells.
type difference struct {
	name, field    string // of the case, of the observation
	original, ours string
}

// absent stands for the value of a field that one side lacks.
const absent = "(absent)"

func (d difference) String() string {
	return fmt.Sprintf("%s\n\t%s\n\t\toriginal: %s\n\t\tours:     %s", d.name, d.field, short(d.original), short(d.ours))
}

// short shortens a value of thousands of bytes, so that it does not hide the others.
func short(s string) string {
	const limit = 600
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", s[:limit], len(s))
	}
	return strconv.Quote(s)
}

// A measure is a kind of field that contains a measurement, which differs between two runs of the
// same job. It may differ by abs, or by rel times the larger value.
type measure struct {
	field    *regexp.Regexp
	abs, rel float64
	why      string
}

// measures lists the fields that are not compared exactly, with the allowed difference. All other
// fields are compared exactly.
var measures = []measure{
	{measured(`ru_wallclock|wallclock`), 15, 0.6, "whole seconds, on a machine that is busy; of jobs that use CPU time, too"},
	{measured(`cpu|ru_utime|ru_stime`), 0.4, 0.4, "clock ticks, and what the shepherd does between fork and exec"},
	{measured(`mem`), 0.05, 0.6, "GiB times CPU seconds, sampled once a second"},
	{measured(`io|iow`), 0.3, 0, "GiB, sampled once a second"},
	{measured(`ioops`), 10000, 0.5, "reads and writes, the shepherd's before exec included"},
	{measured(`maxvmem|maxrss`), 16 << 20, 0.6, "sampled once a second"},
	// The child that becomes the job is a copy of the shepherd before exec, and its maximum size is
	// included.
	{measured(`ru_maxrss`), 16 << 10, 0.2, "kB, includes the shepherd's copy before exec"},
	{measured(`ru_minflt|ru_majflt`), 10000, 0.5, "page faults, the shepherd's before exec included"},
	{measured(`ru_nvcsw|ru_nivcsw`), 50000, 0.5, "context switches, on a machine that is busy"},
	{measured(`ru_inblock|ru_oublock`), 20000, 0.5, "depends on what is in the page cache"},
}

// measured returns the pattern of a field of the accounting or of the file usage.
func measured(name string) *regexp.Regexp {
	return anchored(`(?:acct/[^/]+|active/[^/]+/usage)/(?:` + name + `)`)
}

func anchored(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// within reports whether the two values of a field are measurements whose difference is allowed.
func within(field, a, b string) bool {
	for _, m := range measures {
		if !m.field.MatchString(field) {
			continue
		}
		x, err1 := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		return err1 == nil && err2 == nil && math.Abs(x-y) <= max(m.abs, m.rel*max(math.Abs(x), math.Abs(y)))
	}
	return false
}

// compare returns the differences of one case, sorted by field, and the number of fields compared.
func compare(name string, original, ours observation) (diffs []difference, fields int) {
	all := maps.Clone(original)
	maps.Copy(all, ours)
	a, b := groups(original), groups(ours)
	for field := range all {
		if g := groupOf(field); g != "" && a[g] != b[g] {
			diffs = append(diffs, difference{name, g, presence(a[g]), presence(b[g])})
			a[g], b[g] = false, false // one difference is enough
			continue
		} else if g != "" && !a[g] {
			continue
		}
		a, inA := original[field]
		b, inB := ours[field]
		if !inA {
			a = absent
		}
		if !inB {
			b = absent
		}
		if a != b && !within(field, a, b) {
			diffs = append(diffs, difference{name, field, a, b})
		}
	}
	slices.SortFunc(diffs, func(a, b difference) int { return cmp.Compare(a.field, b.field) })
	return diffs, len(all)
}

// groupPattern matches the fields of one report, one accounting record or one file. If only one
// side has it, that counts as one difference instead of hundreds.
var groupPattern = regexp.MustCompile(`^(seen/[^/]+|acct/[^/]+|active/[^/]+/[^/]+|home/.*)(?:/|$)`)

func groupOf(field string) string {
	if rest, ok := strings.CutSuffix(field, "/content"); ok {
		field = rest
	}
	m := groupPattern.FindStringSubmatch(field)
	if m == nil {
		return ""
	}
	return m[1]
}

func groups(o observation) map[string]bool {
	g := map[string]bool{}
	for field := range o {
		g[groupOf(field)] = true
	}
	return g
}

func presence(there bool) string {
	if there {
		return "(present)"
	}
	return absent
}

// An expectation is an intended difference. Its patterns must match the whole field, case name and
// values.
type expectation struct {
	field, cases   string
	original, ours string // patterns of the values; "" stands for any
	why            string
}

// A judge separates expected differences from others and records which expectations occurred.
type judge struct {
	table []expectation
	exps  []compiled
	must  int // number of expectations, from the first, that must occur
}

type compiled struct {
	field, cases, original, ours *regexp.Regexp
	met                          int
}

// newJudge returns a judge that requires the first must expectations to occur.
func newJudge(table []expectation, must int) *judge {
	j := &judge{table: table, must: must}
	for _, e := range table {
		j.exps = append(j.exps, compiled{
			anchored(e.field), anchored(cmp.Or(e.cases, "(?s).*")),
			anchored(cmp.Or(e.original, "(?s).*")), anchored(cmp.Or(e.ours, "(?s).*")), 0,
		})
	}
	return j
}

// expected reports whether a difference is in the table.
func (j *judge) expected(d difference) bool {
	for i := range j.exps {
		e := &j.exps[i]
		if e.field.MatchString(d.field) && e.cases.MatchString(d.name) && e.original.MatchString(d.original) && e.ours.MatchString(d.ours) {
			e.met++
			return true
		}
	}
	return false
}

// unmet lists the expectations that matched no difference.
func (j *judge) unmet() []string {
	var list []string
	for i, e := range j.exps {
		if e.met == 0 && i < j.must {
			t := j.table[i]
			list = append(list, fmt.Sprintf("field %s, case %s: %s", t.field, cmp.Or(t.cases, "any"), t.why))
		}
	}
	return list
}

// group shortens a list of differences: equal differences of several cases in the same field become
// one.
func group(diffs []difference) []string {
	type key struct{ field, original, ours string }
	index := map[key][]string{}
	var order []key
	for _, d := range diffs {
		k := key{generalField(d.field), general(d.original), general(d.ours)}
		if index[k] == nil {
			order = append(order, k)
		}
		if !slices.Contains(index[k], d.name) {
			index[k] = append(index[k], d.name)
		}
	}
	var out []string
	for _, k := range order {
		names := index[k]
		more := ""
		if len(names) > 4 {
			more = fmt.Sprintf(" and %d more", len(names)-4)
			names = names[:4]
		}
		out = append(out, fmt.Sprintf("%s\n\toriginal: %s\n\tours:     %s\n\tcases:    %s%s", k.field, short(k.original), short(k.ours), strings.Join(names, "; "), more))
	}
	return out
}

var numbers = regexp.MustCompile(`\d+`)

// general removes numbers, which differ from case to case, from a text that is not itself a number.
func general(s string) string {
	if strings.ContainsAny(s, "/[") {
		return numbers.ReplaceAllString(s, "N")
	}
	return s
}

// generalField does what general does, for the name of a field. In reports of the probe, numbers
// are positions in a list.
func generalField(field string) string {
	if strings.HasPrefix(field, "seen/") {
		return field
	}
	return general(field)
}
