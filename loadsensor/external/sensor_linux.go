package external

import (
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/program"
	"github.com/execd-project/execd/loadsensor/protocol"
)

// Config says what runs and how. Zero times stand for the defaults.
type Config struct {
	Path string // an absolute path, without arguments
	// User is looked up for every start, which may take its time where the users are
	// in a directory. Empty for As.
	User string
	As   *program.Identity // nil, and no User, for whoever this process is
	// AsRoot allows a sensor that runs as root. The original runs all as root where
	// /bin/sh keeps effective ids, as bash and dash do not.
	AsRoot bool
	Host   string   // name of this host, for HOST
	Dir    string   // where it runs; empty for /
	Env    []string // beside PATH, HOST, HOME, USER, LOGNAME and SHELL, e.g. SGE_ROOT

	Timeout    time.Duration // for an answer
	Grace      time.Duration // from "quit" to SIGKILL
	BackoffMin time.Duration // pause before a start after a fault; doubled each time
	BackoffMax time.Duration
	Settle     time.Duration // for how long a changed file must stay as it is

	Watcher *Watcher // nil to see changes of the file by its time alone
	Clock   clock.Clock
	// Notify is told what happens, in order, from the sensor's goroutine. It must not
	// wait.
	Notify func(Event)
}

// The defaults of Config.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultGrace      = 10 * time.Second // as in the original
	DefaultBackoffMin = 5 * time.Second
	DefaultBackoffMax = 5 * time.Minute
	DefaultSettle     = time.Second

	// maxOutput bounds what a sensor may write between two requests, to both outputs.
	maxOutput = 4 << 20
	// maxWrong bounds how many lines may be wrong between two requests: each costs time.
	maxWrong = 2 * protocol.MaxValues
	// unkillable is how long a process may take to end after SIGKILL until that is told.
	unkillable = 5 * time.Second
)

func (c *Config) defaults() {
	for _, d := range []struct {
		v *time.Duration
		d time.Duration
	}{
		{&c.Timeout, DefaultTimeout},
		{&c.Grace, DefaultGrace},
		{&c.BackoffMin, DefaultBackoffMin},
		{&c.BackoffMax, DefaultBackoffMax},
		{&c.Settle, DefaultSettle},
	} {
		if *d.v <= 0 {
			*d.v = d.d
		}
	}
	if c.Dir == "" {
		c.Dir = "/"
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.As == nil && c.User == "" {
		id := program.Own()
		c.As = &id
	}
}

// environment has nothing of ours: what we were started with is not the sensor's
// business, and numbers are written with a point where no locale is set.
func (c *Config) environment() []string {
	env := []string{"PATH=" + program.SearchPath, "SHELL=/bin/sh", "HOST=" + c.Host, "HOME=" + c.As.Home}
	if c.As.Name != "" {
		env = append(env, "USER="+c.As.Name, "LOGNAME="+c.As.Name)
	}
	return append(env, c.Env...)
}

// Sensor is one load sensor.
type Sensor struct {
	config   Config
	changed  chan struct{} // the file may be another
	wake     chan struct{} // somebody asks
	stop     chan struct{}
	done     chan struct{}
	stopOnce sync.Once

	mu     sync.Mutex
	answer chan struct{} // closed when what was asked is answered; nil if nobody asks
	status Status
	values []protocol.Value

	// Of the goroutine alone.
	stamp    stamp
	failures int
	stderr   stderrLines
	told     int // since the last request
}

// stamp tells one content of the file from another.
type stamp struct {
	mtime    time.Time
	size     int64
	dev, ino uint64
}

// Start starts a sensor, and it is asked for its first report. It must be stopped.
func Start(config Config) *Sensor {
	config.defaults()
	s := &Sensor{
		config: config, changed: make(chan struct{}, 1), wake: make(chan struct{}, 1),
		stop: make(chan struct{}), done: make(chan struct{}),
	}
	user := config.User
	if user == "" {
		user = config.As.Name
	}
	s.status = Status{Path: config.Path, User: user, State: Waiting, Since: config.Clock.Now()}
	s.answer = make(chan struct{})
	go s.run()
	return s
}

// Ask asks for a report. The channel is closed when it has come, or when it cannot be
// expected soon: Latest has what there is then. Who asks while a report is owed
// waits for that one.
func (s *Sensor) Ask() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer == nil {
		s.answer = make(chan struct{})
	}
	answer := s.answer
	select {
	case <-s.done:
		close(s.answer)
		s.answer = nil
	default:
	}
	poke(s.wake)
	return answer
}

// FileChanged says that the file may have changed. A Watcher calls it.
func (s *Sensor) FileChanged() { poke(s.changed) }

// Latest returns the last whole report and when it came; the zero time if there was none.
// The values must not be written to.
func (s *Sensor) Latest() ([]protocol.Value, time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.values, s.status.LastReport
}

// Status returns the status of the sensor.
func (s *Sensor) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.LastViolations, st.Stderr = slices.Clone(st.LastViolations), slices.Clone(st.Stderr)
	return st
}

