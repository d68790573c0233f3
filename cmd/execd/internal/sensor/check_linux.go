package sensor

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/loadsensor/protocol"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

const (
	cycles = 3
	// settle is the time that the changed file must stay unchanged. noticed is the time that a file
	// system may take to report a change of a watched file.
	settle  = 100 * time.Millisecond
	noticed = 15 * time.Second
	// quiet is the time after which a waiting check reports this on a terminal.
	quiet = 2 * time.Second
)

// checker checks one sensor.
type checker struct {
	path, user, host string
	timeout          time.Duration
	cluster          *qconf.Cluster // nil for none
	watched          bool           // changes of the file are watched
	progress         io.Writer      // nil for none

	sensor *external.Sensor
	events chan external.Event
	result Result
	cycle  int
	told   map[string]bool // findings about values, which would repeat in every cycle
	exited string          // how the last process exited
	killed bool
}

// run runs the sensor through all its states.
func (c *checker) run() *Result {
	c.told = map[string]bool{}
	c.events = make(chan external.Event, 1000)
	c.result = Result{Path: c.path, User: c.user, Host: c.host, Cycles: []Cycle{}, Findings: []Finding{}}
	watcher, err := external.NewWatcher()
	if c.watched = err == nil; c.watched {
		defer watcher.Close()
	}
	c.sensor = external.Start(external.Config{
		Path: c.path, User: c.user, AsRoot: c.user == "root", Host: c.host, Timeout: c.timeout,
		// Not restarted after a fault: the check ends there.
		BackoffMin: time.Hour, BackoffMax: time.Hour,
		Settle: settle, Watcher: watcher, Notify: func(e external.Event) { c.events <- e },
	})
	st := c.sensor.Status()
	c.result.User = st.User
	alive := c.report() // a sensor gets a request when it starts
	for range cycles - 1 {
		if alive {
			c.sensor.Ask()
			alive = c.report()
		}
	}
	alive = alive && c.change()
	c.quit(alive)
	st = c.sensor.Status()
	if st.Exposed != "" {
		c.find(Finding{Severity: Warning, Problem: "others can change what runs as user " + c.result.User + ": " + st.Exposed})
	}
	switch {
	case st.Starts == 0:
		c.result.Status = ExitCannotRun
	case c.result.count(Error) > 0:
		c.result.Status = ExitErrors
	}
	return &c.result
}

// report waits for the report of the next cycle. It returns false if the sensor no longer runs.
func (c *checker) report() bool {
	c.cycle++
	what := fmt.Sprintf("report %d, which may take %v", c.cycle, c.timeout)
	return c.await(what, func(e external.Event) bool { return e.Kind == external.Reported && e.Asked }, longest+c.timeout)
}

// await reads events until the wanted one; what describes it in messages. It returns false if the
// event can no longer come.
func (c *checker) await(what string, wanted func(external.Event) bool, most time.Duration) bool {
	timer, slow := time.NewTimer(most), time.NewTimer(quiet)
	defer timer.Stop()
	defer slow.Stop()
	for {
		select {
		case <-slow.C:
			if c.progress != nil {
				printer.Fprintf(c.progress, "execd sensor: waiting for %s\n", what)
			}
		case e := <-c.events:
			c.note(e)
			if wanted(e) {
				return true
			}
			if e.Kind == external.Failed || e.Kind == external.CannotStart || e.Kind == external.Stuck {
				return false
			}
		case <-timer.C:
			return false
		}
	}
}

// note records the content of an event.
func (c *checker) note(e external.Event) {
	switch e.Kind {
	case external.Reported:
		number := c.cycle
		if !e.Asked {
			number = 0
		}
		c.result.Cycles = append(c.result.Cycles, Cycle{Number: number, Seconds: e.Took.Seconds(), Values: slices.Clone(e.Values)})
		c.values(e)
	case external.Violated:
		v := e.Violation
		f := Finding{Severity: Error, Cycle: c.cycle, Line: v.Line, Text: v.Text, Problem: v.Problem, Expected: v.Expected}
		if v.Harmless {
			f.Severity = Warning
		}
		c.find(f)
	case external.Wrote:
		c.result.Stderr = append(c.result.Stderr, e.Text)
	case external.Failed, external.CannotStart, external.Stuck:
		c.find(Finding{Severity: Error, Cycle: c.cycle, Problem: e.Text})
	case external.Killed:
		c.killed = true
		c.find(Finding{Severity: Error, Problem: e.Text})
	case external.Gone:
		c.exited = strings.TrimPrefix(e.Text, "the load sensor ")
	}
}

func (c *checker) find(f Finding) { c.result.Findings = append(c.result.Findings, f) }

