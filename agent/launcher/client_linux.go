package launcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/ptf"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// Client is the front's end: the launch.Launcher of an agent without rights.
type Client struct {
	options ClientOptions
	area    jobdir.Area
	// settings are taken from root's configuration.
	settings settings
	cell     [2]string // see Cell

	over     chan struct{} // closed when no more answers will come
	opening  sync.Mutex    // held while jobs are opened again
	verifies chan struct{} // has room for as many orders as the launcher carries out at the same time

	mu     sync.Mutex
	number uint64
	line   *line         // nil while there is no launcher
	joined chan struct{} // closed when line is set
	known  map[job.ID]*line
	// outcomes are those that came with the end of a supervisor, until Collect.
	outcomes map[job.ID]*job.Outcome
	waits    map[job.ID]*pendingWait // the second answers to orders to launch, until Wait
	scripts  map[int]scriptState     // by the number of the job
	stop     context.CancelFunc      // of the search for a launcher; nil before the first
	ended    bool                    // Close or Leave was called
	closed   bool                    // Close was called
	losing   sync.Once
}

var (
	_ launch.Launcher = (*Client)(nil)
	_ launch.Remote   = (*Client)(nil)
)

// ErrClosed is returned after Close.
var ErrClosed = errors.New("the connection with the launcher has been closed")

// ask sends an order, and decodes the body of the answer into result if that is not nil.
func (c *Client) ask(k kind, body, result any) error {
	_, err := c.call(context.Background(), k, body, -1, result)
	return err
}

// soonTime is how long askNow waits for an answer. For changes of the configuration, all users wait with it.
const soonTime = 15 * time.Second

// askNow sends an order that does not wait for the next launcher: the error is errAway if there is none. result is as for ask.
func (c *Client) askNow(k kind, body, result any) error {
	c.mu.Lock()
	away := c.line == nil
	c.mu.Unlock()
	if away {
		return errAway
	}
	ctx, cancel := context.WithTimeout(context.Background(), soonTime)
	defer cancel()
	_, err := c.call(ctx, k, body, -1, result)
	return err
}

// call sends an order, with the descriptor of a script, or -1 for none. It returns the descriptor of a
// directory, -1 for none, which is the caller's. If the launcher ends before it has answered, call waits for the next
// one: see repeat.
func (c *Client) call(ctx context.Context, k kind, body any, script int, result any) (dir int, err error) {
	again := false
	for {
		l, err := c.current(ctx)
		if err != nil {
			return -1, err
		}
		if again {
			if done, dir, err := c.repeat(ctx, l, k, body, result); done || err != nil {
				if !errors.Is(err, errGone) {
					return dir, err
				}
				continue
			}
		} else if err = c.reopen(ctx, l, k, body); errors.Is(err, errGone) {
			continue
		} else if err != nil {
			return -1, fmt.Errorf("cannot send the launcher the order %s: %w", k, err)
		}
		dir, err := c.once(ctx, l, k, body, script, result)
		if errors.Is(err, errGone) {
			if again = true; soon(body) { // as if both processes were killed
				return -1, nil
			}
			continue
		}
		if id, ok := jobOf(body); ok && err == nil {
			if t, ok := body.(*taskBody); ok {
				id = t.ID
			}
			c.note(l, k, id)
		}
		return dir, err
	}
}

// soon reports whether an order has no answer.
func soon(body any) bool {
	b, ok := body.(*noteBody)
	return ok && b.Note.Soon
}

// pendingWait is an order that waits for the end of a supervisor.
type pendingWait struct {
	line   *line
	number uint64
	to     chan reply
}

// once sends an order over one connection. The error is errGone if the launcher has ended.
func (c *Client) once(ctx context.Context, l *line, k kind, body any, script int, result any) (dir int, err error) {
	w, err := c.send(l, k, body, script)
	if err != nil || soon(body) {
		return -1, err
	}
	r, err := w.receive(ctx)
	if err != nil {
		if ctx.Err() != nil {
			l.forget(w.number)
			select {
			case r := <-w.to:
				closeAll(r.fds)
			default:
			}
		}
		return -1, err
	}
	if r.answer.more {
		id, _ := jobOf(body)
		c.mu.Lock()
		c.waits[key(id)] = w
		c.mu.Unlock()
	}
	return open(r, result)
}

