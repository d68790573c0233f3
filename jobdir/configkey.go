package jobdir

import (
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// configKey describes one key of the config file: its name, the value it stands for, and the
// condition for its presence.
//
// It holds only data and plain functions, so that the compiler can lay out the table of keys in
// advance; otherwise every supervisor would build the table when it starts. It contains no
// interface: an interface would keep the type of a field with all its methods in the executable.
type configKey struct {
	name string

	// The value is one of these. Without any, the value is a text that this package does not
	// interpret; the reader accepts every text that set accepts.
	text        func(d *job.Description) *string
	number      func(d *job.Description) *int
	flag        func(d *job.Description) *bool
	seconds     func(d *job.Description) *time.Duration // the original reads whole seconds; a fraction follows a point
	instant     func(d *job.Description) *time.Time     // seconds since 1970; 0 for none
	interactive func(i *job.Interactive) *string        // a text; reading it makes the job interactive
	limit       limitPart                               // of resource
	arguments   bool                                    // the place of job_arg1, job_arg2 and the following arguments

	// Restrictions of the value.
	required bool   // a text that must not be empty
	word     string // written for an empty text: none, NONE, NULL, UNDEFINED
	least    int32  // minimum of a number
	most     uint32
	resource job.Resource

	// get and set convert a value of a special form. get also supplies the value that the writer
	// uses instead of an empty text. problem is a text for people, empty for none.
	get func(d *job.Description) (value, problem string)
	set func(d *job.Description, v string) (problem string)

	// when reports whether the key belongs in the file. It depends only on keys before this one, so
	// that reader and writer agree. nil means always.
	when func(d *job.Description) bool
	// unless makes the key optional: if when holds, the key may be missing, and the writer omits it
	// if unless holds.
	unless func(d *job.Description, value string) bool
}

func (k *configKey) named(name string) bool { return k.name == name && !k.arguments }

func (k *configKey) belongs(d *job.Description) bool { return k.when == nil || k.when(d) }

// Conditions for omitting an optional key.
func never(*job.Description, string) bool              { return false }
func isEmpty(_ *job.Description, v string) bool        { return v == "" }
func isZero(_ *job.Description, v string) bool         { return v == "0" }
func isInfinite(_ *job.Description, v string) bool     { return v == "INFINITY" }
func notInteractive(d *job.Description, _ string) bool { return d.Interactive == nil }

// read returns the value of the key in a description.
func (k *configKey) read(d *job.Description) (value, problem string) {
	switch {
	case k.text != nil:
		return k.readText(d)
	case k.number != nil:
		return getNumber(*k.number(d), int64(k.least), int64(k.most))
	case k.flag != nil:
		return formatFlag(*k.flag(d)), ""
	case k.seconds != nil:
		if *k.seconds(d) < 0 {
			return "", "it is negative"
		}
		return formatSeconds(int64(*k.seconds(d))), ""
	case k.instant != nil:
		return getInstant(*k.instant(d))
	case k.limit != noLimit:
		return getLimit(&d.Limits[k.resource], k.resource, k.limit)
	case k.interactive != nil:
		if d.Interactive == nil {
			return "", ""
		}
		return *k.interactive(d.Interactive), ""
	case k.get != nil:
		return k.get(d)
	}
	return k.word, ""
}

func (k *configKey) readText(d *job.Description) (value, problem string) {
	switch s := *k.text(d); {
	case s != "":
		return s, ""
	case k.required:
		return "", "it is empty"
	case k.get != nil:
		return k.get(d)
	}
	return k.word, ""
}

// write stores the value of the key in a description.
func (k *configKey) write(d *job.Description, v string) (problem string) {
	switch {
	case k.text != nil:
		if k.required && v == "" {
			return "it is empty"
		}
		if k.word != "" && strings.EqualFold(v, k.word) {
			v = ""
		}
		*k.text(d) = v
	case k.number != nil:
		return setNumber(k.number(d), v, int64(k.least), int64(k.most))
	case k.flag != nil:
		*k.flag(d) = v == "1"
		return zeroOrOne(v)
	case k.seconds != nil:
		ns, ok := parseSeconds(v)
		if !ok {
			return quote(v) + " is not a number of seconds"
		}
		*k.seconds(d) = time.Duration(ns)
	case k.instant != nil:
		return setInstant(k.instant(d), v, d.Daemon.Micros())
	case k.limit != noLimit:
		return setLimit(&d.Limits[k.resource], k.resource, k.limit, v)
	case k.interactive != nil:
		if d.Interactive == nil {
			d.Interactive = &job.Interactive{}
		}
		*k.interactive(d.Interactive) = v
	default:
		return k.set(d, v)
	}
	return ""
}

func zeroOrOne(v string) string {
	if v != "0" && v != "1" {
		return quote(v) + " is neither 0 nor 1"
	}
	return ""
}

func formatFlag(set bool) string {
	if set {
		return "1"
	}
	return "0"
}

// Bounds of numbers. The kernel's IDs have 32 bits; the largest one means "no change" to
// setresuid(2) and similar calls.
const (
	mostNumber = 1<<31 - 1
	mostID     = 1<<32 - 2
)

func checkNumber(n, least, most int64) (problem string) {
	if n < least || n > most {
		return strconv.FormatInt(n, 10) + " is not between " + strconv.FormatInt(least, 10) +
			" and " + strconv.FormatInt(most, 10)
	}
	return ""
}

func getNumber(n int, least, most int64) (value, problem string) {
	return strconv.Itoa(n), checkNumber(int64(n), least, most)
}

func setNumber(to *int, v string, least, most int64) (problem string) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil {
		return quote(v) + " is not a number"
	}
	if problem := checkNumber(n, least, most); problem != "" {
		return problem
	}
	*to = int(n)
	return ""
}

