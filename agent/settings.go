package agent

import (
	"sync"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/qconf"
)

// settings holds the configuration in use. No other lock is taken while its lock is held.
type settings struct {
	mu      sync.Mutex
	cluster *qconf.Cluster  // never changed, only replaced
	groups  *launch.Groups  // for jobs that are prepared from now on
	err     error           // why the last configuration cannot be used
	said    map[string]bool // parameters without effect that the log has
}

// current returns the configuration and the control groups that were made for it.
func (s *settings) current() (*qconf.Cluster, *launch.Groups) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cluster, s.groups
}

// replace sets the configuration.
func (s *settings) replace(cluster *qconf.Cluster, groups *launch.Groups) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cluster, s.groups, s.err = cluster, groups, nil
}

// refuse records why a configuration cannot be used. The previous one stays in use.
func (s *settings) refuse(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// refused returns the error of the last configuration if it cannot be used, or nil.
func (s *settings) refused() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// unsaid returns the names that it has not returned before.
func (s *settings) unsaid(names []string) []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fresh []string
	for _, name := range names {
		if s.said[name] {
			continue
		}
		if s.said == nil {
			s.said = map[string]bool{}
		}
		s.said[name] = true
		fresh = append(fresh, name)
	}
	return fresh
}

// troubles are the things that do not work at present, for the log and the health. No other lock is
// taken while its lock is held.
type troubles struct {
	log hclog.Logger

	mu    sync.Mutex
	texts map[string]string // by what does not work
}

// note records why something does not work, or with a nil error that it works again.
func (t *troubles) note(what string, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		if _, ok := t.texts[what]; ok {
			t.log.Info("something works again", "what", what)
			delete(t.texts, what)
		}
		return
	}
	text := what + ": " + err.Error()
	if t.texts[what] != text {
		t.log.Error("something does not work", "what", what, "error", err)
	}
	t.set(what, text)
}

// set records a text without writing it to the log. The caller holds mu.
func (t *troubles) set(what, text string) {
	if t.texts == nil {
		t.texts = map[string]string{}
	}
	t.texts[what] = text
}

// configuration records why a configuration cannot be used, or with nil that the last one can.
// The caller of Configure logs the error.
func (t *troubles) configuration(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil {
		delete(t.texts, "configuration")
		return
	}
	t.set("configuration", "the configuration cannot be used, and the previous one stays in use: "+err.Error())
}

// list returns the texts, sorted by what does not work.
func (t *troubles) list() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []string
	for _, what := range sortedKeys(t.texts) {
		list = append(list, t.texts[what])
	}
	return list
}
