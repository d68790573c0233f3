package jobdir

import (
	"math"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/job"
)

// Usage is the content of the file usage: the exit status and the resource usage of the job itself.
// The file exists only if the job was started.
type Usage struct {
	WaitStatus WaitStatus
	ExitStatus int // 0-255, 128+n after signal n
	Signal     int // number of the system, 0 for none
	Start, End time.Time
	job.Usage

	// Reason is one sentence for people if the job was killed, and Limit is the limit that was the
	// reason. The original's file has neither.
	Reason string
	Limit  *job.LimitExceeded
	// Notice is job.Outcome.Notice. The original's file lacks it.
	Notice string
	// Micros writes start_time and end_time in microseconds, see job.Daemon. ParseUsage does not read them.
	Micros bool
}

// NewUsage describes the end of a job from the result of wait4(2).
func NewUsage(status syscall.WaitStatus, ru *syscall.Rusage, start, end time.Time) *Usage {
	u := &Usage{WaitStatus: FromWait(status), ExitStatus: status.ExitStatus(), Start: start, End: end}
	if status.Signaled() {
		u.Signal = int(status.Signal())
		u.ExitStatus = 128 + u.Signal
	}
	u.Wallclock = end.Sub(start).Seconds()
	if ru != nil {
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

// usageKey describes one key of the file usage: its name and one of the other fields. Like
// configKey it holds only data and plain functions, and no interface.
type usageKey struct {
	name string

	whole func(u *Usage) *int64
	unit  int64 // divides a whole number in the file; 0 is 1
	small func(u *Usage) *int
	time  func(u *Usage) *time.Time // whole seconds since 1970
	exact func(u *Usage) *time.Time // the same with its fraction; omitted for the zero time
	micro func(u *Usage) *float64   // six decimals, as in the original
	float func(u *Usage) *float64   // as many digits as necessary; omitted for 0
	other func(u *Usage) string     // a value of a special form; writeOther reads it
}

// read returns the value of the key in u; "" if one of this project's own keys has no value.
func (k *usageKey) read(u *Usage) string {
	switch {
	case k.whole != nil:
		return strconv.FormatInt(*k.whole(u)/max(k.unit, 1), 10)
	case k.small != nil:
		return strconv.Itoa(*k.small(u))
	case k.time != nil:
		if k.time(u).IsZero() {
			return "0"
		}
		if u.Micros {
			return strconv.FormatInt(k.time(u).UnixMicro(), 10)
		}
		return strconv.FormatInt(k.time(u).Unix(), 10)
	case k.exact != nil:
		if k.exact(u).Nanosecond() == 0 || u.Micros {
			return ""
		}
		return formatSeconds(k.exact(u).UnixNano())
	case k.micro != nil:
		return strconv.FormatFloat(*k.micro(u), 'f', 6, 64)
	case k.float != nil:
		if *k.float(u) == 0 {
			return ""
		}
		return formatFloat(*k.float(u))
	}
	return k.other(u)
}

// write stores the value of the key in a usage. It returns false if the value is invalid.
func (k *usageKey) write(u *Usage, v string) bool {
	switch {
	case k.whole != nil:
		unit := max(k.unit, 1)
		n, err := strconv.ParseInt(v, 10, 64)
		*k.whole(u) = n * unit
		return err == nil && n <= math.MaxInt64/unit && n >= math.MinInt64/unit
	case k.small != nil:
		n, err := strconv.ParseInt(v, 10, 32)
		*k.small(u) = int(n)
		return err == nil
	case k.time != nil:
		return setTime(k.time(u), v)
	case k.exact != nil:
		return setTime(k.exact(u), v)
	case k.micro != nil:
		return setFloat(k.micro(u), v)
	case k.float != nil:
		return setFloat(k.float(u), v)
	}
	return writeOther(u, k.name, v)
}

// writeOther reads the values of a special form. It is not in the table because the supervisor
// writes usages and never reads one.
func writeOther(u *Usage, name, v string) bool {
	switch name {
	case "wait_status":
		n, err := strconv.ParseUint(v, 10, 32)
		u.WaitStatus = WaitStatus(n)
		return err == nil
	case "maxvmem":
		return setWhole(&u.MaxVmem, v)
	case "maxrss":
		return setWhole(&u.PeakRSS, v)
	case "ioops":
		return setWhole(&u.IOOps, v)
	case "limit":
		return setExceeded(u, v)
	case "reason":
		u.Reason = unescape(v)
		return true
	case "notice":
		u.Notice = unescape(v)
		return true
	}
	return setFloat(&u.Wallclock, v) // ru_wallclock, wallclock
}

// usageKeys lists the keys in the original's order, then the additional ones. An additional key
// that repeats one of the original's has the fraction that the original's lacks.
var usageKeys = [...]usageKey{
	{name: "wait_status", other: getWaitStatus},
	{name: "exit_status", small: func(u *Usage) *int { return &u.ExitStatus }},
	{name: "signal", small: func(u *Usage) *int { return &u.Signal }},
	{name: "start_time", time: func(u *Usage) *time.Time { return &u.Start }},
	{name: "end_time", time: func(u *Usage) *time.Time { return &u.End }},
	{name: "ru_wallclock", other: wholeWallclock},
	{name: "ru_utime", micro: func(u *Usage) *float64 { return &u.UserTime }},
	{name: "ru_stime", micro: func(u *Usage) *float64 { return &u.SystemTime }},
	{name: "ru_maxrss", whole: func(u *Usage) *int64 { return &u.MaxRSS }, unit: kib},
	{name: "ru_ixrss", whole: func(u *Usage) *int64 { return &u.IxRSS }},
	{name: "ru_idrss", whole: func(u *Usage) *int64 { return &u.IdRSS }},
	{name: "ru_isrss", whole: func(u *Usage) *int64 { return &u.IsRSS }},
	{name: "ru_minflt", whole: func(u *Usage) *int64 { return &u.MinorFaults }},
	{name: "ru_majflt", whole: func(u *Usage) *int64 { return &u.MajorFaults }},
	{name: "ru_nswap", whole: func(u *Usage) *int64 { return &u.Swaps }},
	{name: "ru_inblock", whole: func(u *Usage) *int64 { return &u.BlocksIn }},
	{name: "ru_oublock", whole: func(u *Usage) *int64 { return &u.BlocksOut }},
	{name: "ru_msgsnd", whole: func(u *Usage) *int64 { return &u.MessagesSent }},
	{name: "ru_msgrcv", whole: func(u *Usage) *int64 { return &u.MessagesRecvd }},
	{name: "ru_nsignals", whole: func(u *Usage) *int64 { return &u.Signals }},
	{name: "ru_nvcsw", whole: func(u *Usage) *int64 { return &u.VoluntaryCS }},
	{name: "ru_nivcsw", whole: func(u *Usage) *int64 { return &u.InvoluntaryCS }},

	{name: "exact_start_time", exact: func(u *Usage) *time.Time { return &u.Start }},
	{name: "exact_end_time", exact: func(u *Usage) *time.Time { return &u.End }},
	{name: "wallclock", other: exactWallclock},
	{name: "cpu", float: func(u *Usage) *float64 { return &u.CPU }},
	{name: "mem", float: func(u *Usage) *float64 { return &u.Mem }},
	{name: "io", float: func(u *Usage) *float64 { return &u.IO }},
	{name: "ioops", other: getIOOps},
	{name: "iow", float: func(u *Usage) *float64 { return &u.IOWait }},
	{name: "maxvmem", other: getMaxVmem},
	{name: "maxrss", other: getPeakRSS},
	{name: "limit", other: getExceeded},
	{name: "reason", other: getReason},
	{name: "notice", other: getNotice},
}

const kib = 1024

func getWaitStatus(u *Usage) string { return strconv.FormatUint(uint64(u.WaitStatus), 10) }

// wholeWallclock returns the original's value: the difference of its two times, which are whole
// seconds.
func wholeWallclock(u *Usage) string { return strconv.FormatInt(wholeDifference(&u.Start, &u.End), 10) }

func exactWallclock(u *Usage) string {
	if u.Wallclock == float64(wholeDifference(&u.Start, &u.End)) {
		return ""
	}
	return formatFloat(u.Wallclock)
}

func getMaxVmem(u *Usage) string { return unlessZero(u.MaxVmem) }
func getPeakRSS(u *Usage) string { return unlessZero(u.PeakRSS) }
func getIOOps(u *Usage) string   { return unlessZero(u.IOOps) }

func unlessZero(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

func getReason(u *Usage) string { return escape(u.Reason) }
func getNotice(u *Usage) string { return escape(u.Notice) }

func setWhole(to *int64, v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	*to = n
	return err == nil
}

func setFloat(to *float64, v string) bool {
	f, err := strconv.ParseFloat(v, 64)
	*to = f
	return err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
}

func setTime(t *time.Time, v string) bool {
	ns, ok := parseSeconds(v)
	*t = time.Time{}
	if ns != 0 {
		*t = time.Unix(0, ns)
	}
	return ok
}

// getExceeded formats the limit, its value and the measured value, as in "h_rt 10 12.5".
func getExceeded(u *Usage) string {
	if u.Limit == nil {
		return ""
	}
	return u.Limit.Name + " " + formatFloat(u.Limit.Value) + " " + formatFloat(u.Limit.Measured)
}

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

// formatFloat formats as many digits as are necessary to read back the same number.
func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// FormatUsage formats the file usage.
func FormatUsage(u *Usage) []byte {
	b := make([]byte, 0, 1024)
	for i := range usageKeys {
		k := &usageKeys[i]
		if v := k.read(u); v != "" {
			b = appendLine(b, k.name, v)
		}
	}
	return b
}

// ParseUsage reads a file usage of this project or of the original's shepherd. Like the original's
// execd it ignores unknown keys, reads a missing exit_status as 1 and any other missing key as 0,
// and uses the last value of a repeated key: some sites' epilogs append to the file. The additional
// fractions count if they still match the whole number of the original's key.
func ParseUsage(file string, data []byte) (*Usage, error) {
	u := &Usage{ExitStatus: 1}
	whole := map[string]string{} // values that an additional key repeats with a fraction
	err := eachLine(file, data, func(line int, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return &SyntaxError{file, line, shorten(text), "expected a line of the form key=value"}
		}
		for i := range usageKeys {
			k := &usageKeys[i]
			if k.name != name {
				continue
			}
			if !k.write(u, value) {
				return &SyntaxError{file, line, name, quote(value) + " is not a value for it"}
			}
			switch name {
			case "start_time", "end_time", "ru_wallclock":
				whole[name] = value
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	u.heed(whole)
	return u, nil
}

// heed applies whole numbers that an epilog has changed. The fraction of such a value belongs to
// the previous number and is ignored.
func (u *Usage) heed(whole map[string]string) {
	var start, end time.Time
	for name, t := range map[string][2]*time.Time{"start_time": {&start, &u.Start}, "end_time": {&end, &u.End}} {
		if v, ok := whole[name]; ok && setTime(t[0], v) && wholeSeconds(t[0]) != wholeSeconds(t[1]) {
			*t[1] = *t[0]
		}
	}
	var wallclock float64
	if v, ok := whole["ru_wallclock"]; ok && setFloat(&wallclock, v) && wallclock != float64(wholeDifference(&start, &end)) {
		u.Wallclock = wallclock
	}
}

// wholeSeconds returns a time in the format of start_time and end_time.
func wholeSeconds(t *time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

func wholeDifference(start, end *time.Time) int64 { return wholeSeconds(end) - wholeSeconds(start) }
