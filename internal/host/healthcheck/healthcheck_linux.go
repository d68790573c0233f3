package healthcheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/program"
)

// Source is the source of its drains, for agent.Agent.DrainFor. If no check is configured any more,
// clear its drain with DrainFor(Source, "").
const Source = "health check"

// Defaults of Config.
const (
	DefaultUser     = "nobody"
	DefaultInterval = 5 * time.Minute
	DefaultDeadline = time.Minute
	DefaultGood     = 1
)

const root = "root"

// Config is the configuration of the health check.
type Config struct {
	Path string // of the program, absolute
	// User is the user of the program; empty means DefaultUser for an agent that runs as root,
	// otherwise the agent's own user, which is then the only possible one.
	User     string
	Interval time.Duration // from the end of a run to the next; 0 is DefaultInterval
	Deadline time.Duration // of a run; 0 is DefaultDeadline
	// Good is the number of successful runs in a row after which the host returns to service; 0
	// means DefaultGood. Larger values are for hosts whose results change often.
	Good int
	Host string // this host, for the variable HOST of the program

	// Drain has no jobs taken, for a reason, or with an empty one takes that back:
	// agent.Agent.DrainFor with Source.
	Drain func(reason string) error
	// Ran is called for each run, by one goroutine at a time. It may be nil.
	Ran func(Result)

	Clock clock.Clock // nil is the clock of the machine
	// Lookup finds a user; nil is program.Lookup.
	Lookup func(name string) (program.Identity, error)
}

// Result is the result of a run.
type Result struct {
	At     time.Time     // when it began
	Took   time.Duration // until it had ended, or was given up
	Good   bool
	Reason string // why it is not good, one line
	// Changed says that the host came into service or went out of it. Err says why that failed.
	Changed bool
	Err     error
}

// Status is the health of the host.
type Status struct {
	Path string `json:"path"`
	User string `json:"user"`
	// Reason is why no jobs are taken; empty if the host is well.
	Reason  string        `json:"reason,omitempty"`
	Since   time.Time     `json:"since"` // it has been so
	Runs    int           `json:"runs"`
	LastRun time.Time     `json:"last_run,omitzero"`
	Took    time.Duration `json:"took_ns"`
	// GoodInRow is how many good runs there were since the last bad one.
	GoodInRow int `json:"good_in_row"`
}

// Check is a health check. Make one with New.
type Check struct {
	config Config
	now    chan struct{}
	hung   *run // that could not be killed; of Run alone
	// The functions and timeouts for killing; tests replace them.
	signal func(pid int, sig unix.Signal) error
	mercy  time.Duration

	mu     sync.Mutex
	status Status
}

// New checks a configuration and fills in its defaults.
func New(c Config) (*Check, error) {
	if !filepath.IsAbs(c.Path) {
		return nil, fmt.Errorf("the health check %q is not an absolute path", c.Path)
	}
	if c.Interval < 0 || c.Deadline < 0 || c.Good < 0 {
		return nil, fmt.Errorf("the health check %s: interval %s, deadline %s and number of good runs %d cannot be negative", c.Path, c.Interval, c.Deadline, c.Good)
	}
	if c.User == "" && os.Geteuid() == 0 {
		c.User = DefaultUser
	}
	if c.Clock == nil {
		c.Clock = clock.System()
	}
	if c.Lookup == nil {
		c.Lookup = program.Lookup
	}
	for to, value := range map[*time.Duration]time.Duration{&c.Interval: DefaultInterval, &c.Deadline: DefaultDeadline} {
		if *to == 0 {
			*to = value
		}
	}
	if c.Good == 0 {
		c.Good = DefaultGood
	}
	if c.User != "" {
		id, err := c.Lookup(c.User)
		if err != nil {
			return nil, fmt.Errorf("cannot run the health check %s as user %q: %w", c.Path, c.User, err)
		}
		if os.Geteuid() != 0 && int(id.UID) != os.Geteuid() {
			return nil, fmt.Errorf("cannot run the health check %s as user %q: only root can", c.Path, c.User)
		}
		if id.UID == 0 && c.User != root {
			return nil, fmt.Errorf("the health check %s runs as root only if its user is %q, not %q", c.Path, root, c.User)
		}
	}
	return &Check{
		config: c, now: make(chan struct{}, 1), signal: unix.Kill, mercy: mercy,
		status: Status{Path: c.Path, User: c.User, Since: c.Clock.Now()},
	}, nil
}

