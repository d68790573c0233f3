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

// Settings are the settings that may change while a Collector runs.
type Settings struct {
	Interval time.Duration // load_report_time of sge_conf(5); 0 is DefaultInterval
	// Sensors is load_sensor of sge_conf(5): absolute paths without arguments.
	Sensors []string
	// User is the user that runs the sensors, admin_user of bootstrap(5). Empty means the user of
	// this process, unless that is root: sensors run as root only if User is "root".
	User string
	Env  []string // additional variables for sensors, such as SGE_ROOT and SGE_CELL
	// Ahead requests the values for the next report after each report, so that no report waits for
	// sensors. The values are older then (DEMAND_LS=false of sge_conf(5)).
	Ahead bool
}

// Options are the options of a Collector.
type Options struct {
	Settings
	Host string // name of this host, as the master spells it
	// SameHost compares host names; nil ignores case.
	SameHost func(a, b string) bool

	Builtin builtin.Options // New sets Clock
	// Sensor holds the configuration that all sensors share: Dir, Timeout, Grace and so on. The
	// Collector sets Path, User, Host, Env, Watcher, Clock and Notify.
	Sensor external.Config

	// Patience is the time that a report waits for sensors; 0 is DefaultPatience, or a quarter of
	// the interval if that is less. The next report uses answers that arrive later.
	Patience time.Duration
	// MaxAge is the maximum age of a sensor's values; 0 is three intervals plus the time that a
	// sensor has to answer.
	MaxAge time.Duration

	Clock  clock.Clock          // nil is the clock of the machine
	Notify func(external.Event) // receives the events of sensors, for a log; must not block
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
	Values       []Value           `json:"values"`       // of the last report, including unchanged ones
	Missing      []builtin.Missing `json:"missing"`      // built-in values that could not be read, with the reason
	Overridden   []Override        `json:"overridden,omitempty"`
	Sensors      []external.Status `json:"sensors"` // in the order of load_sensor
	// Unwatched is the reason why the files of sensors are not watched. Changes are then noticed
	// with the next report.
	Unwatched string `json:"unwatched,omitempty"`
}

// Collector makes the reports of a host. Make one with New.
type Collector struct {
	options Options
	reader  *builtin.Reader
	reports chan Report
	wake    chan struct{}

	mu       sync.Mutex
	settings Settings
	hurry    bool // a report was requested
	book     book
	status   Status        // without Values
	values   map[Key]Value // of the last report
	sensors  []*external.Sensor
	running  bool

	// Used by Run only.
	applied Settings
	watcher *external.Watcher
	leaving []*external.Sensor // removed from the list, and not finished yet
}

// New returns a Collector, which does nothing until Run is called.
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

// Ack acknowledges a report. Later reports contain only the differences from it. Only the last
// report can be acknowledged; other numbers are ignored.
func (c *Collector) Ack(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.ack(number)
}

// Full requests a report of all values at once, for a master that has lost its data.
func (c *Collector) Full() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.forget()
	c.hurry = true
	c.poke()
}

// Now requests a report at once.
func (c *Collector) Now() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hurry = true
	c.poke()
}

// Configure changes the settings. If there is an error, it changes none of them.
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

// Status returns the current status.
func (c *Collector) Status() Status {
	c.mu.Lock()
	st, sensors, values := c.status, c.sensors, c.values
	st.Host, st.Interval = c.options.Host, c.settings.Interval
	st.Number, st.Acknowledged = c.book.number, c.book.acked
	c.mu.Unlock()
	st.Values = sorted(values) // never modified
	st.Sensors = make([]external.Status, 0, len(sensors))
	for _, s := range sensors {
		st.Sensors = append(st.Sensors, s.Status())
	}
	return st
}

// poke wakes Run up. The caller holds the lock.
func (c *Collector) poke() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Run makes reports until ctx is done. Then it stops the sensors, and returns when all have
// finished, at the latest after their Grace. It may be called once.
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

// apply applies the new settings. It reports whether a report is due now: because one was
// requested, or because a load sensor was started and its values are of interest.
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
	for i, s := range c.sensors { // only Run changes them
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
	select { // a report that nobody has read is obsolete
	case <-c.reports:
	default:
	}
	c.reports <- r
}

// ask sends a request to all sensors.
func (c *Collector) ask() []<-chan struct{} {
	answers := make([]<-chan struct{}, len(c.sensors))
	for i, s := range c.sensors {
		answers[i] = s.Ask()
	}
	return answers
}

// await sends a request to all sensors and waits for the answers, at most for Patience.
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

// mustEnd is the time to wait for sensors after their Grace. If a sensor still runs then, it hangs
// in the kernel, or its user database or file server does not answer.
const mustEnd = 10 * time.Second

// end stops all sensors.
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
