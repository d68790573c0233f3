package jobdir

import (
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/specifier"
)

// configKey is one key of the config file: its name, when it is there, and how
// its value goes from and to a description. A problem is text for people;
// empty is none.
type configKey struct {
	name string
	get  func(d *job.Description) (value, problem string)
	set  func(d *job.Description, value string) (problem string)
	// when tells whether the key belongs into the file, from what stands
	// before it: a reader and a writer come to the same answer. nil is always.
	when func(d *job.Description) bool
	// optional keys may be missing where when allows them. The writer leaves
	// one out when omit says so.
	optional bool
	omit     func(d *job.Description) bool
	// arguments marks the place of job_arg1, job_arg2 and so on.
	arguments bool
}

// only makes keys depend on a condition.
func only(when func(d *job.Description) bool, keys ...configKey) []configKey {
	for i := range keys {
		keys[i].when = when
	}
	return keys
}

// unless makes a key optional; the writer leaves it out where omit holds.
func unless(omit func(d *job.Description) bool, k configKey) configKey {
	k.optional, k.omit = true, omit
	return k
}

// text is a string that is written as it is.
func text(name string, field func(d *job.Description) *string) configKey {
	return configKey{
		name: name,
		get:  func(d *job.Description) (string, string) { return *field(d), "" },
		set: func(d *job.Description, v string) string {
			*field(d) = v
			return ""
		},
	}
}

// required is a text that must not be empty.
func required(name string, field func(d *job.Description) *string) configKey {
	k := text(name, field)
	k.get = func(d *job.Description) (string, string) {
		if *field(d) == "" {
			return "", "it is empty"
		}
		return *field(d), ""
	}
	k.set = func(d *job.Description, v string) string {
		if v == "" {
			return "it is empty"
		}
		*field(d) = v
		return ""
	}
	return k
}

// worded is a text with a word for nothing: none, NONE, NULL, UNDEFINED.
func worded(name, word string, field func(d *job.Description) *string) configKey {
	k := text(name, field)
	k.get = func(d *job.Description) (string, string) {
		if *field(d) == "" {
			return word, ""
		}
		return *field(d), ""
	}
	k.set = func(d *job.Description, v string) string {
		if strings.EqualFold(v, word) {
			v = ""
		}
		*field(d) = v
		return ""
	}
	return k
}

// instead is a text for which the writer has a substitute when it is empty.
func instead(k configKey, value func(d *job.Description) string) configKey {
	get := k.get
	k.get = func(d *job.Description) (string, string) {
		if v, problem := get(d); v != "" || problem != "" {
			return v, problem
		}
		return value(d), ""
	}
	return k
}

// constant is a key without a meaning for us: the writer writes value, the
// reader takes whatever valid accepts.
func constant(name, value string, valid func(string) string) configKey {
	return configKey{
		name: name,
		get:  func(*job.Description) (string, string) { return value, "" },
		set:  func(_ *job.Description, v string) string { return valid(v) },
	}
}

func anything(string) string { return "" }

func zeroOrOne(v string) string {
	if v != "0" && v != "1" {
		return quote(v) + " is neither 0 nor 1"
	}
	return ""
}

// number is an integer from least to most.
func number(name string, least, most int64, field func(d *job.Description) *int) configKey {
	check := func(n int64) string {
		if n < least || n > most {
			return strconv.FormatInt(n, 10) + " is not between " + strconv.FormatInt(least, 10) +
				" and " + strconv.FormatInt(most, 10)
		}
		return ""
	}
	return configKey{
		name: name,
		get: func(d *job.Description) (string, string) {
			n := int64(*field(d))
			return strconv.FormatInt(n, 10), check(n)
		},
		set: func(d *job.Description, v string) string {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil {
				return quote(v) + " is not a number"
			}
			if problem := check(n); problem != "" {
				return problem
			}
			*field(d) = int(n)
			return ""
		},
	}
}

// Bounds of numbers. The kernel's ids are 32 bits wide; the largest one means
// "no id" to setresuid(2) and its kin.
const (
	mostNumber = 1<<31 - 1
	mostID     = 1<<32 - 2
)

func natural(name string, field func(d *job.Description) *int) configKey {
	return number(name, 0, mostNumber, field)
}

func flag(name string, field func(d *job.Description) *bool) configKey {
	return configKey{
		name: name,
		get: func(d *job.Description) (string, string) {
			if *field(d) {
				return "1", ""
			}
			return "0", ""
		},
		set: func(d *job.Description, v string) string {
			*field(d) = v == "1"
			return zeroOrOne(v)
		},
	}
}

// onlyIfSet is a flag that is written when it is set, and absent otherwise.
func onlyIfSet(name string, field func(d *job.Description) *bool) configKey {
	return unless(func(d *job.Description) bool { return !*field(d) }, flag(name, field))
}

// seconds is a duration. The original knows whole seconds; a fraction stands
// behind a point.
func seconds(name string, field func(d *job.Description) *time.Duration) configKey {
	return configKey{
		name: name,
		get: func(d *job.Description) (string, string) {
			if *field(d) < 0 {
				return "", "it is negative"
			}
			return formatSeconds(int64(*field(d))), ""
		},
		set: func(d *job.Description, v string) string {
			ns, ok := parseSeconds(v)
			if !ok {
				return quote(v) + " is no number of seconds"
			}
			*field(d) = time.Duration(ns)
			return ""
		},
	}
}

// instant is a point in time as seconds since 1970; 0 is none.
func instant(name string, field func(d *job.Description) *time.Time) configKey {
	return configKey{
		name: name,
		get: func(d *job.Description) (string, string) {
			t := *field(d)
			if t.IsZero() {
				return "0", ""
			}
			if t.Unix() < 0 || t.Year() > 2200 {
				return "", "it is not between 1970 and 2200"
			}
			return formatSeconds(t.UnixNano()), ""
		},
		set: func(d *job.Description, v string) string {
			ns, ok := parseSeconds(v)
			if !ok {
				return quote(v) + " is no number of seconds since 1970"
			}
			*field(d) = time.Time{}
			if ns != 0 {
				*field(d) = time.Unix(0, ns)
			}
			return ""
		},
	}
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

// limit is the soft or the hard value of a resource.
func limit(r job.Resource, hard bool) configKey {
	return configKey{
		name: limitName(r, hard),
		get: func(d *job.Description) (string, string) {
			l := d.Limits[r]
			switch {
			case l.Unset && canBeUnset(r):
				return "UNDEFINED", ""
			case hard:
				return formatLimit(r, l.Hard)
			}
			return formatLimit(r, l.Soft)
		},
		set: func(d *job.Description, v string) string { return setLimit(&d.Limits[r], r, hard, v) },
	}
}

func limitName(r job.Resource, hard bool) string {
	if hard {
		return "h_" + r.String()
	}
	return "s_" + r.String()
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

// formatLimit prints times and counts as plain numbers: the original reads
// these in any notation, people read them without one.
func formatLimit(r job.Resource, v uint64) (value, problem string) {
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

// perJob is the flag of a "consumable JOB" beside a limit.
func perJob(r job.Resource, hard bool) configKey {
	return flag(limitName(r, hard)+"_is_consumable_job", func(d *job.Description) *bool {
		if hard {
			return &d.Limits[r].HardPerJob
		}
		return &d.Limits[r].SoftPerJob
	})
}

// id is a user or a group id.
func id(name string, field func(d *job.Description) *int) configKey {
	return number(name, 0, mostID, field)
}
