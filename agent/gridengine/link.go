package gridengine

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/commlib"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/agent/gridengine/pinned"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/qconf"
)

// Options are the settings of a link.
type Options struct {
	Cell *Cell
	Host string // the announced name of this host, see Cell.OwnName
	// Cluster is the configuration in use.
	Cluster func() *qconf.Cluster
	// Install has the files of a configuration directory (qconf.Load) used from now on,
	// and after a restart.
	Install    func(files map[string]string) error
	BinaryPath string // directory of execd's executables
	Executable string // path of execd, which users can run
	// ShellOf returns the login shell of a user, or "" if it is unknown.
	ShellOf func(user string) string
	// Topology returns the load value m_topology in the form of topology.Topology.Tree; nil for the usual form.
	Topology func() (string, error)
	// Identity is the identity of this daemon for sge_qmaster.
	Identity message.Identity
	// UserOf returns the name of a user, or "" if it is unknown. Only security_mode munge needs it.
	UserOf func(uid uint32) string
	// MungeSocket is the socket of munged(8); empty for the default. Only security_mode munge uses it.
	MungeSocket string
	// KeyDirectory has the key of this daemon; empty for the directory that sge_execd uses. Only
	// security_mode tls uses it.
	KeyDirectory string
	// Protocol is the protocol of sge_qmaster. If it is nil, the link finds it out.
	Protocol *message.Protocol
	// Release keeps the release that the link has recognised last, for the next start; nil for none.
	Release Memory
	Log     hclog.Logger
	// GPUComplex is the consumable with which sge_qmaster counts the GPUs of this host; empty if the
	// agent does not give jobs GPUs.
	GPUComplex string
	// Limited reports whether the host limits the procedures of its master; nil means never.
	// Without limits the link trusts procedures of the cell's admin user as it trusts root's.
	Limited func() bool
	// Retry is the longest pause between two attempts to connect; 0 is 30 s.
	Retry time.Duration
	// FirstAnswer is how long sge_qmaster may take for its first answer in each form, before the next
	// one is tried; 0 is 3 s.
	FirstAnswer time.Duration
	// ClientPause is the delay of the report of an interactive job's end; 0 means 2 s. The client
	// asks qmaster for the job after its command has ended, and takes a missing job for one that
	// never ran. sge_execd needs about the same time to notice the end.
	ClientPause time.Duration
	// Look is how often the link looks for a configuration of this host alone; 0 is
	// load_report_time, after which sge_qmaster also names other changes of configurations.
	Look time.Duration
	// Clock is nil for that of the machine.
	Clock clock.Clock
}

// Memory keeps a word over restarts of the daemon.
type Memory interface {
	Read() (string, error)
	Write(word string) error
}

// adminUser returns the user of the cell whose procedures are trusted; empty for none.
func (o *Options) adminUser() string {
	if o.Limited != nil && o.Limited() {
		return ""
	}
	return o.Cell.AdminUser
}

// Link is the way to an sge_qmaster. Make one with New.
type Link struct {
	options  Options
	log      hclog.Logger
	clock    clock.Clock
	listener net.Listener
	own      *pinned.Own  // certificate; nil unless the cell has security_mode tls
	turns    atomic.Int64 // of session.loop, for tests
	expected *message.Protocol
}

var _ agent.Link = (*Link)(nil)

// New opens the port on which qmaster and qrsh -inherit reach the daemon of this host.
func New(o Options) (*Link, error) {
	l := &Link{options: o, log: o.Log, clock: o.Clock}
	if l.clock == nil {
		l.clock = clock.System()
	}
	if l.log == nil {
		l.log = hclog.NewNullLogger()
	}
	if err := l.options.checkSecurity(); err != nil {
		return nil, err
	}
	if l.options.Retry == 0 {
		l.options.Retry = 30 * time.Second
	}
	if l.options.ClientPause == 0 {
		l.options.ClientPause = 2 * time.Second
	}
	if err := l.certify(); err != nil {
		return nil, err
	}
	l.expected = l.options.expected() // here: the cell may be on a file system that hangs later
	var err error
	l.listener, err = net.Listen("tcp", fmt.Sprintf(":%d", o.Cell.ExecdPort))
	if err != nil {
		return nil, fmt.Errorf("cannot listen on the port of execution daemons: %w; stop the sge_execd of this host first (qconf -ke %s)", err, o.Host)
	}
	return l, nil
}

// Close gives back the port of a link that has not been run.
func (l *Link) Close() { l.listener.Close() }

