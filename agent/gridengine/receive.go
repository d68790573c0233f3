package gridengine

import (
	"errors"
	"fmt"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
)

// receive handles a message of qmaster.
func (s *session) receive(m *commlib.Message) {
	q, isAnswer := s.pending[m.ResponseTo]
	isAnswer = isAnswer && m.ResponseTo != 0
	if m.ResponseTo != 0 && s.abandoned[m.ResponseTo] {
		s.log.Debug("an answer to a first request in another form", "tag", m.Tag)
		return
	}
	if isAnswer {
		known := s.known
		if err := s.answered(m, q); err != nil {
			s.log.Error("an answer of sge_qmaster cannot be read", "tag", m.Tag, "error", err)
		}
		if s.known && !known {
			s.release()
		}
		return
	}
	if !s.known {
		s.hold(m)
		return
	}
	codec := s.codec()
	if others := codec.OtherRelease(m.Payload); others != nil {
		s.log.Error("a message of sge_qmaster cannot be read: it is in the form of another release", "tag", m.Tag, "known", codec.Name, "release", others[0].Name)
		return
	}
	tag, ok := codec.Tag(m.Tag)
	if !ok {
		s.log.Debug("an unknown message", "tag", m.Tag)
		return
	}
	var err error
	switch tag {
	case message.TagGDIRequest:
		err = fmt.Errorf("it answers message %d, which was not a request", m.ResponseTo)
	case message.TagAcknowledge:
		var list []message.Acknowledgement
		list, err = codec.DecodeAcknowledgements(m.Payload)
		for _, a := range list {
			s.acknowledged(a)
		}
	case message.TagJobExecution, message.TagSlaveAllow:
		var d *message.Delivery
		if d, err = codec.DecodeDelivery(m.Payload, tag == message.TagSlaveAllow); err == nil {
			s.deliver(d, tag == message.TagSlaveAllow)
		}
	case message.TagChangeTicket:
		err = s.tickets(m.Payload)
	case message.TagSignalJob, message.TagSignalQueue:
		var sig *message.JobSignal
		if sig, err = codec.DecodeJobSignal(m.Payload); err == nil {
			s.signal(sig, tag == message.TagSignalQueue)
		}
	case message.TagKillExecd:
		var n uint32
		if n, err = codec.DecodeNumber(m.Payload); err == nil {
			s.log.Info("sge_qmaster asked this daemon to stop", "with its jobs", n != 0)
			s.commands.Shutdown(n != 0)
		}
	case message.TagGetNewConf:
		s.fetch(s.soonAll)
	case message.TagFullLoadReport:
		s.full()
	default:
		s.log.Debug("an unknown message", "tag", m.Tag)
	}
	if err != nil {
		s.log.Error("a message of sge_qmaster cannot be read", "tag", m.Tag, "error", err)
	}
}

// soonAll schedules a report of everything after a short delay: sge_qmaster compares the version of
// the configuration in it with its own.
func (s *session) soonAll() {
	s.load.due = true
	s.soon()
}

// answered handles the answer to a request. Until the release is known, only a good answer moves the
// time at which the request is sent in another form.
func (s *session) answered(m *commlib.Message, q question) error {
	delete(s.pending, m.ResponseTo)
	if s.known {
		if s.deadline = (time.Time{}); len(s.pending) > 0 {
			s.deadline = s.clock.Now().Add(answerPatience)
		}
	}
	r, err := q.codec.DecodeRequest(m.Payload)
	if err != nil {
		if s.readOtherwise(q.codec, m.Payload) {
			return nil
		}
		return err
	}
	s.recognised(q.codec)
	q.answer(r)
	return nil
}

func (s *session) acknowledged(a message.Acknowledgement) {
	k := key{a.ID, a.ID2, a.Str}
	switch message.AckType(a.Type) {
	case message.AckLoadReport:
		s.worked()
		s.silent = time.Time{}
		if a.ID == s.load.number && s.load.sent != nil {
			s.load.base = s.load.sent
		}
	case message.AckJobExit:
		s.forget(k)
	case message.AckSignalJob:
		s.order(k, agent.Terminate)
	case message.AckSignalSlave:
		s.endSlave(k)
	case message.AckJobReportResend:
		if j := s.jobs[k]; j != nil {
			j.flush, j.patient = true, false
			// sge_execd also leaves it to its timer: the events that it waits for take a while.
			s.later(time.Second)
		}
	}
}

// forget removes a job whose end has arrived.
func (s *session) forget(k key) {
	j := s.jobs[k]
	if j == nil {
		return
	}
	if !j.ended && !j.ghost {
		// qmaster does not know the job, but it runs here: end it.
		s.order(k, agent.Terminate)
		return
	}
	delete(s.jobs, k)
	if j.ghost {
		if j.refused != "" {
			s.failedInstance(j.refused)
		}
		return
	}
	if err := s.commands.AcknowledgeJob(s.ctx, j.id, j.number); err != nil {
		s.log.Error("the end of a job was not acknowledged", "job", j.id.String(), "error", err)
	}
	for _, other := range s.jobs { // a slave job that has waited for its tasks
		if other.slave && other.ended && other.id.Job == j.id.Job {
			other.flush = true
			s.soon()
		}
	}
}

