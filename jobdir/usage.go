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

// usageKey is one key of the file usage.
type usageKey struct {
	name  string
	value usageValue
}

// usageValue is how the value of a key goes from and to a usage. get returns ""
// for a key of ours that has nothing to say.
type usageValue interface {
	get(u *Usage) string
	set(u *Usage, v string) bool
}

// whole is an integer in a unit.
type whole struct {
	unit  int64
	field func(u *Usage) *int64
}

func (w whole) get(u *Usage) string { return strconv.FormatInt(*w.field(u)/w.unit, 10) }

func (w whole) set(u *Usage, v string) bool {
	n, err := strconv.ParseInt(v, 10, 64)
	*w.field(u) = n * w.unit
	return err == nil && n <= math.MaxInt64/w.unit && n >= math.MinInt64/w.unit
}

// small is a number such as that of a signal.
type small func(u *Usage) *int

func (field small) get(u *Usage) string { return strconv.Itoa(*field(u)) }

func (field small) set(u *Usage, v string) bool {
	n, err := strconv.ParseInt(v, 10, 32)
	*field(u) = int(n)
	return err == nil
}

// second is a point in time in whole seconds, exactTime the same with its
// fraction, which says nothing where there is none.
type (
	second    func(u *Usage) *time.Time
	exactTime func(u *Usage) *time.Time
)

func (field second) get(u *Usage) string {
	if field(u).IsZero() {
		return "0"
	}
	return strconv.FormatInt(field(u).Unix(), 10)
}

func (field exactTime) get(u *Usage) string {
	if field(u).Nanosecond() == 0 {
		return ""
	}
	return formatSeconds(field(u).UnixNano())
}

func (field second) set(u *Usage, v string) bool    { return setTime(field(u), v) }
func (field exactTime) set(u *Usage, v string) bool { return setTime(field(u), v) }

// micro is a number of seconds with six digits, as the original writes it;
// exact, of ours, has as many as it needs, and says nothing when it is 0.
type (
	micro func(u *Usage) *float64
	exact func(u *Usage) *float64
)

func (field micro) get(u *Usage) string { return strconv.FormatFloat(*field(u), 'f', 6, 64) }

func (field exact) get(u *Usage) string {
	if *field(u) == 0 {
		return ""
	}
	return formatFloat(*field(u))
}

func (field micro) set(u *Usage, v string) bool { return setFloat(field(u), v) }
func (field exact) set(u *Usage, v string) bool { return setFloat(field(u), v) }

// other is a value that is like no other.
type other struct {
	read  func(u *Usage) string
	write func(u *Usage, v string) bool
}

func (o other) get(u *Usage) string         { return o.read(u) }
func (o other) set(u *Usage, v string) bool { return o.write(u, v) }