// Stop has the sensor end. Done says when it has.
func (s *Sensor) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }

// Done is closed when the sensor was stopped and its process has ended, or cannot be
// ended by any means.
func (s *Sensor) Done() <-chan struct{} { return s.done }

// run is the goroutine of the sensor.
func (s *Sensor) run() {
	defer s.release()
	defer close(s.done)
	defer func() { s.enter(Ended, 0) }()
	if w := s.config.Watcher; w != nil {
		defer w.remove(s)
	}
	for s.pause() {
		p, err := s.start()
		if err != nil {
			s.fail(CannotStart, "cannot start the load sensor: "+err.Error(), 0)
			continue
		}
		if v, why := s.serve(p); s.end(p, v, why) {
			return
		}
	}
}

// pause waits until the sensor may be started; not at all after no fault. It returns
// false when it should not be.
func (s *Sensor) pause() bool {
	wait := s.backoff()
	for {
		s.enter(Waiting, wait)
		if wait <= 0 {
			select {
			case <-s.stop:
				return false
			default:
				return true
			}
		}
		s.release()
		timer := s.config.Clock.NewTimer(wait)
		select {
		case <-s.stop:
			timer.Stop()
			return false
		case <-timer.C():
			return true
		case <-s.wake:
		case <-s.changed:
		}
		timer.Stop()
		if now, ok := s.look(); ok && now != s.stamp {
			s.stamp, s.failures, wait = now, 0, s.config.Settle
			s.notify(Event{Kind: Changed, Text: "the load sensor's file has changed"})
			continue
		}
		wait = s.Status().NextStart.Sub(s.config.Clock.Now())
	}
}

func (s *Sensor) backoff() time.Duration {
	if s.failures == 0 {
		return 0
	}
	wait := s.config.BackoffMin
	for i := 1; i < s.failures && wait < s.config.BackoffMax; i++ {
		wait *= 2
	}
	return min(wait, s.config.BackoffMax)
}

func (s *Sensor) start() (*process, error) {
	if w := s.config.Watcher; w != nil {
		s.update(func(st *Status) { st.Unwatched = "" })
		if err := w.add(s.config.Path, s); err != nil {
			s.update(func(st *Status) { st.Unwatched = err.Error() })
		}
	}
	s.stamp, _ = s.look()
	if s.config.User != "" {
		id, err := program.Lookup(s.config.User)
		if err != nil {
			return nil, err
		}
		if id.Credential() == nil && id.UID != uint32(os.Geteuid()) {
			return nil, fmt.Errorf("it is to run as %q, and only root can change to that user", s.config.User)
		}
		s.config.As = &id
	}
	if s.config.As.Credential() != nil && s.config.As.UID == 0 && !s.config.AsRoot {
		return nil, fmt.Errorf("%q would run as root, and no user is configured", s.config.Path)
	}
	exposed, err := s.config.As.Trusted(s.config.Path)
	if err != nil {
		return nil, fmt.Errorf("it is not run as user %s: %w", s.config.As.Name, err)
	}
	s.update(func(st *Status) { st.Exposed = exposed })
	p, err := spawn(&s.config)
	if err != nil {
		return nil, err
	}
	s.update(func(st *Status) { st.Starts, st.PID = st.Starts+1, p.pid })
	s.notify(Event{Kind: Started, PID: p.pid, Text: fmt.Sprintf("the load sensor runs as process %d", p.pid)})
	return p, nil
}

// look reads the stamp of the file. A file that cannot be seen is no other: the file
// server may be away.
func (s *Sensor) look() (stamp, bool) {
	info, err := os.Stat(s.config.Path)
	if err != nil {
		return stamp{}, false
	}
	return stampOf(info), true
}

func stampOf(info fs.FileInfo) stamp {
	at := stamp{mtime: info.ModTime(), size: info.Size()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		at.dev, at.ino = st.Dev, st.Ino
	}
	return at
}

// fail notes a fault, for which the next start waits.
func (s *Sensor) fail(kind Kind, text string, pid int) {
	s.failures++
	s.update(func(st *Status) { st.Fault = text })
	s.notify(Event{Kind: kind, Text: text, PID: pid})
}

// enter is the only place where the state changes.
func (s *Sensor) enter(state State, wait time.Duration) {
	now := s.config.Clock.Now()
	s.update(func(st *Status) {
		if st.State != state {
			st.State, st.Since = state, now
		}
		st.NextStart = time.Time{}
		if wait > 0 {
			st.NextStart = now.Add(wait)
		}
		if state == Waiting || state == Ended {
			st.PID = 0
		}
	})
}

// release tells those who asked that there is nothing to wait for.
func (s *Sensor) release() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.answer != nil {
		close(s.answer)
		s.answer = nil
	}
}

func (s *Sensor) update(f func(*Status)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.status)
}

func (s *Sensor) notify(e Event) {
	if s.config.Notify != nil {
		e.Path = s.config.Path
		s.config.Notify(e)
	}
}

// poke wakes up a goroutine once, however often it is called.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
