package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// Errors of a Terminal whose client no longer holds it.
var (
	// ErrDetached: no client holds it, because the client has detached, or because the agent is
	// stopping.
	ErrDetached = errors.New("the agent is stopping")
	// ErrTaken: another client holds it.
	ErrTaken = errors.New("another client has attached to the job")
)

// console is the agent's side of the terminal of a job; the supervisor has another descriptor of
// it. It exists from the observed start of the job until its end has been acknowledged, so that a
// client can still read the last output of a short job.
type console struct {
	*launch.Terminal
	reading       cancelLock // for the reader of Out
	readingErrors cancelLock // for the reader of Err
	writing       cancelLock // for the writer of In

	mu       sync.Mutex
	attached *attachment   // the client that holds it, or nil
	alone    chan struct{} // nil, or closed when a client attaches after another one disappeared without detaching
	expected bool          // a client has attached and has not detached
	ended    bool
}

// seat holds the terminal of a job, and whether a client is expected to attach again. Its lock may be
// taken while the lock of the table is held. While it is held, only the lock of the console may be taken.
type seat struct {
	mu       sync.Mutex
	console  *console // nil until the agent has the terminal of an interactive job
	expected bool     // fileClient exists
}

// terminal returns the terminal, or nil if the agent does not have it.
func (s *seat) terminal() *console {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.console
}

// open stores a terminal. If a client is expected, it returns a channel that is closed when one
// attaches; otherwise nil.
func (s *seat) open(c *console) (alone <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.console = c
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expected = s.expected; c.expected {
		c.alone = make(chan struct{})
	}
	return c.alone
}

// expects reports whether fileClient exists: a client is expected to attach again.
func (s *seat) expects() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.expected
}

// expect records whether fileClient exists.
func (s *seat) expect(client bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expected = client
}

// cancelLock is a lock whose waiters stop waiting when they lose the terminal.
type cancelLock chan struct{}

func (l cancelLock) release() { <-l }

// acquire returns false, without the lock, when gone is closed.
func (l cancelLock) acquire(gone <-chan struct{}) bool {
	select {
	case l <- struct{}{}:
	case <-gone:
		return false
	}
	select {
	case <-gone:
		l.release()
		return false
	default:
		return true
	}
}

// consolePatience is the time limit for a supervisor's answer.
const consolePatience = 5 * time.Second

