package daemon

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/loadsensor/external"
)

// sensorLog logs the events of load sensors.
type sensorLog struct {
	log hclog.Logger

	mu   sync.Mutex
	said map[violation]bool
}

// violation is an error that a sensor may repeat with each report.
type violation struct{ path, text, problem string }

// mostViolations is the maximum number of errors that are remembered as logged.
const mostViolations = 1000

func newSensorLog(log hclog.Logger) *sensorLog {
	return &sensorLog{log: log, said: map[violation]bool{}}
}

func (l *sensorLog) event(e external.Event) {
	l.log.Log(l.level(&e), "load sensor", "sensor", e.Path, "event", e.Text)
}

// level returns the log level of an event. An event that repeats with each report is logged at its
// full level only once.
func (l *sensorLog) level(e *external.Event) hclog.Level {
	switch e.Kind {
	case external.Reported:
		return hclog.Debug
	case external.Started, external.Changed, external.Stopped, external.Gone:
		return hclog.Info
	case external.Violated:
		if e.Violation == nil {
			break
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		v := violation{e.Path, e.Violation.Text, e.Violation.Problem}
		if l.said[v] {
			return hclog.Debug
		}
		if len(l.said) >= mostViolations {
			clear(l.said)
		}
		l.said[v] = true
	}
	return hclog.Warn
}
