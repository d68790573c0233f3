package qacct

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/nearest"
	"github.com/execd-project/execd/submit"
)

// Usage is the output of -help. All but the last lines are those of the original.
const Usage = `SGE 8.1.9
usage: qacct [options]
 [-ar [ar_id]]                     list [matching] advance reservations
 [-A [account_string]]             list [matching] account
 [-b begin_time]                   jobs started after
 [-d days]                         jobs started during the last d days
 [-D [department]]                 list [matching] department
 [-e end_time]                     jobs started before
 [-E]                              select job end time, not start
 [[-f] acctfile]                   use alternate accounting file
 [-g [groupid|groupname]]          list [matching] group
 [-h [host]]                       list [matching] host
 [-help]                           display this message
 [-j [job_id|job_name|pattern]]    list all [matching] jobs
 [-l attr=val,...]                 request given complex attributes
 [-m]                              list only master tasks
 [-o [owner]]                      list [matching] owner
 [-u [owner]]                      list [matching] owner
 [-pe [pe_name]]                   list [matching] parallel environment
 [-P [project]]                    list [matching] project
 [-q [queue]]                      list [matching] queue
 [-slots [slots]]                  list [matching] job slots
 [-t taskid[-taskid[:step]]]       list all [matching] tasks (requires -j option)

 begin_time, end_time              [[CC]YYMMDDhhmm[.SS]
 queue                             [cluster_queue|queue_instance|queue_domain|pattern]

 [-json]                           everything that is known, as JSON
`

// choice is an option like -o: a column of the summary or, with a value, a condition. It may occur
// with and without a value.
type choice struct {
	given bool
	open  bool   // given without a value: each value has a row
	exact bool   // given with a value
	value string // the last one
}

// number is a choice with numeric values; 0 means any, as in the original (tested).
type number struct {
	given, open bool
	value       uint32
}

// jobs describes the jobs that -j lists.
type jobs struct {
	given bool
	all   bool   // no value, or the number 0 (tested: -j 0 lists none)
	none  bool   // the number 0
	id    int    // 0 if a name is given
	name  string // a name, or a pattern of fnmatch(3)
}

// tasks is the range of -t.
type tasks struct{ first, last, step int }

func (t *tasks) has(n int) bool {
	return t.first <= n && n <= t.last && (n-t.first)%t.step == 0
}

type settings struct {
	owner, group, host, queue, project, department, pe, account choice

	queues []string // values of -q; a record must match one of them

	slots, reservation number

	jobs  jobs
	tasks []tasks

	begin, end time.Time // zero for none
	byEnd      bool      // -E
	master     bool      // -m

	resources string // -l
	requested bool   // -l was given
	file      string // -f
	json      bool
}

// usageError is the error for a command line to which the original answers with its usage. The
// text, which may be empty, precedes the usage.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

var errHelp = errors.New("help was asked for")

// names lists all options, without the dash.
var names = []string{
	"ar", "A", "b", "d", "D", "e", "E", "f", "g", "h", "help", "j", "json", "l", "m", "o", "u", "pe", "P", "q", "slots", "t",
}

// parser is the state of parsing a command line.
type parser struct {
	args []string
	now  time.Time
	days int // -d; -1 for none
	s    *settings
}

func parse(args []string, now time.Time) (*settings, error) {
	p := &parser{args: args, now: now, days: -1, s: &settings{}}
	for len(p.args) > 0 {
		word := p.args[0]
		p.args = p.args[1:]
		if err := p.option(word); err != nil {
			return nil, err
		}
	}
	if p.s.tasks != nil && (!p.s.jobs.given || p.s.jobs.all) {
		return nil, &usageError{"error: -t option requires -j option with an argument\n"}
	}
	p.period()
	return p.s, nil
}

// optional returns the next word if it is a value.
func (p *parser) optional() (string, bool) {
	if len(p.args) == 0 || strings.HasPrefix(p.args[0], "-") {
		return "", false
	}
	value := p.args[0]
	p.args = p.args[1:]
	return value, true
}

// required returns the next word, even if it begins with a dash.
func (p *parser) required() (string, error) {
	if len(p.args) == 0 {
		return "", &usageError{}
	}
	value := p.args[0]
	p.args = p.args[1:]
	return value, nil
}

func (p *parser) option(word string) error {
	s := p.s
	name, ok := strings.CutPrefix(word, "-")
	if !ok {
		return &usageError{}
	}
	choices := map[string]*choice{
		"o": &s.owner, "u": &s.owner, "g": &s.group, "h": &s.host, "q": &s.queue, "P": &s.project,
		"D": &s.department, "pe": &s.pe, "A": &s.account,
	}
	if c := choices[name]; c != nil {
		c.given = true
		value, ok := p.optional()
		switch {
		case !ok:
			c.open = true
		case name == "q":
			s.queues = append(s.queues, value)
			fallthrough
		default:
			c.value, c.exact = value, true
		}
		return nil
	}
	switch name {
	case "slots", "ar":
		return p.number(name)
	case "j":
		p.jobs()
	case "t":
		return p.tasks()
	case "E":
		s.byEnd = true
	case "m":
		s.master = true
	case "json":
		s.json = true
	case "help", "-help":
		return errHelp
	case "b", "e", "d", "f", "l":
		value, err := p.required()
		if err != nil {
			return err
		}
		return p.value(name, value)
	default:
		return &usageError{unknown(word, name)}
	}
	return nil
}

