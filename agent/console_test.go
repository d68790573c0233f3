package agent

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
)

// screen is the terminal of a client that is attached to a job, with the output that it has received.
type screen struct {
	*world
	Terminal
	mu   sync.Mutex
	text string
	more chan struct{}
	err  error // of the last read
}

// attach attaches to a job.
func (w *world) attach(id job.ID) *screen {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	t, err := w.agent.Attach(ctx, id)
	if err != nil {
		w.Fatal(err)
	}
	s := &screen{world: w, Terminal: t, more: make(chan struct{}, 1)}
	go func() {
		b := make([]byte, 1000)
		for {
			n, err := t.Read(b)
			s.mu.Lock()
			s.text += string(b[:n])
			s.err = err
			s.mu.Unlock()
			select {
			case s.more <- struct{}{}:
			default:
			}
			if err != nil {
				return
			}
		}
	}()
	return s
}

// expect waits until something is to be seen behind what was seen before.
func (s *screen) expect(what string) {
	s.Helper()
	s.wait(func() bool {
		_, rest, found := strings.Cut(s.text, what)
		if found {
			s.text = rest
		}
		return found
	}, what)
}

func (s *screen) wait(so func() bool, what string) {
	s.Helper()
	timeout := time.After(patience)
	for {
		s.mu.Lock()
		found, text, err := so(), s.text, s.err
		s.mu.Unlock()
		if found {
			return
		}
		if err != nil {
			s.Fatalf("%q does not come, but %q and %v", what, text, err)
		}
		select {
		case <-s.more:
		case <-timeout:
			s.Fatalf("%q does not come, but %q", what, text)
		}
	}
}

// over waits until there is no more to be seen.
func (s *screen) over() error {
	s.Helper()
	s.wait(func() bool { return s.err != nil }, "the end")
	return s.err
}

func (s *screen) enter(text string) {
	s.Helper()
	if _, err := s.Write([]byte(text)); err != nil {
		s.Error(err)
	}
}

// interactive returns the start of an interactive job.
func (w *world) interactive(id int, i Interactive, words ...string) *Start {
	w.Helper()
	s := w.job(id, words...)
	s.Interactive = &i
	return s
}

// TestLoginShell checks that a login shell is the one of its owner and has its own terminal.
func TestLoginShell(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(1, Interactive{Rows: 33, Cols: 77, Term: "vt100", Login: true}, "ignored")).ID
	s := w.attach(id)
	s.enter("PS1=\n")
	s.enter("echo \"<$0|$TERM|$JOB_ID|$LOGNAME|$(stty size)|$(tty)|$(ps -o tty= $$)>\"\n")
	s.expect("<-sh|vt100|1|" + w.owner.Username + "|33 77|/dev/pts/")
	s.expect(">")
	s.enter("stty -echo; trap 'echo size $(stty size)' WINCH; echo ready\n")
	s.expect("\nready")
	if err := s.Resize(40, 100); err != nil {
		t.Error(err)
	}
	s.enter("\n")
	s.expect("size 40 100")

	// Ctrl-C ends what runs in the foreground, and not the shell.
	s.enter("echo go; sleep 1000; echo st$?\n")
	s.expect("go")
	s.interrupt("echo alive\n", "alive")
	s.enter("exit 7\n")
	if err := s.over(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if o := w.ended(id); !o.Ran || o.ExitStatus != 7 || o.Failed != 0 {
		t.Errorf("%+v", o)
	}
}

// interrupt types Ctrl-C until a command after it is carried out: the first one may
// come before the shell has started what it is to end.
func (s *screen) interrupt(then, want string) {
	s.Helper()
	for range 100 {
		s.enter("\x03" + then)
		timeout := time.After(200 * time.Millisecond)
	waiting:
		for {
			s.mu.Lock()
			found := strings.Contains(s.text, want)
			s.mu.Unlock()
			if found {
				return
			}
			select {
			case <-s.more:
			case <-timeout:
				break waiting
			}
		}
	}
	s.Fatal("Ctrl-C has no effect")
}

// TestInteractiveCommand checks that clients get the last output and the exit status of a command,
// also if they attach after its end.
func TestInteractiveCommand(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(2, Interactive{}, "-N", "x", "-shell", "y", "tty; kill -TERM $$")).ID
	w.await(id, Ended, Reported)
	s := w.attach(id)
	s.expect("/dev/pts/")
	if err := s.over(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	if o := w.ended(id); o.ExitStatus != 128+15 || o.Signal != 15 {
		t.Errorf("%+v", o)
	}
	if _, err := w.agent.Attach(t.Context(), job.ID{Job: 3}); code(err) != NotFound {
		t.Error(err)
	}
	batch := w.mustStart(w.job(4, "sleep", "1000")).ID
	if _, err := w.agent.Attach(t.Context(), batch); code(err) != FailedPrecondition {
		t.Error(err)
	}
}

