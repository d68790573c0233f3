package serve

import (
	"math"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor/external"
)

// maxID is the largest number of a job or task: the largest number of a master with 32-bit
// integers.
const maxID = 1<<31 - 1

// translateID reads the name of a job; all permits the task -1.
func translateID(id api.ID, all bool) (job.ID, *api.Error) {
	least := 0
	if all && id.PETask == "" {
		least = -1
	}
	switch {
	case id.Job < 1 || id.Job > maxID:
		return job.ID{}, refuse(api.InvalidArgument, "job: %d, expected a number from 1 to %d", id.Job, maxID)
	case id.Task < least || id.Task > maxID:
		return job.ID{}, refuse(api.InvalidArgument, "task: %d, expected a number from %d to %d", id.Task, least, maxID)
	case strings.ContainsAny(id.PETask, "/\x00\n"):
		return job.ID{}, refuse(api.InvalidArgument, "pe_task: %q, expected NUMBER.HOST", id.PETask)
	}
	return job.ID{Job: id.Job, Task: id.Task, PETask: id.PETask}, nil
}

func showID(id job.ID) api.ID { return api.ID{Job: id.Job, Task: id.Task, PETask: id.PETask} }

func translateJob(r *agent.JobReport) api.Job {
	j := api.Job{
		ID: showID(r.ID), Number: r.Number, Key: r.StartKey(), State: r.State, Slave: r.Slave,
		Owner: r.Owner, Name: r.Name, Queue: r.Queue, PE: r.PE, Slots: r.Slots,
		Submitted: r.Submitted.UTC(), QueuePriority: r.QueuePriority, Received: r.Received.UTC(), Started: r.Started.UTC(), PID: r.PID, Nice: r.Nice, Notes: r.Notes, Directory: r.Dir,
		SuspendedBy: r.SuspendedBy,
	}
	if u := r.Usage; u != (jobdir.Online{}) {
		j.Usage = &api.Online{
			At: u.At.UTC(), Wallclock: u.Wallclock, CPU: u.CPU, Mem: u.Mem, IO: u.IO, IOWait: u.IOWait, Vmem: u.Vmem, MaxVmem: u.MaxVmem,
		}
	}
	j.GPU = translateOnlineGPUs(r.GPU)
	if r.Outcome != nil {
		j.Outcome = Outcome(r.Outcome)
	}
	return j
}

// translateOnlineGPUs returns the usage of a running job's GPUs; nil for a job without GPUs.
func translateOnlineGPUs(g *agent.GPUReport) *api.GPUUsage {
	if g == nil {
		return nil
	}
	u := translateGPUs(&g.GPUUsage)
	for id, since := range g.Idle {
		if u.Idle == nil {
			u.Idle = map[string]time.Time{}
		}
		u.Idle[id] = since.UTC()
	}
	return u
}

// translateGPUs returns the usage of a job's GPUs, rounded to milliseconds.
func translateGPUs(u *job.GPUUsage) *api.GPUUsage {
	return &api.GPUUsage{
		Count: u.Count, Seconds: rounded(u.Seconds, 1e3), Measured: rounded(u.Measured, 1e3), Busy: rounded(u.Busy, 1e3), MaxMemory: u.MaxMemory,
	}
}

// translateUsage returns the usage of a running job, rounded to milliseconds and, for GiB, to
// thousands of bytes. The usage at the end of a job is not rounded.
func translateUsage(r *agent.JobReport) api.JobUsage {
	u := &r.Usage
	return api.JobUsage{
		Job: r.ID.Job, Task: r.ID.Task, PETask: r.ID.PETask,
		CPU: rounded(u.CPU, 1e3), Mem: rounded(u.Mem, 1e6), IO: rounded(u.IO, 1e6), IOWait: rounded(u.IOWait, 1e3), Vmem: u.Vmem, MaxVmem: u.MaxVmem,
		GPU: translateOnlineGPUs(r.GPU),
	}
}

// rounded rounds to a part of 1.
func rounded(f, part float64) float64 { return math.Round(f*part) / part }

