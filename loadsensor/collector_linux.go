package loadsensor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/loadsensor/builtin"
	"github.com/execd-project/execd/loadsensor/external"
)

// Settings are the settings that may change while reports are made.
type Settings struct {
	Interval time.Duration // load_report_time of sge_conf(5); 0 is DefaultInterval
	// Sensors is load_sensor of sge_conf(5): absolute paths without arguments.
	Sensors []string
	// User is whom sensors run as, admin_user of bootstrap(5). Empty is whoever this
	// process is, except root: sensors run as root only where User is "root".
	User string
	Env  []string // of sensors, beside their own; e.g. SGE_ROOT and SGE_CELL
	// Ahead asks sensors after each report, for the next one, which so never waits for
	// them and has older values (DEMAND_LS=false of sge_conf(5)).
	Ahead bool
}

// Options say how reports are made.
type Options struct {
	Settings
	Host string // this host, as the master spells it
	// SameHost compares host names; nil compares without regard to case.
	SameHost func(a, b string) bool

	Builtin builtin.Options // Clock is set from below
	// Sensor has what all sensors have in common: Dir, Timeout, Grace and so on. Path,
	// User, Host, Env, Watcher, Clock and Notify are set.
	Sensor external.Config

	// Patience is how long a report waits for sensors; 0 is DefaultPatience, or a
	// quarter of the interval where that is less. A later answer is used for the next
	// report.
	Patience time.Duration
	// MaxAge is how old values of sensors may get; 0 is three intervals and the time
	// that a sensor has to answer.
	MaxAge time.Duration

	Clock  clock.Clock          // nil is the clock of the machine
	Notify func(external.Event) // what happens to sensors, for a log; must not wait
}

// The defaults of Options.
const (
	DefaultInterval = 40 * time.Second
	DefaultPatience = 5 * time.Second
)

// Status is the status of a collector and of its sensors.
type Status struct {
	Host         string            `json:"host"`
	Interval     time.Duration     `json:"interval_ns"`
	LastReport   time.Time         `json:"last_report,omitzero"`
	Number       uint64            `json:"number"`       // of the last report
	Acknowledged uint64            `json:"acknowledged"` // 0 for none
	Values       []Value           `json:"values"`       // of the last report, unchanged ones too
	Missing      []builtin.Missing `json:"missing"`      // built-in values that cannot be read, with the reason
	Overridden   []Override        `json:"overridden,omitempty"`
	Sensors      []external.Status `json:"sensors"` // in the order of load_sensor
	// Unwatched is why no files are watched; changes are seen with the next report.
	Unwatched string `json:"unwatched,omitempty"`
}

// Collector makes the reports. Make one with New.
type Collector struct {
	options Options
	reader  *builtin.Reader
	reports chan Report
	wake    chan struct{}

	mu       sync.Mutex
	settings Settings
	hurry    bool // a report is wanted now
	book     book
	status   Status        // but for Values
	values   map[Key]Value // of the last report
	sensors  []*external.Sensor
	running  bool

	// Of Run alone.
	applied Settings
	watcher *external.Watcher
	leaving []*external.Sensor // removed from the list, and not ended yet
}

// New returns a Collector, which does nothing before Run.
func New(options Options) (*Collector, error) {
	if options.Host == "" {
		return nil, errors.New("cannot report load: the name of the host is empty")
	}
	if options.SameHost == nil {
		options.SameHost = strings.EqualFold
	}
	if options.Clock == nil {
		options.Clock = clock.System()
	}
	options.Builtin.Clock = options.Clock
	settings, err := options.check()
	if err != nil {
		return nil, err
	}
	return &Collector{
		options: options, settings: settings,
		reader: builtin.New(options.Builtin), reports: make(chan Report, 1), wake: make(chan struct{}, 1),
	}, nil
}

func (s Settings) check() (Settings, error) {
	if s.Interval == 0 {
		s.Interval = DefaultInterval
	}
	if s.Interval < time.Second {
		return s, fmt.Errorf("cannot report load: load_report_time is %v, expected at least 1s", s.Interval)
	}
	for i, path := range s.Sensors {
		if !filepath.IsAbs(path) {
			return s, fmt.Errorf("cannot run the load sensor %q: expected an absolute path", path)
		}
		if slices.Contains(s.Sensors[:i], path) {
			return s, fmt.Errorf("cannot run the load sensor %q: it is listed twice", path)
		}
	}
	s.Sensors, s.Env = slices.Clone(s.Sensors), slices.Clone(s.Env)
	return s, nil
}

// Reports returns the channel of the reports. It holds one report: a slow reader gets the newest.
// Run closes the channel when it returns.
func (c *Collector) Reports() <-chan Report { return c.reports }

// Ack says that a report has arrived; the next ones have what is other than in it. Only
// the report that was made last can be acknowledged.
func (c *Collector) Ack(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.ack(number)
}

// Full asks for a report of all values, at once: a master has lost what it knew.
func (c *Collector) Full() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.forget()
	c.hurry = true
	c.poke()
}

// Now asks for a report at once.
func (c *Collector) Now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurry = true
	c.poke()
}

// Configure changes the settings: all of them, or none if there is an error.
func (c *Collector) Configure(s Settings) error {
	s, err := s.check()
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.settings = s
	c.poke()
	return nil
}

// Status is the current status.
func (c *Collector) Status() Status {
	c.mu.Lock()
	st, sensors, values := c.status, c.sensors, c.values
	st.Host, st.Interval = c.options.Host, c.settings.Interval
	st.Number, st.Acknowledged = c.book.number, c.book.acked
	c.mu.Unlock()
	st.Values = sorted(values) // which nobody changes
	st.Sensors = make([]external.Status, 0, len(sensors))
	for _, s := range sensors {
		st.Sensors = append(st.Sensors, s.Status())
	}
	return st
}