// send sends an order.
func (c *Client) send(l *line, k kind, body any, script int) (*pendingWait, error) {
	const most = 2 // answers
	c.mu.Lock()
	c.number++
	w := &pendingWait{l, c.number, make(chan reply, most)}
	c.mu.Unlock()
	if !soon(body) {
		l.expect(w.number, w.to)
	}
	var flags byte
	if k == kindLaunch {
		flags = flagWait
	}
	text, fds, err := packOrder(k, w.number, body, flags)
	if err == nil {
		all := slices.Clone(fds)
		if script >= 0 {
			all = append(all, script)
		}
		if err = l.conn.write(text, all...); errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
			<-l.over
			err = errGone
		}
	}
	closeAll(fds)
	if err != nil {
		l.forget(w.number)
		if !errors.Is(err, errGone) {
			err = fmt.Errorf("cannot send the launcher the order %s: %w", k, err)
		}
		return nil, err
	}
	return w, nil
}

// receive waits for the next answer. The error is errGone if the launcher has ended, or the context's.
func (w *pendingWait) receive(ctx context.Context) (reply, error) {
	select {
	case r := <-w.to:
		return r, nil
	case <-w.line.over:
		select {
		case r := <-w.to: // it came before the end
			return r, nil
		default:
			return reply{}, errGone
		}
	case <-ctx.Done():
		return reply{}, ctx.Err()
	}
}

// open reads an answer. The descriptor that comes with it is the caller's; -1 for none.
func open(r reply, result any) (dir int, err error) {
	rest := r.fds
	body := []byte(r.answer.Body)
	if r.answer.Memory && len(rest) > 0 {
		body, err = contentOf(rest[0], mostContent)
		unix.Close(rest[0])
		rest = rest[1:]
	}
	if r.answer.Error != nil {
		err = r.answer.Error
		if r.answer.Error.Code == codeOrder || r.answer.Error.Code == codeRefused {
			err = &launch.OrderError{Err: r.answer.Error}
		}
	}
	if err == nil && result != nil {
		read := decode
		if r.answer.compact {
			read = fromCompact
		}
		err = read(body, result)
	}
	if err != nil || len(rest) != 1 {
		closeAll(rest)
		return -1, err
	}
	return rest[0], nil
}

// Privileged reports true: the launcher is root.
func (c *Client) Privileged() bool { return true }

// Area returns the launcher's area.
func (c *Client) Area() jobdir.Area { return c.area }

// Groups returns nil, because the launcher has its own groups. The error names the part of the
// configuration that a front cannot use.
func (c *Client) Groups(config *qconf.Configuration, _ bool) (*launch.Groups, error) {
	return nil, c.settings.permit(config)
}

// Check reports no error: the launcher uses descriptors, and looks before each start.
func (c *Client) Check() error { return nil }

// Away returns an error while there is no launcher.
func (c *Client) Away() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.line == nil {
		return errAway
	}
	return nil
}

// Jobs lists the jobs that have a directory.
func (c *Client) Jobs() ([]job.ID, error) {
	var a jobsAnswer
	err := c.ask(kindJobs, empty{}, &a)
	return a.Jobs, err
}

// Scripts lists the jobs that have a script.
func (c *Client) Scripts() ([]int, error) {
	var a jobsAnswer
	err := c.ask(kindJobs, empty{}, &a)
	return a.Scripts, err
}

// Prepare orders the launcher to prepare a job, with its script.
func (c *Client) Prepare(o *launch.Assignment, id job.ID, slave bool) (*launch.Job, error) {
	if !c.settings.Ordered && slave {
		return nil, &launch.OrderError{Err: errSimulated}
	}
	p, err := o.Plan(id, c.area, slave)
	if err != nil {
		return nil, err
	}
	script := -1
	c.storing(id.Job)
	if !o.Request.Binary && !slave {
		if script, err = memory("script", o.Request.Script); err != nil {
			return nil, err
		}
		defer unix.Close(script)
	}
	p.GroupIDs, p.Users = nil, nil
	p.Description.AdminUser = ""                           // the files of jobs belong to root
	p.Deny, p.FilteredEnv, p.UnfilteredEnv = nil, nil, nil // the launcher knows the GPUs
	body := &prepareBody{Plan: p, Script: script >= 0}
	if !c.settings.Ordered {
		of := submission.Of
		if o.Interactive != nil {
			of = submission.OfInteractive
		}
		if body.Submitted, err = newSubmitted(o.Submission, of(o.Request, o.SubmitDir, o.SubmitEnv)); err != nil {
			return nil, err
		}
	}
	return c.job(kindPrepare, body, id, script)
}

