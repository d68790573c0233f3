package gridengine

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/cull"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

func configurationList(c *message.Codec, list ...message.Configuration) *cull.List {
	return message.ListOf(c, list)
}

// delivery returns a job for the host of the test.
func delivery(number, task uint32) *message.Delivery {
	j := minimal()
	j.Job, j.Tasks[0].Number = number, task
	g := &j.Tasks[0].Granted[0]
	g.Host, g.Queue, j.Tasks[0].MasterQueue = "localhost", "all.q@localhost", "all.q@localhost"
	return j
}

func (w *world) deliver(number, task uint32) {
	w.Helper()
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(delivery(number, task)))
}

func (w *world) acknowledge(kind message.AckType, number, task uint32) {
	w.Helper()
	w.send(message.TagAcknowledge, w.codec.EncodeAcknowledgements(message.Acknowledgement{Type: uint32(kind), ID: number, ID2: task}))
}

func TestRegistration(t *testing.T) {
	w := newWorld(t)
	w.accept()
	if w.register() {
		t.Error("the first registration is one after a break")
	}
	r := w.full()
	if len(r.Load.Values) != 2 || r.Sequence != 0 || r.Version != 0x10003001 || r.Licence == nil || len(r.Configurations) != 1 || r.Configurations[0].Version != 3 {
		t.Errorf("the first report is %+v", r)
	}
	w.commands.measure("0.7")
	if r := w.report(); r.Load == nil || r.Load.Full || len(r.Load.Values) != 1 || r.Load.Values[0].Value != "0.7" || r.Licence != nil || r.Sequence != 1 {
		t.Errorf("the second one is %+v", r)
	}
	w.send(message.TagFullLoadReport, w.codec.EncodeNumber(0))
	if r := w.full(); len(r.Load.Values) != 2 {
		t.Errorf("when all is asked for it is %+v", r)
	}
	w.conn.Abort()
	w.accept()
	if !w.register() {
		t.Error("the registration after a break is a first one")
	}
	w.full()
}

func TestTheLifeOfAJob(t *testing.T) {
	w := registered(t)
	w.deliver(5, 1)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
	w.deliver(5, 1) // again: it is reported again, and not started
	w.jobReport(5, message.StateWritten)
	w.send(message.TagSignalJob, w.codec.EncodeJobSignal(&message.JobSignal{Job: 5, Task: 1, Signal: message.SignalStop}))
	w.told("suspend 5")
	w.send(message.TagSignalQueue, w.codec.EncodeJobSignal(&message.JobSignal{Queue: "all.q@localhost", Signal: message.SignalCont}))
	w.told("resume queue all.q")
	w.send(message.TagSignalJob, w.codec.EncodeJobSignal(&message.JobSignal{Job: 5, Task: 1, Signal: message.SignalKill}))
	w.told("terminate 5")
	w.commands.end(job.ID{Job: 5}, 9)
	if r := w.jobReport(5, message.StateExiting); r.WaitStatus != 0x91 || len(r.Usage) != 35 {
		t.Errorf("the end is %+v", r)
	}
	// It is said until it is acknowledged.
	w.commands.measure("1")
	w.jobReport(5, message.StateExiting)
	w.acknowledge(message.AckJobReportResend, 5, 1)
	w.jobReport(5, message.StateExiting)
	w.acknowledge(message.AckJobExit, 5, 1)
	w.told("acknowledge 5")
	w.acknowledge(message.AckJobExit, 5, 1) // late, and of nothing
	// The same number may come again.
	w.deliver(5, 1)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
	if a, b := w.commands.starts[0].Key, w.commands.starts[1].Key; a == b {
		t.Errorf("two runs of a job have the key %q", a)
	}
	w.acknowledge(message.AckSignalJob, 5, 1) // it is not wanted any more
	w.told("terminate 5")
	w.quiet()
}

// TestNextRunBeforePreviousRunEnds delivers a job for its next run before its previous run has
// ended.
func TestNextRunBeforePreviousRunEnds(t *testing.T) {
	w := registered(t)
	w.deliver(5, 1)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
	again := delivery(5, 1)
	again.Tasks[0].Restarted = 1
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(again))
	w.told("kill 5")
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(again))
	w.commands.end(job.ID{Job: 5}, 0)
	w.told("acknowledge 5")
	w.told("start 5")
	for _, j := range w.report().Jobs {
		if j.State == message.StateExiting {
			t.Errorf("the end of the previous run is told: %+v", j)
		}
	}
	w.quiet()
}

