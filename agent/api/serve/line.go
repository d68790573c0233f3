package serve

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/execd-project/execd/agent/api"
)

// appendLine appends a report in the format of encode. It prints frequent reports itself, in a tenth of
// the time of encoding/json. These are reports of usage, of load values, and of unfinished jobs: a master
// that connects again gets one for each of its jobs.
func appendLine(b []byte, r *api.Report) ([]byte, error) {
	other := r.Configuration != nil || r.Service != nil || r.Heartbeat != nil || r.Error != nil
	o := object{b: append(b, '{')}
	switch {
	case r.Job != nil && r.Job.Outcome == nil && r.Usage == nil && r.Load == nil && !other:
		o.number(r.Number)
		o.job(r.Job)
	case r.Usage != nil && r.Usage.Jobs != nil && r.Job == nil && r.Load == nil && !other:
		o.number(r.Number)
		o.usages(r.Usage)
	case r.Load != nil && r.Load.Values != nil && r.Job == nil && r.Usage == nil && !other:
		o.number(r.Number)
		o.load(r.Load)
	default:
		text, err := encode(r)
		return append(b, text...), err
	}
	return append(o.b, '}', '\n'), o.err
}

func (o *object) job(j *api.Job) {
	o.open("job")
	o.int("job", int64(j.Job))
	o.int("task", int64(j.Task))
	o.textIf("pe_task", j.PETask)
	o.number(j.Number)
	o.text("key", j.Key)
	o.text("state", string(j.State))
	if j.Slave {
		o.bool("slave", true)
	}
	o.text("owner", j.Owner)
	o.text("name", j.Name)
	o.text("queue", j.Queue)
	o.textIf("pe", j.PE)
	o.int("slots", int64(j.Slots))
	list(o, "suspended_by", j.SuspendedBy)
	o.timeIf("submitted", j.Submitted)
	o.intIf("queue_priority", j.QueuePriority)
	o.timeIf("received", j.Received)
	o.timeIf("started", j.Started)
	o.intIf("pid", j.PID)
	o.usage(j.Usage)
	o.gpu(j.GPU)
	o.intIf("nice", j.Nice)
	list(o, "notes", j.Notes)
	o.textIf("directory", j.Directory)
	o.b = append(o.b, '}')
}

func (o *object) usages(u *api.UsageReport) {
	o.open("usage")
	o.time("time", u.Time)
	o.key("jobs")
	o.b = append(o.b, '[')
	for i := range u.Jobs {
		j := &u.Jobs[i]
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = append(o.b, '{')
		o.int("job", int64(j.Job))
		o.intIf("task", j.Task)
		o.textIf("pe_task", j.PETask)
		o.floatIf("cpu", j.CPU)
		o.floatIf("mem", j.Mem)
		o.floatIf("io", j.IO)
		o.floatIf("iow", j.IOWait)
		o.intIf("vmem", int(j.Vmem))
		o.intIf("maxvmem", int(j.MaxVmem))
		o.gpu(j.GPU)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']', '}')
}

func (o *object) load(l *api.Load) {
	o.open("load")
	o.bool("full", l.Full)
	o.time("time", l.Time)
	o.key("values")
	o.b = append(o.b, '[')
	for i := range l.Values {
		v := &l.Values[i]
		o.valueID(i, v.ValueID)
		o.text("value", v.Text)
		if v.Static {
			o.bool("static", true)
		}
		o.time("at", v.At)
		o.textIf("source", v.Source)
		o.b = append(o.b, '}')
	}
	o.b = append(o.b, ']')
	if len(l.Removed) > 0 {
		o.key("removed")
		o.b = append(o.b, '[')
		for i, v := range l.Removed {
			o.valueID(i, v)
			o.b = append(o.b, '}')
		}
		o.b = append(o.b, ']')
	}
	o.b = append(o.b, '}')
}

// valueID begins element i of a list.
func (o *object) valueID(i int, v api.ValueID) {
	if i > 0 {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '{')
	o.text("host", v.Host)
	o.text("name", v.Name)
}

