package gridengine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/gridengine/munge"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/qconf"
)

// patience is when a test gives up.
const patience = 2 * time.Minute

// commands implements the commands of an agent that runs nothing and stores the arguments of its calls.
type commands struct {
	agent.Commands // what is not expected here panics

	mu      sync.Mutex
	number  uint64
	jobs    map[job.ID]agent.JobReport
	load    *agent.LoadReport
	service *agent.ServiceReport
	changed chan struct{}
	after   uint64 // the last number that was reported
	starts  []*agent.Start
	refuse  error
	hold    chan struct{} // nil, or what a start waits for
	told    chan string
}

// StartTask starts no task, and returns one.
func (c *commands) StartTask(_ context.Context, s *agent.TaskStart) (agent.JobReport, error) {
	id := s.Job
	id.PETask = "1.localhost"
	return agent.JobReport{ID: id}, nil
}

func newCommands() *commands {
	c := &commands{jobs: map[job.ID]agent.JobReport{}, changed: make(chan struct{}), told: make(chan string, 100)}
	c.number = 1
	c.load = &agent.LoadReport{Number: 1, Full: true, Values: []loadsensor.Value{
		{Key: loadsensor.Key{Host: "localhost", Name: "load_avg"}, Text: "0.5"},
		{Key: loadsensor.Key{Host: "localhost", Name: "arch"}, Text: "lx-amd64", Static: true},
	}}
	return c
}

// put changes a job, and has it reported.
func (c *commands) put(r agent.JobReport) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	r.Number = c.number
	c.jobs[r.ID] = r
	close(c.changed)
	c.changed = make(chan struct{})
}

// end ends a job.
func (c *commands) end(id job.ID, status int) {
	c.mu.Lock()
	r := c.jobs[id]
	c.mu.Unlock()
	now := time.Now()
	r.State, r.Outcome = agent.Ended, &job.Outcome{ID: id, Ran: true, ExitStatus: status, Start: now, End: now}
	c.put(r)
}

// serve says whether the host takes jobs, as the agent does.
func (c *commands) serve(draining string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = nil
	if draining != "" {
		c.refuse = &agent.Error{Code: agent.Unavailable, Err: errors.New("the host takes no jobs: " + draining)}
	}
	c.number++
	c.service = &agent.ServiceReport{Number: c.number, Draining: draining}
	close(c.changed)
	c.changed = make(chan struct{})
}

// measure reports a new value of load_avg.
func (c *commands) measure(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	c.load = &agent.LoadReport{Number: c.number, Values: []loadsensor.Value{{Key: loadsensor.Key{Host: "localhost", Name: "load_avg"}, Text: text}}}
	close(c.changed)
	c.changed = make(chan struct{})
}

// measureAll reports these load values, and removes all others.
func (c *commands) measureAll(values map[string]string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	c.load = &agent.LoadReport{Number: c.number, Full: true}
	for name, text := range values {
		c.load.Values = append(c.load.Values, loadsensor.Value{Key: loadsensor.Key{Host: "localhost", Name: name}, Text: text})
	}
	close(c.changed)
	c.changed = make(chan struct{})
}

// taken waits until the link has taken all that there is to report.
func (c *commands) taken(t *testing.T) {
	t.Helper()
	for {
		c.mu.Lock()
		after, number, changed := c.after, c.number, c.changed
		c.mu.Unlock()
		if after >= number {
			return
		}
		select {
		case <-changed:
		case <-time.After(patience):
			t.Fatal("the link does not take reports")
		}
	}
}

func (c *commands) Reports(ctx context.Context, after uint64) (agent.Batch, error) {
	c.mu.Lock()
	c.after = after
	close(c.changed)
	c.changed = make(chan struct{})
	c.mu.Unlock()
	for {
		c.mu.Lock()
		b := agent.Batch{Number: c.number}
		for _, r := range c.jobs {
			if r.Number > after {
				b.Jobs = append(b.Jobs, r)
			}
		}
		if c.load != nil && c.load.Number > after {
			b.Load = c.load
		}
		if c.service != nil && c.service.Number > after {
			b.Service = c.service
		}
		changed := c.changed
		c.mu.Unlock()
		if b.Number > after {
			return b, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return b, ctx.Err()
		}
	}
}

func (c *commands) Start(_ context.Context, s *agent.Start) (agent.JobReport, error) {
	c.mu.Lock()
	err := c.refuse
	c.starts = append(c.starts, s)
	c.mu.Unlock()
	c.told <- fmt.Sprintf("start %s", s.ID)
	if c.hold != nil {
		<-c.hold
	}
	if err != nil {
		return agent.JobReport{}, err
	}
	r := agent.JobReport{ID: s.ID, Key: s.Key, State: agent.Running, Queue: s.Grants[0].Queue, Owner: s.Owner, Slave: s.Slave, Started: time.Now()}
	c.put(r)
	return r, nil
}

