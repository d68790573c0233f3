package agent

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

func TestGPUMeter(t *testing.T) {
	const step = gpuInterval
	sample := func(busy float64, memory int64) gpu.Sample { return gpu.Sample{Busy: busy, Memory: memory} }
	for name, c := range map[string]struct {
		samples []map[string]gpu.Sample // one for each step; nil is a step without a measurement
		want    job.GPUUsage            // of two GPUs
	}{
		"the first measurement counts no time": {
			[]map[string]gpu.Sample{{"0": sample(1, 100), "1": sample(1, 50)}},
			job.GPUUsage{MaxMemory: 150},
		},
		"the part of the time in which they compute": {
			[]map[string]gpu.Sample{{"0": sample(1, 100), "1": sample(1, 50)}, {"0": sample(0.5, 200), "1": sample(0, 10)}, {"0": sample(0, 1), "1": sample(0, 1)}},
			job.GPUUsage{Measured: 60, Busy: 7.5, MaxMemory: 210},
		},
		"what is not known is not counted": {
			[]map[string]gpu.Sample{{}, {"0": sample(-1, -1)}, {"1": sample(0.2, -1)}},
			job.GPUUsage{Measured: 15, Busy: 3},
		},
		"a time without measurements": {
			[]map[string]gpu.Sample{{"0": sample(1, 1)}, nil, nil, nil, nil, {"0": sample(1, 1)}, {"0": sample(1, 1)}},
			job.GPUUsage{Measured: 15, Busy: 15, MaxMemory: 1},
		},
	} {
		var m gpuMeter
		now := time.Unix(1000, 0)
		for _, s := range c.samples {
			if now = now.Add(step); s != nil {
				m.add(now, []string{"0", "1"}, s, false)
			}
		}
		got := m.usage(2, time.Hour)
		c.want.Count, c.want.Seconds = 2, 7200
		if math.Abs(got.Busy-c.want.Busy) > 1e-9 {
			t.Errorf("%s: busy %v, want %v", name, got.Busy, c.want.Busy)
		}
		if got.Busy = c.want.Busy; got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// TestIdleGPUs leaves one of two GPUs idle: it is reported once after ten minutes, also if the agent is
// restarted meanwhile, and again after it was used and is idle again. A suspended job is not to blame.
func TestIdleGPUs(t *testing.T) {
	var m gpuMeter
	now := time.Unix(1000, 0)
	run := func(minutes int, busy float64, suspended bool) (told []string) {
		for range minutes * int(time.Minute/gpuInterval) {
			now = now.Add(gpuInterval)
			told = append(told, m.add(now, []string{"0", "1"}, map[string]gpu.Sample{"0": {Busy: 0.7}, "1": {Busy: busy}}, suspended)...)
		}
		return told
	}
	for i, c := range []struct {
		minutes   int
		busy      float64
		suspended bool
		want      string
	}{
		{9, 0, false, ""},
		{3, 0, false, "1"},
		{30, 0, false, ""},
		{1, -1, false, ""}, // unknown: it may have been idle all the time
		{30, 0, false, ""},
		{1, 0.01, false, ""},
		{9, 0, false, ""},
		{2, 0, false, "1"},
		{60, 0, true, ""},
		{9, 0, false, ""},
	} {
		if got := strings.Join(run(c.minutes, c.busy, c.suspended), " "); got != c.want {
			t.Errorf("part %d: told are %q, want %q", i, got, c.want)
		}
		text, err := json.Marshal(&m)
		m = gpuMeter{}
		if err = errors.Join(err, json.Unmarshal(text, &m)); err != nil {
			t.Fatal(err)
		}
	}
}

// idleJobs counts the reports of idle GPUs.
type idleJobs struct {
	noObserver
	mu   sync.Mutex
	told []string
}

func (o *idleJobs) IdleGPUs(d *job.Description, ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.told = append(o.told, d.ID.String()+":"+strings.Join(ids, " "))
}

// TestUsageOfGPUs measures the GPUs of running jobs: it is in the reports, survives a restart of the
// agent, and is in the outcome. A GPU that two jobs share is not attributed to either.
func TestUsageOfGPUs(t *testing.T) {
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Minor: 0}, testenv.GPU{Vendor: "nvidia", Address: "0000:61:00.0", Minor: 1})
	register := gpu.OpenRegister(root, filepath.Join(root, "gpus"), nil)
	defer register.Close()
	var mu sync.Mutex // the restarted agent measures the jobs that it finds
	var asked []string
	observer := &idleJobs{}
	change := func(o *Options) {
		o.GPUs, o.Observer = register.Inventory, observer
		o.Configuration = func() (*qconf.Cluster, string, error) {
			c, err := cluster(t).WithFoundMap(host, qconf.FoundMap{Name: "gpu", IDs: []string{"0", "1", "1"}})
			return c, "test", err
		}
		o.MeasureGPUs = func(_ context.Context, ids []string) (map[string]gpu.Sample, error) {
			mu.Lock()
			asked = slices.Sorted(slices.Values(ids))
			mu.Unlock()
			return map[string]gpu.Sample{"0": {Busy: 0.5, Memory: 100}, "1": {Busy: 0, Memory: 7}}, nil
		}
	}
	w := newWorld(t, change)
	start := func(number int, ids ...string) job.ID {
		s := w.job(number, "sleep", "1000")
		if ids != nil {
			s = w.job(number, "-l", "gpu=1", "sleep", "1000")
			s.Grants[0].Names = map[string][]string{"gpu": ids}
		}
		id := w.mustStart(s).ID
		w.until("it runs", func() bool { r, _ := w.agent.Job(id); return r.State == Running })
		return id
	}
	w.agent.measureGPUs(t.Context())
	if asked != nil {
		t.Errorf("without a job %q are measured", asked)
	}
	first, second := start(1, "0"), start(2, "1")
	without := start(3)
	w.agent.measureGPUs(t.Context())
	if !slices.Equal(asked, []string{"0", "1"}) {
		t.Errorf("measured are %q", asked)
	}
	if r, _ := w.agent.Job(first); r.GPU == nil || r.GPU.Count != 1 || r.GPU.MaxMemory != 100 || r.GPU.Seconds <= 0 {
		t.Errorf("the first job has used %+v", r.GPU)
	}
	if r, _ := w.agent.Job(without); r.GPU != nil {
		t.Errorf("a job without GPUs has used %+v", r.GPU)
	}
	w.agent.table.mu.Lock()
	w.agent.table.jobs[second].gpuMeter.Idle["1"] = time.Now().Add(-IdleGPU)
	w.agent.table.mu.Unlock()
	w.agent.measureGPUs(t.Context())
	w.agent.measureGPUs(t.Context())
	if r, _ := w.agent.Job(second); len(r.GPU.Idle) != 1 || r.GPU.Idle["1"].IsZero() {
		t.Errorf("the idle GPUs of the second job are %v", r.GPU.Idle)
	}
	observer.mu.Lock()
	if !slices.Equal(observer.told, []string{second.String() + ":1"}) {
		t.Errorf("told are the idle GPUs %q", observer.told)
	}
	observer.mu.Unlock()
	w.stop()
	w.start(change)
	w.until("the first job is there again", func() bool { r, ok := w.agent.Job(first); return ok && r.State == Running })
	if r, _ := w.agent.Job(first); r.GPU == nil || r.GPU.MaxMemory != 100 {
		t.Errorf("after a restart the first job has used %+v", r.GPU)
	}
	shared := start(4, "1")
	w.agent.measureGPUs(t.Context())
	if r, _ := w.agent.Job(shared); r.GPU == nil || r.GPU.MaxMemory != 0 {
		t.Errorf("a GPU of two jobs: %+v", r.GPU)
	}
	for _, id := range []job.ID{first, second, without, shared} {
		if err := w.agent.Signal(t.Context(), id, Kill); err != nil {
			t.Fatal(err)
		}
	}
	want := map[job.ID]int64{first: 100, second: 7, without: 0, shared: 0}
	got := map[job.ID]int64{}
	for id := range want {
		o := w.ended(id)
		got[id] = o.Usage.GPU.MaxMemory
		if (o.Usage.GPU.Count == 1) != (id != without) || (o.Usage.GPU.Seconds > 0) != (id != without) {
			t.Errorf("job %s has used %+v", id, o.Usage.GPU)
		}
	}
	if !maps.Equal(got, want) {
		t.Errorf("the peaks are %v, want %v", got, want)
	}
}
