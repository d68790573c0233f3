package swf

import "strconv"

// Unknown stands for an unknown number.
const Unknown = -1

// Status is the status of a job at its end.
type Status int64

// The statuses. A job that was interrupted and continued may have a record for the whole job,
// followed by one record for each part.
const (
	Failed        Status = 0
	Completed     Status = 1
	PartContinued Status = 2 // a part followed by another part
	LastCompleted Status = 3 // the last part of a job that completed
	LastFailed    Status = 4 // the last part of a job that failed
	Cancelled     Status = 5 // before it started, or while it ran
)

// IsPart reports whether the record describes a part of a job. The whole job has a record of its
// own.
func (s Status) IsPart() bool { return s >= PartContinued && s <= LastFailed }

// Record is a job of a trace: the 18 fields of a line, in their order. Each may be
// Unknown. Times are in seconds, memory is in kilobytes per processor.
type Record struct {
	Number              int64 // of the job, from 1
	Submit              int64 // seconds since UnixStartTime of the header
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
	Queue               int64 // 0 for interactive jobs, if the trace has both kinds
	Partition           int64
	Preceding           int64 // number of the job whose end led to this submission
	ThinkTime           int64 // seconds from that end to the submission
}

// fields are the names of the fields in messages, indexed by number minus 1. Some traces contain
// times or amounts of memory with fractions.
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

// integers returns the integer fields of a record; the sixth entry, for CPU, is nil.
func (r *Record) integers() [18]*int64 {
	return [18]*int64{
		&r.Number, &r.Submit, &r.Wait, &r.Run, &r.Processors, nil, &r.Memory, &r.RequestedProcessors, &r.RequestedTime,
		&r.RequestedMemory, (*int64)(&r.Status), &r.User, &r.Group, &r.Executable, &r.Queue, &r.Partition, &r.Preceding, &r.ThinkTime,
	}
}

// Append appends the line of a record, without a newline. Parsing it returns the same record.
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

// String returns the line of the record, without a newline.
func (r Record) String() string { return string(r.Append(nil)) }
