package agent

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/execd-project/execd/qconf"
)

// TestConfigureWhileTheAgentEnds reads a configuration while the agent stops.
func TestConfigureWhileTheAgentEnds(t *testing.T) {
	var mu sync.Mutex
	n := 0
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) {
			mu.Lock()
			n++
			text := fmt.Sprintf("cgroups_params pids_limit=%d\n", 1000+n)
			mu.Unlock()
			return load(t, map[string]string{"conf/global": text}), text, nil
		}
	})
	begun, over := make(chan struct{}), make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-over:
				return
			default:
			}
			if err := w.agent.Configure(t.Context()); err != nil && !strings.Contains(err.Error(), "the agent has stopped") {
				t.Error(err)
				return
			}
			if i == 10 {
				close(begun)
			}
		}
	})
	<-begun
	w.stop()
	close(over)
	wait.Wait()
	opened := &w.agent.opened
	opened.mu.Lock()
	defer opened.mu.Unlock()
	if len(opened.made) > 0 {
		t.Errorf("%d sets of control groups are open", len(opened.made))
	}
}

// TestUsageIsReadWhileJobsAreRemoved reads the usage of jobs while other jobs are removed. The
// agent must not use the descriptor of a closed directory, which may belong to another directory by
// then.
func TestUsageIsReadWhileJobsAreRemoved(t *testing.T) {
	w := newWorld(t)
	over := make(chan struct{})
	var wait sync.WaitGroup
	for _, look := range []func(){w.agent.lookAtUsage, func() { w.agent.sharers() }} {
		wait.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					look()
				}
			}
		})
	}
	var jobs sync.WaitGroup
	for worker := range 4 {
		jobs.Go(func() {
			for i := range 15 {
				s := w.job(100*(worker+1)+i, "/bin/sh", "-c", "exit 0")
				if _, err := w.agent.Start(t.Context(), s); err != nil {
					t.Error(err)
					return
				}
				w.ended(s.ID)
			}
		})
	}
	jobs.Wait()
	w.until("all jobs are gone", func() bool { return len(w.agent.Jobs()) == 0 })
	close(over)
	wait.Wait()
}
