package agent

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
)

// TestUserDatabaseHangs checks that jobs continue while the user database hangs. New jobs are
// refused at once with the reason, and accepted again as soon as it answers.
func TestUserDatabaseHangs(t *testing.T) {
	hang := make(chan struct{}) // closed when it answers again
	questions := make(chan struct{}, 100)
	var hanging atomic.Bool
	database := userdb.System()
	manual := clock.NewManual(clock.System().Now())
	w := newWorld(t, func(o *Options) {
		o.Clock = manual
		o.Users = func(name string) (*userdb.User, error) {
			questions <- struct{}{}
			if hanging.Load() {
				<-hang
			}
			return database.User(name)
		}
	})
	old := w.mustStart(w.job(1, "sleep", "1000")).ID
	w.await(old, Running)
	hanging.Store(true)
	for len(questions) > 0 {
		<-questions
	}

	refused := make(chan error, 1)
	go func() {
		_, err := w.agent.Start(t.Context(), w.job(2, "true"))
		refused <- err
	}()
	<-questions
	if err := manual.WaitFor(t.Context(), userPatience); err != nil {
		t.Fatal(err)
	}
	manual.Advance(userPatience)
	if err := <-refused; code(err) != Unavailable || !strings.Contains(err.Error(), "the user database does not work") {
		t.Errorf("%v", err)
	}
	// The others are not even tried.
	if _, err := w.agent.Start(t.Context(), w.job(3, "true")); code(err) != Unavailable || !strings.Contains(err.Error(), "the host takes no jobs: the user database does not work") {
		t.Errorf("%v", err)
	}
	if h := w.agent.Health(); len(h.Troubles) != 1 || h.Draining == "" || h.Used != 1 {
		t.Errorf("%+v", h)
	}
	if err := w.agent.Signal(t.Context(), old, Suspend); err != nil {
		t.Error(err)
	}
	w.await(old, Suspended)
	if err := w.agent.Signal(t.Context(), old, Resume); err != nil {
		t.Error(err)
	}
	w.await(old, Running)

	// Questions without an answer do not become more and more.
	for range mostQuestions + 2 {
		if err := manual.WaitFor(t.Context(), userPause); err != nil {
			t.Fatal(err)
		}
		w.agent.guard.mu.Lock()
		open := w.agent.guard.open
		w.agent.guard.mu.Unlock()
		manual.Advance(userPause)
		if open >= mostQuestions {
			continue
		}
		<-questions
		if err := manual.WaitFor(t.Context(), userPatience); err != nil {
			t.Fatal(err)
		}
		manual.Advance(userPatience)
	}
	if n := len(questions); n > 0 {
		t.Errorf("%d questions more than expected", n)
	}

	close(hang)
	for w.agent.guard.whyNot() != "" {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if manual.WaitFor(ctx, userPause) == nil {
			manual.Advance(userPause)
		}
		cancel()
	}
	id := w.mustStart(w.job(4, "true")).ID
	if o := w.ended(id); o.Failed != 0 {
		t.Errorf("%+v", o)
	}
	if h := w.agent.Health(); len(h.Troubles) > 0 || h.Draining != "" {
		t.Errorf("%+v", h)
	}
}
