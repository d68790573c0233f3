package drmaa

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/execd-project/execd/accounting"
	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/standalone/api"
)

const (
	// lookPeriod is the interval at which the session compares its jobs with the daemon's: a
	// deleted pending task of an array job leaves without an end event.
	lookPeriod = 20 * time.Second
	// lostPause is the delay before the next attempt to reach a daemon that has been unreachable
	// for a long time.
	lostPause = time.Second
	// recordPatience is the maximum delay of the accounting record of a job that has left.
	recordPatience = 5 * time.Second
	recordPause    = 200 * time.Millisecond
)

// follow starts the goroutine that follows the ends of the user's jobs, unless it is running
// already. It misses no end of a job that is submitted afterwards. The caller must have counted its
// submission.
func (s *session) follow(ctx context.Context) *callError {
	s.starting.Lock()
	defer s.starting.Unlock()
	s.mu.Lock()
	following := s.following
	s.mu.Unlock()
	switch {
	case s.daemon == nil:
		return failure(internalError, "the session is not open")
	case following:
		return nil
	case s.context.Err() != nil:
		return failure(communicationFailure, "the session is closed")
	}
	a, err := s.daemon.Ends(ctx, api.EndsRequest{Now: true})
	if err != nil {
		return ofDaemon(err)
	}
	s.mu.Lock()
	s.following, s.boot, s.last, s.unclaimed = true, a.Boot, a.Last, nil
	s.mu.Unlock()
	s.background.Go(s.followed)
	return nil
}

// followed reads ends as long as there are unfinished jobs.
func (s *session) followed() {
	looked := time.Now()
	for s.goesOn() {
		s.mu.Lock()
		q := api.EndsRequest{Boot: s.boot, After: s.last}
		s.mu.Unlock()
		a, err := s.daemon.Ends(s.context, q)
		if err != nil {
			s.pause(lostPause)
			continue
		}
		s.mu.Lock()
		s.boot, s.last = a.Boot, a.Last
		s.take(a.Ends)
		s.mu.Unlock()
		if a.Missed || time.Since(looked) > lookPeriod {
			s.look(a.Missed)
			looked = time.Now()
		}
		if a.Later > 0 {
			s.pause(time.Duration(a.Later) * time.Second)
		}
	}
}

// goesOn reports whether there are unfinished jobs to follow, and records the result.
func (s *session) goesOn() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.following = s.context.Err() == nil && (s.submitted > 0 || len(s.pending()) > 0)
	return s.following
}

func (s *session) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.context.Done():
	}
}

// pending returns the jobs that have not finished. The caller holds the lock.
func (s *session) pending() (list []jobID) {
	for id, x := range s.jobs {
		if !x.finished {
			list = append(list, id)
		}
	}
	return list
}

// claim adds the jobs of a submission to the session. since is a time before the submission.
func (s *session) claim(ids []jobID, since time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range ids {
		s.jobs[id] = &entry{since: since}
		if id.task != 0 {
			s.arrays[id.job] = append(s.arrays[id.job], id.task)
		}
	}
	if s.submitted--; len(ids) > 0 {
		list := s.unclaimed
		s.unclaimed = nil
		s.take(list)
	}
	if s.submitted == 0 {
		s.unclaimed = nil
	}
}

// take records the ends of jobs. The caller holds the lock.
func (s *session) take(list []api.TaskEnd) {
	for _, e := range list {
		id := jobID{e.Job, e.Task}
		x := s.jobs[id]
		switch {
		case e.Left:
			for _, task := range append(s.arrays[e.Job], 0) {
				id := jobID{e.Job, task}
				if x := s.jobs[id]; x != nil && !x.finished { // it was deleted before it ran
					s.finish(id, x, aborted(nil))
				}
			}
			delete(s.arrays, e.Job)
			if s.submitted > 0 {
				s.unclaimed = append(s.unclaimed, e)
			}
		case x == nil:
			if s.submitted > 0 {
				s.unclaimed = append(s.unclaimed, e)
			}
		case x.finished:
		case e.Error:
			s.failed(id, x, e)
		default:
			s.finish(id, x, ended(e.Outcome, e.Submitted))
		}
	}
}

