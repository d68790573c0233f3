package qclient

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	agentapi "github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/standalone/api"
)

// Session runs many commands on the caller's daemon over one connection, for programs that show the
// state of the daemon. It may be used by several goroutines.
type Session struct {
	client Daemon
	close  func()
}

// Daemon is the daemon of a Session. *api.Client implements it.
type Daemon interface {
	Command(ctx context.Context, q *api.CommandRequest) (*api.CommandAnswer, error)
	Places(ctx context.Context) (*api.PlacesAnswer, error)
	Recent(ctx context.Context) (*api.RecentAnswer, error)
}

// NewSession returns a Session with a daemon that the caller has found.
func NewSession(d Daemon) *Session { return &Session{d, func() {}} }

// Dial returns a Session with the daemon that the commands of the caller would use. It waits for a
// daemon that has just been started, as they do, and says so on stderr if that is a terminal. The calls of
// a Session do not wait for a daemon that is away.
func Dial(ctx context.Context, name string, stderr io.Writer) (*Session, error) {
	c := &Command{Name: name, Stderr: stderr}
	path, err := socket(ctx, func() { c.tell("no daemon is running yet, waiting for it") })
	if err != nil {
		return nil, err
	}
	client, err := api.Dial(path, -1, func(error) {})
	if err != nil {
		return nil, err
	}
	return &Session{client, client.Agent().Close}, nil
}

// Close closes the connections.
func (s *Session) Close() { s.close() }

// Answer is the output of a command of Grid Engine, and its exit status.
type Answer struct {
	Stdout, Stderr string
	Status         int
}

// Message returns the errors that the command printed, or otherwise its output, without the final
// line break.
func (a *Answer) Message() string {
	if text := strings.TrimSpace(a.Stderr); text != "" {
		return text
	}
	return strings.TrimSpace(a.Stdout)
}

// Run makes the daemon carry out a command of Grid Engine that reads no files, such as qdel. An
// error means that the daemon did not answer; a command that fails gives an Answer with a status.
func (s *Session) Run(ctx context.Context, name string, args ...string) (*Answer, error) {
	a, err := s.client.Command(ctx, &api.CommandRequest{
		Key: rand.Text(), Name: name, Args: api.Texts(args), Directory: "/", Zone: os.Getenv("TZ"),
	})
	if err != nil {
		return nil, Explain(err)
	}
	if a.Confirm != "" {
		return &Answer{Stderr: "the launcher of the daemon wants to hear of this change from a command of yours: type " + name, Status: 1}, nil
	}
	return &Answer{Stdout: string(a.Stdout), Stderr: string(a.Stderr), Status: a.Exit}, nil
}

// View returns the output of a command such as qstat or qhost as JSON. A command that shows nothing
// and fails is a *RefusedError.
func (s *Session) View(ctx context.Context, name string, args ...string) (*qstat.Document, error) {
	a, err := s.Run(ctx, name, append([]string{"-json"}, args...)...)
	if err != nil {
		return nil, err
	}
	if strings.TrimSpace(a.Stdout) == "" {
		return nil, &RefusedError{a.Message()}
	}
	d := &qstat.Document{}
	if err := json.Unmarshal([]byte(a.Stdout), d); err != nil {
		if a.Status != 0 {
			return nil, &RefusedError{a.Message()}
		}
		return nil, fmt.Errorf("cannot read the answer to %s: %w", name, err)
	}
	return d, nil
}

// Places returns the path of the daemon's accounting file; it is empty if the daemon writes none.
func (s *Session) Places(ctx context.Context) (accounting string, err error) {
	a, err := s.client.Places(ctx)
	if err != nil {
		return "", Explain(err)
	}
	return string(a.Accounting), nil
}

// Recent returns the latest events of the daemon, and the use of its host over the last day.
func (s *Session) Recent(ctx context.Context) (*api.RecentAnswer, error) {
	a, err := s.client.Recent(ctx)
	if err != nil {
		return nil, Explain(err)
	}
	return a, nil
}

// linker is a daemon that may have web pages.
type linker interface {
	Link(ctx context.Context) (*api.LinkAnswer, error)
}

// Link returns a link with which the caller enters the web pages of the daemon.
func (s *Session) Link(ctx context.Context) (string, error) {
	client, ok := s.client.(linker)
	if !ok {
		return "", errNoPages
	}
	a, err := client.Link(ctx)
	if e, ok := errors.AsType[*agentapi.Error](err); ok && (e.Code == agentapi.Unimplemented || e.Code == agentapi.NotFound) {
		return "", errNoPages
	}
	if err != nil {
		return "", Explain(err)
	}
	return a.Link, nil
}

var errNoPages = errors.New("the daemon serves no pages: start it with --web, or use execd web without --link")

// RefusedError is the message of a command that fails.
type RefusedError struct{ Message string }

func (e *RefusedError) Error() string { return e.Message }

// Refused reports whether an error comes from a command, and not from a failure to reach the
// daemon.
func Refused(err error) bool {
	_, ok := errors.AsType[*RefusedError](err)
	return ok
}
