package jobdir

import (
	"bytes"
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/job"
)

// Usage is the content of the file usage: how the job itself ended and what it
// used. The file exists only if the job was started.
type Usage struct {
	WaitStatus WaitStatus
	ExitStatus int // 0-255, 128+n after signal n
	Signal     int // number of the system, 0 for none
	Start, End time.Time
	job.Usage

	// Reason is one sentence for people when something ended the job, and
	// Limit the limit that did. The original's file has neither.
	Reason string
	Limit  *job.LimitExceeded
}

// NewUsage describes the end of a job from what wait4(2) has said about it.
func NewUsage(status syscall.WaitStatus, ru *syscall.Rusage, start, end time.Time) *Usage {
	u := &Usage{WaitStatus: FromWait(status), ExitStatus: status.ExitStatus(), Start: start, End: end}
	if status.Signaled() {
		u.Signal = int(status.Signal())
		u.ExitStatus = 128 + u.Signal
	}
	u.Wallclock = end.Sub(start).Seconds()
	if ru != nil {
		const kib = 1024
		u.UserTime, u.SystemTime = timeval(ru.Utime), timeval(ru.Stime)
		u.MaxRSS = ru.Maxrss * kib
		u.IxRSS, u.IdRSS, u.IsRSS = ru.Ixrss, ru.Idrss, ru.Isrss
		u.MinorFaults, u.MajorFaults, u.Swaps = ru.Minflt, ru.Majflt, ru.Nswap
		u.BlocksIn, u.BlocksOut = ru.Inblock, ru.Oublock
		u.MessagesSent, u.MessagesRecvd, u.Signals = ru.Msgsnd, ru.Msgrcv, ru.Nsignals
		u.VoluntaryCS, u.InvoluntaryCS = ru.Nvcsw, ru.Nivcsw
	}
	return u
}