// object prints the fields of JSON objects as package encoding/json does. The methods with If in
// their names omit empty values.
type object struct {
	b   []byte
	err error
}

func (o *object) key(name string) {
	if o.b[len(o.b)-1] != '{' {
		o.b = append(o.b, ',')
	}
	o.b = append(o.b, '"')
	o.b = append(append(o.b, name...), '"', ':')
}

// open begins an object in the object.
func (o *object) open(name string) {
	o.key(name)
	o.b = append(o.b, '{')
}

func (o *object) int(name string, n int64) {
	o.key(name)
	o.b = strconv.AppendInt(o.b, n, 10)
}

func (o *object) number(n uint64) {
	o.key("number")
	o.b = strconv.AppendUint(o.b, n, 10)
}

func (o *object) bool(name string, is bool) {
	o.key(name)
	o.b = strconv.AppendBool(o.b, is)
}

func (o *object) intIf(name string, n int) {
	if n != 0 {
		o.int(name, int64(n))
	}
}

func (o *object) text(name, text string) {
	o.key(name)
	o.string(text)
}

func (o *object) textIf(name, text string) {
	if text != "" {
		o.text(name, text)
	}
}

// string prints a string. It uses encode for strings that need escapes.
func (o *object) string(text string) {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			o.other(text)
			return
		}
	}
	o.b = append(o.b, '"')
	o.b = append(append(o.b, text...), '"')
}

// other prints rare values with encode.
func (o *object) other(v any) {
	text, err := encode(v)
	if err != nil {
		o.err = err
		return
	}
	o.b = append(o.b, text[:len(text)-1]...)
}

func (o *object) timeIf(name string, t time.Time) {
	if !t.IsZero() {
		o.time(name, t)
	}
}

func (o *object) time(name string, t time.Time) {
	o.key(name)
	o.b = append(o.b, '"')
	text, err := t.AppendText(o.b)
	if err != nil {
		o.err = err
		return
	}
	o.b = append(text, '"')
}

// float prints a number as encoding/json and ECMAScript do: with an exponent if it is very small or very
// large. The exponent has no leading zeros.
func (o *object) float(name string, f float64) {
	o.key(name)
	abs := math.Abs(f)
	if math.IsNaN(f) || abs >= 1e21 {
		o.other(f)
		return
	}
	if abs == 0 || abs >= 1e-6 {
		o.b = strconv.AppendFloat(o.b, f, 'f', -1, 64)
		return
	}
	o.b = strconv.AppendFloat(o.b, f, 'e', -1, 64)
	if n := len(o.b); o.b[n-2] == '0' && o.b[n-3] == '-' && o.b[n-4] == 'e' {
		o.b = append(o.b[:n-2], o.b[n-1])
	}
}

func (o *object) floatIf(name string, f float64) {
	if f != 0 {
		o.float(name, f)
	}
}

func (o *object) usage(u *api.Online) {
	if u == nil {
		return
	}
	o.open("usage")
	o.time("at", u.At)
	o.float("wallclock", u.Wallclock)
	o.float("cpu", u.CPU)
	o.float("mem", u.Mem)
	o.float("io", u.IO)
	o.float("iow", u.IOWait)
	o.int("vmem", u.Vmem)
	o.int("maxvmem", u.MaxVmem)
	o.b = append(o.b, '}')
}

func (o *object) gpu(u *api.GPUUsage) {
	if u == nil {
		return
	}
	o.open("gpu")
	o.int("count", int64(u.Count))
	o.float("seconds", u.Seconds)
	o.float("measured", u.Measured)
	o.float("busy", u.Busy)
	o.int("max_memory", u.MaxMemory)
	if len(u.Idle) > 0 {
		o.key("idle")
		o.other(u.Idle)
	}
	o.b = append(o.b, '}')
}

func list[T ~string](o *object, name string, words []T) {
	if len(words) == 0 {
		return
	}
	o.key(name)
	o.b = append(o.b, '[')
	for i, w := range words {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.string(string(w))
	}
	o.b = append(o.b, ']')
}