// Outcome translates the outcome of a job.
func Outcome(o *job.Outcome) *api.Outcome {
	u := o.Usage
	out := &api.Outcome{
		Failed: int(o.Failed), FailedText: o.FailedText, Class: o.Class.String(), Effect: o.Effect.String(),
		Ran: o.Ran, ExitStatus: o.ExitStatus, Signal: o.Signal, CoreDumped: o.CoreDumped, Reason: o.Reason, Notice: o.Notice,
		Start: o.Start.UTC(), End: o.End.UTC(), Restart: int(o.Restart), CheckpointPID: o.CheckpointPID,
		Usage: api.Usage{
			Wallclock: u.Wallclock, Utime: u.UserTime, Stime: u.SystemTime, MaxRSS: u.MaxRSS, PeakRSS: u.PeakRSS,
			IxRSS: u.IxRSS, IdRSS: u.IdRSS, IsRSS: u.IsRSS, Minflt: u.MinorFaults, Majflt: u.MajorFaults,
			Nswap: u.Swaps, Inblock: u.BlocksIn, Oublock: u.BlocksOut, Msgsnd: u.MessagesSent, Msgrcv: u.MessagesRecvd,
			Nsignals: u.Signals, Nvcsw: u.VoluntaryCS, Nivcsw: u.InvoluntaryCS,
			CPU: u.CPU, Mem: u.Mem, IO: u.IO, IOOps: u.IOOps, IOW: u.IOWait, MaxVmem: u.MaxVmem,
		},
	}
	if u.GPU.Count > 0 {
		out.Usage.GPU = translateGPUs(&u.GPU)
	}
	if l := o.Limit; l != nil {
		out.Limit = &api.LimitExceeded{Name: l.Name, Value: l.Value, Measured: l.Measured}
	}
	return out
}

func translateLoad(l *agent.LoadReport) *api.Load {
	out := &api.Load{Full: l.Full, Time: l.Time.UTC(), Values: make([]api.Value, len(l.Values))}
	for i, v := range l.Values {
		out.Values[i] = api.Value{
			ValueID: api.ValueID{Host: v.Host, Name: v.Name}, Text: v.Text, Static: v.Static, At: v.At.UTC(), Source: v.Source,
		}
	}
	for _, k := range l.Removed {
		out.Removed = append(out.Removed, api.ValueID{Host: k.Host, Name: k.Name})
	}
	return out
}

func translateHealth(h *agent.Health) api.Health {
	out := api.Health{
		Host: h.Host, Version: h.Version, Started: h.Started.UTC(), Epoch: h.Epoch, Slots: h.Slots, Used: h.Used,
		Jobs: map[string]int{}, Draining: h.Draining, Troubles: append([]string{}, h.Troubles...),
		Configuration: h.Configuration, ConfigurationError: h.ConfigurationError,
	}
	for state, n := range h.Jobs {
		out.Jobs[string(state)] = n
	}
	for i := range h.Sensors {
		out.Sensors = append(out.Sensors, translateSensor(&h.Sensors[i]))
	}
	for i := range h.GPUs {
		g := &h.GPUs[i]
		x := api.GPU{ID: g.ID, Vendor: string(g.Vendor), Address: g.Address, Model: g.Model, UUID: g.UUID, Memory: g.Memory, Problem: g.Problem}
		for _, id := range g.Jobs {
			x.Jobs = append(x.Jobs, id.String())
		}
		out.GPUs = append(out.GPUs, x)
	}
	return out
}

func translateSensor(s *external.Status) api.Sensor {
	out := api.Sensor{
		Path: s.Path, User: s.User, State: string(s.State), Since: s.Since.UTC(), PID: s.PID, Fault: s.Fault,
		Starts: s.Starts, Reports: s.Reports, Values: s.Values, Violations: s.Violations,
	}
	if !s.NextStart.IsZero() {
		out.NextStart = s.NextStart.UTC()
	}
	if !s.LastReport.IsZero() {
		out.LastReport = s.LastReport.UTC()
	}
	if n := len(s.LastViolations); n > 0 {
		v := s.LastViolations[n-1]
		out.LastViolation = &api.Violation{Line: v.Line, Text: v.Text, Problem: v.Problem, Expected: v.Expected}
	}
	return out
}