// order gives an order to a job; if the agent is just accepting the job, it does so afterwards.
func (s *session) order(k key, o agent.Order) {
	j := s.jobs[k]
	switch {
	case j == nil || j.ghost || j.ended:
		s.log.Debug("an order for a job that does not run", "job", k.job, "task", k.task, "order", string(o))
	case j.next != nil: // the previous run ends already
		j.next.then = append(j.next.then, o)
	case j.starting:
		j.then = append(j.then, o)
	default:
		s.tell(j, o)
	}
}

// tell gives an order to a job of the agent.
func (s *session) tell(j *jobState, o agent.Order) {
	if err := s.commands.Signal(s.ctx, j.id, o); err != nil {
		s.log.Error("an order was not carried out", "job", j.id.String(), "order", string(o), "error", err)
	}
}

// endSlave ends the parts of a parallel job on this host after the end of its master task: a slave
// job completely, and otherwise the tasks of the job.
func (s *session) endSlave(k key) {
	j := s.jobs[k]
	if j == nil || j.next != nil { // of the previous run, which ends already
		return
	}
	if j.slave {
		if j.ended {
			j.flush = true
			s.soon()
		}
		s.order(k, agent.Kill)
		return
	}
	for other := range s.jobs {
		if other.job == k.job && other.task == k.task && other.pe != "" {
			s.order(other, agent.Kill)
		}
	}
}

// orders are the orders for the signals of qmaster, for jobs and for queues.
var orders = map[uint32]agent.Order{
	message.SignalKill: agent.Terminate, message.SignalStop: agent.Suspend, message.SignalCont: agent.Resume,
	message.SignalUsr1: agent.Usr1, message.SignalUsr2: agent.Usr2, message.SignalMigrate: agent.Migrate,
}

// signal acknowledges a signal, and carries it out.
func (s *session) signal(sig *message.JobSignal, queue bool) {
	ack := message.Acknowledgement{Type: uint32(message.AckSigJob), ID: sig.Job, ID2: sig.Task, Str: sig.Queue}
	if queue {
		ack.Type = uint32(message.AckSigQueue)
	}
	s.send(message.TagAcknowledge, s.codec().EncodeAcknowledgements(ack))
	o, ok := orders[sig.Signal]
	if !ok {
		s.log.Warn("sge_qmaster sent an unknown signal", "signal", sig.Signal)
		return
	}
	if queue {
		s.signalQueue(sig.Queue, o)
		return
	}
	k := key{sig.Job, sig.Task, ""}
	if s.jobs[k] == nil {
		s.ghost(k, "", job.FailedUnknownJob, message.FailureNone, "execd doesn't know this job")
		return
	}
	s.order(k, o)
}

func (s *session) signalQueue(queue string, o agent.Order) {
	name, host := split(queue)
	if host != "" && !s.options.Cell.Names.Same(host, s.options.Host) {
		return
	}
	if o == agent.Suspend || o == agent.Resume {
		if err := s.commands.SignalQueue(s.ctx, name, o); err != nil {
			s.log.Error("an order for a queue was not carried out", "queue", queue, "order", string(o), "error", err)
		}
		return
	}
	for k, j := range s.jobs {
		if q, _ := split(j.report.Queue); q == name && k.pe == "" {
			s.order(k, o)
		}
	}
}

// ghost reports the end of a job that the agent does not have.
func (s *session) ghost(k key, queue string, failed job.Failed, general uint32, text string) {
	id := job.ID{Job: int(k.job), Task: int(k.task), PETask: k.pe}
	s.jobs[k] = &jobState{id: id, ghost: true, ended: true, flush: true, report: message.JobReport{
		Job: k.job, Task: k.task, PETask: k.pe, Queue: queue, State: message.StateExiting,
		Failed: uint32(failed), GeneralFailure: general, Error: text, CkptArena: 1,
	}}
	s.soon()
}

func (s *session) tickets(payload []byte) error {
	list, err := s.codec().DecodeTickets(payload)
	if err != nil {
		return err
	}
	var all []agent.Tickets
	for _, t := range list {
		if j := s.jobs[key{t.Job, t.Task, ""}]; j != nil && !j.ghost {
			all = append(all, agent.Tickets{ID: j.id, Tickets: t.Tickets})
		}
	}
	s.commands.SetTickets(all)
	if s.codec().TicketsAlone() && len(list) > 0 && !s.reprioritize {
		s.reprioritize = true
		s.fetch(func() {})
	}
	return nil
}

