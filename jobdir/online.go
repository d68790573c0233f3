package jobdir

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
)

// Online is the usage of a running job so far: the content of the file usage_online. The supervisor
// writes the file after a measurement with a new result, at the earliest one second after the job's
// start, and then at growing intervals.
type Online struct {
	At        time.Time // time of the measurement
	Wallclock float64   // seconds
	CPU       float64   // seconds of the whole job
	Mem       float64   // GiB times seconds of CPU
	IO        float64   // GiB read and written
	IOOps     int64     // number of reads and writes
	IOWait    float64   // seconds
	Vmem      int64     // bytes of RAM and swap now
	MaxVmem   int64     // largest value of Vmem
	RSS       int64     // bytes of RAM now
	MaxRSS    int64     // largest value of RSS
	// Refused is the number of times that the kernel refused to create a process or thread because
	// the job had reached its limit.
	Refused int64
}

// FormatOnline formats the file usage_online, with lines of key=value.
func FormatOnline(o *Online) []byte {
	b := appendLine(nil, "time", formatInstant(o.At))
	for _, f := range o.floats() {
		b = appendLine(b, f.name, formatFloat(*f.value))
	}
	for _, w := range o.wholes() {
		if *w.value != 0 || w.always {
			b = appendLine(b, w.name, strconv.FormatInt(*w.value, 10))
		}
	}
	return b
}

type namedFloat struct {
	name  string
	value *float64
}

func (o *Online) floats() [5]namedFloat {
	return [5]namedFloat{{"wallclock", &o.Wallclock}, {"cpu", &o.CPU}, {"mem", &o.Mem}, {"io", &o.IO}, {"iow", &o.IOWait}}
}

type namedWhole struct {
	name   string
	value  *int64
	always bool // the file has the value also if it is 0
}

func (o *Online) wholes() [6]namedWhole {
	return [6]namedWhole{
		{"vmem", &o.Vmem, true}, {"maxvmem", &o.MaxVmem, true}, {"rss", &o.RSS, true}, {"maxrss", &o.MaxRSS, true}, {"refused", &o.Refused, false}, {"ioops", &o.IOOps, false},
	}
}

// ParseOnline reads the format of FormatOnline. It skips unknown keys, which newer versions may
// write.
func ParseOnline(file string, data []byte) (*Online, error) {
	o := &Online{}
	err := eachLine(file, data, func(line int, text string) error {
		key, value, found := strings.Cut(text, "=")
		ok := found
		if key == "time" {
			ok = ok && setTime(&o.At, value)
		} else {
			for _, w := range o.wholes() {
				if w.name == key {
					n, err := strconv.ParseInt(value, 10, 64)
					*w.value, ok = n, ok && err == nil
				}
			}
			for _, f := range o.floats() {
				if f.name == key {
					ok = ok && setFloat(f.value, value)
				}
			}
		}
		if !ok {
			return &SyntaxError{file, line, shorten(text), "expected a line of the form key=value, with a number"}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return o, nil
}

// WriteOnline writes the usage of the running job so far.
func (d *Dir) WriteOnline(o *Online) error { return d.WriteFile(FileOnline, FormatOnline(o)) }

// Online returns the usage of the job at the supervisor's last measurement; nil before the first
// one.
func (d *Dir) Online() (*Online, error) {
	data, err := d.readSmall(FileOnline)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // nothing is an answer here
	}
	if err != nil {
		return nil, err
	}
	return ParseOnline(d.file(FileOnline), data)
}