// PrepareTask orders the launcher to prepare a task of a parallel job.
func (c *Client) PrepareTask(id job.ID, command []string, dir string, env []string, record []byte) (*launch.Job, error) {
	body := &taskBody{ID: id, Command: command, Dir: dir, Env: env, Record: record}
	j, err := c.job(kindPrepareTask, body, id, -1)
	if e, ok := errors.AsType[*Error](err); ok && (e.Code == codeTask || e.Code == codeRefused) {
		id.PETask = ""
		return nil, &launch.TaskError{Job: id, Err: e}
	}
	return j, err
}

// job sends an order to which the launcher answers with a job.
func (c *Client) job(k kind, body any, id job.ID, script int) (*launch.Job, error) {
	var a jobAnswer
	fd, err := c.call(context.Background(), k, body, script, &a)
	if err != nil {
		return nil, err
	}
	if p, ok := body.(*prepareBody); ok && a.Description == nil {
		a.Description, a.State.Record = p.Plan.Description, p.Plan.Record
		err = change(a.Description, a.Changes)
	}
	if err == nil && (fd < 0 || a.Description == nil) {
		err = fmt.Errorf("the launcher has not answered the order %s with a job", k)
	}
	if err != nil {
		if fd >= 0 {
			unix.Close(fd)
		}
		return nil, err
	}
	dir, err := jobdir.AdoptDir(fd, c.area.JobPath(id))
	if err != nil {
		return nil, err
	}
	return launch.NewRemote(c, dir, a.Description, a.State), nil
}

// Open finds a job.
func (c *Client) Open(_ *launch.Groups, _ func(string) (*userdb.User, error), id job.ID) (*launch.Job, launch.Stage, error) {
	j, err := c.job(kindOpen, &ofJob{id}, id, -1)
	if err != nil {
		return nil, 0, err
	}
	return j, j.Stage(), nil
}

// Discard removes the remains of a job whose directory was never finished.
func (c *Client) Discard(_ *launch.Groups, id job.ID) error {
	return c.ask(kindDiscard, &ofJob{id}, nil)
}

// RemoveScript removes the script of a job, unless a task of it is left.
func (c *Client) RemoveScript(number int) error {
	c.mu.Lock()
	gone := c.scripts[number].gone
	delete(c.scripts, number)
	c.mu.Unlock()
	if gone { // with the last task
		return nil
	}
	return c.ask(kindRemoveScript, &scriptBody{number}, nil)
}

// Supervisor returns no path: the launcher knows it.
func (c *Client) Supervisor(*qconf.Configuration) (string, error) { return "", nil }

// Try orders the launcher to try a start.
func (c *Client) Try(ctx context.Context, _ *launch.Groups, _ *qconf.Configuration) error {
	_, err := c.call(ctx, kindTry, empty{}, -1, nil)
	return err
}

// Sweep orders the launcher to remove the control groups of jobs that no longer exist.
func (c *Client) Sweep(*launch.Groups) error { return c.ask(kindSweep, empty{}, nil) }

// Prioritise orders the launcher to give running jobs priorities.
func (c *Client) Prioritise(jobs []*launch.Job, priorities []ptf.Priority) []ptf.Result {
	results := make([]ptf.Result, len(jobs))
	for first := 0; first < len(jobs); first += mostSharers {
		body, a := &prioritiseBody{}, &prioritiseAnswer{}
		last := min(first+mostSharers, len(jobs))
		for i := first; i < last; i++ {
			body.Jobs = append(body.Jobs, sharer{jobs[i].Description.ID, priorities[i].Nice, priorities[i].Weight})
		}
		err := c.ask(kindPrioritise, body, a)
		if err == nil && len(a.Results) != len(body.Jobs) {
			err = errors.New("the launcher has not answered for all jobs")
		}
		for i := first; i < last; i++ {
			if err != nil {
				results[i].Err = err
				continue
			}
			r := a.Results[i-first]
			results[i] = ptf.Result{Weighted: r.Weighted, Processes: r.Processes}
			if r.Error != nil {
				results[i].Err = r.Error
			}
		}
	}
	return results
}