// Name returns "gridengine".
func (l *Link) Name() string { return "gridengine" }

// session is one run of a link. Its fields belong to the goroutine of loop; other goroutines send
// it functions to run.
type session struct {
	*Link
	ctx        context.Context
	commands   agent.Commands
	events     chan func()
	wait       sync.WaitGroup
	guests     guests
	spared     spared // of the goroutine that accepts
	complaints complaints
	starts     chan struct{} // bounds jobs that are being accepted
	clients    atomic.Int64

	conn        *commlib.Conn
	dialing     bool
	retry       time.Duration       // the next pause before dialling or registering again
	pending     map[uint32]question // whose answers are awaited, by the id of the request
	recognition                     // of the release of sge_qmaster
	deadline    time.Time           // of the first of them
	packet      uint32
	registered  bool // on this connection
	before      bool // in this process
	troubled    string

	configurations []message.Configuration // in use, without entries
	interval       time.Duration           // load_report_time
	reprioritize   bool                    // sge_qmaster has sent tickets, and Protocol.TicketsAlone
	load           load
	service        service
	reported       bool // the agent has reported its jobs
	surveyed       bool // sge_qmaster was asked for jobs of this host, on this connection
	lookAt         time.Time
	jobs           map[key]*jobState
	queues         queues // of the jobs
	sequence       uint32
	silent         time.Time // when the first load report was sent that was not acknowledged
	next           time.Time
	licensed       bool
	lastAll        time.Time // when everything was reported
	startsSent     time.Time // when starts were reported last
	endsSent       time.Time // when ends were reported last
}

// load holds the current load values, and the values that qmaster knows.
type load struct {
	values map[loadsensor.Key]loadsensor.Value // nil before the first report
	base   map[loadsensor.Key]loadsensor.Value // acknowledged; nil for nothing
	sent   map[loadsensor.Key]loadsensor.Value
	number uint32 // of the report in which they were sent
	due    bool   // there are new values

	// tree is m_topology in its other form, while the usual one is treeOf.
	tree, treeOf string
	treeless     bool // the last try to read it has failed, and the log says so
}

// answerPatience is how long an answer to a request may take (gdi_timeout of
// sge_conf(5)).
const answerPatience = 60 * time.Second

// silence is the time without messages after which qmaster is asked for its status.
const silence = 150 * time.Second

// Run serves the link until the context ends.
func (l *Link) Run(ctx context.Context, c agent.Commands) error {
	s := &session{
		Link: l, ctx: ctx, commands: c, events: make(chan func(), 16), starts: make(chan struct{}, 16),
		pending: map[uint32]question{}, jobs: map[key]*jobState{}, interval: loadsensor.DefaultInterval,
		retry: firstRetry,
	}
	s.current.Store(s.in(l.expected))
	s.identified = make(chan struct{})
	s.remembered = l.options.remembered()
	stop := context.AfterFunc(ctx, func() { l.listener.Close() })
	defer stop()
	s.interval = s.loadInterval()
	s.wait.Go(s.accept)
	s.wait.Go(s.renew)
	s.wait.Go(s.follow)
	s.loop()
	s.wait.Wait()
	return nil
}

// do runs a function in the goroutine of loop. It reports false if the session has ended before.
func (s *session) do(f func()) bool {
	select {
	case s.events <- f:
		return true
	case <-s.ctx.Done():
		return false
	}
}

// after runs a function in the goroutine of loop after a pause, unless the session has ended by
// then.
func (s *session) after(pause time.Duration, f func()) {
	s.wait.Go(func() {
		timer := s.clock.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C():
			s.do(f)
		case <-s.ctx.Done():
		}
	})
}

// loop does one thing after the other.
func (s *session) loop() {
	s.dial()
	for {
		s.turns.Add(1)
		wakeup, stop := s.wakeup()
		select {
		case f := <-s.events:
			f()
		case <-wakeup:
		case <-s.ctx.Done():
			stop()
			s.goodbye()
			return
		}
		stop()
		s.tick(s.clock.Now())
	}
}

// goodbye closes the connection in order, unless qmaster takes too long for that.
func (s *session) goodbye() {
	if s.conn == nil {
		return
	}
	const patience = 2 * time.Second
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.conn.Close(ctx)
}