func code(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return ""
}

// TestAttachAgain attaches to a shell again after a restart of the agent. A new client replaces the
// attached one.
func TestAttachAgain(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(5, Interactive{Login: true}, "ignored")).ID
	s := w.attach(id)
	s.enter("stty -echo; WORD=kept; echo o''k\n")
	s.expect("ok")
	next := w.attach(id)
	if err := s.over(); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	if _, err := s.Write([]byte("x")); !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	s.Close() // has nothing any more
	next.enter("echo 1 $WORD\n")
	next.expect("1 kept")

	w.stop()
	if err := next.over(); !errors.Is(err, ErrDetached) {
		t.Error(err)
	}
	w.start(shellOfOwner("/bin/sh"))
	s = w.attach(id)
	s.enter("echo 2 $WORD; exit 3\n")
	s.expect("2 kept")
	if o := w.ended(id); o.ExitStatus != 3 {
		t.Errorf("%+v", o)
	}
}

// TestAttachWhileAnotherClientAwaitsEnd attaches a second client to a job that has closed its
// output, while the first waits for the end of the job. The agent tells the first client that it was
// replaced, and the job no longer gets the client's input.
func TestAttachWhileAnotherClientAwaitsEnd(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(5, Interactive{Pipes: true}, "-N", "x", "-shell", "y", "exec >&- 2>&-; read x; exit 3")).ID
	s := w.attach(id)
	if err := s.over(); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	told := make(chan error, 1)
	go func() {
		_, err := s.Exit(ctx)
		told <- err
	}()
	next := w.attach(id)
	if err := <-told; !errors.Is(err, ErrTaken) {
		t.Error(err)
	}
	next.enter("\n")
	if o, err := next.Exit(ctx); err != nil || o.ExitStatus != 3 {
		t.Errorf("%+v, %v", o, err)
	}
}

// TestRepeatedAttachKeepsNoState attaches and detaches repeatedly: the agent keeps no data of past
// attachments.
func TestRepeatedAttachKeepsNoState(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"), func(o *Options) { o.HangUp = time.Hour })
	id := w.mustStart(w.interactive(6, Interactive{}, "sleep", "1000")).ID
	w.attach(id).Close()
	before := runtime.NumGoroutine()
	const times, more = 200, 50
	for range times {
		w.attach(id).Close()
	}
	w.until("there are not more goroutines than before", func() bool { return runtime.NumGoroutine() <= before+more })
}

// TestHangUp checks that a job whose client is disconnected is ended, unless a client attaches
// again or the client has detached.
func TestHangUp(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"), func(o *Options) { o.HangUp = time.Millisecond })
	gone := w.mustStart(w.interactive(6, Interactive{}, "sleep", "1000")).ID
	left := w.mustStart(w.interactive(7, Interactive{}, "sleep", "1000")).ID
	w.attach(left).Detach()
	w.attach(gone).Close()
	if o := w.ended(gone); o.Signal != 9 {
		t.Errorf("%+v", o)
	}
	if r, ok := w.agent.Job(left); !ok || r.State != Running {
		t.Errorf("%+v", r)
	}
}

// TestHangUpAfterRestart checks that a restarted agent waits for clients that were attached to the
// previous agent, but not for clients that had detached, nor for jobs without a client.
func TestHangUpAfterRestart(t *testing.T) {
	manual := clock.NewManual(clock.System().Now())
	options := func(o *Options) {
		o.Clock = manual
		shellOfOwner("/bin/sh")(o)
	}
	w := newWorld(t, options)
	const (
		attached = iota + 1 // when the agent ends
		lost                // his client, a moment before
		back                // attached, and again after the restart
		detached
		never
		jobs = never
	)
	for id := range jobs {
		w.mustStart(w.interactive(id+1, Interactive{}, "sleep", "1000"))
	}
	for id := range detached {
		s := w.attach(job.ID{Job: id + 1})
		switch id + 1 {
		case lost:
			s.Close()
		case detached:
			s.Detach()
		}
	}
	w.await(job.ID{Job: never}, Running)
	running := func(number int, want bool) {
		t.Helper()
		if r, ok := w.agent.Job(job.ID{Job: number}); want != (ok && r.State == Running) {
			t.Errorf("job %d is %+v", number, r)
		}
	}
	for range 2 { // agents, of which the second one has not seen a client
		w.stop()
		w.start(options)
		w.until("all terminals are here", func() bool {
			w.agent.table.mu.Lock()
			defer w.agent.table.mu.Unlock()
			for id := range jobs {
				if w.agent.table.jobs[job.ID{Job: id + 1}].seat.terminal() == nil {
					return false
				}
			}
			return true
		})
		manual.Advance(DefaultHangUp - time.Second)
	}
	w.attach(job.ID{Job: back})
	for id := range jobs {
		running(id+1, true)
	}
	manual.Advance(time.Second)
	for _, id := range []int{attached, lost} {
		if o := w.ended(job.ID{Job: id}); o.Signal != 9 {
			t.Errorf("job %d: %+v", id, o)
		}
	}
	for _, id := range []int{back, detached, never} {
		running(id, true)
	}
}

