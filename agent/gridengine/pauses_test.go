package gridengine

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
)

// pauses is a world whose clock stands still unless a test moves it.
type pauses struct {
	*world
	now *clock.Manual
}

func standingWorld(t *testing.T) *pauses {
	t.Helper()
	now, stand := standing()
	w := newWorld(t, stand)
	w.commands.taken(t) // before the registration: later load values would wait for usagePause
	w.accept()
	w.register()
	w.full()
	return &pauses{w, now}
}

// after waits until the link waits for a report after a pause, and lets the pause pass.
func (p *pauses) after(pause time.Duration) {
	p.Helper()
	ctx, cancel := context.WithTimeout(p.Context(), patience)
	defer cancel()
	if err := p.now.WaitFor(ctx, pause); err != nil {
		p.Fatalf("the link does not wait for %s", pause)
	}
	p.now.Advance(pause)
}

// reports checks which jobs the next report has, with their states.
func (p *pauses) reports(want ...string) {
	p.Helper()
	var got []string
	for _, j := range p.report().Jobs {
		state := map[uint32]string{message.StateWritten: "runs", message.StateExiting: "ended", message.StateSlave: "slave"}[j.State]
		got = append(got, fmt.Sprintf("%d %s", j.Job, state))
	}
	if !slices.Equal(got, want) {
		p.Fatalf("the report has %q, want %q", got, want)
	}
}

func (p *pauses) starts(number uint32) {
	p.Helper()
	p.deliver(number, 1)
	p.told(fmt.Sprintf("start %d", number))
	p.settle()
}

// ends ends a job that the agent has started.
func (p *pauses) ends(number int) {
	p.Helper()
	p.commands.end(job.ID{Job: number}, 0)
	p.settle()
}

// settle waits until the link has handled all that the agent has reported: it handles the order after that.
func (p *pauses) settle() {
	p.Helper()
	p.commands.taken(p.T)
	p.send(message.TagSignalQueue, p.codec.EncodeJobSignal(&message.JobSignal{Queue: "none@localhost", Signal: message.SignalCont}))
	p.told("resume queue none")
}

func (p *pauses) acknowledges(number uint32) {
	p.Helper()
	p.acknowledge(message.AckJobExit, number, 1)
	p.told(fmt.Sprintf("acknowledge %d", number))
}

// TestStartsAreReportedTogether checks startPause: the first start is reported at once, further ones after a second,
// and that of a job which has ended meanwhile never.
func TestStartsAreReportedTogether(t *testing.T) {
	p := standingWorld(t)
	p.starts(1)
	p.after(coalesce)
	p.reports("1 runs")
	p.starts(2)
	p.starts(3)
	p.starts(4)
	p.ends(3)
	p.after(coalesce)
	p.reports("3 ended")
	p.after(startPause - coalesce)
	p.reports("2 runs", "4 runs")
	p.acknowledges(3)
	p.now.Advance(startPause)
	p.starts(5) // after a pause: at once
	p.after(coalesce)
	p.reports("5 runs")
}

// TestRepeatedDeliveryIsReportedAtOnce checks that qmaster, which delivers a job again because it has no report of
// it, need not wait.
func TestRepeatedDeliveryIsReportedAtOnce(t *testing.T) {
	p := standingWorld(t)
	p.starts(1)
	p.after(coalesce)
	p.reports("1 runs")
	p.starts(2)
	p.starts(3)
	p.deliver(2, 1)
	p.settle()
	p.after(coalesce)
	p.reports("2 runs")
	p.after(startPause)
	p.reports("3 runs")
}

// TestParallelStartsAreReportedAtOnce checks jobs for whose report qmaster or a user waits.
func TestParallelStartsAreReportedAtOnce(t *testing.T) {
	for name, change := range map[string]func(d *message.Delivery){
		"parallel": func(d *message.Delivery) {
			d.Tasks[0].PE = &message.PE{Name: "mpi", Slots: 8, AllocationRule: "$pe_slots"}
		},
		"interactive": func(d *message.Delivery) { d.Type, d.ScriptFile = message.TypeQrsh|message.TypeBinary, "true" },
	} {
		t.Run(name, func(t *testing.T) {
			p := standingWorld(t)
			p.starts(1)
			p.after(coalesce)
			p.reports("1 runs")
			d := delivery(2, 1)
			change(d)
			p.send(message.TagJobExecution, p.codec.EncodeDelivery(d))
			p.told("start 2")
			p.settle()
			p.after(coalesce)
			p.reports("2 runs")
		})
	}
}

// TestEndsAreReportedTogether checks endPause: further ends wait for others while jobs run, and the last one does not.
func TestEndsAreReportedTogether(t *testing.T) {
	p := standingWorld(t)
	for i := range uint32(5) {
		p.starts(i + 1)
	}
	p.ends(1)
	p.after(coalesce)
	p.report() // with the starts
	p.acknowledges(1)
	p.ends(2)
	p.ends(3)
	p.after(endPause)
	p.reports("2 ended", "3 ended")
	p.acknowledges(2)
	p.acknowledges(3)
	p.ends(4)
	p.ends(5) // no other is left
	p.after(coalesce)
	p.reports("4 ended", "5 ended")
	p.acknowledges(4)
	p.acknowledges(5)
}

// TestStartDue checks when the start of a job is reported: one that waits for others to begin has more time.
func TestStartDue(t *testing.T) {
	sent := time.Now()
	s := &session{startsSent: sent}
	delivered := sent.Add(-time.Second)
	for name, c := range map[string]struct {
		job  jobState
		want time.Time
	}{
		"it has begun":                   {jobState{patient: true, delivered: delivered, began: true}, sent.Add(startPause)},
		"it waits for others to begin":   {jobState{patient: true, delivered: delivered}, delivered.Add(beginPatience)},
		"it has waited for too long":     {jobState{patient: true, delivered: sent.Add(-beginPatience)}, sent.Add(startPause)},
		"it has ended":                   {jobState{patient: true, delivered: delivered, ended: true}, time.Time{}},
		"qmaster knows of it":            {jobState{patient: true, delivered: delivered, told: true}, time.Time{}},
		"somebody waits for it to begin": {jobState{delivered: delivered}, time.Time{}},
	} {
		if got := s.startDue(&c.job); !got.Equal(c.want) {
			t.Errorf("%s: it is due at %v, want %v", name, got, c.want)
		}
	}
}
