package launcher

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// ClientOptions say how a front finds its launcher, and what it does without one.
type ClientOptions struct {
	// Descriptor is the connection that this process was started with; -1 for none.
	Descriptor int
	// Path is the socket SocketName of the spool directory, for a front without a descriptor and for one whose launcher
	// has ended. If it is empty, the front ends with its first launcher.
	Path string
	// Program identifies the executable of this process, see ProgramOf, and Args are its arguments. The connection is
	// refused if the launcher starts fronts of another executable, or with other arguments. Both may be empty.
	Program string
	Args    []string
	// Lost must end the process. The client calls it if it cannot connect to a launcher again. Until then pending orders
	// do not return, because their results are unknown: a caller that took an order for failed could report a running job
	// as one that could not be started.
	Lost func(error)
	// Away is called when the launcher has ended, and Back when there is a launcher again: orders wait meanwhile. Both may
	// be nil.
	Away func(error)
	Back func()
}

// SocketName is the name of the socket in the spool directory on which the launcher waits for fronts.
const SocketName = "launcher.sock"

// ProgramOf identifies an executable: a file with other contents has another identity.
func ProgramOf(path string) (string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	return fmt.Sprint(st.Dev, st.Ino, st.Size, st.Mtim.Nano()), nil
}

// line is a connection with one launcher.
type line struct {
	conn *conn
	over chan struct{} // closed when no more answers will come

	mu      sync.Mutex
	waiting map[uint64]chan reply
}

// reply is an answer with its descriptors.
type reply struct {
	answer *answer
	fds    []int
}

var (
	// errGone is the error of orders whose launcher has closed its end.
	errGone = errors.New("the launcher has stopped")
	errAway = errors.New("the launcher, which starts jobs, is not running")
)

// otherError says that a launcher is not the one of this front: the front has to be started again.
type otherError struct{ text string }

func (e *otherError) Error() string { return e.text }

func (l *line) expect(number uint64, to chan reply) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting[number] = to
}

func (l *line) forget(number uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.waiting, number)
}

// decodeAnswer reads a message of the launcher.
func decodeAnswer(text []byte, a *answer) error {
	if isCompact(text) {
		return readCompactAnswer(text, a)
	}
	body, err := decodeMessage(text, a)
	if body != nil {
		a.Body = body
	}
	return err
}

// receive passes each answer to the caller that waits for it, until the launcher has gone.
func (l *line) receive() error {
	buffer := make([]byte, mostMessage+1)
	for {
		text, fds, err := l.conn.read(buffer)
		if err == nil && len(text) == 0 {
			err = errGone
		}
		a := &answer{}
		if err == nil {
			err = decodeAnswer(text, a)
		}
		if err != nil {
			closeAll(fds)
			return err
		}
		l.mu.Lock()
		to := l.waiting[a.Number]
		if !a.more {
			delete(l.waiting, a.Number)
		}
		l.mu.Unlock()
		if to == nil { // the caller has given up
			closeAll(fds)
			continue
		}
		to <- reply{a, fds}
	}
}

// Connect connects this process to its launcher. Without a descriptor it waits until there is one, or the context has
// ended.
func Connect(ctx context.Context, o ClientOptions) (*Client, error) {
	c := &Client{options: o, over: make(chan struct{}), verifies: make(chan struct{}, mostVerifies), known: map[job.ID]*line{}, outcomes: map[job.ID]*job.Outcome{}, waits: map[job.ID]*pendingWait{}, scripts: map[int]scriptState{}, joined: make(chan struct{})}
	if o.Descriptor >= 0 {
		conn, err := newConn(o.Descriptor)
		if err != nil {
			return nil, err
		}
		return c, c.join(conn)
	}
	return c, c.dial(ctx, false)
}