// usageKeys are the keys in the original's order, then ours. Those of ours that
// repeat one of the original's have the fraction that it cannot have.
var usageKeys = [...]usageKey{
	{"wait_status", other{getWaitStatus, setWaitStatus}},
	{"exit_status", small(func(u *Usage) *int { return &u.ExitStatus })},
	{"signal", small(func(u *Usage) *int { return &u.Signal })},
	{"start_time", second(func(u *Usage) *time.Time { return &u.Start })},
	{"end_time", second(func(u *Usage) *time.Time { return &u.End })},
	{"ru_wallclock", other{wholeWallclock, setWallclock}},
	{"ru_utime", micro(func(u *Usage) *float64 { return &u.UserTime })},
	{"ru_stime", micro(func(u *Usage) *float64 { return &u.SystemTime })},
	{"ru_maxrss", whole{kib, func(u *Usage) *int64 { return &u.MaxRSS }}},
	{"ru_ixrss", whole{1, func(u *Usage) *int64 { return &u.IxRSS }}},
	{"ru_idrss", whole{1, func(u *Usage) *int64 { return &u.IdRSS }}},
	{"ru_isrss", whole{1, func(u *Usage) *int64 { return &u.IsRSS }}},
	{"ru_minflt", whole{1, func(u *Usage) *int64 { return &u.MinorFaults }}},
	{"ru_majflt", whole{1, func(u *Usage) *int64 { return &u.MajorFaults }}},
	{"ru_nswap", whole{1, func(u *Usage) *int64 { return &u.Swaps }}},
	{"ru_inblock", whole{1, func(u *Usage) *int64 { return &u.BlocksIn }}},
	{"ru_oublock", whole{1, func(u *Usage) *int64 { return &u.BlocksOut }}},
	{"ru_msgsnd", whole{1, func(u *Usage) *int64 { return &u.MessagesSent }}},
	{"ru_msgrcv", whole{1, func(u *Usage) *int64 { return &u.MessagesRecvd }}},
	{"ru_nsignals", whole{1, func(u *Usage) *int64 { return &u.Signals }}},
	{"ru_nvcsw", whole{1, func(u *Usage) *int64 { return &u.VoluntaryCS }}},
	{"ru_nivcsw", whole{1, func(u *Usage) *int64 { return &u.InvoluntaryCS }}},

	{"exact_start_time", exactTime(func(u *Usage) *time.Time { return &u.Start })},
	{"exact_end_time", exactTime(func(u *Usage) *time.Time { return &u.End })},
	{"wallclock", other{exactWallclock, setWallclock}},
	{"cpu", exact(func(u *Usage) *float64 { return &u.CPU })},
	{"mem", exact(func(u *Usage) *float64 { return &u.Mem })},
	{"io", exact(func(u *Usage) *float64 { return &u.IO })},
	{"iow", exact(func(u *Usage) *float64 { return &u.IOWait })},
	{"maxvmem", other{getMaxVmem, setMaxVmem}},
	{"limit", other{getExceeded, setExceeded}},
	{"reason", other{getReason, setReason}},
}

const kib = 1024

func getWaitStatus(u *Usage) string { return strconv.FormatUint(uint64(u.WaitStatus), 10) }

func setWaitStatus(u *Usage, v string) bool {
	n, err := strconv.ParseUint(v, 10, 32)
	u.WaitStatus = WaitStatus(n)
	return err == nil
}

// wholeWallclock is the original's: the difference of its two times.
func wholeWallclock(u *Usage) string { return strconv.FormatInt(u.End.Unix()-u.Start.Unix(), 10) }

func exactWallclock(u *Usage) string {
	if u.Wallclock == float64(u.End.Unix()-u.Start.Unix()) {
		return ""
	}
	return formatFloat(u.Wallclock)
}

func setWallclock(u *Usage, v string) bool { return setFloat(&u.Wallclock, v) }

func getMaxVmem(u *Usage) string {
	if u.MaxVmem == 0 {
		return ""
	}
	return strconv.FormatInt(u.MaxVmem, 10)
}

func setMaxVmem(u *Usage, v string) bool {
	return whole{1, func(u *Usage) *int64 { return &u.MaxVmem }}.set(u, v)
}

func getReason(u *Usage) string { return escape(u.Reason) }

func setReason(u *Usage, v string) bool {
	u.Reason = unescape(v)
	return true
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

// getExceeded writes "h_rt 10 12.5": limit, value, measured.
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

// formatFloat prints as many digits as are needed to read the same number.
func formatFloat(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// FormatUsage prints the file usage.
func FormatUsage(u *Usage) []byte {
	var b bytes.Buffer
	for i := range usageKeys {
		k := &usageKeys[i]
		if v := k.value.get(u); v != "" {
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
	var seen [len(usageKeys)]bool
	err := eachLine(file, data, func(line int, text string) error {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return &SyntaxError{file, line, shorten(text), "expected a line of the form key=value"}
		}
		for i := range usageKeys {
			k := &usageKeys[i]
			switch {
			case k.name != name:
				continue
			case seen[i]:
				return &SyntaxError{file, line, name, "comes twice"}
			case !k.value.set(u, value):
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