// TestOrdersForTheNextRun checks that orders for a job that arrive while its previous run ends
// apply to its next run.
func TestOrdersForTheNextRun(t *testing.T) {
	w := registered(t)
	w.send(message.TagSlaveAllow, w.codec.EncodeDelivery(delivery(5, 1)))
	w.told("start 5")
	w.jobReport(5, message.StateSlave)
	again := delivery(5, 1)
	again.Tasks[0].Restarted = 1
	w.send(message.TagSlaveAllow, w.codec.EncodeDelivery(again))
	w.told("kill 5")
	w.acknowledge(message.AckSignalSlave, 5, 1) // of the previous run
	w.send(message.TagSignalJob, w.codec.EncodeJobSignal(&message.JobSignal{Job: 5, Task: 1, Signal: message.SignalKill}))
	w.acknowledged(message.AckSigJob, 5)
	w.commands.put(agent.JobReport{ID: job.ID{Job: 5}, Slave: true, State: agent.Ended, Outcome: &job.Outcome{}})
	w.told("acknowledge 5")
	w.told("start 5")
	w.told("terminate 5")
	for i, s := range w.commands.starts {
		if !s.Slave {
			t.Errorf("run %d of a slave job is one of its own", i)
		}
	}
	w.quiet()
}

// TestNextRunAfterRefusedRun delivers a job again whose previous run was refused: the next run is
// accepted.
func TestNextRunAfterRefusedRun(t *testing.T) {
	w := registered(t)
	w.commands.refuse = &agent.Error{Code: agent.InvalidArgument, Err: errors.New("there is no user alice")}
	w.commands.hold = make(chan struct{})
	w.deliver(5, 1)
	w.told("start 5")
	again := delivery(5, 1)
	again.Tasks[0].Restarted = 1
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(again))
	w.send(message.TagSignalQueue, w.codec.EncodeJobSignal(&message.JobSignal{Queue: "all.q@localhost", Signal: message.SignalCont}))
	w.told("resume queue all.q") // so that the other one has come
	w.commands.mu.Lock()
	w.commands.refuse = nil
	w.commands.mu.Unlock()
	close(w.commands.hold)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
	w.quiet()
}

// TestTheEndOfAnInteractiveJob checks that the link reports the end of an interactive job only
// after ClientPause: until then the client finds the job at qmaster, although its command has
// ended.
func TestTheEndOfAnInteractiveJob(t *testing.T) {
	run := func(pause time.Duration) *world {
		w := registered(t, func(o *Options) { o.ClientPause = pause })
		j := delivery(5, 1)
		j.Type, j.ScriptFile = message.TypeQrsh|message.TypeBinary, "true"
		w.send(message.TagJobExecution, w.codec.EncodeDelivery(j))
		w.told("start 5")
		w.jobReport(5, message.StateWritten)
		w.commands.end(job.ID{Job: 5}, 0)
		return w
	}
	w := run(time.Hour)
	for _, load := range []string{"1", "2"} {
		w.commands.measure(load)
		w.jobReport(5, message.StateWritten)
	}
	run(time.Millisecond).jobReport(5, message.StateExiting)
}

// TestUnacknowledgedEndIsReportedAgain checks that the end of a job is reported again until
// sge_qmaster acknowledges it, also on the next connection.
func TestUnacknowledgedEndIsReportedAgain(t *testing.T) {
	w := registered(t)
	w.deliver(6, 1)
	w.told("start 6")
	w.conn.Abort()
	w.commands.end(job.ID{Job: 6}, 0)
	w.accept()
	w.register()
	w.jobReport(6, message.StateExiting)
	w.acknowledge(message.AckJobExit, 6, 1)
	w.told("acknowledge 6")
}

func TestASignalForAnUnknownJob(t *testing.T) {
	w := registered(t)
	w.send(message.TagSignalJob, w.codec.EncodeJobSignal(&message.JobSignal{Job: 77, Task: 1, Signal: message.SignalKill}))
	w.acknowledged(message.AckSigJob, 77) // that it has arrived
	if r := w.jobReport(77, message.StateExiting); r.Failed != uint32(job.FailedUnknownJob) {
		t.Errorf("it is reported as %+v", r)
	}
	w.acknowledge(message.AckJobExit, 77, 1)
	w.quiet()
}

func TestAJobThatIsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want uint32
	}{
		"for what it is":         {&agent.Error{Code: agent.InvalidArgument, Err: errors.New("there is no user alice")}, message.FailureJob},
		"for want of room":       {&agent.Error{Code: agent.ResourceExhausted, Err: errors.New("the disk is full")}, message.FailureQueue},
		"because none are taken": {&agent.Error{Code: agent.Unavailable, Err: errors.New("draining")}, message.FailureQueue},
		"for an internal error":  {&agent.Error{Code: agent.Internal, Err: errors.New("oops")}, message.FailureQueue},
	} {
		t.Run(name, func(t *testing.T) {
			w := registered(t)
			w.commands.refuse = c.err
			w.deliver(8, 1)
			w.told("start 8")
			r := w.jobReport(8, message.StateExiting)
			if r.Failed != uint32(job.FailedBeforeJob) || r.GeneralFailure != c.want || r.Error != c.err.Error() || r.Queue != "all.q@localhost" {
				t.Errorf("it is reported as %+v", r)
			}
		})
	}
}

// TestTheEndOfASlaveJob checks that a slave job ends after its tasks, and that its final report has
// a usage.
func TestTheEndOfASlaveJob(t *testing.T) {
	w := registered(t)
	w.send(message.TagSlaveAllow, w.codec.EncodeDelivery(delivery(9, 1)))
	w.told("start 9")
	w.jobReport(9, message.StateSlave)
	task := job.ID{Job: 9, PETask: "1.localhost"}
	w.commands.put(agent.JobReport{ID: task, Queue: "all.q", State: agent.Running})
	w.jobReport(9, message.StateWritten)
	w.acknowledge(message.AckSignalSlave, 9, 1)
	w.told("kill 9")
	w.commands.put(agent.JobReport{ID: job.ID{Job: 9}, Slave: true, State: agent.Ended, Outcome: &job.Outcome{}})
	w.commands.end(task, 1)
	for {
		r := w.report()
		ended := false
		for _, j := range r.Jobs {
			if j.State == message.StateSlave && len(j.Usage) > 0 {
				t.Fatalf("the end of the slave job is told before that of its task was acknowledged: %+v", r.Jobs)
			}
			ended = ended || j.PETask != "" && j.State == message.StateExiting
		}
		if ended {
			break
		}
	}
	w.send(message.TagAcknowledge, w.codec.EncodeAcknowledgements(message.Acknowledgement{Type: uint32(message.AckJobExit), ID: 9, ID2: 1, Str: "1.localhost"}))
	w.told("acknowledge 9/1.localhost")
	for len(w.jobReport(9, message.StateSlave).Usage) == 0 {
	}
}

func TestOrdersOfTheDaemon(t *testing.T) {
	w := registered(t)
	w.deliver(5, 1)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
	w.send(message.TagChangeTicket, w.codec.EncodeTickets([]message.Tickets{{Job: 5, Task: 1, Tickets: 12}, {Job: 99, Task: 1, Tickets: 3}}))
	w.told("tickets 5=12")
	w.send(message.TagKillExecd, w.codec.EncodeNumber(1))
	w.told("shutdown true")
}

// TestTicketsOfLaterReleases checks that the agent adjusts priorities once the scheduler of a release without
// the parameter reprioritize has sent tickets.
func TestTicketsOfLaterReleases(t *testing.T) {
	for _, p := range []*message.Protocol{message.GridEngine81, message.OCS90, message.OCS91} {
		w := speaking(t, p, func(o *Options) { o.Protocol = p })
		w.register()
		w.full()
		w.deliver(5, 1)
		w.told("start 5")
		w.jobReport(5, message.StateWritten)
		w.send(message.TagChangeTicket, w.codec.EncodeTickets([]message.Tickets{{Job: 5, Task: 1, Tickets: 12}}))
		w.told("tickets 5=12")
		if p == message.GridEngine81 {
			w.quiet()
			continue
		}
		m := w.receive()
		r, err := w.codec.DecodeRequest(m.Payload)
		if err != nil {
			t.Fatal(err)
		}
		w.reply(m, r)
		if text := (<-w.installed)["conf/global"]; !strings.Contains(text, "reprioritize 1\n") {
			t.Errorf("%s: the configuration is %q", p.Name, text)
		}
	}
}

// TestHostileMessages checks that the link skips invalid messages and processes those that follow.
func TestHostileMessages(t *testing.T) {
	w := registered(t)
	for _, tag := range []message.Tag{2, 3, 6, 7, 8, 9, 10, 11, 13, 18, 4711} {
		for _, payload := range [][]byte{nil, {1}, []byte(strings.Repeat("\xff", 100)), append(w.codec.EncodeNumber(1), 1, 2, 3)} {
			if tag == message.TagGetNewConf || tag == message.TagFullLoadReport {
				continue // they have no content that counts
			}
			w.send(tag, payload)
		}
	}
	j := delivery(4, 1)
	j.Tasks = nil
	w.send(message.TagJobExecution, w.codec.EncodeDelivery(j))
	w.deliver(5, 1)
	w.told("start 5")
	w.quiet()
}