// dial connects to the socket of a launcher, as soon as there is one. The first launcher may make the spool directory; one
// that has gone since, with the jobs in it, is an error.
func (c *Client) dial(ctx context.Context, again bool) error {
	const first, last = 20 * time.Millisecond, time.Second
	for pause := first; ; pause = min(2*pause, last) {
		conn, err := dial(c.options.Path)
		if err == nil {
			err = c.join(conn)
		}
		away := errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ECONNREFUSED) || errors.Is(err, unix.EAGAIN) || errors.Is(err, errGone)
		if !away {
			return err
		}
		if _, err := os.Stat(filepath.Dir(c.options.Path)); again && errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot find a launcher: %w", err)
		}
		select {
		case <-time.After(pause):
		case <-c.over:
			return ErrClosed
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// dial connects to the socket of a launcher. The socket must belong to a process of root.
func dial(path string) (*conn, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	err = claim.At(path, func(short string) error {
		return os.NewSyscallError("connect", unix.Connect(fd, &unix.SockaddrUnix{Name: short}))
	})
	var c *conn
	if err == nil {
		var peer *unix.Ucred
		switch peer, err = unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED); {
		case err != nil:
		case peer.Uid != 0:
			err = fmt.Errorf("the socket belongs to a process of user ID %d, expected root", peer.Uid)
		default:
			c, err = newConn(fd)
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("cannot connect to the launcher on %q: %w", path, err)
	}
	return c, nil
}

// greetingTime is how long a launcher may take to answer the first order.
const greetingTime = 30 * time.Second

// greet asks the launcher who it is.
func greet(conn *conn) (*helloAnswer, error) {
	if err := conn.file.SetDeadline(time.Now().Add(greetingTime)); err != nil {
		return nil, err
	}
	text, err := json.Marshal(&envelope{Version: Version, Order: kindHello})
	if err != nil {
		return nil, err
	}
	switch err := conn.write(text); {
	case errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET):
		return nil, errGone
	case err != nil:
		return nil, err
	}
	text, fds, err := conn.read(make([]byte, mostMessage+1))
	if errors.Is(err, unix.ECONNRESET) || err == nil && len(text) == 0 {
		err = errGone
	}
	a, hello := &answer{}, &helloAnswer{}
	if err == nil {
		err = decodeAnswer(text, a)
	}
	if err != nil {
		closeAll(fds)
		return nil, err
	}
	if fd, err := open(reply{a, fds}, hello); err != nil {
		return nil, err
	} else if fd >= 0 {
		closeAll([]int{fd})
	}
	return hello, conn.file.SetDeadline(time.Time{})
}

