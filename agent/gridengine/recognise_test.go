package gridengine

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/internal/clock"
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

// TestEachRelease checks that under each release the link registers, reports, and starts and ends a
// job, without a setting that names the release.
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

// TestReleaseIsKnown checks that the link tries the release that the cell names first, and tries
// only the release that the administrator names, if there is one.
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

// word is a memory for one word.
type word struct {
	mu   sync.Mutex
	text string
	told int // how often it was written
}

func (w *word) Read() (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text, nil
}

func (w *word) Write(text string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text = text
	w.told++
	return nil
}

// TestReleaseIsRemembered checks that after a restart the link first tries the release that it has
// recognised last, and that it recognises another one all the same.
func TestReleaseIsRemembered(t *testing.T) {
	kept := &word{text: "no release\n"}
	for _, step := range []struct {
		of    *message.Protocol
		tries bool
		told  int
	}{{message.OCS90, true, 1}, {message.OCS90, false, 1}, {message.OCS91, true, 2}, {message.OCS91, false, 2}} {
		w := speaking(t, step.of, func(o *Options) { o.Release = kept })
		w.register()
		w.full()
		if tries := w.unread > 0; tries != step.tries {
			t.Errorf("%s: %d requests were in another form", step.of.Name, w.unread)
		}
		if text, _ := kept.Read(); text != step.of.Name+"\n" || kept.told != step.told {
			t.Errorf("%s: %q is kept, written %d times", step.of.Name, text, kept.told)
		}
		w.conn.Abort() // the link would wait for the end of the connection
		w.stop()
		w.ended <- <-w.ended // for the end of the test
	}
}

// TestBusyMaster checks that a busy sge_qmaster gets the first request in the formats of several
// releases and everything else in its own format only, and that no message that sge_qmaster sends
// meanwhile is lost.
func TestBusyMaster(t *testing.T) {
	w := speaking(t, message.GridEngine81)
	other := &message.Codec{Protocol: message.OCS90}
	kill := &message.JobSignal{Queue: "all.q@localhost", Signal: message.SignalStop}
	for seen := range 8 {
		if seen == 3 {
			w.send(message.TagGetNewConf, w.codec.EncodeNumber(0))
			w.send(message.TagSignalQueue, w.codec.EncodeJobSignal(kill))
		}
		m := w.next()
		r, err := w.codec.DecodeRequest(m.Payload)
		if err != nil {
			r, err = other.DecodeRequest(m.Payload)
		}
		switch {
		case w.codec.OtherRelease(m.Payload) != nil: // 9.1: it does not read that
		case err != nil:
			t.Fatalf("message %d is no request: %v", seen, err)
		case r.Version == 0x10009000 && r.Condition != nil:
			t.Fatal("a condition in the form of 9.0 ends an sge_qmaster of 8.1.9")
		}
	}
	w.register()
	w.told("suspend queue all.q")
	w.full()
}

// TestConnectionOfAnotherRelease checks that the link recognises the release also on a connection that
// sge_qmaster opens. Here another release opens it before the first request of the link has an answer.
func TestConnectionOfAnotherRelease(t *testing.T) {
	w := speaking(t, message.GridEngine81)
	w.next() // is never answered
	w.qmaster.Close()
	w.conn.Abort()
	w.codec.Protocol = message.OCS91
	for end := time.Now().Add(patience); ; {
		var err error
		if w.conn, err = w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.Qmaster, ID: 1}); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
	w.register()
	if w.unread == 0 {
		t.Error("no other form was tried")
	}
	w.full()
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(delivery(5, 1)))
	w.told("start 5")
}

