package agent

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
)

// IdleGPU is how long a job leaves a GPU unused before the agent reports it.
const IdleGPU = 10 * time.Minute

const (
	// gpuInterval is the time between two measurements of GPUs of jobs. nvidia-smi takes some 50 ms of
	// CPU time.
	gpuInterval = 15 * time.Second
	// gpuGap is the longest time between two measurements that counts as measured. Longer ones mean
	// that the agent did not run, or that nvidia-smi did not answer.
	gpuGap = 3 * gpuInterval
	// gpuSave is the time between two writes of the usage to the disk.
	gpuSave = time.Minute
)

// gpuMeter adds up the usage of a job's GPUs. It is stored as JSON. The zero value is ready to use.
type gpuMeter struct {
	Measured, Busy float64 // seconds, see job.GPUUsage
	MaxMemory      int64
	At             time.Time            // of the last measurement
	Idle           map[string]time.Time // GPUs that compute nothing, and since when
	Told           []string             // GPUs that were reported as idle, and not used since

	saved time.Time
}

// add adds a measurement of the GPUs of a job. samples lacks GPUs that were not measured, and GPUs
// that other jobs also use. A suspended job cannot use its GPUs. add returns the GPUs that have been
// idle for IdleGPU and were not returned since the job used them last.
func (m *gpuMeter) add(now time.Time, gpus []string, samples map[string]gpu.Sample, suspended bool) (idle []string) {
	passed := now.Sub(m.At)
	if m.At.IsZero() || passed < 0 || passed > gpuGap {
		passed, m.Idle = 0, nil
	}
	m.At = now
	memory := int64(0)
	for _, id := range gpus {
		s, ok := samples[id]
		if ok && s.Memory > 0 {
			memory += s.Memory
		}
		if ok && s.Busy >= 0 {
			m.Measured += passed.Seconds()
			m.Busy += s.Busy * passed.Seconds()
		}
		if s.Busy > 0 || suspended {
			m.Told = slices.DeleteFunc(m.Told, func(told string) bool { return told == id })
		}
		if !ok || s.Busy != 0 || suspended {
			delete(m.Idle, id)
			continue
		}
		if m.Idle == nil {
			m.Idle = map[string]time.Time{}
		}
		if m.Idle[id].IsZero() {
			m.Idle[id] = now
		}
		if now.Sub(m.Idle[id]) >= IdleGPU && !slices.Contains(m.Told, id) {
			m.Told = append(m.Told, id)
			idle = append(idle, id)
		}
	}
	m.MaxMemory = max(m.MaxMemory, memory)
	return idle
}

// usage returns the usage of a job that has had count GPUs for a time.
func (m *gpuMeter) usage(count int, had time.Duration) job.GPUUsage {
	all := max(had.Seconds(), 0) * float64(count)
	return job.GPUUsage{
		Count: count, Seconds: all, Measured: min(m.Measured, all), Busy: min(m.Busy, all), MaxMemory: m.MaxMemory,
	}
}

// gpuReport returns the usage of the GPUs of a running job; nil for a job without any. Tasks of a
// parallel job have the GPUs of their job, which reports them. The caller holds the lock of the table.
func (a *Agent) gpuReport(e *entry) *GPUReport {
	if e.run == nil || e.parent != nil || e.began.IsZero() || !e.state.Live() {
		return nil
	}
	gpus := e.gpus()
	if len(gpus) == 0 {
		return nil
	}
	now := a.clock.Now()
	r := &GPUReport{GPUUsage: e.gpuMeter.usage(len(gpus), now.Sub(e.began))}
	for id, since := range e.gpuMeter.Idle {
		if now.Sub(since) >= IdleGPU {
			if r.Idle == nil {
				r.Idle = map[string]time.Time{}
			}
			r.Idle[id] = since
		}
	}
	return r
}

// watchGPUs measures the GPUs of jobs at intervals until the context ends. The first measurement is that of the jobs of a
// previous agent: the less time is between two measurements, the more of it counts as measured.
func (a *Agent) watchGPUs(ctx context.Context) {
	if a.options.MeasureGPUs == nil {
		return
	}
	a.measureGPUs(ctx)
	for clock.Wait(ctx, a.clock, gpuInterval) {
		a.measureGPUs(ctx)
	}
}

// troubleGPUs names the problem that GPUs cannot be measured.
const troubleGPUs = "measuring the GPUs of jobs"

// measureGPUs measures the GPUs of all running jobs once.
func (a *Agent) measureGPUs(ctx context.Context) {
	jobs := a.gpuJobs()
	users := map[string]int{}
	var ids []string
	for _, e := range jobs {
		for _, id := range e.gpus() {
			users[id]++
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 || !a.gpus().Measurable(ids) {
		a.trouble(troubleGPUs, nil)
		return
	}
	samples, err := a.options.MeasureGPUs(ctx, ids)
	if ctx.Err() != nil {
		return
	}
	if errors.Is(err, gpu.ErrNoProgram) {
		err = nil // execd doctor says so
	}
	a.trouble(troubleGPUs, err)
	for id, n := range users {
		if n > 1 { // which of the jobs uses it is not known
			delete(samples, id)
		}
	}
	now := a.clock.Now()
	type idle struct {
		e   *entry
		ids []string
	}
	var found []idle
	save := map[*entry][]byte{}
	a.table.mu.Lock()
	for _, e := range jobs {
		m := &e.gpuMeter
		ids := m.add(now, e.gpus(), samples, e.state == Suspended)
		if ids != nil {
			found = append(found, idle{e, ids})
		}
		if now.Sub(m.saved) >= gpuSave || ids != nil {
			m.saved = now
			save[e], _ = json.Marshal(m) // of numbers, times and strings
		}
	}
	a.table.hasUsed(jobs)
	a.table.mu.Unlock()
	for e, text := range save {
		a.saveGPUs(e, text)
	}
	for _, f := range found {
		a.options.Observer.IdleGPUs(f.e.run.Description, f.ids)
	}
}

// gpuJobs returns the running jobs that have GPUs.
func (a *Agent) gpuJobs() (list []*entry) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	for _, e := range a.table.jobs {
		if e.run != nil && e.parent == nil && e.state.Live() && !e.began.IsZero() && len(e.gpus()) > 0 {
			list = append(list, e)
		}
	}
	return list
}

// saveGPUs writes the usage of a job's GPUs to its directory. If the disk is full, a restart of the
// agent loses it.
func (a *Agent) saveGPUs(e *entry, text []byte) {
	e.do.Lock()
	defer e.do.Unlock()
	if !a.table.state(e).Live() {
		return
	}
	defer a.disk.begin("writing the usage of GPUs of job " + e.id.String())()
	if err := e.run.Files().WriteFile(fileGPUs, append(text, '\n')); err != nil {
		a.log.Debug("cannot write the usage of GPUs", "job", e.id.String(), "error", err)
	}
}