// join begins to use a connection, if it leads to the launcher of this front.
func (c *Client) join(conn *conn) error {
	hello, err := greet(conn)
	if err == nil {
		err = c.admit(hello)
	}
	if err != nil {
		conn.close()
		return fmt.Errorf("cannot talk to the launcher: %w", err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		conn.close()
		return ErrClosed
	}
	l := &line{conn: conn, over: make(chan struct{}), waiting: map[uint64]chan reply{}}
	c.area, c.settings, c.line = jobdir.Area(hello.Area), hello.Settings, l
	c.cell = [2]string{hello.SGERoot, hello.SGECell}
	close(c.joined)
	go func() { c.lose(l, l.receive()) }()
	return nil
}

// lose ends a connection whose launcher has gone, and finds the next launcher.
func (c *Client) lose(l *line, err error) {
	defer l.conn.close() // after over is closed: until then writers find a connection without a reader
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	c.mu.Lock()
	c.line, c.joined, c.stop = nil, make(chan struct{}), cancel
	ended, closed := c.ended, c.closed
	c.mu.Unlock()
	if ended || c.options.Path == "" {
		if !closed {
			c.lost(err)
		}
		close(c.over)
		close(l.over)
		return
	}
	if c.options.Away != nil {
		c.options.Away(err)
	}
	close(l.over)
	l.conn.close()
	err = c.dial(ctx, true)
	if err == nil {
		if c.options.Back != nil {
			c.options.Back()
		}
		return
	}
	c.mu.Lock()
	closed = c.closed
	c.mu.Unlock()
	if !closed {
		c.lost(err)
	}
	close(c.over)
}

// lost calls Lost once.
func (c *Client) lost(err error) { c.losing.Do(func() { c.options.Lost(err) }) }

// Leave says that this process is about to end. If there is no launcher now, or it goes from now on, the client calls
// Lost at once: orders would wait for the next launcher.
func (c *Client) Leave() { c.end(false) }

// Close ends the connection.
func (c *Client) Close() { c.end(true) }

func (c *Client) end(closed bool) {
	c.mu.Lock()
	c.ended, c.closed = true, c.closed || closed
	l, stop := c.line, c.stop
	c.mu.Unlock()
	switch {
	case l != nil && closed:
		l.conn.close()
	case l == nil && stop != nil:
		stop()
	}
}

// current returns the connection with the launcher. It waits until there is one.
func (c *Client) current(ctx context.Context) (*line, error) {
	for {
		c.mu.Lock()
		l, joined := c.line, c.joined
		c.mu.Unlock()
		if l != nil {
			return l, nil
		}
		select {
		case <-joined:
		case <-c.over:
			return nil, ErrClosed
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// jobOf returns the job that an order is about, if it is about one.
func jobOf(body any) (id job.ID, ok bool) {
	switch b := body.(type) {
	case *ofJob:
		return b.ID, true
	case *signalBody:
		return b.ID, true
	case *noteBody:
		return b.ID, true
	case *removeBody:
		return b.ID, true
	case *prepareBody:
		return b.Plan.Description.ID, true
	case *taskBody: // about the job of the task
		return job.ID{Job: b.ID.Job, Task: b.ID.Task}, true
	}
	return job.ID{}, false
}

// note records which jobs the launcher of a connection has.
func (c *Client) note(l *line, k kind, id job.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch k {
	case kindPrepare, kindPrepareTask, kindOpen:
		c.known[key(id)] = l
	case kindRemove:
		delete(c.known, key(id))
		delete(c.outcomes, key(id)) // of a job that was never collected
		delete(c.waits, key(id))    // of a job that was never waited for
	}
}

// isKnown reports whether the launcher of a connection has opened a job, and whether an earlier launcher had.
func (c *Client) isKnown(l *line, id job.ID) (now, before bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.known[key(id)]
	return at == l, at != nil
}

// reopen makes the launcher open the job of an order, if an earlier launcher had opened it.
func (c *Client) reopen(ctx context.Context, l *line, k kind, body any) error {
	id, ok := jobOf(body)
	if !ok || k == kindPrepare || k == kindOpen || k == kindDiscard {
		return nil
	}
	c.opening.Lock()
	defer c.opening.Unlock()
	if now, before := c.isKnown(l, id); now || !before {
		return nil
	}
	_, err := c.openAgain(ctx, l, id)
	return err
}

// openAgain makes the launcher open a job. The front has its directory already.
func (c *Client) openAgain(ctx context.Context, l *line, id job.ID) (*jobAnswer, error) {
	var a jobAnswer
	fd, err := c.once(ctx, l, kindOpen, &ofJob{id}, -1, &a)
	if err != nil {
		return nil, err
	}
	if fd >= 0 {
		closeAll([]int{fd})
	}
	c.note(l, kindOpen, id)
	return &a, nil
}

// repeat prepares an order that an earlier launcher may have carried out, in part or as a whole, for the launcher of a
// connection. done says that it was carried out; otherwise the order is to be sent again. All orders but the ones
// treated here have the same result when they are carried out twice.
func (c *Client) repeat(ctx context.Context, l *line, k kind, body, result any) (done bool, dir int, err error) {
	switch b := body.(type) {
	case *prepareBody:
		return c.repeatPrepare(ctx, l, b.Plan.Description.ID, b.Plan.Record, result)
	case *taskBody:
		if err := c.reopen(ctx, l, k, body); err != nil {
			return true, -1, err
		}
		return c.repeatPrepare(ctx, l, b.ID, b.Record, result)
	case *removeBody:
		err := c.reopen(ctx, l, k, body)
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.Is(err, launch.ErrKept):
		case errors.Is(err, jobdir.ErrIncomplete):
			if _, err := c.once(ctx, l, kindDiscard, &ofJob{b.ID}, -1, nil); err != nil {
				return true, -1, err
			}
		default:
			return err != nil, -1, err
		}
		c.note(l, kindRemove, b.ID)
		return true, -1, nil
	case *ofJob:
		if k == kindLaunch {
			c.opening.Lock()
			defer c.opening.Unlock()
			a, err := c.openAgain(ctx, l, b.ID)
			if err != nil || a.State.Stage == launch.Prepared {
				return err != nil, -1, err
			}
			if to, ok := result.(*launchAnswer); ok {
				to.PID = a.State.PID
			}
			return true, -1, nil
		}
	}
	err = c.reopen(ctx, l, k, body)
	return err != nil, -1, err
}

// repeatPrepare finds out whether an earlier launcher has prepared a job, or a task, with a record.
func (c *Client) repeatPrepare(ctx context.Context, l *line, id job.ID, record []byte, result any) (done bool, dir int, err error) {
	var a jobAnswer
	fd, err := c.once(ctx, l, kindOpen, &ofJob{id}, -1, &a)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, -1, nil
	case errors.Is(err, jobdir.ErrIncomplete):
		_, err = c.once(ctx, l, kindDiscard, &ofJob{id}, -1, nil)
		return err != nil, -1, err
	case err != nil:
		return true, -1, err
	}
	to, ok := result.(*jobAnswer)
	if !ok || a.State.Stage != launch.Prepared || !bytes.Equal(a.State.Record, record) {
		closeAll([]int{fd})
		return true, -1, fmt.Errorf("job %s exists already: %w", id, jobdir.ErrExists)
	}
	*to = a
	c.note(l, kindPrepare, id)
	return true, fd, nil
}

// Cell returns the variables SGE_ROOT and SGE_CELL of jobs, which the launcher knows.
func (c *Client) Cell() (root, cell string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cell[0], c.cell[1]
}

// admit refuses a launcher that has another spool directory, configuration or version than the previous launcher, or that
// would start another front than this one.
func (c *Client) admit(h *helloAnswer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.options.Program != "" && h.Program != "" && h.Program != c.options.Program:
		return &otherError{"execd has been replaced since this process was started"}
	case c.options.Args != nil && h.Args != nil && !slices.Equal(c.options.Args, h.Args):
		return &otherError{"the options of the daemon have changed since this process was started"}
	case c.area != "" && (h.Area != string(c.area) || h.Settings != c.settings):
		return &otherError{"the spool directory or root's configuration has changed since this process was started"}
	}
	return nil
}