// wakeup returns a channel that fires when tick has work to do. It does not fire if tick only waits
// for other events.
func (s *session) wakeup() (fires <-chan time.Time, stop func()) {
	at := s.reportDue()
	for _, other := range []time.Time{s.deadline, s.lookDue()} {
		if !other.IsZero() && (at.IsZero() || other.Before(at)) {
			at = other
		}
	}
	if at.IsZero() {
		return nil, func() {}
	}
	timer := s.clock.NewTimer(at.Sub(s.clock.Now()))
	return timer.C(), timer.Stop
}

// reportDue returns the time of the next report. It is zero if there is none to send; until qmaster
// has registered this host, all reports wait.
func (s *session) reportDue() time.Time {
	if !s.registered {
		return time.Time{}
	}
	return s.next
}

// tick carries out the actions that are due. Each action moves or clears its own due time.
func (s *session) tick(now time.Time) {
	if !s.deadline.IsZero() && !now.Before(s.deadline) {
		s.unanswered(now)
	}
	if due := s.reportDue(); !due.IsZero() && !now.Before(due) {
		s.report(now)
	}
	if due := s.lookDue(); !due.IsZero() && !now.Before(due) {
		s.look(now)
	}
}

// trouble logs a problem of the connection once.
func (s *session) trouble(text string) {
	if s.troubled != text {
		s.troubled = text
		s.log.Error("no connection with sge_qmaster", "reason", text)
	}
}

// dial connects to qmaster in the background, unless there is a connection.
func (s *session) dial() {
	if s.conn != nil || s.dialing || s.ctx.Err() != nil {
		return
	}
	s.dialing = true
	s.wait.Go(func() {
		conn, master, err := s.connect()
		taken := s.do(func() {
			s.dialing = false
			switch {
			case err != nil:
				s.trouble(advice(err, master, s.options.Host))
				s.again()
			case s.conn != nil: // it has connected meanwhile
				conn.Abort()
			default:
				s.use(conn)
			}
		})
		if !taken && conn != nil {
			conn.Abort()
		}
	})
}

// firstRetry is the shortest pause before another attempt to connect or to register, unless the
// previous connection has worked.
const firstRetry = time.Second

// pause returns the time to wait before the next attempt to connect, and doubles it for the attempt
// that follows, up to options.Retry.
func (s *session) pause() time.Duration {
	pause := min(s.retry, s.options.Retry)
	s.retry = min(max(2*s.retry, firstRetry), s.options.Retry)
	return pause
}

// worked notes that the connection has carried messages: when it is lost, the first attempt to connect
// again needs no pause. A connection alone proves little, because a qmaster that is about to end
// accepts connections, too.
func (s *session) worked() { s.retry = 0 }

// again dials after a pause.
func (s *session) again() { s.after(s.pause(), s.dial) }

func (s *session) connect() (*commlib.Conn, string, error) {
	master, err := s.options.Cell.Master()
	if err != nil {
		return nil, "", err
	}
	const patience = 60 * time.Second
	ctx, cancel := context.WithTimeout(s.ctx, patience)
	defer cancel()
	dialer := net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true}}
	nc, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(master, fmt.Sprint(s.options.Cell.QmasterPort)))
	if err != nil {
		return nil, master, err
	}
	if nc, err = s.encrypt(nc, master); err != nil {
		return nil, master, err
	}
	conn, _, err := commlib.Client(ctx, nc, &commlib.ConnectRequest{
		Format: commlib.Binary, Type: commlib.ConnectMessages, To: qmasterOn(master), From: s.self(),
		Port: s.options.Cell.ExecdPort, AutoClose: true,
	}, commlib.Options{Silence: silence})
	return conn, master, err
}

func (s *session) self() commlib.Endpoint {
	return commlib.Endpoint{Host: s.options.Host, Component: commlib.Execd, ID: 1}
}

// advice returns the remedy for a connection error.
func advice(err error, master, host string) string {
	text := err.Error()
	refused, ok := errors.AsType[*commlib.RefusedError](err)
	switch {
	case ok && refused.Condition == commlib.NotUnique:
		return text + ": another execution daemon of this host is connected; end it (qconf -ke " + host + "), or wait until sge_qmaster has noticed that it is gone"
	case ok && refused.Condition == commlib.AccessDenied:
		return text + ": " + master + " has to resolve the address of this host to the name " + host +
			", which is how we announce ourselves: compare /etc/hosts, DNS and host_aliases of both, or give the name with --host"
	}
	return text
}