// TestHangUpIfClientNeverAttaches checks that a job whose client never attaches is ended like one
// whose client has disconnected, also by an agent that did not start the job.
func TestHangUpIfClientNeverAttaches(t *testing.T) {
	manual := clock.NewManual(clock.System().Now())
	options := func(o *Options) {
		o.Clock = manual
		shellOfOwner("/bin/sh")(o)
	}
	w := newWorld(t, options)
	const (
		comes = iota + 1
		doesNot
		again // after a restart
	)
	open := func(number int) {
		w.until("the terminal is here", func() bool {
			w.agent.table.mu.Lock()
			defer w.agent.table.mu.Unlock()
			return w.agent.table.jobs[job.ID{Job: number}].seat.terminal() != nil
		})
	}
	start := func(number int) {
		w.mustStart(w.interactive(number, Interactive{Pipes: true, Awaited: true}, "sleep", "1000"))
		open(number)
	}
	start(comes)
	start(doesNot)
	w.attach(job.ID{Job: comes})
	manual.Advance(DefaultHangUp - time.Second)
	for _, number := range []int{comes, doesNot} {
		if r, ok := w.agent.Job(job.ID{Job: number}); !ok || r.State != Running {
			t.Errorf("job %d is %+v", number, r)
		}
	}
	manual.Advance(time.Second)
	if o := w.ended(job.ID{Job: doesNot}); o.Signal != 9 {
		t.Errorf("%+v", o)
	}
	if r, ok := w.agent.Job(job.ID{Job: comes}); !ok || r.State != Running {
		t.Errorf("%+v", r)
	}
	start(again)
	w.stop()
	w.start(options)
	open(again)
	manual.Advance(DefaultHangUp)
	if o := w.ended(job.ID{Job: again}); o.Signal != 9 {
		t.Errorf("%+v", o)
	}
}

// TestInteractiveRefused checks which interactive jobs are refused.
func TestInteractiveRefused(t *testing.T) {
	w := newWorld(t)
	slave := w.interactive(8, Interactive{}, "true")
	slave.Slave = true
	array := w.interactive(8, Interactive{}, "-t", "1-2", "true")
	array.ID.Task = 1
	term := w.interactive(8, Interactive{Term: "a\nb"}, "true")
	script := w.interactive(8, Interactive{}, "true")
	script.Request.Binary = false
	for name, s := range map[string]*Start{"slave": slave, "array": array, "terminal type": term, "script": script} {
		if _, err := w.agent.Start(t.Context(), s); code(err) != InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// shellOfOwner gives all users another shell than the passwd entry.
func shellOfOwner(shell string) func(*Options) {
	return func(o *Options) {
		o.Users = func(name string) (*userdb.User, error) {
			u, err := userdb.System().User(name)
			if err != nil {
				return nil, err
			}
			other := *u
			other.Shell = shell
			return &other, nil
		}
	}
}

// TestAttachedClientGetsEndOfRemovedJob checks that an attached client gets the last output and the
// end of a job that was already removed: a master may be faster than a client.
func TestAttachedClientGetsEndOfRemovedJob(t *testing.T) {
	w := newWorld(t, shellOfOwner("/bin/sh"))
	id := w.mustStart(w.interactive(2, Interactive{}, "-N", "x", "-shell", "y", "stty -opost; read x; echo last words; exit 3")).ID
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	terminal, err := w.agent.Attach(ctx, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := terminal.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(id); o.ExitStatus != 3 {
		t.Errorf("%+v", o)
	}
	w.until("the job is gone", func() bool {
		_, here := w.agent.Job(id)
		return !here
	})
	if _, err := w.agent.Attach(ctx, id); code(err) != NotFound {
		t.Error(err)
	}
	b, err := io.ReadAll(terminal)
	if err != nil || !strings.HasSuffix(string(b), "last words\n") {
		t.Errorf("%q, %v", b, err)
	}
	if o, err := terminal.Exit(ctx); err != nil || o.ExitStatus != 3 {
		t.Errorf("%+v, %v", o, err)
	}
	terminal.Detach()
	if _, err := terminal.Read(make([]byte, 1)); !errors.Is(err, ErrDetached) {
		t.Error(err)
	}
}