// TestTaskBeforeRelease requests a task before the link knows the release. The task starts once the
// release is known: jobs continue to request tasks while the agent restarts.
func TestTaskBeforeRelease(t *testing.T) {
	for _, p := range message.Protocols {
		t.Run(p.Name, func(t *testing.T) {
			w := speaking(t, p)
			conn, err := w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.ExecdHandle})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Abort()
			task := w.codec.EncodeTaskRequest(&message.TaskRequest{Job: 7, Task: 1, Owner: "alice", Cwd: "/", Submitted: cull.InSeconds(1)})
			if _, err := conn.Send(p.Number(message.TagJobExecution), 0, task); err != nil {
				t.Fatal(err)
			}
			w.register()
			m, err := conn.Receive()
			if err != nil {
				t.Fatal(err)
			}
			if id, err := w.codec.DecodeTaskID(m.Payload); err != nil || id != "1.localhost" {
				t.Errorf("the task is %q, %v", id, err)
			}
		})
	}
}

// TestTopologyReport checks that the agent reports the topology as a tree to masters whose scheduler
// chooses processors, and as a string to all others.
func TestTopologyReport(t *testing.T) {
	for _, p := range message.Protocols {
		t.Run(p.Name, func(t *testing.T) {
			const tree = "(S(C(T))(C(T)))"
			asked := 0
			w := newWorld(t, func(o *Options) {
				o.Protocol = p
				o.Topology = func() (string, error) {
					asked++
					return tree, nil
				}
			})
			w.commands.measureAll(map[string]string{"m_topology": "SCC", "m_topology_inuse": "ScC", "load_avg": "1"})
			w.codec = &message.Codec{Protocol: p, Identity: message.Identity{User: "sgeadmin", Group: "sgeadmin"}}
			w.accept()
			w.register()
			got := map[string]string{}
			for _, v := range w.full().Load.Values {
				got[v.Name] = v.Value
			}
			want := map[string]string{"m_topology": "SCC", "m_topology_inuse": "ScC", "load_avg": "1"}
			if p == message.OCS91 {
				want = map[string]string{"m_topology": tree, "load_avg": "1"}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			// What has not changed is not told again.
			w.commands.measureAll(map[string]string{"m_topology": "SCC", "m_topology_inuse": "SCC", "load_avg": "2"})
			delete(want, "m_topology")
			want["load_avg"] = "2"
			if p != message.OCS91 {
				want["m_topology_inuse"] = "SCC"
			}
			got = map[string]string{}
			for len(got) == 0 {
				if r := w.report(); r.Load != nil {
					for _, v := range r.Load.Values {
						got[v.Name] = v.Value
					}
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			w.stop()
			err := <-w.ended
			w.ended <- err // the end of the test looks at it
			if asked > 1 {
				t.Errorf("the topology was read %d times", asked)
			}
		})
	}
}

// said is a log that tells when a text has been written.
type said struct {
	text string
	once sync.Once
	c    chan struct{}
}

func (s *said) Write(line []byte) (int, error) {
	if strings.Contains(string(line), s.text) {
		s.once.Do(func() { close(s.c) })
	}
	return len(line), nil
}

// TestUnreadableAnswer checks that after an unreadable answer the link tries the other formats, and
// closes the connection if there are none.
func TestUnreadableAnswer(t *testing.T) {
	answer := func(w *world) {
		t.Helper()
		m := w.next()
		if _, err := w.conn.Send(m.Tag, m.ID, append(m.Payload[:8:8], 0xff, 0xff)); err != nil {
			t.Fatal(err)
		}
	}
	w := speaking(t, message.GridEngine81)
	answer(w)
	w.register()

	now, log := clock.NewManual(time.Now()), &said{text: "cannot be read", c: make(chan struct{})}
	w = speaking(t, message.GridEngine81, func(o *Options) {
		o.Protocol, o.Clock, o.Log = message.GridEngine81, now, hclog.New(&hclog.LoggerOptions{Output: log})
	})
	answer(w)
	<-log.c
	if err := now.WaitFor(t.Context(), answerPatience); err != nil {
		t.Fatal(err)
	}
	now.Advance(answerPatience)
	if _, err := w.conn.Receive(); err == nil {
		t.Error("the connection is kept")
	}
}
