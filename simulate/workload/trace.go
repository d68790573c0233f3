package workload

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/swf"
	"github.com/execd-project/execd/submit"
)

// Mapping describes the conversion of the records of a trace to jobs:
//
//   - A job is submitted at its submit time, and runs for its run time, unless a
//     limit ends it. The simulation decides when it starts, so wait time,
//     preceding job and think time are ignored.
//   - The requested processors, otherwise the allocated ones, are slots. More
//     than one are requested with -pe PE.
//   - A requested time is the limit h_rt.
//   - Requested memory is a request for Memory per slot, in multiples of 1024
//     bytes.
//   - The queue number N is -q QueueN, also 0 for interactive jobs.
//   - The user with the number N is uN, the group is gN; an unknown user is named
//     unknown.
//
// Other fields are ignored. Some records give no job: see Reason.
type Mapping struct {
	PE      string // name or pattern of the parallel environment; empty means "*", any
	Memory  string // attribute of complex(5), such as h_vmem; empty for none
	Queue   string // prefix of the names of queues; empty for no -q
	Reserve bool   // -R y for parallel jobs
}

// Reason is the reason why a record gives no job.
type Reason int

// The reasons. A record has the first one that applies.
const (
	Kept              Reason = iota // no reason: there is a job
	PartOfJob                       // the record describes a part of a job with a record of its own
	CancelledInTime                 // the job was cancelled before it started: its run time is unknown or 0
	UnknownSubmitTime               // or negative, or above MaxTime
	UnknownRunTime                  // the same
	UnknownProcessors               // or 0, or more than submit.MaxSlots
	NumberOfReasons   = iota
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case PartOfJob:
		return "parts of jobs"
	case CancelledInTime:
		return "cancelled before they started"
	case UnknownSubmitTime:
		return "without a submit time"
	case UnknownRunTime:
		return "without a run time"
	case UnknownProcessors:
		return "without a number of processors"
	}
	return "kept"
}

// Limits for the jobs of a simulation, which are all in memory: a job of a file takes about 1 KiB,
// a job of a trace about 200 bytes.
const (
	maxJobs    = 1_000_000
	maxRecords = 10_000_000
)

// maxErrors is the maximum number of errors that are returned for a trace.
const maxErrors = 100

// Skipped counts the records without a job, by reason.
type Skipped [NumberOfReasons]int

// FromTrace converts the remaining records of r to jobs, in the order of submission; jobs with the
// same time are in the order of the trace. The error joins the first hundred errors: each is an
// *swf.Error, or an error about the mapping. No jobs are returned then.
func FromTrace(r *swf.Reader, m Mapping) ([]Job, Skipped, error) {
	var skipped Skipped
	t := tracer{mapping: m, requests: map[asked]*submit.Request{}}
	if err := t.check(); err != nil {
		return nil, skipped, fmt.Errorf("cannot make jobs of a trace: %w", err)
	}
	var jobs []Job
	var errs []error
	for rec, err := range r.Records() {
		if len(jobs) == maxRecords {
			errs = append(errs, &swf.Error{File: r.Name(), Line: r.Line(), Problem: fmt.Sprintf("there are more than %d jobs, which is the limit", maxRecords)})
			break
		}
		if err != nil {
			if errs = append(errs, err); len(errs) == maxErrors {
				errs = append(errs, fmt.Errorf("%d errors, what follows has not been read", maxErrors))
				break
			}
			continue
		}
		j, reason, err := t.job(rec)
		switch {
		case err != nil:
			errs = append(errs, err)
		case reason != Kept:
			skipped[reason]++
		default:
			j.Line = r.Line()
			jobs = append(jobs, j)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, Skipped{}, err
	}
	slices.SortStableFunc(jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	return jobs, skipped, nil
}

// tracer converts records to jobs.
type tracer struct {
	mapping  Mapping
	requests map[asked]*submit.Request
}

// asked holds the requests of a job, 0 or -1 for none.
type asked struct {
	slots, time, memory, queue int64
}

// check checks that jobs can request what the mapping says. Its errors have no place in a trace.
func (t *tracer) check() error {
	for _, name := range []string{t.mapping.Memory, t.mapping.Queue} {
		// These names would be lists or patterns in options.
		if err := qconf.CheckName(name); err != nil && name != "" {
			return err
		}
	}
	_, err := t.request(asked{slots: 2, time: 1, memory: 1})
	return err
}

// job returns the job of a record, or the reason why there is none.
func (t *tracer) job(r swf.Record) (Job, Reason, error) {
	slots := r.RequestedProcessors
	if slots <= 0 {
		slots = r.Processors
	}
	switch {
	case r.Status.IsPart():
		return Job{}, PartOfJob, nil
	case r.Status == swf.Cancelled && r.Run <= 0:
		return Job{}, CancelledInTime, nil
	case r.Submit < 0 || r.Submit > MaxTime:
		return Job{}, UnknownSubmitTime, nil
	case r.Run < 0 || r.Run > MaxTime:
		return Job{}, UnknownRunTime, nil
	case slots <= 0 || slots > submit.MaxSlots:
		return Job{}, UnknownProcessors, nil
	}
	j := Job{Number: r.Number, Submit: r.Submit, Run: r.Run, User: "unknown"}
	if r.User >= 0 {
		j.User = "u" + strconv.FormatInt(r.User, 10)
	}
	if r.Group >= 0 {
		j.Group = "g" + strconv.FormatInt(r.Group, 10)
	}
	a := asked{slots: slots, queue: r.Queue}
	if r.RequestedTime <= MaxTime {
		a.time = r.RequestedTime
	}
	if r.RequestedMemory < 1<<40 { // larger values mean no request
		a.memory = r.RequestedMemory
	}
	var err error
	j.Request, err = t.request(a)
	return j, Kept, err
}

// request returns the request that qsub would have submitted. It is shared, because most jobs
// request the same as earlier ones.
func (t *tracer) request(a asked) (*submit.Request, error) {
	if t.mapping.Memory == "" {
		a.memory = 0
	}
	if t.mapping.Queue == "" {
		a.queue = 0
	}
	if r := t.requests[a]; r != nil {
		return r, nil
	}
	args := []string{"-b", "y"}
	if a.slots > 1 {
		args = append(args, "-pe", cmp.Or(t.mapping.PE, "*"), strconv.FormatInt(a.slots, 10))
		if t.mapping.Reserve {
			args = append(args, "-R", "y")
		}
	}
	if a.time > 0 {
		args = append(args, "-l", "h_rt="+strconv.FormatInt(a.time, 10))
	}
	if a.memory > 0 {
		args = append(args, "-l", t.mapping.Memory+"="+strconv.FormatInt(a.memory, 10)+"K")
	}
	if t.mapping.Queue != "" && a.queue >= 0 {
		args = append(args, "-q", t.mapping.Queue+strconv.FormatInt(a.queue, 10))
	}
	r, err := submit.Parse(submit.Input{Args: append(args, "trace")})
	if err == nil {
		t.requests[a] = r
	}
	return r, err
}
