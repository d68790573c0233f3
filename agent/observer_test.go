package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
)

// TestObserverGetsEachEndOnce checks that the next agent does not pass an end to the observer
// again. If the observer failed, it does, and marks the end as possibly passed before.
func TestObserverGetsEachEndOnce(t *testing.T) {
	var failing atomic.Bool
	var told [2]atomic.Int32 // first, and again
	again := make(chan struct{}, 10)
	account := func(o *Options) {
		o.Account = func(_ *Record, _ *job.Description, _ *job.Outcome, repeated bool) error {
			switch {
			case failing.Load():
				return errors.New("there is no room")
			case repeated:
				told[1].Add(1)
				again <- struct{}{}
			default:
				told[0].Add(1)
			}
			return nil
		}
	}
	w := newWorld(t, account)
	ids := []job.ID{w.mustStart(w.job(1, "true")).ID}
	w.await(ids[0], Ended, Reported)
	failing.Store(true)
	ids = append(ids, w.mustStart(w.job(2, "true")).ID)
	w.await(ids[1], Ended, Reported)
	w.stop()
	failing.Store(false)
	w.start(account)
	select {
	case <-again:
	case <-time.After(patience):
		t.Fatal("the other end is not told again")
	}
	w.stop()
	w.start(account)
	for _, id := range ids {
		w.ended(id)
		w.gone(id)
	}
	if first, again := told[0].Load(), told[1].Load(); first != 1 || again != 1 {
		t.Errorf("%d told, %d told again", first, again)
	}
}

// endings is an observer that counts the ends of jobs.
type endings struct {
	noObserver
	count *atomic.Int32
}

func (e endings) Ended(*Record, *job.Description, *job.Outcome) { e.count.Add(1) }

// TestObserverGetsEachEndOnceOnFullDisk checks that the agent does not pass an end to the observer
// again if it could not write the mark that records it.
func TestObserverGetsEachEndOnceOnFullDisk(t *testing.T) {
	var accounted, observed atomic.Int32
	w := newWorld(t, func(o *Options) {
		o.Observer = endings{count: &observed}
		o.Account = func(_ *Record, _ *job.Description, _ *job.Outcome, _ bool) error {
			if accounted.Add(1) > 1 {
				return nil
			}
			dir := o.Spool.JobPath(job.ID{Job: 1})
			return errors.Join(os.Remove(filepath.Join(dir, fileEnded)), os.Mkdir(filepath.Join(dir, "."+fileTold+".new"), 0o755))
		}
	})
	id := w.mustStart(w.job(1, "true")).ID
	w.ended(id)
	w.gone(id)
	if a, o := accounted.Load(), observed.Load(); a != 1 || o != 1 {
		t.Errorf("%d accounted, %d told, expected each once", a, o)
	}
}

// asking is an observer that asks the agent for its status, and stores the answers.
type asking struct {
	noObserver
	agent func() *Agent
	heard chan string
}

func (o asking) tell(what string) {
	o.agent().Cluster()
	o.heard <- what
}

func (o asking) Began(*Record, *job.Description, time.Time) { o.tell("began") }
func (o asking) IdleGPUs(*job.Description, []string)        {}

func (o asking) Suspended(_ *job.Description, _ time.Time, resumed bool) {
	o.tell(fmt.Sprintf("suspended, and resumed is %t", resumed))
}
func (o asking) Ended(*Record, *job.Description, *job.Outcome) { o.tell("ended") }

// TestObserverMayCallAgent checks that an observer of jobs may call the agent, as the one that
// sends mail does.
func TestObserverMayCallAgent(t *testing.T) {
	heard := make(chan string, 9)
	var w *world
	w = newWorld(t, func(o *Options) { o.Observer = asking{agent: func() *Agent { return w.agent }, heard: heard} })
	next := func(want string) {
		t.Helper()
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("told %q, expected %q", got, want)
			}
		case <-time.After(patience):
			t.Fatalf("not told that it has %s", want)
		}
	}
	id := w.mustStart(w.job(1, "sleep", "1000")).ID
	next("began")
	for _, c := range []struct {
		order Order
		want  string
	}{{Suspend, "suspended, and resumed is false"}, {Resume, "suspended, and resumed is true"}, {Terminate, "ended"}} {
		if err := w.agent.Signal(t.Context(), id, c.order); err != nil {
			t.Fatal(err)
		}
		next(c.want)
	}
}
