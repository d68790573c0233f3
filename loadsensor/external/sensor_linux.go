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

// Config is the configuration of a sensor. Zero times mean the defaults.
type Config struct {
	Path string // an absolute path, without arguments
	// User is the name of the user that runs the sensor, looked up at every start, which may take
	// long with a directory service. If it is empty, As counts.
	User string
	As   *program.Identity // nil, without User, for the user of this process
	// AsRoot allows a sensor to run as root. The original runs all sensors as root if /bin/sh keeps
	// effective IDs; bash and dash do not.
	AsRoot bool
	Host   string   // name of this host, for HOST
	Dir    string   // working directory; empty for /
	Env    []string // in addition to PATH, HOST, HOME, USER, LOGNAME and SHELL, such as SGE_ROOT

	Timeout    time.Duration // maximum time for an answer
	Grace      time.Duration // from "quit" to SIGKILL
	BackoffMin time.Duration // delay before a restart after a fault; doubled each time
	BackoffMax time.Duration
	Settle     time.Duration // time for which a changed file must stay unchanged

	Watcher *Watcher // nil to notice changes of the file only when the sensor is asked
	Clock   clock.Clock
	// Notify is called with each event, in order, from the sensor's goroutine. It must not block.
	Notify func(Event)
}

// The defaults of Config.
const (
	DefaultTimeout    = 30 * time.Second
	DefaultGrace      = 10 * time.Second // as in the original
	DefaultBackoffMin = 5 * time.Second
	DefaultBackoffMax = 5 * time.Minute
	DefaultSettle     = time.Second

	// maxOutput is the maximum output between two requests, in bytes, on both streams together.
	maxOutput = 4 << 20
	// maxWrong is the maximum number of invalid lines between two requests: each takes time.
	maxWrong = 2 * protocol.MaxValues
	// unkillable is the time after SIGKILL after which a process that has not exited is reported.
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

// environment excludes this process's variables: a sensor must not depend on them, and without a
// locale it writes numbers with a decimal point.
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
	changed  chan struct{} // the file may have changed
	wake     chan struct{} // a caller asks
	stop     chan struct{}
	done     chan struct{}
	stopOnce sync.Once

	mu     sync.Mutex
	answer chan struct{} // closed when the request was answered; nil without a request
	status Status
	values []protocol.Value

	// Used by the goroutine only.
	stamp    stamp
	failures int
	stderr   stderrLines
	told     int // events reported since the last request
}

// stamp identifies a version of the file.
type stamp struct {
	mtime    time.Time
	size     int64
	dev, ino uint64
}

// Start starts a sensor and requests its first report. The caller must call Stop.
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

// Ask requests a report. It closes the channel when the report has arrived, or when none is to be
// expected soon; Latest then returns the last one. While a report is pending, further calls wait
// for the same report.
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

// FileChanged tells the sensor that its file may have changed. A Watcher calls it.
func (s *Sensor) FileChanged() { poke(s.changed) }

// Latest returns the last whole report and its time; the zero time if there is none. The caller
// must not modify the values.
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

// Stop stops the sensor. Done is closed when it has stopped.
func (s *Sensor) Stop() { s.stopOnce.Do(func() { close(s.stop) }) }

// Done returns a channel that is closed after Stop, when the process has exited or cannot be
// killed.
func (s *Sensor) Done() <-chan struct{} { return s.done }

// run starts the program of the sensor, and starts it again when it ends. It runs in the sensor's
// own goroutine, until the sensor is closed.
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

// pause waits until the sensor may be started; without a fault it returns at once. It returns false
// if the sensor must not be started.
func (s *Sensor) pause() bool {
	wait := s.backoff()
	for {
		s.enter(Waiting, wait)
		if wait <= 0 || !s.waitForChange(wait) {
			return !s.stopped()
		}
		s.failures, wait = 0, s.config.Settle
		s.notify(Event{Kind: Changed, Text: "the load sensor's file has changed"})
	}
}

// waitForChange returns true as soon as the file has changed, and false when the time has passed or
// the sensor is to stop. Requests for reports meanwhile do not prolong the wait.
func (s *Sensor) waitForChange(wait time.Duration) bool {
	timer := s.config.Clock.NewTimer(wait)
	defer timer.Stop()
	for {
		s.release()
		select {
		case <-s.stop:
			return false
		case <-timer.C():
			return false
		case <-s.wake:
		case <-s.changed:
		}
		if now, ok := s.look(); ok && now != s.stamp {
			s.stamp = now
			return true
		}
	}
}

func (s *Sensor) stopped() bool {
	select {
	case <-s.stop:
		return true
	default:
		return false
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
		return nil, fmt.Errorf("cannot run it as user %s: %w", s.config.As.Name, err)
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

// look reads the stamp of the file. A file that cannot be read does not count as changed: the file
// server may be down.
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

// fail records a fault, which delays the next start.
func (s *Sensor) fail(kind Kind, text string, pid int) {
	s.failures++
	s.update(func(st *Status) { st.Fault = text })
	s.notify(Event{Kind: kind, Text: text, PID: pid})
}

// enter changes the state. No other function does.
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

// release tells waiting callers that there is nothing to wait for.
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

// poke wakes a goroutine once, even if it is called several times.
func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