// use switches to a new connection.
func (s *session) use(conn *commlib.Conn) {
	s.conn, s.registered, s.surveyed = conn, false, false
	clear(s.pending)
	s.deadline, s.load.base = time.Time{}, nil
	s.log.Info("connected with sge_qmaster", "host", conn.Peer.Host, "opened by it", conn.Accepted)
	s.wait.Go(func() {
		for {
			m, err := conn.Receive()
			if err != nil {
				s.do(func() { s.lost(conn, err) })
				return
			}
			if err := s.checkMaster(m.Payload); err != nil {
				s.complain("a message of sge_qmaster was refused", "tag", m.Tag, "error", err)
				continue
			}
			s.do(func() {
				if s.conn == conn {
					s.receive(m)
				}
			})
		}
	})
	s.recognise()
}

// lost handles the loss of a connection.
func (s *session) lost(conn *commlib.Conn, err error) {
	if s.conn != conn {
		return
	}
	s.conn, s.registered, s.deadline = nil, false, time.Time{}
	clear(s.pending)
	s.log.Warn("the connection with sge_qmaster was lost; jobs continue", "reason", err)
	s.again()
}

// send sends a message. If it does not arrive, its content is sent again after the next
// registration.
func (s *session) send(tag message.Tag, payload []byte) uint32 {
	return s.sendIn(s.codec(), tag, payload)
}

// sendIn sends a message in a form.
func (s *session) sendIn(codec *message.Codec, tag message.Tag, payload []byte) uint32 {
	if s.conn == nil {
		return 0
	}
	payload, err := s.sign(codec, payload)
	if err != nil {
		s.complain("a message to sge_qmaster was not sent", "tag", tag, "error", err)
		return 0
	}
	id, err := s.conn.Send(codec.Number(tag), 0, payload)
	if err != nil {
		s.log.Debug("a message was not sent", "tag", tag, "error", err)
		return 0
	}
	return id
}

// ask sends a request; answer handles its answer.
func (s *session) ask(r *message.Request, answer func(*message.Request)) {
	s.askIn(s.codec(), r, answer)
}

// askIn sends a request in a form.
func (s *session) askIn(codec *message.Codec, r *message.Request, answer func(*message.Request)) {
	id := s.sendIn(codec, message.TagGDIRequest, codec.EncodeRequest(r))
	if id == 0 {
		return
	}
	s.pending[id] = question{codec, answer}
	if s.deadline.IsZero() {
		s.deadline = s.clock.Now().Add(answerPatience)
	}
}

// question is a request whose answer is awaited.
type question struct {
	codec  *message.Codec // the codec of the request
	answer func(*message.Request)
}

func (s *session) number() uint32 {
	s.packet++
	return s.packet
}

// register registers this host with qmaster, and then sends a full report.
func (s *session) register() {
	s.ask(s.codec().RegistrationRequest(s.number(), s.before), func(r *message.Request) {
		if f := r.Failure(); f != nil {
			s.refused("registration", f)
			return
		}
		s.log.Info("registered with sge_qmaster", "host", s.options.Host)
		s.registered, s.before, s.troubled = true, true, ""
		// The report numbers continue: a report of the previous connection may arrive after the registration.
		s.load.base, s.silent = nil, time.Time{}
		for _, j := range s.jobs {
			j.flush = true
		}
		s.full()
		s.clearErrors()
		s.survey()
		s.lookAt = s.clock.Now().Add(s.lookPause())
	})
}

// full makes the next report contain everything, and sends it as soon as the load of this host is
// available.
func (s *session) full() {
	s.load.base = nil
	if s.load.values != nil {
		s.next = s.clock.Now()
	}
}

// refused handles a refusal by qmaster: the session tries again after a pause.
func (s *session) refused(what string, a *message.Answer) {
	text := a.Message()
	const denied = 8
	if a.Status == denied {
		text += fmt.Sprintf("; make this host an administrative host: qconf -ah %s", s.options.Host)
	}
	s.trouble(what + " refused: " + text)
	conn := s.conn
	s.after(s.pause(), func() {
		if s.conn == conn && conn != nil {
			s.fetch(s.register)
		}
	})
}

// fetch gets the configuration, and then calls then.
func (s *session) fetch(then func()) {
	s.ask(s.codec().ConfigurationRequest(s.options.Host, s.number()), s.configured(false, then))
}