// openConsole gets the terminal of an interactive job that runs, if it is not here yet.
func (a *Agent) openConsole(ctx context.Context, e *entry) {
	state := a.table.state(e)
	begun := state == Running || state == Suspended || state == Ending
	if e.run.Description.Terminal == nil || e.seat.terminal() != nil || !begun {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, consolePatience)
	defer cancel()
	t, err := e.run.OpenTerminal(ctx)
	if err != nil {
		a.log.Warn("cannot get the terminal of a job", "job", e.id.String(), "error", err)
		return
	}
	alone := e.seat.open(&console{
		Terminal: t, reading: make(cancelLock, 1), readingErrors: make(cancelLock, 1), writing: make(cancelLock, 1),
	})
	if alone != nil { // the client of the submission, or a client of a previous agent, whose connection ended with that agent
		a.hangUp(e, alone, cmp.Or(a.options.HangUp, DefaultHangUp))
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.table.changes()
}

// noteClient records on the disk whether a job's client has not detached. If it does not attach to
// the next agent again, that agent takes it for lost. The file is not synced: a power loss ends the
// job anyway.
func (a *Agent) noteClient(e *entry, c *console) {
	e.ordering.Lock()
	defer e.ordering.Unlock()
	over := a.table.state(e).Over()
	c.mu.Lock()
	expected := c.expected
	c.mu.Unlock()
	if expected == e.seat.expects() || over {
		return
	}
	defer a.disk.begin("writing whether job " + e.id.String() + " has a client")()
	var err error
	if expected {
		err = e.run.Files().WriteFile(fileClient, nil)
	} else {
		err = e.run.Files().Remove(fileClient)
	}
	if err != nil {
		a.log.Warn("cannot record whether a job has a client: the next agent will not know it", "job", e.id.String(), "error", err)
		return
	}
	e.seat.expect(expected)
}

// Attach connects the caller with a job. See Commands.
func (a *Agent) Attach(ctx context.Context, id job.ID) (Terminal, error) {
	for {
		a.table.mu.Lock()
		e, changed := a.table.jobs[id], a.table.changed
		if e == nil {
			a.table.mu.Unlock()
			return nil, notFound(id)
		}
		state, run := e.state, e.run
		a.table.mu.Unlock()
		console := e.seat.terminal() // read after changed, which is closed when a terminal is stored later
		switch {
		case run != nil && (run.Description.Terminal == nil || e.record.Simulated > 0):
			return nil, &Error{FailedPrecondition, fmt.Errorf("job %s is not interactive: it has no terminal", id)}
		case console != nil:
			return a.attach(e, console)
		case state.Over():
			return nil, &Error{FailedPrecondition, fmt.Errorf("job %s has finished, and its terminal is closed", id)}
		case state == Running || state == Suspended:
			e.poke() // the supervisor may answer now
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, &Error{Unavailable, fmt.Errorf("job %s has not started: %w", id, ctx.Err())}
		case <-a.context.Done():
			return nil, &Error{Unavailable, errors.New("the agent is stopping")}
		}
	}
}

// attach gives the terminal of a job to the caller.
func (a *Agent) attach(e *entry, c *console) (Terminal, error) {
	t := &attachment{agent: a, entry: e, console: c, gone: make(chan struct{})}
	if !c.give(t) {
		return nil, &Error{FailedPrecondition, fmt.Errorf("job %s has finished, and its terminal is closed", e.id)}
	}
	t.stop = context.AfterFunc(a.context, func() { c.leave(t, false, true) })
	a.noteClient(e, c)
	return t, nil
}

// give takes the terminal from its current client, and gives it to another one.
func (c *console) give(to *attachment) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return false
	}
	c.take(ErrTaken)
	c.attached, c.expected = to, true
	c.notAlone()
	return true
}

// notAlone ends the wait for a lost client. The caller holds mu.
func (c *console) notAlone() {
	if c.alone != nil {
		close(c.alone)
		c.alone = nil
	}
}

// take takes the terminal from its client; why is the error that the client gets. The caller holds
// mu.
func (c *console) take(why error) {
	if c.attached == nil {
		return
	}
	c.attached.why = why
	close(c.attached.gone)
	c.attached = nil
	// Waiting readers and writers are woken.
	c.SetDeadline(time.Unix(1, 0))
	for _, l := range []cancelLock{c.reading, c.readingErrors, c.writing} {
		l.acquire(nil)
		defer l.release()
	}
	c.SetDeadline(time.Time{})
}

// leave takes the terminal from a client, if the client still holds it. lost says that the client
// disappeared without detaching: the returned channel is closed when another client attaches, or
// when the terminal is closed. expected says that the client may come back.
func (c *console) leave(t *attachment, lost, expected bool) (alone <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.attached != t {
		return nil
	}
	c.take(ErrDetached)
	c.expected = expected
	if c.ended {
		c.Close()
		return nil
	}
	if lost {
		c.alone = make(chan struct{})
	}
	return c.alone
}

// retire closes the terminal of a job that is being removed. A client that is still attached reads
// the last output and then leaves.
func (c *console) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended && c.attached == nil {
		c.Close()
	}
	c.ended = true
	c.notAlone()
}

// end closes the terminal, even if a client is attached.
func (c *console) end() {
	c.mu.Lock()
	c.take(ErrDetached)
	c.mu.Unlock()
	c.retire()
}

// closeConsoles closes all terminals, when no job is watched any more.
func (a *Agent) closeConsoles() {
	for _, e := range a.table.list() {
		if c := e.seat.terminal(); c != nil {
			c.end()
		}
	}
}

