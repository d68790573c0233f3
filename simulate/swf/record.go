package swf

import "strconv"

// Unknown stands for a number that is not known.
const Unknown = -1

// Status says how a job ended.
type Status int64

// The statuses. A job that was interrupted and went on later may have a record for
// the whole of it and, behind that, one for each of its parts.
const (
	Failed        Status = 0
	Completed     Status = 1
	PartContinued Status = 2 // a part that was followed by another one
	LastCompleted Status = 3 // the last part, of a job that completed
	LastFailed    Status = 4 // the last part, of a job that failed
	Cancelled     Status = 5 // before it started, or while it ran
)

// IsPart reports whether the record is of a part of a job, which has a record of its
// own as a whole.
func (s Status) IsPart() bool { return s >= PartContinued && s <= LastFailed }

// Record is a job of a trace: the 18 fields of a line, in their order. Each may be
// Unknown. Times are in seconds, memory is in kilobytes per processor.
type Record struct {
	Number              int64 // of the job, from 1
	Submit              int64 // since UnixStartTime of the header
	Wait                int64
	Run                 int64 // from the start to the end
	Processors          int64 // allocated
	CPU                 float64
	Memory              int64 // used
	RequestedProcessors int64
	RequestedTime       int64
	RequestedMemory     int64
	Status              Status
	User                int64
	Group               int64
	Executable          int64
	Queue               int64 // 0 for interactive jobs, where there are both
	Partition           int64
	Preceding           int64 // the number of a job without whose end this one would not have been submitted
	ThinkTime           int64 // from that end to the submission
}

// fields are the names of the fields in messages, by their number less one. Numbers
// that are times or amounts of memory are written with fractions in some traces.
var fields = [18]struct {
	name     string
	fraction bool
}{
	{"job number", false},
	{"submit time", true},
	{"wait time", true},
	{"run time", true},
	{"number of allocated processors", false},
	{"average CPU time", true},
	{"used memory", true},
	{"requested number of processors", false},
	{"requested time", true},
	{"requested memory", true},
	{"status", false},
	{"user ID", false},
	{"group ID", false},
	{"executable number", false},
	{"queue number", false},
	{"partition number", false},
	{"preceding job number", false},
	{"think time", true},
}

// integers returns the fields of a record that are integers; CPU, in the sixth place, is
// none.
func (r *Record) integers() [18]*int64 {
	return [18]*int64{
		&r.Number, &r.Submit, &r.Wait, &r.Run, &r.Processors, nil, &r.Memory, &r.RequestedProcessors, &r.RequestedTime,
		&r.RequestedMemory, (*int64)(&r.Status), &r.User, &r.Group, &r.Executable, &r.Queue, &r.Partition, &r.Preceding, &r.ThinkTime,
	}
}

// Append appends the line of a record, without its end. What is read from it is
// the record again.
func (r Record) Append(b []byte) []byte {
	for i, v := range r.integers() {
		if i > 0 {
			b = append(b, ' ')
		}
		if v == nil {
			b = strconv.AppendFloat(b, r.CPU, 'f', -1, 64)
		} else {
			b = strconv.AppendInt(b, *v, 10)
		}
	}
	return b
}

// String returns the line of the record.
func (r Record) String() string { return string(r.Append(nil)) }
