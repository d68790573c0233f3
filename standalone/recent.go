package standalone

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/standalone/api"
	"github.com/execd-project/execd/standalone/store"
)

const (
	// keyDay is the key of the samples in the store.
	keyDay = ownPrefix + "day"
	// sampling is the time between two samples, and maxSamples those of a day.
	sampling   = 5 * time.Minute
	maxSamples = int(24 * time.Hour / sampling)
	// saving is the number of samples after which they are in the store. A crash loses fewer.
	saving = 6
	// maxEvents is the number of events that the master keeps.
	maxEvents = 500
	// maxEventText is the maximum length of a text of an event, in bytes.
	maxEventText = 200
)

// recent holds the latest events and samples. Only the goroutine of Run uses it.
type recent struct {
	events  []api.Event
	samples []api.Sample
	unsaved int
}

// restoreRecent reads the samples of a previous master.
func (m *Master) restoreRecent() {
	text, err := m.read(keyDay)
	if err == nil && text != nil {
		err = json.Unmarshal(text, &m.recent.samples)
	}
	if err != nil {
		m.log.Warn("the use of the host over the last day is lost", "error", err)
	}
	m.recent.samples = m.recent.samples[max(len(m.recent.samples)-maxSamples, 0):]
}

// event records what has happened to a job.
func (m *Master) event(id, task uint32, what string) {
	j := m.cell.Job(id)
	if j == nil {
		return
	}
	e := api.Event{Job: id, Name: api.Text(printable.Clip(j.Name(), maxEventText)), User: j.Owner(), What: what}
	if j.IsArray() {
		e.Task = task
	}
	m.recent.add(e, m.now())
}

// add records an event.
func (r *recent) add(e api.Event, now int64) {
	e.Time, e.What = now, printable.Clip(e.What, maxEventText)
	if len(r.events) >= maxEvents {
		r.events = append(r.events[:0], r.events[len(r.events)-maxEvents+1:]...)
	}
	r.events = append(r.events, e)
}

// sample records the use of the host, if the last sample is old enough.
func (m *Master) sample() {
	list := m.recent.samples
	// A clock that was set back must not stop the samples.
	if n := len(list); n > 0 && list[n-1].Time <= m.now() && m.now()-list[n-1].Time < int64(sampling.Seconds()) {
		return
	}
	r, err := m.carryOut(&command.Input{
		Name: "qhost", Args: []string{"-json", "-F", "-q"}, Host: m.host.Name, Zone: time.Local, By: cell.Caller{User: "root", Host: m.host.Name},
	})
	d := &qstat.Document{}
	if err != nil || json.Unmarshal([]byte(r.Stdout), d) != nil {
		return
	}
	s := api.Sample{Time: m.now()}
	for _, q := range d.Queues {
		s.Slots += q.Total
		s.UsedSlots += q.Used
	}
	for _, h := range d.Hosts {
		if h.Name != m.host.Name {
			continue
		}
		if h.MemoryTotal != nil && h.MemoryUsed != nil {
			s.Memory, s.UsedMemory = *h.MemoryTotal, *h.MemoryUsed
		}
		for _, v := range h.Resources {
			if free, err := strconv.ParseFloat(v.Value, 64); err == nil && v.Name == launch.GPUMap {
				s.GPUs, s.UsedGPUs = int(v.Total), int(max(v.Total-free, 0))
			}
		}
	}
	if len(list) >= maxSamples {
		list = append(list[:0], list[len(list)-maxSamples+1:]...)
	}
	m.recent.samples = append(list, s)
	if m.recent.unsaved++; m.recent.unsaved >= saving {
		m.saveSamples()
	}
}

// saveSamples puts the samples into the next commit.
func (m *Master) saveSamples() {
	if m.recent.unsaved == 0 {
		return
	}
	text, err := json.Marshal(m.recent.samples)
	if err != nil {
		return
	}
	m.recent.unsaved = 0
	m.batch.records = append(m.batch.records, store.Change{Key: keyDay, Value: text})
}

// eventsOf records the effects of a command that has changed jobs. Its output names the jobs.
func (m *Master) eventsOf(name string, r *command.Result) {
	switch {
	case r.Job != 0:
		m.event(r.Job, 0, "was submitted")
	case name == "qalter" || name == "qmod" || name == "qhold" || name == "qrls":
		for line := range strings.Lines(r.Stdout) {
			words := strings.Fields(line)
			i := slices.Index(words, "job")
			if i < 0 || i+1 == len(words) {
				continue
			}
			number, _, _ := strings.Cut(words[i+1], ".")
			if id, err := strconv.ParseUint(number, 10, 32); err == nil {
				m.event(uint32(id), 0, strings.TrimSpace(line))
			}
		}
	}
}

// serveRecent returns the latest events and samples.
func (m *Master) serveRecent(ctx context.Context, _ *serve.Call) (any, *agentapi.Error) {
	return m.recentOf(ctx)
}

func (m *Master) recentOf(ctx context.Context) (*api.RecentAnswer, *agentapi.Error) {
	found := make(chan *api.RecentAnswer, 1)
	err := m.do(ctx, func() {
		found <- &api.RecentAnswer{Events: slices.Clone(m.recent.events), Samples: slices.Clone(m.recent.samples)}
	})
	if err != nil {
		return nil, ending()
	}
	select {
	case a := <-found:
		return a, nil
	case <-m.stopped:
		return nil, ending()
	}
}
