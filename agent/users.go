package agent

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
)

// The timeout of a query to the user database, and the pauses before further attempts. Each query
// that is never answered occupies a thread.
const (
	userPatience  = 10 * time.Second
	userPause     = 5 * time.Second
	mostQuestions = 16
)

// errNoUsers is wrapped by the errors of lookups that fail because the database does not answer.
var errNoUsers = errors.New("the user database does not work")

// userGuard protects the agent from a user database that does not answer or fails, such as a remote
// directory: lookups then fail at once, the host takes no jobs, and the guard tries the database
// again from time to time.
type userGuard struct {
	ctx   context.Context
	clock clock.Clock
	log   hclog.Logger
	// noted is called without mu when the database has stopped working, or works again.
	noted func()
	spawn func(func(context.Context)) // begins a goroutine that the agent waits for

	mu   sync.Mutex
	why  string // it does not work; empty if it does
	open int    // questions without an answer
}

// whyNot returns the reason why no user can be looked up, or "".
func (g *userGuard) whyNot() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.why
}

// ask queries the database. The result "no such user" is an answer, too.
func ask[T any](g *userGuard, question func() (T, error)) (T, error) {
	if why := g.whyNot(); why != "" {
		var none T
		return none, fmt.Errorf("%w: %s", errNoUsers, why)
	}
	v, err := try(g, question)
	if err == nil || errors.Is(err, userdb.ErrUnknown) {
		return v, err
	}
	if errors.Is(err, userdb.ErrNoAnswer) {
		g.fail(err, func() error {
			_, err := try(g, question)
			return err
		})
	}
	return v, fmt.Errorf("%w: %w", errNoUsers, err)
}

// try queries once, with a timeout.
func try[T any](g *userGuard, question func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	var none T
	g.mu.Lock()
	if g.open >= mostQuestions {
		g.mu.Unlock()
		return none, fmt.Errorf("%w: %d questions are open", userdb.ErrNoAnswer, mostQuestions)
	}
	g.open++
	g.mu.Unlock()
	answers := make(chan answer, 1)
	go func() {
		v, err := question()
		g.mu.Lock()
		g.open--
		g.mu.Unlock()
		answers <- answer{v, err}
	}()
	timer := g.clock.NewTimer(userPatience)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.v, a.err
	case <-timer.C():
		return none, fmt.Errorf("%w, which is %s", userdb.ErrNoAnswer, userPatience)
	case <-g.ctx.Done():
		return none, errors.New("the agent is stopping")
	}
}

// fail records that the database does not work, and repeats the query until it does.
func (g *userGuard) fail(err error, again func() error) {
	if former := g.set(err.Error()); former != "" {
		return
	}
	g.log.Error("the user database does not work: the host takes no jobs", "error", err)
	g.spawn(func(ctx context.Context) {
		for clock.Wait(ctx, g.clock, userPause) {
			if err := again(); errors.Is(err, userdb.ErrNoAnswer) {
				g.set(err.Error())
				continue
			}
			g.set("")
			g.log.Info("the user database works again")
			return
		}
	})
}

// set notes why the database does not work; empty if it does.
func (g *userGuard) set(why string) (former string) {
	g.mu.Lock()
	former, g.why = g.why, why
	g.mu.Unlock()
	if former != why {
		g.noted()
	}
	return former
}

// guardUsers protects the lookups of users and groups by a guard.
func (a *Agent) guardUsers() {
	g := &userGuard{ctx: a.context, clock: a.clock, log: a.log}
	g.noted = a.noteService
	g.spawn = a.spawn
	users, groups := a.options.Users, a.options.Groups
	if users == nil {
		users = userdb.System().User
	}
	if groups == nil {
		groups = userdb.System().GroupID
	}
	a.guard = g
	a.users = func(name string) (*userdb.User, error) {
		return ask(g, func() (*userdb.User, error) { return users(name) })
	}
	a.groupID = func(name string) (uint32, error) {
		return ask(g, func() (uint32, error) { return groups(name) })
	}
}