func (c *commands) Signal(_ context.Context, id job.ID, o agent.Order) error {
	c.told <- fmt.Sprintf("%s %s", o, id)
	return nil
}

func (c *commands) SignalQueue(_ context.Context, queue string, o agent.Order) error {
	c.told <- fmt.Sprintf("%s queue %s", o, queue)
	return nil
}

func (c *commands) AcknowledgeJob(_ context.Context, id job.ID, _ uint64) error {
	c.mu.Lock()
	delete(c.jobs, id)
	c.mu.Unlock()
	c.told <- fmt.Sprintf("acknowledge %s", id)
	return nil
}

func (c *commands) SetTickets(list []agent.Tickets) {
	text := "tickets"
	for _, t := range list {
		text += fmt.Sprintf(" %s=%v", t.ID, t.Tickets)
	}
	c.told <- text
}

func (c *commands) Shutdown(jobs bool) { c.told <- fmt.Sprintf("shutdown %v", jobs) }

// world is a link and its surroundings; the test is its qmaster.
type world struct {
	*testing.T
	commands  *commands
	cell      *Cell
	link      *Link
	qmaster   net.Listener
	conn      *commlib.Conn
	codec     *message.Codec // of qmaster
	installed chan map[string]string
	stop      context.CancelFunc
	ended     chan error
	listed    []message.Listed        // jobs that qmaster lists on the host
	local     *message.Configuration  // of the host alone; nil for none
	looks     int                     // requests for that
	unread    int                     // first requests in the form of another release
	encrypt   func(net.Conn) net.Conn // by dial; nil for not at all
	munged    string                  // socket of munged, if the cell has security_mode munge
}

// signed gives a message of qmaster a credential, if the cell has security_mode munge.
func (w *world) signed(payload []byte) []byte {
	w.Helper()
	if w.munged == "" {
		return payload
	}
	credential, err := (&munge.Client{Socket: w.munged}).Encode(w.Context(), w.codec.SenderText())
	if err != nil {
		w.Fatal(err)
	}
	return w.codec.WithCredential(payload, credential)
}

// verify checks the credential of a message of the link.
func (w *world) verify(m *commlib.Message) {
	w.Helper()
	if w.munged == "" {
		return
	}
	text, err := message.Credential(m.Payload)
	if err != nil {
		w.Fatal(err)
	}
	c, err := (&munge.Client{Socket: w.munged}).Decode(w.Context(), text)
	if err != nil {
		w.Fatal(err)
	}
	if uid, err := message.SenderUID(c.Text); err != nil || uid != c.UID {
		w.Errorf("the sender says to be %d, %v, and is %d", uid, err, c.UID)
	}
}