// Begin takes the host out of service until the first run has succeeded. Call it before Run, and
// before masters can send jobs.
func (c *Check) Begin() error {
	const reason = "it has not run yet"
	c.mu.Lock()
	c.status.Reason = reason
	c.mu.Unlock()
	return c.config.Drain(reason)
}

// Run runs the program, at once and then at every interval, until the context ends.
// The program that runs then is killed.
func (c *Check) Run(ctx context.Context) {
	for {
		result := c.once(ctx)
		if ctx.Err() != nil {
			return
		}
		c.evaluate(&result)
		if c.config.Ran != nil {
			c.config.Ran(result)
		}
		timer := c.config.Clock.NewTimer(c.config.Interval)
		select {
		case <-timer.C():
		case <-c.now:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return
		}
	}
}

// Now starts the next run at once.
func (c *Check) Now() {
	select {
	case c.now <- struct{}{}:
	default: // a request is already pending
	}
}

// Status returns the health of the host as of the last check.
func (c *Check) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// evaluate updates the host's health after a run.
func (c *Check) evaluate(r *Result) {
	c.mu.Lock()
	first, before, row := c.status.Runs == 0, c.status.Reason, c.status.GoodInRow
	c.mu.Unlock()

	reason := r.Reason
	if row++; !r.Good {
		row = 0
	} else if before != "" && !first && row < c.config.Good {
		reason = before // not yet
	}
	// This is done even without a change, to repeat a write that failed earlier.
	r.Err = c.config.Drain(reason)
	r.Changed = (reason == "") != (before == "") && r.Err == nil

	c.mu.Lock()
	defer c.mu.Unlock()
	if (reason == "") != (before == "") || c.status.Runs == 0 {
		c.status.Since = c.config.Clock.Now()
	}
	c.status.Reason, c.status.GoodInRow = reason, row
	c.status.Runs++
	c.status.LastRun, c.status.Took = r.At, r.Took
}

// once runs the program.
func (c *Check) once(ctx context.Context) Result {
	result := Result{At: c.config.Clock.Now()}
	if err := c.try(ctx); err != nil {
		result.Reason = err.Error()
	}
	result.Good = result.Reason == ""
	result.Took = c.config.Clock.Now().Sub(result.At)
	return result
}

// try runs the program. The error is the reason for which the host is not well.
func (c *Check) try(ctx context.Context) error {
	if c.hung != nil {
		if !c.hung.over() {
			return fmt.Errorf("%s, started %s, cannot be killed: it hangs in the kernel%s", c.config.Path, c.hung.began.Format(time.RFC3339), c.hung.out.after("; its last line: "))
		}
		c.hung = nil
	}
	r, err := c.start()
	if err != nil {
		return fmt.Errorf("cannot run %s: %w", c.config.Path, err)
	}
	timer := c.config.Clock.NewTimer(c.config.Deadline)
	defer timer.Stop()
	select {
	case <-r.Done():
		return r.verdict()
	case <-timer.C():
	case <-ctx.Done():
	}
	if !r.kill(c) {
		c.hung = r
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s has not ended within %s%s", c.config.Path, c.config.Deadline, r.out.after("; its last line: "))
}

// identity returns the user that the program runs as; nil for this process's own. The error says
// that another user can change the program.
func (c *Check) identity() (*program.Identity, error) {
	if c.config.User == "" || os.Geteuid() != 0 {
		return nil, nil
	}
	id, err := c.config.Lookup(c.config.User)
	if err != nil {
		return nil, err
	}
	if _, err := id.Trusted(c.config.Path); err != nil {
		return nil, fmt.Errorf("cannot run it as user %s: %w", id.Name, err)
	}
	return &id, nil
}