// attachment is a Terminal.
type attachment struct {
	agent   *Agent
	entry   *entry
	console *console
	gone    chan struct{} // closed when it loses the terminal, by a holder of console.mu
	why     error         // it has not, then
	stop    func() bool
}

func (t *attachment) isGone() bool {
	select {
	case <-t.gone:
		return true
	default:
		return false
	}
}

func (t *attachment) Pipes() bool { return t.console.Err != nil }

func (t *attachment) Read(p []byte) (int, error) {
	return t.read(t.console.reading, t.console.Out, p)
}

func (t *attachment) ReadErrors(p []byte) (int, error) {
	if !t.Pipes() {
		return 0, io.EOF
	}
	return t.read(t.console.readingErrors, t.console.Err, p)
}

func (t *attachment) read(l cancelLock, file *os.File, p []byte) (int, error) {
	if !l.acquire(t.gone) {
		return 0, t.why
	}
	defer l.release()
	n, err := file.Read(p)
	switch {
	case n > 0:
		return n, nil
	case t.isGone():
		return 0, t.why
	case errors.Is(err, unix.EIO): // all descriptors of the other side are closed (pty(7))
		return 0, io.EOF
	}
	return n, err
}

func (t *attachment) Write(p []byte) (int, error) {
	if !t.console.writing.acquire(t.gone) {
		return 0, t.why
	}
	defer t.console.writing.release()
	if t.console.In == nil {
		return 0, os.ErrClosed
	}
	n, err := t.console.In.Write(p)
	if err != nil && t.isGone() {
		err = t.why
	}
	return n, err
}

func (t *attachment) EndInput() error {
	if !t.console.writing.acquire(t.gone) {
		return t.why
	}
	defer t.console.writing.release()
	return t.console.EndInput()
}

func (t *attachment) Resize(rows, cols uint16) error {
	switch {
	case t.isGone():
		return t.why
	case t.Pipes():
		return nil
	}
	return launch.SetTerminalSize(t.console.Out, rows, cols)
}

// Exit waits for the end of the job, which may be long after the job has closed its output: in the
// meantime another client may attach. It also works after the job's entry was removed from the
// table.
func (t *attachment) Exit(ctx context.Context) (*job.Outcome, error) {
	a, e := t.agent, t.entry
	for {
		a.table.mu.Lock()
		state, outcome, changed := e.state, e.outcome, a.table.changed
		a.table.mu.Unlock()
		if state.Over() {
			return outcome, nil
		}
		select {
		case <-changed:
		case <-t.gone:
			return nil, t.why
		case <-ctx.Done():
			return nil, &Error{Unavailable, ctx.Err()}
		case <-a.context.Done():
			return nil, &Error{Unavailable, ErrDetached}
		}
	}
}

func (t *attachment) Detach() {
	t.stop()
	t.console.leave(t, false, false)
	t.agent.noteClient(t.entry, t.console)
}

func (t *attachment) Leave() {
	t.stop()
	t.console.leave(t, false, true)
}

func (t *attachment) Close() {
	t.stop()
	alone := t.console.leave(t, true, true)
	switch {
	case alone == nil:
	case t.Pipes(): // data in transit is lost
		t.agent.hangUp(t.entry, alone, 0)
	default:
		t.agent.hangUp(t.entry, alone, cmp.Or(t.agent.options.HangUp, DefaultHangUp))
	}
}

// hangUp terminates a job if no client attaches within d; a negative d means never.
func (a *Agent) hangUp(e *entry, alone <-chan struct{}, d time.Duration) {
	if d < 0 {
		return
	}
	timer := a.clock.NewTimer(d)
	a.spawn(func(ctx context.Context) {
		defer timer.Stop()
		select {
		case <-timer.C():
		case <-alone:
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-alone:
			return
		default:
		}
		a.log.Info("terminating a job: no client has attached again in time", "job", e.id.String())
		if err := a.signal(e, Terminate, Sequence{}); err != nil {
			a.log.Error("cannot terminate a job", "job", e.id.String(), "error", err)
		}
	})
}
