package agent

import (
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// simulatedDefault is how long a simulated job runs that does not say how long.
const simulatedDefault = time.Minute

// simulatedPart is the part of its time that a simulated job computes.
const simulatedPart = 0.5

// simulated returns the run time of a job that is only simulated (SIMULATE_JOBS of sge_conf(5)):
// its first argument in seconds, and 0 for a job that is not simulated.
func simulated(s *Start, c *qconf.Configuration) time.Duration {
	if !c.ExecdParams.SimulateJobs || s.Slave {
		return 0
	}
	if len(s.Request.Args) > 0 {
		const most = 100 * 365 * 24 * 3600
		if n, err := strconv.Atoi(s.Request.Args[0]); err == nil && n >= 0 {
			return max(time.Duration(min(n, most))*time.Second, time.Nanosecond)
		}
	}
	return simulatedDefault
}

// hosted reports whether the job has no supervisor: it is one of slaves, or simulated.
func (r *Record) hosted() bool { return r.Slave || r.Simulated > 0 }

// simulation returns the timer that ends a simulated job; nil, which never fires, for other jobs.
// The caller holds the lock of the table.
func (a *Agent) simulation(e *entry) clock.Timer {
	if e.record.Simulated == 0 {
		return nil
	}
	return a.clock.NewTimer(e.began.Add(e.record.Simulated).Sub(a.clock.Now()))
}

// simulatedUsage returns the usage that a simulated job reports until the given time.
func (e *entry) simulatedUsage(now time.Time) jobdir.Online {
	wallclock := max(now.Sub(e.began), 0).Seconds()
	return jobdir.Online{At: now, Wallclock: wallclock, CPU: simulatedPart * wallclock}
}

// hostedOutcome returns the outcome of a job without a supervisor that ends now. The caller holds the lock of the table.
func (a *Agent) hostedOutcome(e *entry) *job.Outcome {
	o := &job.Outcome{ID: e.id, Ran: true, Start: e.began, End: a.clock.Now()}
	if e.record.Simulated == 0 {
		return o
	}
	if over := e.began.Add(e.record.Simulated); !o.End.Before(over) {
		o.End = over // it may have ended while there was no agent
	} else {
		f := job.FailureOf(job.FailedAfterJob)
		o.Failed, o.FailedText, o.Class, o.Effect = f.Code, f.Text, f.Class, f.Effect
		o.Signal = int(unix.SIGKILL)
		o.ExitStatus = 128 + o.Signal
		o.Reason = "died through signal KILL"
	}
	u := e.simulatedUsage(o.End)
	o.Usage.Wallclock, o.Usage.CPU, o.Usage.UserTime = u.Wallclock, u.CPU, u.CPU
	return o
}
