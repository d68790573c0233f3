package accounting

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/job"
)

// none is the text of an empty field.
const none = "NONE"

// field is one of the 45 fields of a classic line.
type field struct {
	name   string
	format func(b []byte, r *Record) []byte
	parse  func(r *Record, s string) error
}

// fields lists the fields of accounting(5), in their order.
var fields = [...]field{
	text("qname", func(r *Record) *string { return &r.Queue }),
	text("hostname", func(r *Record) *string { return &r.Host }),
	text("group", func(r *Record) *string { return &r.Group }),
	text("owner", func(r *Record) *string { return &r.Owner }),
	text("job_name", func(r *Record) *string { return &r.JobName }),
	number("job_number", func(r *Record) *int { return &r.Job }),
	text("account", func(r *Record) *string { return &r.Account }),
	number("priority", func(r *Record) *int { return &r.Priority }),
	stamp("submission_time", func(r *Record) *time.Time { return &r.Submitted }),
	stamp("start_time", func(r *Record) *time.Time { return &r.Start }),
	stamp("end_time", func(r *Record) *time.Time { return &r.End }),
	number("failed", func(r *Record) *job.Failed { return &r.Failed }),
	number("exit_status", func(r *Record) *int { return &r.ExitStatus }),
	{
		"ru_wallclock",
		func(b []byte, r *Record) []byte { return strconv.AppendFloat(b, r.Wallclock(), 'f', -1, 64) },
		func(r *Record, s string) error { return parseFloat(&r.Usage.Wallclock, s) },
	},
	decimal("ru_utime", func(u *job.Usage) *float64 { return &u.UserTime }),
	decimal("ru_stime", func(u *job.Usage) *float64 { return &u.SystemTime }),
	{"ru_maxrss", formatMaxRSS, parseMaxRSS},
	count("ru_ixrss", func(u *job.Usage) *int64 { return &u.IxRSS }),
	number("ru_ismrss", func(r *Record) *int64 { return &r.IsmRSS }),
	count("ru_idrss", func(u *job.Usage) *int64 { return &u.IdRSS }),
	count("ru_isrss", func(u *job.Usage) *int64 { return &u.IsRSS }),
	count("ru_minflt", func(u *job.Usage) *int64 { return &u.MinorFaults }),
	count("ru_majflt", func(u *job.Usage) *int64 { return &u.MajorFaults }),
	count("ru_nswap", func(u *job.Usage) *int64 { return &u.Swaps }),
	whole("ru_inblock", func(u *job.Usage) *int64 { return &u.BlocksIn }),
	count("ru_oublock", func(u *job.Usage) *int64 { return &u.BlocksOut }),
	count("ru_msgsnd", func(u *job.Usage) *int64 { return &u.MessagesSent }),
	count("ru_msgrcv", func(u *job.Usage) *int64 { return &u.MessagesRecvd }),
	count("ru_nsignals", func(u *job.Usage) *int64 { return &u.Signals }),
	count("ru_nvcsw", func(u *job.Usage) *int64 { return &u.VoluntaryCS }),
	count("ru_nivcsw", func(u *job.Usage) *int64 { return &u.InvoluntaryCS }),
	optional("project", func(r *Record) *string { return &r.Project }),
	text("department", func(r *Record) *string { return &r.Department }),
	optional("granted_pe", func(r *Record) *string { return &r.PE }),
	number("slots", func(r *Record) *int { return &r.Slots }),
	number("task_number", func(r *Record) *int { return &r.Task }),
	decimal("cpu", func(u *job.Usage) *float64 { return &u.CPU }),
	decimal("mem", func(u *job.Usage) *float64 { return &u.Mem }),
	decimal("io", func(u *job.Usage) *float64 { return &u.IO }),
	{
		"category",
		func(b []byte, r *Record) []byte { return appendText(b, r.Category, true) },
		func(r *Record, s string) error { r.Category = s; return nil },
	},
	decimal("iow", func(u *job.Usage) *float64 { return &u.IOWait }),
	optional("pe_taskid", func(r *Record) *string { return &r.PETask }),
	whole("maxvmem", func(u *job.Usage) *int64 { return &u.MaxVmem }),
	number("arid", func(r *Record) *int { return &r.Reservation }),
	stamp("ar_submission_time", func(r *Record) *time.Time { return &r.ReservationSubmitted }),
}

// category is the index of the only field that may contain colons.
const category = 39

// AppendClassic appends the line of a record, with its newline.
//
// Only the category, which may request a=b:c, keeps its colons, as in the original (tested). In
// every other field AppendClassic replaces a colon, and each character that a line cannot contain,
// by an underscore. Such fields are rare, since names with a colon are refused at submission
// (tested).
func AppendClassic(b []byte, r *Record) []byte {
	for i := range fields {
		if i > 0 {
			b = append(b, ':')
		}
		b = fields[i].format(b, r)
	}
	return append(b, '\n')
}

// ErrNoRecord is the error for a comment or an empty line in an accounting file.
var ErrNoRecord = errors.New("the line is not a record")

