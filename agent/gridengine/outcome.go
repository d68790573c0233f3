package gridengine

import (
	"cmp"
	"strings"
	"syscall"
	"time"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// key is a job, or a task of a parallel one, as qmaster numbers it.
type key struct {
	job, task uint32 // task is 1 for a job that is not an array job
	pe        string
}

func keyOf(id job.ID) key { return key{uint32(id.Job), uint32(id.TaskDir()), id.PETask} }

// reportOf returns the report of a job as qmaster gets it. With details it contains pss and maxpss
// (ENABLE_MEM_DETAILS of execd_params). These are the RAM in use, in which the agent counts a page once that
// processes of the job share.
func reportOf(r *agent.JobReport, host string, details bool) message.JobReport {
	k := keyOf(r.ID)
	m := message.JobReport{Job: k.job, Task: k.task, PETask: k.pe, Queue: r.Queue + "@" + host, State: message.StateWritten}
	switch {
	case r.Slave && r.Outcome != nil:
		m.State, m.Usage = message.StateSlave, []message.Usage{{Name: "exit_status"}}
	case r.Slave:
		m.State = message.StateSlave
	case r.Outcome != nil:
		ended(&m, r, host)
		if details && r.Outcome.Ran {
			peak := peakOf(&r.Outcome.Usage)
			m.Usage = append(m.Usage, message.Usage{Name: "pss"}, message.Usage{Name: "maxpss", Value: peak}, message.Usage{Name: "acct_maxpss", Value: peak})
		}
	case !r.Started.IsZero():
		u := r.Usage
		m.Usage = []message.Usage{
			{Name: "cpu", Value: u.CPU},
			{Name: "mem", Value: u.Mem},
			{Name: "io", Value: u.IO},
			{Name: "ioops", Value: float64(u.IOOps)},
			{Name: "iow", Value: u.IOWait},
			{Name: "vmem", Value: float64(u.Vmem)},
			{Name: "maxvmem", Value: float64(u.MaxVmem)},
			{Name: "rss", Value: float64(u.RSS)},
			{Name: "maxrss", Value: float64(u.MaxRSS)},
			{Name: "wallclock", Value: time.Since(r.Started).Seconds()},
		}
		if details {
			m.Usage = append(m.Usage, message.Usage{Name: "pss", Value: float64(u.RSS)}, message.Usage{Name: "maxpss", Value: float64(u.MaxRSS)})
		}
	}
	return m
}

// ended fills in how a job has ended.
func ended(m *message.JobReport, r *agent.JobReport, host string) {
	o := r.Outcome
	signal := message.SignalNumber(syscall.Signal(o.Signal))
	m.State, m.Failed, m.GeneralFailure = message.StateExiting, uint32(o.Failed), failureOf(o.Class)
	if o.ByOwner && m.GeneralFailure == message.FailureNone {
		m.GeneralFailure = message.FailureByOwner
	}
	m.CkptArena, m.PID = 1, uint32(o.CheckpointPID)
	if o.Restart == job.RestartedFromCkpt {
		m.CkptArena = 2
	}
	if o.Failed != job.FailedNone {
		m.Error = o.Because()
	}
	m.WaitStatus = message.WaitStatus(o.ExitStatus, signal, o.CoreDumped, o.Ran)
	m.Usage = usageOf(r, signal)
	if o.Limit != nil && strings.HasPrefix(o.Limit.Name, "h_") { // after a soft limit the job ends itself
		m.DeletedBy = "execd@" + host
	}
}

// exact returns a time in seconds since 1970, with its fraction.
func exact(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// peakOf returns the largest amount of RAM that a job had in use, in bytes.
func peakOf(u *job.Usage) float64 { return float64(cmp.Or(u.PeakRSS, u.MaxRSS)) }

// failureOf returns the object to which a failure is attributed.
func failureOf(c job.Class) uint32 {
	switch c {
	case job.ClassJob:
		return message.FailureJob
	case job.ClassQueue:
		return message.FailureQueue
	case job.ClassQueueFinished:
		return message.FailureQueueFinished
	case job.ClassHost:
		return message.FailureHost
	default:
		return message.FailureNone
	}
}

// usageOf returns the usage of a finished job. A job that never began has only two values
// (accounting(5)). message.Protocol.Usage selects and orders the values for the protocol.
func usageOf(r *agent.JobReport, signal uint32) []message.Usage {
	o := r.Outcome
	u := &o.Usage
	var list []message.Usage
	add := func(name string, value float64) { list = append(list, message.Usage{Name: name, Value: value}) }
	if o.Ran {
		add("io", u.IO)
		add("ioops", float64(u.IOOps))
		add("iow", u.IOWait)
		add("mem", u.Mem)
		add("cpu", u.CPU)
		add("vmem", 0)
		add("maxvmem", float64(u.MaxVmem))
		add("rss", 0)
		add("maxrss", peakOf(u))
	}
	add("submission_time", exact(r.Submitted))
	add("priority", float64(r.QueuePriority))
	if !o.Ran {
		return list
	}
	add("exit_status", float64(o.ExitStatus))
	add("signal", float64(signal))
	add("start_time", exact(o.Start))
	add("end_time", exact(o.End))
	wallclock := float64(o.End.Unix() - o.Start.Unix())
	if u.Wallclock != 0 { // an epilog may have changed it
		record := accounting.Record{Start: o.Start, End: o.End, Usage: *u}
		wallclock = record.Wallclock()
	}
	add("ru_wallclock", wallclock)
	add("wallclock", cmp.Or(u.Wallclock, wallclock))
	add("ru_utime", u.UserTime)
	add("ru_stime", u.SystemTime)
	add("ru_maxrss", float64(u.MaxRSS>>10))
	for _, v := range []struct {
		name  string
		value int64
	}{
		{"ru_ixrss", u.IxRSS},
		{"ru_ismrss", 0},
		{"ru_idrss", u.IdRSS},
		{"ru_isrss", u.IsRSS},
		{"ru_minflt", u.MinorFaults},
		{"ru_majflt", u.MajorFaults},
		{"ru_nswap", u.Swaps},
		{"ru_inblock", u.BlocksIn},
		{"ru_oublock", u.BlocksOut},
		{"ru_msgsnd", u.MessagesSent},
		{"ru_msgrcv", u.MessagesRecvd},
		{"ru_nsignals", u.Signals},
		{"ru_nvcsw", u.VoluntaryCS},
		{"ru_nivcsw", u.InvoluntaryCS},
	} {
		add(v.name, float64(v.value))
	}
	add("acct_cpu", max(u.CPU, u.UserTime+u.SystemTime))
	add("acct_mem", u.Mem)
	add("acct_io", u.IO)
	add("acct_ioops", float64(u.IOOps))
	add("acct_iow", u.IOWait)
	add("acct_maxvmem", float64(u.MaxVmem))
	add("acct_maxrss", peakOf(u))
	return list
}