// TestOnlyQmasterMayConnect checks that only the host in act_qmaster may send jobs, and only over
// one connection at a time.
func TestOnlyQmasterMayConnect(t *testing.T) {
	w := registered(t)
	for name, c := range map[string]struct {
		from commlib.Endpoint
		want string
	}{
		"qmaster, which is connected": {commlib.Endpoint{Host: "localhost", Component: commlib.Qmaster, ID: 1}, "already connected"},
		"a qmaster with another id":   {commlib.Endpoint{Host: "localhost", Component: commlib.Qmaster, ID: 2}, "only the host of act_qmaster"},
		"who is somewhere else":       {commlib.Endpoint{Host: "elsewhere.invalid", Component: commlib.Qmaster, ID: 1}, "the address of the client is not an address of"},
		"a component without a right": {commlib.Endpoint{Host: "localhost", Component: "qstat", ID: 0}, "has nothing to ask here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := w.dial(c.from)
			if refused, ok := errors.AsType[*commlib.RefusedError](err); !ok || !strings.Contains(refused.Text, c.want) {
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			}
		})
	}
	t.Run("jobs of a client that is not qmaster are not started", func(t *testing.T) {
		conn, err := w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.Qping})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Send(w.codec.Number(message.TagJobExecution), 0, w.codec.EncodeDelivery(delivery(66, 1))); err != nil {
			t.Fatal(err)
		}
		go func() { _, _ = conn.Receive() }()
		conn.Close(t.Context())
		w.quiet()
	})
}

// TestAConnectionOfQmaster checks that qmaster may open a connection itself if there is none.
func TestAConnectionOfQmaster(t *testing.T) {
	w := registered(t)
	w.qmaster.Close() // no other way
	w.conn.Abort()
	var err error
	for end := time.Now().Add(patience); ; {
		w.conn, err = w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.Qmaster, ID: 1})
		if err == nil || time.Now().After(end) {
			break
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	if !w.register() {
		t.Error("it registers as for the first time")
	}
	w.full()
	w.deliver(5, 1)
	w.told("start 5")
}

// TestHostileClients checks that clients that connect and send nothing, or invalid data, do not
// keep the link from serving others.
func TestHostileClients(t *testing.T) {
	w := registered(t)
	address := w.link.listener.Addr().(*net.TCPAddr)
	for range 2 * maxAccepted {
		nc, err := net.DialTCP("tcp", nil, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: address.Port})
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		if _, err := nc.Write([]byte("<gmsh><dl>4000</dl></gmsh>")); err != nil {
			continue // there were too many
		}
	}
	conn, err := w.dial(commlib.Endpoint{Host: "localhost", Component: commlib.Qping})
	if err != nil {
		t.Errorf("nobody else is taken: %v", err)
	} else {
		defer conn.Abort()
	}
	w.deliver(5, 1)
	w.told("start 5")
	w.jobReport(5, message.StateWritten)
}

func TestSequenceNumbersWrap(t *testing.T) {
	s := &session{Link: &Link{options: Options{Host: "h"}}, sequence: maxSequence}
	if s.count(); s.sequence != 0 {
		t.Errorf("after %d comes %d", maxSequence, s.sequence)
	}
}

// TestFailureOfTheOwnerIsNotThatOfTheQueue ends jobs whose epilog has failed, as user of the owner: in no release does the
// report attribute that to the queue.
func TestFailureOfTheOwnerIsNotThatOfTheQueue(t *testing.T) {
	for _, p := range message.Protocols {
		codec := message.Codec{Protocol: p}
		for byOwner, want := range map[bool]uint32{true: message.FailureNone, false: message.FailureQueue} {
			r := jobOf(5)
			r.Outcome = &job.Outcome{ID: r.ID, Ran: true, Failed: job.FailedBeforeEpilog, ByOwner: byOwner}
			if p == message.GridEngine81 {
				want = message.FailureNone
			}
			sent, err := codec.DecodeReport(codec.EncodeReport(&message.Report{Host: "h", Jobs: []message.JobReport{reportOf(&r, "h", false)}}))
			if err != nil || sent.Jobs[0].GeneralFailure != want {
				t.Errorf("%s, by the owner %v: %d, want %d; %v", p.Name, byOwner, sent.Jobs[0].GeneralFailure, want, err)
			}
		}
	}
}
