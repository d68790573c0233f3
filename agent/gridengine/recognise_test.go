package gridengine

import (
	"testing"
	"time"

	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// speaking makes a world whose qmaster is of a release, which is silent to other forms.
func speaking(t *testing.T, p *message.Protocol, options ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, append(options, func(o *Options) { o.FirstAnswer = 20 * time.Millisecond })...)
	w.codec = &message.Codec{Protocol: p, Identity: message.Identity{User: "sgeadmin", Group: "sgeadmin"}}
	w.accept()
	return w
}

// Under each release the link registers, reports, and starts and ends a job; nobody has to say which
// release it is.
func TestEachRelease(t *testing.T) {
	for _, p := range message.Protocols {
		t.Run(p.Name, func(t *testing.T) {
			w := speaking(t, p)
			if w.register() {
				t.Error("the first registration is one after a break")
			}
			if first := w.full(); len(first.Load.Values) != 2 {
				t.Errorf("the first report is %+v", first)
			}
			j := delivery(7, 1)
			j.Submitted = cull.InSeconds(1_700_000_000)
			hard := []message.Resource{{Name: "h_rt", Text: "100", Value: 100}}
			j.Hard, j.Requests = hard, []message.Requests{{Scope: message.ScopeMaster, Hard: hard}, {Scope: message.ScopeSlave, Hard: hard}}
			j.Tasks[0].Wallclock = cull.InSeconds(60)
			w.send(message.TagJobExecution, w.codec.EncodeDelivery(j))
			w.told("start 7")
			start := w.commands.starts[0]
			if got := start.Submitted.Unix(); got != 1_700_000_000 {
				t.Errorf("it was submitted at %d", got)
			}
			if got := start.Order.Queue.Limits[job.RT].Hard; got != 60 {
				t.Errorf("h_rt is %d", got)
			}
			w.jobReport(7, message.StateWritten)
			w.send(message.TagSignalJob, w.codec.EncodeJobSignal(&message.JobSignal{Job: 7, Task: 1, Signal: message.SignalStop}))
			w.acknowledged(message.AckSigJob, 7)
			w.told("suspend 7")
			w.commands.end(job.ID{Job: 7}, 3)
			report := w.jobReport(7, message.StateExiting)
			if report.WaitStatus != message.WaitStatus(3, 0, false, true) {
				t.Errorf("the end is %+v", report)
			}
			unit := 1.0
			if p != message.GridEngine81 {
				unit = 1e6
			}
			now := float64(time.Now().Unix())
			for _, u := range report.Usage {
				if u.Name == "end_time" && (u.Value/unit < now-3600 || u.Value/unit > now+3600) {
					t.Errorf("end_time is %f", u.Value)
				}
			}
			w.acknowledge(message.AckJobExit, 7, 1)
			w.told("acknowledge 7")
		})
	}
}

// A release that the cell names is tried first, and one that the administrator names alone.
func TestReleaseIsKnown(t *testing.T) {
	w := speaking(t, message.OCS90, func(o *Options) { o.Protocol = message.OCS90 })
	w.register()
	if w.unread != 0 {
		t.Errorf("%d requests were in another form", w.unread)
	}
	w = speaking(t, message.OCS91, func(o *Options) { o.Protocol = nil })
	w.register()
	if w.unread == 0 {
		t.Error("no other form was tried")
	}
	again := w.unread
	w.conn.Abort()
	w.accept()
	w.register()
	if w.unread != again {
		t.Errorf("after the loss of a connection the form that was known was not tried first")
	}
}