// unknown returns the option most similar to a mistyped one. The original gives no hint.
func unknown(word, name string) string {
	n, ok := nearest.Word(name, names)
	if !ok {
		return ""
	}
	return fmt.Sprintf("error: unknown option %q (did you mean -%s?)\n", word, n)
}

// value handles an option that requires a value.
func (p *parser) value(name, value string) error {
	var err error
	switch name {
	case "b":
		p.s.begin, err = date(value, p.now)
	case "e":
		p.s.end, err = date(value, p.now)
	case "d":
		n, ok := leadingNumber(value)
		if !ok {
			return &usageError{}
		}
		p.days = int(n)
	case "f":
		p.s.file = value
	case "l":
		p.s.resources, p.s.requested = value, true
	}
	return err
}

// period applies -d to -b or -e: the number of days after the begin or before the end, or until
// now. With both -b and -e it has no effect (tested).
func (p *parser) period() {
	if p.days < 0 {
		return
	}
	days := time.Duration(p.days) * 24 * time.Hour
	s := p.s
	switch {
	case !s.begin.IsZero() && !s.end.IsZero():
	case !s.begin.IsZero():
		s.end = s.begin.Add(days)
	case !s.end.IsZero():
		s.begin = s.end.Add(-days)
	default:
		s.begin = p.now.Truncate(time.Second).Add(-days)
	}
}

func (p *parser) number(name string) error {
	to := &p.s.slots
	if name == "ar" {
		to = &p.s.reservation
	}
	value, ok := p.optional()
	if !ok {
		to.given, to.open = true, true
		return nil
	}
	n, ok := leadingNumber(value)
	if name == "ar" && !ok {
		return &usageError{"invalid advance reservation id, must be an unsigned integer\n"}
	}
	to.value = uint32(n) // 0 is treated like an option without a value
	to.given = to.open || to.value != 0
	return nil
}

// jobs parses the value of -j.
func (p *parser) jobs() {
	value, ok := p.optional()
	if !ok {
		p.s.jobs = jobs{given: true, all: true}
		return
	}
	n, ok := leadingNumber(value)
	switch {
	case !ok:
		p.s.jobs = jobs{given: true, name: value}
	case uint32(n) == 0:
		p.s.jobs = jobs{given: true, all: true, none: true}
	default:
		p.s.jobs = jobs{given: true, id: int(uint32(n))}
	}
}

// tasks parses a list of ranges; the original uses only the last one (tested).
func (p *parser) tasks() error {
	value, ok := p.optional()
	if !ok {
		return &usageError{"-t option must have a list of task id ranges\n"}
	}
	bad := &usageError{fmt.Sprintf("invalid list of task id ranges: %s\n", value)}
	words := strings.FieldsFunc(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
	if len(words) == 0 {
		return bad
	}
	var list []tasks
	for _, word := range words {
		t, ok := taskRange(word)
		if !ok {
			return bad
		}
		list = append(list, t)
	}
	p.s.tasks = list
	if slices.ContainsFunc(list, func(t tasks) bool { return t == tasks{0, 0, 1} }) {
		p.s.tasks = nil // any (tested)
	}
	return nil
}

func taskRange(word string) (t tasks, ok bool) {
	bounds, step, stepped := strings.Cut(word, ":")
	first, last, isRange := strings.Cut(bounds, "-")
	if !isRange {
		last = first
		if stepped { // n:m means n-m (tested)
			last, step, stepped = step, "", false
		}
	}
	t.step = 1
	read := func(to *int, text string) bool {
		n, err := strconv.ParseUint(text, 10, 31)
		*to = int(n)
		return err == nil
	}
	if !read(&t.first, first) || !read(&t.last, last) || stepped && (!read(&t.step, step) || t.step == 0) {
		return t, false
	}
	if t.first > t.last {
		t.first, t.last = t.last, t.first
	}
	return t, true
}

// leadingNumber parses the whole number at the start of a word.
func leadingNumber(word string) (n int64, ok bool) {
	rest := strings.TrimPrefix(word, "-")
	end := 0
	for end < len(rest) && '0' <= rest[end] && rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(word[:len(word)-len(rest)+end], 10, 64)
	return n, err == nil
}

// date parses [[CC]YY]MMDDhhmm[.SS].
func date(text string, now time.Time) (time.Time, error) {
	fail := func(problem string) (time.Time, error) { return time.Time{}, &usageError{"\n" + problem + "\n"} }
	clock, seconds, _ := strings.Cut(text, ".")
	switch n := len(clock); {
	case text == "":
		return time.Time{}, &usageError{"no date specified\n"}
	case n != 8 && n != 10 && n != 12:
		return fail("Invalid format of date/hour-minute field.")
	case seconds != "" && len(seconds) != 2:
		return fail("Invalid format of seconds field.")
	}
	n := len(clock)
	for _, f := range []struct {
		text, name string
		low, high  int
	}{
		{clock[n-8 : n-6], "month", 1, 12},
		{clock[n-6 : n-4], "day", 1, 31},
		{clock[n-4 : n-2], "hour", 0, 23},
		{clock[n-2:], "minute", 0, 59},
		{"0" + seconds, "seconds", 0, 59},
	} {
		if v, err := strconv.Atoi(f.text); err != nil || v < f.low || v > f.high {
			return fail("Invalid " + f.name + " specification.")
		}
	}
	d, err := submit.ParseDateTime(strings.TrimSuffix(text, "."))
	if err != nil {
		return fail("Invalid format of date/hour-minute field.")
	}
	t := d.Time(now)
	if t.Unix() < 0 {
		return fail("Couldn't generate date from input. Perhaps a date before 1970 was specified.")
	}
	return t, nil
}