// values compares the values of a report with the configuration.
func (c *checker) values(e external.Event) {
	if e.Took > loadsensor.DefaultPatience {
		c.find(Finding{
			Severity: Warning, Cycle: c.cycle, Problem: fmt.Sprintf("the report took %.1f s, so that it is used for the load report after", e.Took.Seconds()),
			Expected: fmt.Sprintf("at most %v", loadsensor.DefaultPatience),
		})
	}
	if len(e.Values) == 0 {
		c.once(Finding{Severity: Warning, Cycle: c.cycle, Problem: "the report has no values"})
	}
	if c.cluster == nil {
		return
	}
	for _, v := range e.Values {
		f := Finding{Severity: Warning, Cycle: c.cycle, Line: v.Line, Text: v.Host + ":" + v.Name + ":" + v.Text}
		if f.Problem, f.Expected = c.complex(v); f.Problem != "" {
			c.once(f)
		}
		if f.Problem, f.Expected = c.hostOf(v); f.Problem != "" {
			c.once(f)
		}
	}
}

// once records a finding that would repeat in each cycle.
func (c *checker) once(f Finding) {
	host, rest, _ := strings.Cut(f.Text, ":")
	name, _, _ := strings.Cut(rest, ":")
	key := host + ":" + name + ":" + f.Expected
	if f.Text == "" {
		key = f.Problem
	}
	if !c.told[key] {
		c.told[key] = true
		c.find(f)
	}
}

// complex describes the error if a value does not fit the complex of its name.
func (c *checker) complex(v protocol.Value) (problem, expected string) {
	x, ok := c.cluster.Complexes().Find(v.Name)
	switch {
	case !ok:
		return fmt.Sprintf("there is no complex %q, so that the value is not used", v.Name), "a name of qconf -sc"
	case x.Name != v.Name:
		return fmt.Sprintf("%q is the shortcut of a complex, so that the value is not used", v.Name), fmt.Sprintf("its name, %q", x.Name)
	}
	t, err := value.ParseType(string(x.Type))
	if err == nil {
		_, err = value.Parse(t, v.Text)
	}
	if err != nil {
		return fmt.Sprintf("the value is of the wrong type: %v", err), fmt.Sprintf("one of type %s", x.Type)
	}
	return "", ""
}

// hostOf describes the error if the configuration does not contain the host of a value.
func (c *checker) hostOf(v protocol.Value) (problem, expected string) {
	known := c.cluster.HostNames()
	if len(known) == 0 || v.Host == protocol.GlobalHost || qconf.SameHost(v.Host, c.host) ||
		slices.ContainsFunc(known, func(h string) bool { return qconf.SameHost(h, v.Host) }) {
		return "", ""
	}
	return fmt.Sprintf("there is no host %q, so that the value is not used", v.Host), fmt.Sprintf("%q, %q or another host of the configuration", c.host, protocol.GlobalHost)
}

// change changes the file, and waits until the sensor has stopped and restarted.
func (c *checker) change() bool {
	changed := func(e external.Event) bool { return e.Kind == external.Changed }
	if err := os.Chtimes(c.path, time.Time{}, time.Now()); err != nil {
		c.result.Change = fmt.Sprintf("not tried: %v", err)
		return true
	}
	how := "seen at once"
	began := time.Now()
	if !c.watched || c.sensor.Status().Unwatched != "" || !c.await("the file system to tell of the change", changed, noticed) {
		how = "seen with the next request, since the file system does not tell"
		c.cycle++ // the answer may come early
		c.sensor.Ask()
		if !c.await("the sensor to see the change", changed, longest) {
			return false
		}
	}
	if !c.await("the sensor to end after the change", func(e external.Event) bool { return e.Kind == external.Gone }, longest) {
		return false
	}
	c.result.Change = fmt.Sprintf("%s; the sensor %s and was started again, %.3f s in all", how, c.exited, time.Since(began).Seconds())
	return c.report() // it gets a request when it restarts; another request would cause another report
}

// quit stops the sensor.
func (c *checker) quit(alive bool) {
	c.killed = false
	began := time.Now()
	c.sensor.Stop()
	if alive && c.await("the sensor to end", func(e external.Event) bool { return e.Kind == external.Gone }, longest) {
		c.result.Quit = fmt.Sprintf("%s after %.3f s", c.exited, time.Since(began).Seconds())
		if !c.killed && c.exited != "exited with status 0" {
			c.find(Finding{Severity: Warning, Problem: fmt.Sprintf("the load sensor %s when it was told to quit", c.exited), Expected: "status 0"})
		}
	}
	for {
		select {
		case <-c.sensor.Done():
			return
		case e := <-c.events:
			c.note(e)
		}
	}
}