// failed ends a job in error state. DRMAA has no such state, and the program would wait forever.
func (s *session) failed(id jobID, x *entry, e api.TaskEnd) {
	if os.Getenv("SGE_DRMAA_ALLOW_JOB_ERROR_STATE") != "" {
		return
	}
	s.finish(id, x, ended(e.Outcome, e.Submitted))
	s.background.Go(func() {
		// If this fails, the job stays in error state, and qstat shows it.
		_, _ = s.command(s.context, "qdel", id.String())
	})
}

// finish records the result of a job. The caller holds the lock.
func (s *session) finish(id jobID, x *entry, r result) {
	x.finished, x.result = true, r
	s.finished = append(s.finished, id)
	s.notify()
}

// look compares the unfinished jobs with the daemon's. If ends were missed, it reads the results of
// jobs that have left from the accounting file.
func (s *session) look(missed bool) {
	s.mu.Lock()
	pending := map[jobID]*entry{}
	for _, id := range s.pending() {
		pending[id] = s.jobs[id]
	}
	s.mu.Unlock()
	if len(pending) == 0 {
		return
	}
	a, err := s.daemon.States(s.context, api.StatesRequest{})
	if err != nil {
		return // the next look repeats this
	}
	for _, j := range a.Jobs {
		for _, t := range j.Tasks {
			for n := t.First; n <= t.Last; n += max(t.Step, 1) {
				id := jobID{job: j.Job}
				if j.Array {
					id.task = uint32(n) //nolint:gosec // the daemon chose it
				}
				if x := pending[id]; x != nil && t.Error {
					s.mu.Lock()
					if !x.finished {
						s.failed(id, x, api.TaskEnd{})
					}
					s.mu.Unlock()
				}
				delete(pending, id)
			}
		}
	}
	if !missed {
		s.leave(pending, a)
		return
	}
	found, readable := s.records(pending)
	for end := time.Now().Add(recordPatience); readable && len(found) < len(pending) && time.Now().Before(end) && s.context.Err() == nil; {
		s.pause(recordPause)
		found, readable = s.records(pending)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, x := range pending {
		switch r, ok := found[id]; {
		case x.finished:
		case ok:
			s.finish(id, x, r)
		case readable:
			s.finish(id, x, aborted(nil))
		default:
			s.finish(id, x, result{})
		}
	}
}

// leave ends jobs that have left without an end event, because they were deleted before they ran.
// If end events may still arrive, it does nothing until the next look.
func (s *session) leave(gone map[jobID]*entry, a *api.StatesAnswer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.boot != a.Boot || s.last < a.Last {
		return
	}
	for id, x := range gone {
		if !x.finished {
			s.finish(id, x, aborted(nil))
		}
	}
}

// maxRecord is the maximum length of a record, in bytes.
const maxRecord = 1 << 22

// records reads the results of jobs from the accounting file. readable is false if there is no such file.
func (s *session) records(wanted map[jobID]*entry) (found map[jobID]result, readable bool) {
	found = map[jobID]result{}
	places, err := s.daemon.Places(s.context)
	if err != nil || places.Accounting == "" {
		return found, false
	}
	f, err := userfile.Open(string(places.Accounting)+".jsonl", 0)
	if err != nil {
		f, err = userfile.Open(string(places.Accounting), 0)
	}
	if err != nil {
		return found, false
	}
	defer f.Close()
	lines := textfile.NewLines(f, maxRecord)
	for {
		line, err := lines.Next()
		if errors.Is(err, io.EOF) {
			return found, true
		}
		if _, tooLong := errors.AsType[*textfile.SizeError](err); tooLong {
			continue
		}
		if err != nil {
			return found, false
		}
		var r *accounting.Record
		if line[0] == '{' {
			r, err = accounting.ParseJSON(line)
		} else {
			r, err = accounting.ParseClassic(string(line))
		}
		if err != nil || r.PETask != "" {
			continue
		}
		id := jobID{uint32(r.Job), uint32(r.Task)} //nolint:gosec // any other is not wanted
		if x := wanted[id]; x != nil && !r.Submitted.Before(x.since.Truncate(time.Second)) {
			found[id] = recorded(r)
		}
	}
}

// The bits of a stat, as in drmaa.c. The lowest byte is the exit status, the next one is the
// signal.
const (
	statExited   = 1 << 16
	statSignaled = 1 << 17
	statDumped   = 1 << 18
	statAborted  = 1 << 19
	signalShift  = 8
)

// aborted returns the result of a job that never ran.
func aborted(usage []string) result { return result{stat: statAborted, known: true, usage: usage} }

// ended returns the result of a job with an outcome.
func ended(o *agentapi.Outcome, submitted int64) result {
	if o == nil {
		return aborted(nil)
	}
	usage := usageOf(o, submitted)
	if !o.Ran {
		return aborted(usage)
	}
	r := result{ran: true, known: true, usage: usage}
	if o.Signal != 0 {
		r.stat = statSignaled | o.Signal&0xff<<signalShift
		if o.CoreDumped {
			r.stat |= statDumped
		}
		return r
	}
	r.stat = statExited | o.ExitStatus&0xff
	return r
}

// recorded returns the result of a job with a record of accounting(5).
func recorded(r *accounting.Record) result {
	u := &r.Usage
	o := &agentapi.Outcome{
		Failed: int(r.Failed), Ran: !r.Start.IsZero(), ExitStatus: r.ExitStatus, Signal: r.Signal, CoreDumped: r.CoreDumped,
		Start: r.Start, End: r.End,
		Usage: agentapi.Usage{
			Wallclock: u.Wallclock, Utime: u.UserTime, Stime: u.SystemTime, MaxRSS: u.MaxRSS,
			IxRSS: u.IxRSS, IdRSS: u.IdRSS, IsRSS: u.IsRSS, Minflt: u.MinorFaults, Majflt: u.MajorFaults,
			Nswap: u.Swaps, Inblock: u.BlocksIn, Oublock: u.BlocksOut, Msgsnd: u.MessagesSent, Msgrcv: u.MessagesRecvd,
			Nsignals: u.Signals, Nvcsw: u.VoluntaryCS, Nivcsw: u.InvoluntaryCS,
			CPU: u.CPU, Mem: u.Mem, IO: u.IO, IOW: u.IOWait, MaxVmem: u.MaxVmem,
		},
	}
	const killed = 100 // value of failed: killed by a signal (sge_status(5)); classic lines have no other sign of it
	if o.Signal == 0 && o.Failed == killed && o.ExitStatus > 128 {
		o.Signal = o.ExitStatus - 128
	}
	return ended(o, r.Submitted.Unix())
}

// usageOf returns the usage of a job as NAME=VALUE, with the names of accounting(5).
func usageOf(o *agentapi.Outcome, submitted int64) []string {
	u := &o.Usage
	unix := func(t time.Time) float64 {
		if t.IsZero() {
			return 0
		}
		return float64(t.UnixMicro()) / 1e6
	}
	signal := 0
	if o.Signal != 0 {
		signal = o.Signal
	}
	var list []string
	for _, v := range []struct {
		name  string
		value float64
	}{
		{"submission_time", float64(submitted)},
		{"start_time", unix(o.Start)},
		{"end_time", unix(o.End)},
		{"exit_status", float64(o.ExitStatus)},
		{"signal", float64(signal)},
		{"failed", float64(o.Failed)},
		{"ru_wallclock", u.Wallclock},
		{"ru_utime", u.Utime},
		{"ru_stime", u.Stime},
		{"ru_maxrss", float64(u.MaxRSS) / 1024}, // KiB, as in accounting(5)
		{"ru_ixrss", float64(u.IxRSS)},
		{"ru_ismrss", 0},
		{"ru_idrss", float64(u.IdRSS)},
		{"ru_isrss", float64(u.IsRSS)},
		{"ru_minflt", float64(u.Minflt)},
		{"ru_majflt", float64(u.Majflt)},
		{"ru_nswap", float64(u.Nswap)},
		{"ru_inblock", float64(u.Inblock)},
		{"ru_oublock", float64(u.Oublock)},
		{"ru_msgsnd", float64(u.Msgsnd)},
		{"ru_msgrcv", float64(u.Msgrcv)},
		{"ru_nsignals", float64(u.Nsignals)},
		{"ru_nvcsw", float64(u.Nvcsw)},
		{"ru_nivcsw", float64(u.Nivcsw)},
		{"cpu", u.CPU},
		{"mem", u.Mem},
		{"io", u.IO},
		{"iow", u.IOW},
		{"maxvmem", float64(u.MaxVmem)},
		{"acct_cpu", u.CPU},
		{"acct_mem", u.Mem},
		{"acct_io", u.IO},
		{"acct_iow", u.IOW},
		{"acct_maxvmem", float64(u.MaxVmem)},
	} {
		list = append(list, fmt.Sprintf("%s=%.4f", v.name, v.value))
	}
	return list
}