func newWorld(t *testing.T, options ...func(*Options)) *world {
	t.Helper()
	root := t.TempDir()
	common := filepath.Join(root, "default", "common")
	if err := os.MkdirAll(common, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{"bootstrap": "admin_user root\nsecurity_mode none\nignore_fqdn true\n", "act_qmaster": "localhost\n"} {
		if err := os.WriteFile(filepath.Join(common, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	w := &world{T: t, codec: &message.Codec{Protocol: message.GridEngine81, Identity: message.Identity{User: "root", Group: "root"}}, commands: newCommands(), qmaster: listen(), installed: make(chan map[string]string, 10), ended: make(chan error, 1)}
	t.Cleanup(func() { w.qmaster.Close() })
	free := listen()
	free.Close()
	var err error
	w.cell, err = OpenCell(func(name string) string {
		return map[string]string{
			"SGE_ROOT": root, "SGE_QMASTER_PORT": fmt.Sprint(w.qmaster.Addr().(*net.TCPAddr).Port),
			"SGE_EXECD_PORT": fmt.Sprint(free.Addr().(*net.TCPAddr).Port),
		}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	cluster := qconf.Builtin(1)
	o := Options{
		Cell: w.cell, Host: "localhost", Cluster: func() *qconf.Cluster { return cluster }, Identity: message.Identity{User: "root", Group: "root"},
		Install: func(files map[string]string) error {
			w.installed <- files
			return nil
		},
		Executable: "/opt/execd", ShellOf: func(string) string { return "/bin/sh" }, Retry: 10 * time.Millisecond,
	}
	for _, set := range options {
		set(&o)
	}
	w.link, err = New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.stop = cancel
	go func() { w.ended <- w.link.Run(ctx, w.commands) }()
	t.Cleanup(func() {
		cancel()
		if w.conn != nil {
			w.conn.Abort()
		}
		select {
		case err := <-w.ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(patience):
			t.Error("the link does not end")
		}
	})
	return w
}

// accept takes the connection of the link.
func (w *world) accept() {
	w.Helper()
	nc, err := w.qmaster.Accept()
	if err != nil {
		w.Fatal(err)
	}
	w.conn, err = commlib.Server(nc, commlib.Options{}, func(r *commlib.ConnectRequest) commlib.ConnectResponse {
		if r.From.Component != commlib.Execd || r.From.ID != 1 || r.Port != w.cell.ExecdPort {
			w.Errorf("the link says to be %+v", r)
		}
		return commlib.ConnectResponse{Condition: commlib.Connected}
	})
	if err != nil {
		w.Fatal(err)
	}
}

// registered accepts the link, registers it, and acknowledges its first report.
func registered(t *testing.T, options ...func(*Options)) *world {
	t.Helper()
	w := newWorld(t, options...)
	w.accept()
	w.register()
	w.full()
	return w
}

// register answers the requests that come first.
func (w *world) register() (again bool) {
	w.Helper()
	for {
		m := w.receive()
		if w.codec.OtherRelease(m.Payload) == nil && w.tag(m) != message.TagGDIRequest {
			w.Fatalf("a message with the tag %d came before the registration", m.Tag)
		}
		r, err := w.codec.DecodeRequest(m.Payload)
		if err != nil { // in the form of another release: sge_qmaster says nothing
			w.unread++
			continue
		}
		if r.Version != versions[w.codec.Name] {
			w.unread++
			w.deny(m, r)
			continue
		}
		w.reply(m, r)
		if r.Command != 1 {
			return r.Command == 0x8002
		}
		<-w.installed
	}
}

// versions are those of the GDI.
var versions = map[string]uint32{"8.1.9": 0x10003001, "9.0": 0x10009000, "9.1": 0x10009100}

// deny answers a request of another version of the GDI, which can be read.
func (w *world) deny(m *commlib.Message, r *message.Request) {
	w.Helper()
	const denied = 21
	r.Answers = []message.Answer{{Status: denied, Text: "denied: client uses newer GDI version"}}
	if _, err := w.conn.Send(w.codec.Number(message.TagGDIRequest), m.ID, w.signed(w.codec.EncodeRequest(r))); err != nil {
		w.Fatal(err)
	}
}

// reply answers a request as qmaster does.
func (w *world) reply(m *commlib.Message, r *message.Request) {
	w.Helper()
	answer := message.Answer{Status: message.StatusOK}
	if r.Command == 1 {
		full := w.codec.ConfigurationRequest("", 0)
		list := []message.Configuration{{Name: "global", Version: 3, Entries: []message.ConfigurationEntry{{Name: "load_report_time", Value: "00:00:40"}}}}
		if w.local != nil {
			list = append(list, *w.local)
		}
		full.Data = configurationList(w.codec, list...)
		r.Data = full.Data
	}
	r.Answers = []message.Answer{answer}
	if _, err := w.conn.Send(w.codec.Number(message.TagGDIRequest), m.ID, w.signed(w.codec.EncodeRequest(r))); err != nil {
		w.Fatal(err)
	}
}

// besides answers what the link asks besides.
func (w *world) besides(m *commlib.Message) bool {
	w.Helper()
	if w.codec.OtherRelease(m.Payload) != nil || w.tag(m) != message.TagGDIRequest {
		return false
	}
	r, err := w.codec.DecodeRequest(m.Payload)
	if err != nil {
		return false
	}
	const jobs, configurations = 5, 10
	switch {
	case r.Target == jobs:
		r.Data = message.ListOf(w.codec, w.listed)
	case r.Target == configurations && r.Condition != nil && r.Condition.Operator == message.OperatorHost:
		w.looks++
		r.Data = nil
		if w.local != nil {
			r.Data = configurationList(w.codec, *w.local)
		}
	default:
		return false
	}
	r.Answers = []message.Answer{{Status: message.StatusOK}}
	if _, err := w.conn.Send(w.codec.Number(message.TagGDIRequest), m.ID, w.signed(w.codec.EncodeRequest(r))); err != nil {
		w.Fatal(err)
	}
	return true
}

// receive returns the next message, except for what the link asks besides.
func (w *world) receive() *commlib.Message {
	w.Helper()
	for {
		if m := w.next(); !w.besides(m) {
			return m
		}
	}
}

func (w *world) next() *commlib.Message {
	w.Helper()
	type received struct {
		m   *commlib.Message
		err error
	}
	c := make(chan received, 1)
	go func() {
		m, err := w.conn.Receive()
		c <- received{m, err}
	}()
	select {
	case r := <-c:
		if r.err != nil {
			w.Fatalf("the connection has ended: %v", r.err)
		}
		w.verify(r.m)
		return r.m
	case <-time.After(patience):
		w.Fatal("no message comes")
		return nil
	}
}

// report returns the next report.
func (w *world) report() *message.Report {
	w.Helper()
	for {
		m := w.receive()
		if w.tag(m) != message.TagReport {
			continue
		}
		r, err := w.codec.DecodeReport(m.Payload)
		if err != nil {
			w.Fatal(err)
		}
		if r.Load != nil {
			w.send(message.TagAcknowledge, w.codec.EncodeAcknowledgements(message.Acknowledgement{Type: uint32(message.AckLoadReport), ID: r.Sequence}))
		}
		return r
	}
}

// full returns the next report of all load values.
func (w *world) full() *message.Report {
	w.Helper()
	for {
		if r := w.report(); r.Load != nil && r.Load.Full {
			return r
		}
	}
}

// jobReport returns the next report of a job in a state.
func (w *world) jobReport(number uint32, state uint32) message.JobReport {
	w.Helper()
	for {
		for _, j := range w.report().Jobs {
			if j.Job == number && j.State == state {
				return j
			}
		}
	}
}

// tag returns the tag of a message of the link.
func (w *world) tag(m *commlib.Message) message.Tag {
	tag, _ := w.codec.Tag(m.Tag)
	return tag
}

func (w *world) send(tag message.Tag, payload []byte) {
	w.Helper()
	if _, err := w.conn.Send(w.codec.Number(tag), 0, w.signed(payload)); err != nil {
		w.Fatal(err)
	}
}

// told waits for the agent to be told something.
func (w *world) told(want string) {
	w.Helper()
	select {
	case got := <-w.commands.told:
		if got != want {
			w.Fatalf("the agent was told %q, want %q", got, want)
		}
	case <-time.After(patience):
		w.Fatalf("the agent was not told %q", want)
	}
}

// acknowledged waits until the link says that something has arrived.
func (w *world) acknowledged(kind message.AckType, number uint32) {
	w.Helper()
	for {
		m := w.receive()
		if w.tag(m) == message.TagReport {
			continue
		}
		list, err := w.codec.DecodeAcknowledgements(m.Payload)
		if err != nil || len(list) != 1 || message.AckType(list[0].Type) != kind || list[0].ID != number {
			w.Errorf("it was answered with %+v, %v", list, err)
		}
		return
	}
}

// quiet checks that the agent got no further command.
func (w *world) quiet() {
	w.Helper()
	select {
	case got := <-w.commands.told:
		w.Errorf("the agent was told %q", got)
	default:
	}
}

// dial opens a connection with the port of the daemon.
func (w *world) dial(from commlib.Endpoint) (*commlib.Conn, error) {
	nc, err := net.Dial("tcp", fmt.Sprintf("127.0.0.1:%d", w.cell.ExecdPort))
	if err != nil {
		return nil, err
	}
	w.Cleanup(func() { nc.Close() })
	if w.encrypt != nil {
		nc = w.encrypt(nc)
	}
	conn, _, err := commlib.Client(w.Context(), nc, &commlib.ConnectRequest{
		Format: commlib.Binary, Type: commlib.ConnectMessages, From: from, To: commlib.Endpoint{Host: "localhost", Component: commlib.Execd, ID: 1},
	}, commlib.Options{})
	return conn, err
}

// reportsUntil are the messages up to the report that a job runs.
func (w *world) reportsUntil(number uint32) func(yield func(*commlib.Message) bool) {
	return func(yield func(*commlib.Message) bool) {
		for {
			m := w.receive()
			if !yield(m) {
				return
			}
			if w.tag(m) != message.TagReport {
				continue
			}
			r, err := w.codec.DecodeReport(m.Payload)
			if err != nil {
				w.Fatal(err)
			}
			if slices.ContainsFunc(r.Jobs, func(j message.JobReport) bool { return j.Job == number }) {
				return
			}
		}
	}
}

// jobOf returns a running job.
func jobOf(number int) agent.JobReport {
	return agent.JobReport{ID: job.ID{Job: number}, Queue: "all.q", State: agent.Running, Owner: "alice", Started: time.Now()}
}