// Keep removes all submissions of users except new ones and those with the given keys.
func (c *Client) Keep(keys []string) error { return c.ask(kindKeep, &keepBody{keys}, nil) }

// Launch orders the launcher to start the supervisor of a job, and returns the supervisor's process
// ID.
func (c *Client) Launch(id job.ID) (pid int, err error) {
	var a launchAnswer
	err = c.ask(kindLaunch, &ofJob{id}, &a)
	return a.PID, err
}

// Wait waits for the end of a job's supervisor.
func (c *Client) Wait(ctx context.Context, id job.ID) (syscall.WaitStatus, error) {
	var a waitAnswer
	err := c.wait(ctx, id, &a)
	if err == nil && a.Outcome != nil {
		c.mu.Lock()
		c.outcomes[key(id)] = a.Outcome
		c.mu.Unlock()
	}
	return syscall.WaitStatus(a.Status), err
}

// wait takes the second answer to the order that has launched the job. Without one, because another launcher or front has
// launched it, it sends an order to wait.
func (c *Client) wait(ctx context.Context, id job.ID, a *waitAnswer) error {
	c.mu.Lock()
	w := c.waits[key(id)]
	delete(c.waits, key(id))
	c.mu.Unlock()
	if w != nil {
		r, err := w.receive(ctx)
		if err == nil {
			_, err = open(r, a)
			return err
		}
		if ctx.Err() != nil {
			c.mu.Lock()
			c.waits[key(id)] = w
			c.mu.Unlock()
			return err
		}
	}
	_, err := c.call(ctx, kindWait, &ofJob{id}, -1, a)
	return err
}

// Signal passes an order to a supervisor.
func (c *Client) Signal(id job.ID, s launch.Signal) error {
	return c.ask(kindSignal, &signalBody{id, s}, nil)
}

// Collect ends the remaining processes of a job and returns the outcome.
func (c *Client) Collect(id job.ID) (*job.Outcome, error) {
	c.mu.Lock()
	known := c.outcomes[key(id)]
	delete(c.outcomes, key(id))
	c.mu.Unlock()
	if known != nil {
		return known, nil
	}
	var a collectAnswer
	err := c.ask(kindCollect, &ofJob{id}, &a)
	if err == nil && a.Outcome == nil {
		err = errors.New("the launcher has not reported the outcome of the job")
	}
	return a.Outcome, err
}

// Remove removes the remains of a job.
func (c *Client) Remove(id job.ID, keep bool) error {
	c.mu.Lock()
	before := c.scripts[id.Job].stored
	c.mu.Unlock()
	var a removeAnswer
	err := c.ask(kindRemove, &removeBody{id, keep}, &a)
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.scripts[id.Job]; err == nil && a.Script && s.stored == before {
		s.gone = true
		c.scripts[id.Job] = s
	}
	return err
}

// scriptState says whether the launcher still has the script of a job.
type scriptState struct {
	stored uint64 // a number that no other order to store it has
	gone   bool   // the launcher has removed it since
}

// storing notes that the launcher is about to store a script.
func (c *Client) storing(number int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.number++
	c.scripts[number] = scriptState{stored: c.number}
}

// Terminal gets a connection with the supervisor of an interactive job.
func (c *Client) Terminal(ctx context.Context, id job.ID) (int, error) {
	fd, err := c.call(ctx, kindTerminal, &ofJob{id}, -1, nil)
	if err == nil && fd < 0 {
		err = errors.New("the launcher has answered without a connection with the supervisor")
	}
	return fd, err
}

// Note orders the launcher to change one of the agent's files in the directory of a job.
func (c *Client) Note(id job.ID, n *launch.Note) error {
	return c.ask(kindNote, &noteBody{id, n}, nil)
}
