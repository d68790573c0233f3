package agent

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/qconf"
)

// TestConcurrentConfigureKeepsLatest checks that the configuration that was read last is used last:
// otherwise a change made while an agent reads would be lost.
func TestConcurrentConfigureKeepsLatest(t *testing.T) {
	var mu sync.Mutex
	version, slow := "former", false
	reading, hold := make(chan struct{}), make(chan struct{})
	var followed []string
	var w *world
	w = newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) {
			mu.Lock()
			v, wait := version, slow
			slow = false
			mu.Unlock()
			if wait {
				close(reading)
				<-hold
			}
			return cluster(t), v, nil
		}
		o.Configured = func(*qconf.Cluster) { followed = append(followed, w.agent.Health().Configuration) }
	})
	mu.Lock()
	slow = true
	mu.Unlock()
	var both sync.WaitGroup
	configure := func() {
		if err := w.agent.Configure(t.Context()); err != nil {
			t.Error(err)
		}
	}
	both.Go(configure)
	<-reading
	mu.Lock()
	version = "changed"
	mu.Unlock()
	second := make(chan struct{})
	both.Go(func() { defer close(second); configure() })
	select {
	case <-second: // it did not wait for the first
	case <-time.After(200 * time.Millisecond):
	}
	close(hold)
	both.Wait()
	if got := w.agent.Health().Configuration; got != "changed" {
		t.Errorf("the agent goes on with the %s configuration", got)
	}
	if want := []string{"former", "changed"}; !slices.Equal(followed, want) {
		t.Errorf("others follow %q, expected %q", followed, want)
	}
}