// configured returns the handler that applies the configuration in an answer and then calls then.
// If everybody is true, the answer may contain the configurations of all hosts.
func (s *session) configured(everybody bool, then func()) func(*message.Request) {
	return func(r *message.Request) {
		if f := r.Failure(); f != nil {
			s.refused("the configuration was", f)
			return
		}
		list, err := s.codec().Configurations(r)
		if err == nil {
			others := func(c message.Configuration) bool {
				return everybody && c.Name != globalName && !s.options.Cell.Names.Same(c.Name, s.options.Host)
			}
			err = s.configure(slices.DeleteFunc(list, others))
		}
		if err != nil { // the previous one stays in use
			s.log.Error("the configuration of sge_qmaster cannot be used", "error", err)
		}
		then()
	}
}

// configure applies a received configuration.
func (s *session) configure(list []message.Configuration) error {
	// Also for an unusable one, because otherwise sge_qmaster would send it again and again.
	former := s.configurations
	s.configurations = []message.Configuration{}
	for _, c := range list {
		s.configurations = append(s.configurations, message.Configuration{Name: c.Name, Version: c.Version})
	}
	if s.reprioritize {
		for i := range list {
			if list[i].Name == globalName {
				list[i].Entries = append(slices.Clone(list[i].Entries), message.ConfigurationEntry{Name: "reprioritize", Value: "1"})
			}
		}
	}
	var unusable []error // one invalid value must not prevent the use of the others
	files, err := configurationFiles(list, func(name, value string) bool {
		if !qconf.IsConfigurationAttribute(name) {
			return false
		}
		_, err := qconf.ParseConfiguration("configuration", []byte(name+" "+value+"\n"))
		if err != nil {
			unusable = append(unusable, err)
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if err := s.options.Install(files); err != nil {
		return err
	}
	s.interval = s.loadInterval()
	if versions := versionsOf(s.configurations); versions != versionsOf(former) {
		s.log.Info("the configuration of sge_qmaster is used", "versions", versions)
		for _, err := range unusable {
			s.log.Error("a parameter of the configuration cannot be used: its default applies", "error", err)
		}
	}
	return nil
}

// versionsOf are the names of configurations and how often each has been changed.
func versionsOf(list []message.Configuration) string {
	var words []string
	for _, c := range list {
		words = append(words, fmt.Sprintf("%s %d", c.Name, c.Version))
	}
	return strings.Join(words, ", ")
}

func (s *session) loadInterval() time.Duration {
	if d := s.options.Cluster().Config(s.options.Host).LoadReportTime; d > 0 {
		return d
	}
	return loadsensor.DefaultInterval
}

func (s *session) surroundings() *surroundings {
	return &surroundings{
		host: s.options.Host, same: s.options.Cell.Names.Same, config: s.options.Cluster().Config(s.options.Host),
		sgeRoot: s.options.Cell.Root, sgeCell: s.options.Cell.Name, binaryPath: s.options.BinaryPath, arch: job.Arch(runtime.GOARCH),
		execd: s.options.Executable, shellOf: s.options.ShellOf, adminUser: s.options.adminUser(),
		gpuComplex: s.options.GPUComplex, security: s.options.Cell.Security, queues: &s.queues,
	}
}

// follow passes on the agent's reports.
func (s *session) follow() {
	after := uint64(0)
	for s.ctx.Err() == nil {
		b, err := s.commands.Reports(s.ctx, after)
		if err != nil {
			if s.ctx.Err() == nil {
				s.log.Error("cannot get the reports of the agent", "error", err)
				return
			}
			continue
		}
		after = b.Number
		s.do(func() { s.take(&b) })
	}
}

// jobState is the link's state of a job.
type jobState struct {
	id     job.ID
	report message.JobReport
	number uint64 // of the agent's report; 0 if the agent does not know the job
	slave  bool
	ended  bool
	flush  bool // report it at once
	told   bool // sge_qmaster has got a report of it
	// patient says that neither sge_qmaster nor a user waits for the report of its start: see startDue.
	patient   bool
	delivered time.Time // when a patient job was delivered
	began     bool
	ghost     bool // the agent does not have it
	// refused is the queue instance that the end of a ghost puts into error state since the
	// host takes no jobs; empty for none.
	refused string
	client  bool // it has a client that asks for it after its end
	// starting says that the agent has been asked to accept it; then holds the orders to give it
	// afterwards.
	starting bool
	then     []agent.Order
	// restarted is how often the job had been restarted when it was delivered here; -1 if that is
	// unknown. next is a later run of it that arrived before the end of this one.
	restarted int
	next      *nextRun
}

// nextRun is a run of a job that waits for the end of the previous one.
type nextRun struct {
	delivery *message.Delivery
	slave    bool          // of a parallel job whose master is elsewhere
	then     []agent.Order // orders to give as soon as the agent has accepted it
}
