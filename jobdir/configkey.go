package jobdir

import (
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/specifier"
)

// configKey is one key of the config file. Only the name and the value are
// needed.
type configKey struct {
	name  string
	value configValue
	// when tells whether the key belongs into the file, from what stands
	// before it: a reader and a writer come to the same answer. nil is always.
	when func(d *job.Description) bool
	// unless makes the key optional: it may be missing where when allows it,
	// and the writer leaves it out where unless holds.
	unless func(d *job.Description, v configValue) bool
	// arguments marks the place of job_arg1, job_arg2 and so on.
	arguments bool
}

func (k *configKey) named(name string) bool { return k.name == name && !k.arguments }

func (k *configKey) belongs(d *job.Description) bool { return k.when == nil || k.when(d) }

// configValue is how the value of a key goes from and to a description. A
// problem is text for people; empty is none. A set is complete before the next
// line is read.
//
// The types are data, so that the table of keys is laid out by the compiler:
// every job would pay for making it.
type configValue interface {
	get(d *job.Description) (value, problem string)
	set(d *job.Description, value string) (problem string)
}

// Conditions for leaving an optional key out.
func never(*job.Description, configValue) bool              { return false }
func isEmpty(d *job.Description, v configValue) bool        { return is(d, v, "") }
func isZero(d *job.Description, v configValue) bool         { return is(d, v, "0") }
func isInfinite(d *job.Description, v configValue) bool     { return is(d, v, "INFINITY") }
func notInteractive(d *job.Description, _ configValue) bool { return d.Interactive == nil }

func is(d *job.Description, v configValue, nothing string) bool {
	value, _ := v.get(d)
	return value == nothing
}

// text is a string that is written as it is.
type text func(d *job.Description) *string

func (field text) get(d *job.Description) (string, string) { return *field(d), "" }

func (field text) set(d *job.Description, v string) string {
	*field(d) = v
	return ""
}

// required is a text that must not be empty.
type required func(d *job.Description) *string

func (field required) get(d *job.Description) (string, string) {
	if *field(d) == "" {
		return "", "it is empty"
	}
	return *field(d), ""
}

func (field required) set(d *job.Description, v string) string {
	if v == "" {
		return "it is empty"
	}
	*field(d) = v
	return ""
}

// worded is a text with a word for nothing: none, NONE, NULL, UNDEFINED.
type worded struct {
	word  string
	field func(d *job.Description) *string
}

func (w worded) get(d *job.Description) (string, string) {
	if s := *w.field(d); s != "" {
		return s, ""
	}
	return w.word, ""
}

func (w worded) set(d *job.Description, v string) string {
	if strings.EqualFold(v, w.word) {
		v = ""
	}
	*w.field(d) = v
	return ""
}

// path is a text for which the writer has a substitute when it is empty.
type path struct {
	field   func(d *job.Description) *string
	instead func(d *job.Description) string
}

func (p path) get(d *job.Description) (string, string) {
	if s := *p.field(d); s != "" {
		return s, ""
	}
	return p.instead(d), ""
}

func (p path) set(d *job.Description, v string) string {
	*p.field(d) = v
	return ""
}

// constant is a key without a meaning for us: the writer writes value, the
// reader takes whatever valid accepts.
type constant struct {
	value string
	valid func(string) string
}

func (c constant) get(*job.Description) (string, string)   { return c.value, "" }
func (c constant) set(_ *job.Description, v string) string { return c.valid(v) }
func anything(string) string                               { return "" }

func zeroOrOne(v string) string {
	if v != "0" && v != "1" {
		return quote(v) + " is neither 0 nor 1"
	}
	return ""
}

// number is an integer from least to most.
type number struct {
	least, most int64
	field       func(d *job.Description) *int
}

func (n number) check(i int64) string {
	if i < n.least || i > n.most {
		return strconv.FormatInt(i, 10) + " is not between " + strconv.FormatInt(n.least, 10) +
			" and " + strconv.FormatInt(n.most, 10)
	}
	return ""
}

func (n number) get(d *job.Description) (string, string) {
	i := int64(*n.field(d))
	return strconv.FormatInt(i, 10), n.check(i)
}

func (n number) set(d *job.Description, v string) string {
	i, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return quote(v) + " is not a number"
	}
	if problem := n.check(i); problem != "" {
		return problem
	}
	*n.field(d) = int(i)
	return ""
}

// Bounds of numbers. The kernel's ids are 32 bits wide; the largest one means
// "no id" to setresuid(2) and its kin.
const (
	mostNumber = 1<<31 - 1
	mostID     = 1<<32 - 2
)

type flag func(d *job.Description) *bool

func (field flag) get(d *job.Description) (string, string) {
	if *field(d) {
		return "1", ""
	}
	return "0", ""
}

func (field flag) set(d *job.Description, v string) string {
	*field(d) = v == "1"
	return zeroOrOne(v)
}

// seconds is a duration. The original knows whole seconds; a fraction stands
// behind a point.
type seconds func(d *job.Description) *time.Duration

func (field seconds) get(d *job.Description) (string, string) {
	if *field(d) < 0 {
		return "", "it is negative"
	}
	return formatSeconds(int64(*field(d))), ""
}