// poke wakes Run up; the lock is held.
func (c *Collector) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run makes reports until ctx is done. Then sensors are told to quit, and it returns
// when all have ended, which takes at most as long as a sensor has for that. It may be
// called once.
func (c *Collector) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return errors.New("cannot report load: Run was called twice")
	}
	c.running = true
	c.mu.Unlock()
	defer close(c.reports)
	watcher, err := external.NewWatcher()
	if err != nil {
		c.mu.Lock()
		c.status.Unwatched = err.Error()
		c.mu.Unlock()
	} else {
		c.watcher = watcher
		defer watcher.Close()
	}
	defer c.reader.Close()
	defer c.end()
	for ctx.Err() == nil {
		c.apply()
		began := c.options.Clock.Now()
		c.turn(ctx)
		c.rest(ctx, began)
	}
	return nil
}

// rest waits until the next report is due.
func (c *Collector) rest(ctx context.Context, began time.Time) {
	for {
		timer := c.options.Clock.NewTimer(began.Add(c.applied.Interval).Sub(c.options.Clock.Now()))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C():
			return
		case <-c.wake:
		}
		timer.Stop()
		if c.apply() {
			return
		}
	}
}

// apply takes over what was configured, and tells whether a report is wanted now: as was
// asked for, or because a load sensor has begun, which somebody wants to see at work.
func (c *Collector) apply() bool {
	c.mu.Lock()
	settings, hurry := c.settings, c.hurry
	sensors := c.sensors
	c.hurry = false
	c.mu.Unlock()
	same := settings.User == c.applied.User && slices.Equal(settings.Env, c.applied.Env)
	next := make([]*external.Sensor, 0, len(settings.Sensors))
	for _, path := range settings.Sensors {
		i := slices.Index(c.applied.Sensors, path)
		if i >= 0 && same {
			next = append(next, sensors[i])
			continue
		}
		next = append(next, c.start(path, settings))
		hurry = true
	}
	for _, s := range sensors {
		if !slices.Contains(next, s) {
			s.Stop()
			c.leaving = append(c.leaving, s)
		}
	}
	c.leaving = slices.DeleteFunc(c.leaving, func(s *external.Sensor) bool {
		select {
		case <-s.Done():
			return true
		default:
			return false
		}
	})
	c.applied = settings
	c.mu.Lock()
	c.sensors = next
	c.mu.Unlock()
	return hurry
}

func (c *Collector) start(path string, s Settings) *external.Sensor {
	config := c.options.Sensor
	config.Path, config.User, config.Host, config.Env = path, s.User, c.options.Host, s.Env
	config.AsRoot = s.User == "root"
	config.Watcher, config.Clock, config.Notify = c.watcher, c.options.Clock, c.options.Notify
	return external.Start(config)
}

// turn makes one report.
func (c *Collector) turn(ctx context.Context) {
	if c.applied.Ahead {
		defer c.ask()
	} else {
		c.await(ctx)
	}
	if ctx.Err() != nil {
		return
	}
	values, missing := c.reader.Read()
	now := c.options.Clock.Now()
	all := collection{host: c.options.Host, sameHost: c.options.SameHost, values: map[Key]Value{}}
	all.addBuiltin(values, missing, now)
	for i, s := range c.sensors { // only Run writes them
		values, at := s.Latest()
		if !at.IsZero() && now.Sub(at) <= c.maxAge() {
			all.addSensor(c.applied.Sensors[i], values, at)
		}
	}
	all.derive()

	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.book.report(c.options.Host, now, all.values)
	c.status.LastReport, c.values = now, all.values
	c.status.Missing, c.status.Overridden = all.missing, all.overridden
	select { // what nobody has taken is out of date
	case <-c.reports:
	default:
	}
	c.reports <- r
}

// ask asks all sensors at once.
func (c *Collector) ask() []<-chan struct{} {
	answers := make([]<-chan struct{}, len(c.sensors))
	for i, s := range c.sensors {
		answers[i] = s.Ask()
	}
	return answers
}

// await asks all sensors and waits for them, but not for long.
func (c *Collector) await(ctx context.Context) {
	if len(c.sensors) == 0 {
		return
	}
	answers := c.ask()
	timer := c.options.Clock.NewTimer(c.patience())
	defer timer.Stop()
	for _, answer := range answers {
		select {
		case <-answer:
		case <-timer.C():
			return
		case <-ctx.Done():
			return
		}
	}
}

func (c *Collector) patience() time.Duration {
	if c.options.Patience > 0 {
		return c.options.Patience
	}
	return min(DefaultPatience, c.applied.Interval/4)
}

func (c *Collector) maxAge() time.Duration {
	if c.options.MaxAge > 0 {
		return c.options.MaxAge
	}
	timeout := c.options.Sensor.Timeout
	if timeout <= 0 {
		timeout = external.DefaultTimeout
	}
	return 3*c.applied.Interval + timeout
}

// mustEnd is how long after their time to quit sensors are waited for. One that is
// not gone then hangs in the kernel, or its user database or file server does.
const mustEnd = 10 * time.Second

// end stops the sensors.
func (c *Collector) end() {
	sensors := append(c.leaving, c.sensors...)
	for _, s := range sensors {
		s.Stop()
	}
	grace := c.options.Sensor.Grace
	if grace <= 0 {
		grace = external.DefaultGrace
	}
	timer := c.options.Clock.NewTimer(grace + mustEnd)
	defer timer.Stop()
	for _, s := range sensors {
		select {
		case <-s.Done():
		case <-timer.C():
			return
		}
	}
}