// fewest is the number of fields that a line must have: older versions write neither maxvmem nor
// arid nor ar_submission_time, and qacct reads their lines (tested).
const fewest = 42

// ParseClassic reads a line, with or without its newline. The category may contain colons, so the
// fields after it are counted from the end of the line. Lines of older versions may lack the last
// fields. The error is ErrNoRecord for lines that qacct ignores.
func ParseClassic(line string) (*Record, error) {
	line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
	if len(line) <= 1 || line[0] == '#' {
		return nil, ErrNoRecord
	}
	values := strings.Split(line, ":")
	if len(values) < fewest {
		return nil, fmt.Errorf("cannot read the accounting record %.80q: it has %d fields, expected %d", line, len(values), len(fields))
	}
	extra := max(len(values)-len(fields), 0)
	r := &Record{}
	for i := range fields[:min(len(values), len(fields))] {
		at := i
		if i > category {
			at += extra
		}
		value := values[at]
		if i == category {
			value = strings.Join(values[i:i+extra+1], ":")
		}
		if err := fields[i].parse(r, value); err != nil {
			return nil, fmt.Errorf("cannot read the accounting record %.80q: field %d, %s: %w", line, i+1, fields[i].name, err)
		}
	}
	return r, nil
}

func text(name string, of func(*Record) *string) field {
	return field{
		name,
		func(b []byte, r *Record) []byte { return appendText(b, *of(r), false) },
		func(r *Record, s string) error { *of(r) = s; return nil },
	}
}

// optional returns the field of a text that is NONE if the text is empty.
func optional(name string, of func(*Record) *string) field {
	return field{
		name,
		func(b []byte, r *Record) []byte {
			if *of(r) == "" {
				return append(b, none...)
			}
			return appendText(b, *of(r), false)
		},
		func(r *Record, s string) error {
			if s != none {
				*of(r) = s
			}
			return nil
		},
	}
}

func appendText(b []byte, s string, colons bool) []byte {
	for i, r := range s {
		switch {
		case r == ':' && !colons, printable.Special(r), r == utf8.RuneError && !strings.HasPrefix(s[i:], "\ufffd"):
			b = append(b, '_')
		default:
			b = utf8.AppendRune(b, r)
		}
	}
	return b
}

func number[T ~int | ~int64](name string, of func(*Record) *T) field {
	return field{
		name,
		func(b []byte, r *Record) []byte { return strconv.AppendInt(b, int64(*of(r)), 10) },
		func(r *Record, s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a whole number", s)
			}
			*of(r) = T(n)
			return nil
		},
	}
}

// count returns the field of a whole number of the usage.
func count(name string, of func(*job.Usage) *int64) field {
	return number(name, func(r *Record) *int64 { return of(&r.Usage) })
}

func stamp(name string, of func(*Record) *time.Time) field {
	return field{
		name,
		func(b []byte, r *Record) []byte { return strconv.AppendInt(b, seconds(*of(r)), 10) },
		func(r *Record, s string) error {
			n, err := strconv.ParseInt(s, 10, 64)
			if err != nil {
				return fmt.Errorf("%q is not a time, expected seconds since 1970", s)
			}
			if n != 0 {
				*of(r) = time.Unix(n, 0).UTC()
			}
			return nil
		},
	}
}

// decimal returns the field of a usage value that is printed with six decimals.
func decimal(name string, of func(*job.Usage) *float64) field {
	return field{
		name,
		func(b []byte, r *Record) []byte { return strconv.AppendFloat(b, finite(*of(&r.Usage)), 'f', 6, 64) },
		func(r *Record, s string) error { return parseFloat(of(&r.Usage), s) },
	}
}

// whole returns the field of a whole number that the original prints with six decimals.
func whole(name string, of func(*job.Usage) *int64) field {
	return field{
		name,
		func(b []byte, r *Record) []byte { return append(strconv.AppendInt(b, *of(&r.Usage), 10), ".000000"...) },
		func(r *Record, s string) error { return parseWhole(of(&r.Usage), s, 1) },
	}
}

// kibi is the unit of ru_maxrss (getrusage(2)).
const kibi = 1024

func formatMaxRSS(b []byte, r *Record) []byte {
	return strconv.AppendFloat(b, float64(r.Usage.MaxRSS)/kibi, 'f', 6, 64)
}

func parseMaxRSS(r *Record, s string) error { return parseWhole(&r.Usage.MaxRSS, s, kibi) }

func parseFloat(to *float64, s string) error {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || finite(f) != f {
		return fmt.Errorf("%q is not a number", s)
	}
	*to = f
	return nil
}

func parseWhole(to *int64, s string, unit float64) error {
	if digits, ok := strings.CutSuffix(s, ".000000"); ok && unit == 1 {
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil { // more digits than a float64 has
			*to = n
			return nil
		}
	}
	var f float64
	if err := parseFloat(&f, s); err != nil {
		return err
	}
	if f *= unit; math.Abs(f) >= 1<<63 {
		return fmt.Errorf("%q is too large", s)
	}
	*to = int64(math.Round(f))
	return nil
}