func (field seconds) set(d *job.Description, v string) string {
	ns, ok := parseSeconds(v)
	if !ok {
		return quote(v) + " is no number of seconds"
	}
	*field(d) = time.Duration(ns)
	return ""
}

// instant is a point in time as seconds since 1970; 0 is none.
type instant func(d *job.Description) *time.Time

func (field instant) get(d *job.Description) (string, string) {
	t := *field(d)
	if t.IsZero() {
		return "0", ""
	}
	if t.Unix() < 0 || t.Year() > 2200 {
		return "", "it is not between 1970 and 2200"
	}
	return formatSeconds(t.UnixNano()), ""
}

func (field instant) set(d *job.Description, v string) string {
	ns, ok := parseSeconds(v)
	if !ok {
		return quote(v) + " is no number of seconds since 1970"
	}
	*field(d) = time.Time{}
	if ns != 0 {
		*field(d) = time.Unix(0, ns)
	}
	return ""
}

const nanoseconds = int64(time.Second)

// formatSeconds prints nanoseconds as seconds, with a fraction only if there is
// one: whole seconds are all that the original reads.
func formatSeconds(ns int64) string {
	s := strconv.FormatInt(ns/nanoseconds, 10)
	if rest := ns % nanoseconds; rest != 0 {
		digits := strconv.FormatInt(nanoseconds+rest, 10)[1:]
		s += "." + strings.TrimRight(digits, "0")
	}
	return s
}

// parseSeconds reads what formatSeconds prints.
func parseSeconds(s string) (ns int64, ok bool) {
	whole, frac, pointed := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 33)
	if err != nil || (pointed && frac == "") || len(frac) > 9 {
		return 0, false
	}
	var f uint64
	if frac != "" {
		if f, err = strconv.ParseUint(frac+"000000000"[len(frac):], 10, 32); err != nil {
			return 0, false
		}
	}
	return int64(n)*nanoseconds + int64(f), true
}

// soft and hard are the two values of a resource's limit.
type (
	soft job.Resource
	hard job.Resource
)

func (r soft) get(d *job.Description) (string, string) {
	return getLimit(&d.Limits[r], job.Resource(r), d.Limits[r].Soft)
}

func (r hard) get(d *job.Description) (string, string) {
	return getLimit(&d.Limits[r], job.Resource(r), d.Limits[r].Hard)
}

func (r soft) set(d *job.Description, v string) string {
	return setLimit(&d.Limits[r], job.Resource(r), false, v)
}

func (r hard) set(d *job.Description, v string) string {
	return setLimit(&d.Limits[r], job.Resource(r), true, v)
}

// canBeUnset tells the limits of execd_params, which are UNDEFINED by default.
func canBeUnset(r job.Resource) bool {
	switch r {
	case job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks:
		return true
	}
	return false
}

// setLimit sets one of the two values. A pair of which only one is defined
// becomes that value twice: that is what the original's shepherd does with it.
// The soft value comes first in such pairs.
func setLimit(l *job.Limit, r job.Resource, hard bool, v string) string {
	if v == "UNDEFINED" {
		switch {
		case !canBeUnset(r):
			return "UNDEFINED is no limit"
		case !hard:
			*l = job.Limit{Soft: specifier.Infinity, Hard: specifier.Infinity, Unset: true}
		case !l.Unset:
			l.Hard = l.Soft
		}
		return ""
	}
	n, err := r.Parse(v)
	if err != nil {
		return err.Error()
	}
	if !hard {
		l.Soft, l.Unset = n, false
		return ""
	}
	if l.Unset {
		l.Soft, l.Unset = n, false
	}
	l.Hard = n
	return ""
}

// getLimit prints times and counts as plain numbers: the original reads these
// in any notation, people read them without one.
func getLimit(l *job.Limit, r job.Resource, v uint64) (value, problem string) {
	if l.Unset && canBeUnset(r) {
		return "UNDEFINED", ""
	}
	s := "INFINITY"
	switch {
	case v == specifier.Infinity:
	case r.Unit() == job.Bytes:
		s = specifier.FormatMemory(v)
	default:
		s = strconv.FormatUint(v, 10)
	}
	if _, err := r.Parse(s); err != nil {
		return "", err.Error()
	}
	return s, ""
}

// softPerJob and hardPerJob are the flags of a "consumable JOB" beside a limit.
type (
	softPerJob job.Resource
	hardPerJob job.Resource
)

func (r softPerJob) flag(d *job.Description) *bool { return &d.Limits[r].SoftPerJob }
func (r hardPerJob) flag(d *job.Description) *bool { return &d.Limits[r].HardPerJob }

func (r softPerJob) get(d *job.Description) (string, string) { return flag(r.flag).get(d) }
func (r softPerJob) set(d *job.Description, v string) string { return flag(r.flag).set(d, v) }
func (r hardPerJob) get(d *job.Description) (string, string) { return flag(r.flag).get(d) }
func (r hardPerJob) set(d *job.Description, v string) string { return flag(r.flag).set(d, v) }

// special is a value that is like no other.
type special struct {
	read  func(d *job.Description) (string, string)
	write func(d *job.Description, v string) string
}

func (s special) get(d *job.Description) (string, string) { return s.read(d) }
func (s special) set(d *job.Description, v string) string { return s.write(d, v) }