func getInstant(t time.Time) (value, problem string) {
	if !t.IsZero() && (t.Unix() < 0 || t.Year() > 2200) {
		return "", "it is not between 1970 and 2200"
	}
	return formatInstant(t), ""
}

func setInstant(to *time.Time, v string, micros bool) (problem string) {
	if micros {
		n, err := strconv.ParseInt(v, 10, 64)
		*to = time.Time{}
		if n > 0 {
			*to = time.UnixMicro(n)
		}
		if err != nil || n < 0 {
			return quote(v) + " is not a number of microseconds since 1970"
		}
		return ""
	}
	ns, ok := parseSeconds(v)
	if !ok {
		return quote(v) + " is not a number of seconds since 1970"
	}
	*to = time.Time{}
	if ns != 0 {
		*to = time.Unix(0, ns)
	}
	return ""
}

const nanoseconds = int64(time.Second)

// formatInstant formats a time as seconds since 1970, and the zero time, for which UnixNano is
// undefined, as 0.
func formatInstant(t time.Time) string {
	if t.IsZero() {
		return "0"
	}
	return formatSeconds(t.UnixNano())
}

// formatSeconds formats nanoseconds as seconds. It adds a fraction only if there is one, because
// the original reads only whole seconds.
func formatSeconds(ns int64) string {
	s := strconv.FormatInt(ns/nanoseconds, 10)
	if rest := ns % nanoseconds; rest != 0 {
		digits := strconv.FormatInt(nanoseconds+rest, 10)[1:]
		s += "." + strings.TrimRight(digits, "0")
	}
	return s
}

// parseSeconds reads the format of formatSeconds.
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

// limitPart is a part of a resource limit. The last two are flags for a "consumable JOB" in
// addition to a value.
type limitPart uint8

const (
	noLimit limitPart = iota
	soft
	hard
	softPerJob
	hardPerJob
)

// canBeUnset reports whether r is one of the limits of execd_params, which are UNDEFINED by
// default.
func canBeUnset(r job.Resource) bool {
	switch r {
	case job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks:
		return true
	}
	return false
}

// setLimit sets one part of a limit. If only one value of a pair is defined, the other becomes the
// same, as in the original's shepherd. The soft value comes first in such pairs.
func setLimit(l *job.Limit, r job.Resource, part limitPart, v string) (problem string) {
	switch {
	case part == softPerJob:
		l.SoftPerJob = v == "1"
		return zeroOrOne(v)
	case part == hardPerJob:
		l.HardPerJob = v == "1"
		return zeroOrOne(v)
	case v == "UNDEFINED":
		switch {
		case !canBeUnset(r):
			return "UNDEFINED is not a limit"
		case part == soft:
			*l = job.Limit{Soft: quantity.Infinity, Hard: quantity.Infinity, Unset: true}
		case !l.Unset:
			l.Hard = l.Soft
		}
		return ""
	}
	n, err := r.Parse(v)
	if err != nil {
		return err.Error()
	}
	if part == soft {
		l.Soft, l.Unset = n, false
		return ""
	}
	if l.Unset {
		l.Soft, l.Unset = n, false
	}
	l.Hard = n
	return ""
}

// getLimit formats times and counts as plain numbers, which are the easiest to read. The original
// reads any notation here.
func getLimit(l *job.Limit, r job.Resource, part limitPart) (value, problem string) {
	v := l.Soft
	switch {
	case part == softPerJob:
		return formatFlag(l.SoftPerJob), ""
	case part == hardPerJob:
		return formatFlag(l.HardPerJob), ""
	case l.Unset && canBeUnset(r):
		return "UNDEFINED", ""
	case part == hard:
		v = l.Hard
	}
	s := "INFINITY"
	switch {
	case v == quantity.Infinity:
	case r.Unit() == job.Bytes:
		s = quantity.FormatMemory(v)
	default:
		s = strconv.FormatUint(v, 10)
	}
	if _, err := r.Parse(s); err != nil {
		return "", err.Error()
	}
	return s, ""
}