// deliver starts a job.
func (s *session) deliver(d *message.Delivery, slave bool) {
	if len(d.Tasks) != 1 {
		s.log.Error("sge_qmaster sent a job without a task", "job", d.Job, "tasks", len(d.Tasks))
		return
	}
	k := key{d.Job, d.Tasks[0].Number, ""}
	if j := s.jobs[k]; j != nil && !j.ghost {
		s.deliverAgain(k, j, &nextRun{delivery: d, slave: slave})
		return
	}
	start, err := startOf(d, slave, s.surroundings())
	if err != nil {
		s.notStarted(k, d, err)
		return
	}
	// There is no other start of this number: repetitions were handled above.
	start.Key = fmt.Sprintf("%d.%d.%d", d.Job, d.Tasks[0].Number, time.Now().UnixNano())
	s.jobs[k] = &jobState{
		id: start.ID, starting: true, delivered: s.clock.Now(), slave: slave, flush: true, restarted: int(d.Tasks[0].Restarted),
		client: d.Type&interactiveTypes != 0 && !slave,
		// qmaster delivers a parallel job after its slave hosts have reported it, and qrsh waits for its job.
		patient: !slave && d.Tasks[0].PE == nil && d.Type&interactiveTypes == 0,
	}
	s.wait.Go(func() {
		select {
		case s.starts <- struct{}{}:
		case <-s.ctx.Done():
			return
		}
		_, err := s.startWhenFree(start)
		<-s.starts
		s.do(func() { s.started(k, d, err) })
	})
}

// deliverAgain handles the delivery of a job that is already here. It is either a repetition,
// because the report of the first one has not arrived, or a later run of the job. qmaster may send
// a later run before it knows that the previous one has ended (qmod -rj); it then ignores reports
// of the previous one.
func (s *session) deliverAgain(k key, j *jobState, next *nextRun) {
	switch {
	case j.next != nil:
		j.next.delivery, j.next.slave = next.delivery, next.slave
	case j.restarted < 0 || int(next.delivery.Tasks[0].Restarted) <= j.restarted:
		j.flush, j.patient = true, false
		s.soon()
	case j.ended:
		j.next = next
		s.succeed(k, j)
	default:
		s.order(k, agent.Kill)
		j.next = next
	}
}

// succeed starts the next run of a job, whose previous one has ended.
func (s *session) succeed(k key, j *jobState) {
	if err := s.commands.AcknowledgeJob(s.ctx, j.id, j.number); err != nil {
		s.log.Error("the end of a job was not acknowledged", "job", j.id.String(), "error", err)
	}
	s.deliverNext(k, j.next)
}

// deliverNext starts the next run of a job, of whose previous one nothing is left.
func (s *session) deliverNext(k key, next *nextRun) {
	delete(s.jobs, k)
	s.deliver(next.delivery, next.slave)
	for _, o := range next.then {
		s.order(k, o)
	}
}

// freePatience is how long a job waits for a previous run of it to be removed, and for the
// agent to take jobs at all.
const freePatience = 30 * time.Second

// startWhenFree starts a job. A previous run of it may not be removed yet.
func (s *session) startWhenFree(start *agent.Start) (agent.JobReport, error) {
	const first, most = 50 * time.Millisecond, 2 * time.Second
	end := s.clock.Now().Add(freePatience)
	for pause := first; ; pause = min(2*pause, most) {
		r, err := s.commands.Start(s.ctx, start)
		e, ok := errors.AsType[*agent.Error](err)
		if !ok || e.Code != agent.AlreadyExists || s.clock.Now().After(end) {
			return r, err
		}
		timer := s.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-s.ctx.Done():
			timer.Stop()
			return r, err
		}
	}
}

// started continues after the agent has accepted or refused a job.
func (s *session) started(k key, d *message.Delivery, err error) {
	j := s.jobs[k]
	if j == nil {
		return
	}
	switch {
	case err != nil && j.next != nil:
		s.log.Warn("a job was not started, and is to run again", "job", j.id.String(), "error", err)
		s.deliverNext(k, j.next)
		return
	case err != nil:
		delete(s.jobs, k)
		s.notStarted(k, d, err)
		if _, host := split(d.Tasks[0].MasterQueue); refusal(err) && s.options.Cell.Names.Same(host, s.options.Host) {
			s.jobs[k].refused = d.Tasks[0].MasterQueue
		}
		return
	}
	j.starting = false
	for _, o := range j.then {
		s.tell(j, o)
	}
	j.then = nil
}

// notStarted tells qmaster that a job was not accepted: a mistake of the job is held
// against it, and a host that has no room, takes no jobs, or does not run the procedures of the
// queue, against the queue.
func (s *session) notStarted(k key, d *message.Delivery, err error) {
	s.log.Error("a job was not started", "job", d.Job, "task", k.task, "error", err)
	general := message.FailureJob
	if e, ok := errors.AsType[*agent.Error](err); ok {
		switch e.Code {
		case agent.ResourceExhausted, agent.Unavailable, agent.Internal, agent.AlreadyExists, agent.PermissionDenied:
			general = message.FailureQueue
		}
	}
	s.ghost(k, d.Tasks[0].MasterQueue, job.FailedBeforeJob, general, err.Error())
}

// split takes a queue instance apart.
func split(instance string) (queue, host string) {
	for i := range len(instance) {
		if instance[i] == '@' {
			return instance[:i], instance[i+1:]
		}
	}
	return instance, ""
}