func timeval(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// usageKey is one key of the file usage. get returns "" for a key of ours that
// has nothing to say.
type usageKey struct {
	name string
	get  func(u *Usage) string
	set  func(u *Usage, v string) bool
}

// usageKeys are the keys in the original's order, then ours. Those of ours that
// repeat one of the original's have the fraction that it cannot have.
func usageKeys() []usageKey {
	whole := func(name string, unit int64, field func(u *Usage) *int64) usageKey {
		return usageKey{name,
			func(u *Usage) string { return strconv.FormatInt(*field(u)/unit, 10) },
			func(u *Usage, v string) bool {
				n, err := strconv.ParseInt(v, 10, 64)
				*field(u) = n * unit
				return err == nil && n <= math.MaxInt64/unit && n >= math.MinInt64/unit
			}}
	}
	small := func(name string, field func(u *Usage) *int) usageKey {
		return usageKey{name,
			func(u *Usage) string { return strconv.Itoa(*field(u)) },
			func(u *Usage, v string) bool {
				n, err := strconv.ParseInt(v, 10, 32)
				*field(u) = int(n)
				return err == nil
			}}
	}
	second := func(name string, field func(u *Usage) *time.Time) usageKey {
		return usageKey{name,
			func(u *Usage) string {
				if field(u).IsZero() {
					return "0"
				}
				return strconv.FormatInt(field(u).Unix(), 10)
			},
			func(u *Usage, v string) bool { return setTime(field(u), v) }}
	}
	exactTime := func(name string, field func(u *Usage) *time.Time) usageKey {
		return usageKey{name,
			func(u *Usage) string {
				if field(u).Nanosecond() == 0 {
					return ""
				}
				return formatSeconds(field(u).UnixNano())
			},
			func(u *Usage, v string) bool { return setTime(field(u), v) }}
	}
	float := func(name string, precision int, own bool, field func(u *Usage) *float64) usageKey {
		return usageKey{name,
			func(u *Usage) string {
				if own && *field(u) == 0 {
					return ""
				}
				return formatFloat(*field(u), precision)
			},
			func(u *Usage, v string) bool {
				f, err := strconv.ParseFloat(v, 64)
				*field(u) = f
				return err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
			}}
	}
	const micro, exact, kib = 6, -1, 1024
	return []usageKey{
		{"wait_status",
			func(u *Usage) string { return strconv.FormatUint(uint64(u.WaitStatus), 10) },
			func(u *Usage, v string) bool {
				n, err := strconv.ParseUint(v, 10, 32)
				u.WaitStatus = WaitStatus(n)
				return err == nil
			}},
		small("exit_status", func(u *Usage) *int { return &u.ExitStatus }),
		small("signal", func(u *Usage) *int { return &u.Signal }),
		second("start_time", func(u *Usage) *time.Time { return &u.Start }),
		second("end_time", func(u *Usage) *time.Time { return &u.End }),
		{"ru_wallclock",
			// The original's is the difference of its two times.
			func(u *Usage) string { return strconv.FormatInt(u.End.Unix()-u.Start.Unix(), 10) },
			func(u *Usage, v string) bool {
				f, err := strconv.ParseFloat(v, 64)
				u.Wallclock = f
				return err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
			}},
		float("ru_utime", micro, false, func(u *Usage) *float64 { return &u.UserTime }),
		float("ru_stime", micro, false, func(u *Usage) *float64 { return &u.SystemTime }),
		whole("ru_maxrss", kib, func(u *Usage) *int64 { return &u.MaxRSS }),
		whole("ru_ixrss", 1, func(u *Usage) *int64 { return &u.IxRSS }),
		whole("ru_idrss", 1, func(u *Usage) *int64 { return &u.IdRSS }),
		whole("ru_isrss", 1, func(u *Usage) *int64 { return &u.IsRSS }),
		whole("ru_minflt", 1, func(u *Usage) *int64 { return &u.MinorFaults }),
		whole("ru_majflt", 1, func(u *Usage) *int64 { return &u.MajorFaults }),
		whole("ru_nswap", 1, func(u *Usage) *int64 { return &u.Swaps }),
		whole("ru_inblock", 1, func(u *Usage) *int64 { return &u.BlocksIn }),
		whole("ru_oublock", 1, func(u *Usage) *int64 { return &u.BlocksOut }),
		whole("ru_msgsnd", 1, func(u *Usage) *int64 { return &u.MessagesSent }),
		whole("ru_msgrcv", 1, func(u *Usage) *int64 { return &u.MessagesRecvd }),
		whole("ru_nsignals", 1, func(u *Usage) *int64 { return &u.Signals }),
		whole("ru_nvcsw", 1, func(u *Usage) *int64 { return &u.VoluntaryCS }),
		whole("ru_nivcsw", 1, func(u *Usage) *int64 { return &u.InvoluntaryCS }),

		exactTime("exact_start_time", func(u *Usage) *time.Time { return &u.Start }),
		exactTime("exact_end_time", func(u *Usage) *time.Time { return &u.End }),
		{"wallclock",
			func(u *Usage) string {
				if u.Wallclock == float64(u.End.Unix()-u.Start.Unix()) {
					return ""
				}
				return formatFloat(u.Wallclock, exact)
			},
			float("", exact, true, func(u *Usage) *float64 { return &u.Wallclock }).set},
		float("cpu", exact, true, func(u *Usage) *float64 { return &u.CPU }),
		float("mem", exact, true, func(u *Usage) *float64 { return &u.Mem }),
		float("io", exact, true, func(u *Usage) *float64 { return &u.IO }),
		float("iow", exact, true, func(u *Usage) *float64 { return &u.IOWait }),
		{"maxvmem",
			func(u *Usage) string {
				if u.MaxVmem == 0 {
					return ""
				}
				return strconv.FormatInt(u.MaxVmem, 10)
			},
			whole("", 1, func(u *Usage) *int64 { return &u.MaxVmem }).set},
		{"limit",
			func(u *Usage) string {
				if u.Limit == nil {
					return ""
				}
				return strings.Join([]string{u.Limit.Name, formatFloat(u.Limit.Value, exact), formatFloat(u.Limit.Measured, exact)}, " ")
			},
			setExceeded},
		{"reason",
			func(u *Usage) string { return escape(u.Reason) },
			func(u *Usage, v string) bool {
				u.Reason = unescape(v)
				return true
			}},
	}
}

func setTime(t *time.Time, v string) bool {
	ns, ok := parseSeconds(v)
	*t = time.Time{}
	if ns != 0 {
		*t = time.Unix(0, ns)
	}
	return ok
}

// setExceeded reads "h_rt 10 12.5": limit, value, measured.
func setExceeded(u *Usage, v string) bool {
	f := strings.Fields(v)
	if len(f) != 3 {
		return false
	}
	value, err1 := strconv.ParseFloat(f[1], 64)
	measured, err2 := strconv.ParseFloat(f[2], 64)
	u.Limit = &job.LimitExceeded{Name: f[0], Value: value, Measured: measured}
	return err1 == nil && err2 == nil && !math.IsNaN(value) && !math.IsNaN(measured)
}

func formatFloat(f float64, precision int) string { return strconv.FormatFloat(f, 'f', precision, 64) }

// FormatUsage prints the file usage.
func FormatUsage(u *Usage) []byte {
	var b bytes.Buffer
	for _, k := range usageKeys() {
		if v := k.get(u); v != "" {
			writeLine(&b, k.name, v)
		}
	}
	return b.Bytes()
}

// ParseUsage reads a file usage of ours or of the original's shepherd. As its
// execd does, it ignores keys that it does not know (sites let an epilog append
// some), and takes a missing exit_status for 1 and any other missing key for 0.
func ParseUsage(file string, data []byte) (*Usage, error) {
	u := &Usage{ExitStatus: 1}
	keys := usageKeys()
	seen := make([]bool, len(keys))
	err := eachLine(file, data, func(line int, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return &SyntaxError{file, line, shorten(text), "expected a line of the form key=value"}
		}
		for i, k := range keys {
			switch {
			case k.name != name:
				continue
			case seen[i]:
				return &SyntaxError{file, line, name, "comes twice"}
			case !k.set(u, value):
				return &SyntaxError{file, line, name, quote(value) + " is no value for it"}
			}
			seen[i] = true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return u, nil
}
