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

// A difference is a field of a case that is not the same in both cells.
type difference struct {
	name, field    string // of the case, of the observation
	original, ours string
}

// absent stands for the value of a field that one side does not have.
const absent = "(absent)"

func (d difference) String() string {
	return fmt.Sprintf("%s\n\t%s\n\t\toriginal: %s\n\t\tours:     %s", d.name, d.field, short(d.original), short(d.ours))
}

// short keeps a value of thousands of bytes from hiding the others.
func short(s string) string {
	const limit = 600
	if len(s) > limit {
		return fmt.Sprintf("%q... (%d bytes)", s[:limit], len(s))
	}
	return strconv.Quote(s)
}

// A measure is a kind of field that holds a measurement: two runs of the same
// job differ in it. It may differ by abs, or by rel times the greater value.
type measure struct {
	field    *regexp.Regexp
	abs, rel float64
	why      string
}

// measures are the fields that are not compared exactly, and by how much they
// may differ. All others are.
var measures = []measure{
	{measured(`ru_wallclock`), 15, 0.6, "whole seconds, on a machine that is busy; of jobs that use CPU time, too"},
	{measured(`cpu|ru_utime|ru_stime`), 0.4, 0.4, "clock ticks, and what the shepherd does between fork and exec"},
	{measured(`mem`), 0.05, 0.6, "GiB times CPU seconds, sampled once a second"},
	{measured(`io|iow`), 0.3, 0, "GiB, sampled once a second"},
	{measured(`maxvmem`), 16 << 20, 0.6, "sampled once a second"},
	// The child that becomes the job is a copy of the shepherd before exec, and
	// its greatest size is counted.
	{measured(`ru_maxrss`), 16 << 10, 0.2, "kB, includes the shepherd's copy before exec"},
	{measured(`ru_minflt|ru_majflt`), 10000, 0.5, "page faults, the shepherd's before exec included"},
	{measured(`ru_nvcsw|ru_nivcsw`), 50000, 0.5, "context switches, on a machine that is busy"},
	{measured(`ru_inblock|ru_oublock`), 20000, 0.5, "depends on what is in the page cache"},
}

// measured is the pattern of a field of the accounting or of the file usage.
func measured(name string) *regexp.Regexp {
	return anchored(`(?:acct/[^/]+|active/[^/]+/usage)/(?:` + name + `)`)
}

func anchored(pattern string) *regexp.Regexp { return regexp.MustCompile("^(?:" + pattern + ")$") }

// within says whether the two values of a field are measurements that differ
// by no more than is allowed.
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

// compare returns the differences of one case, ordered by field, and how many
// fields it looked at.
func compare(name string, original, ours observation) (diffs []difference, fields int) {
	all := maps.Clone(original)
	maps.Copy(all, ours)
	a, b := groups(original), groups(ours)
	for field := range all {
		if g := groupOf(field); g != "" && a[g] != b[g] {
			diffs = append(diffs, difference{name, g, presence(a[g]), presence(b[g])})
			a[g], b[g] = false, false // once is enough
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

// groupPattern matches the fields of one report, one accounting record or one
// file. When only one side has it, that is one difference and not hundreds.
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

// An expectation is a difference that is meant. Its patterns must match the
// whole field, case name and values.
type expectation struct {
	field, cases   string
	original, ours string // patterns of the values; "" stands for any
	why            string
}

// A judge tells expected differences from others and knows which of the
// expectations were met.
type judge struct {
	table []expectation
	exps  []compiled
	must  int // so many of the first ones have to be met
}

type compiled struct {
	field, cases, original, ours *regexp.Regexp
	met                          int
}

// newJudge makes one that wants the first of its expectations to be met.
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

// expected says whether a difference is in the table.
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

// unmet lists the expectations that no difference needed.
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

// group shortens a list of differences: those of several cases in the same
// field with the same values become one.
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

// general is a text without its numbers, which differ from case to case, when
// it is more than a number.
func general(s string) string {
	if strings.ContainsAny(s, "/[") {
		return numbers.ReplaceAllString(s, "N")
	}
	return s
}

// generalField is general for a field's name. In what the probe reports the
// numbers are places in a list.
func generalField(field string) string {
	if strings.HasPrefix(field, "seen/") {
		return field
	}
	return general(field)
}
