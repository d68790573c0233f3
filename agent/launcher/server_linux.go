package launcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/servicemanager"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Server carries out the orders of a front. Make one with its exported fields, and call Serve.
type Server struct {
	Spool *jobdir.Spool
	// OpenGroups opens the control groups of jobs; gpus is as for launch.OpenGroupsFor. It is nil for none.
	OpenGroups func(gpus bool) (*launch.Groups, error)
	// GPUs are the GPUs of this host; nil if the site manages them itself. SiteGPUs are the IDs of GPUs in root's
	// configuration: if the host does not know one of them, the site manages its GPUs itself, too.
	GPUs     *gpu.Register
	SiteGPUs []string
	// GPUComplex is the consumable with which the master of an agent counts GPUs: the launcher chooses them. It is empty if
	// masters name the GPUs of jobs.
	GPUComplex string
	Config     *qconf.Configuration
	Shepherd   string // path of the supervisor's executable
	Rules      Rules
	// FrontGID is the group that may list the directories of jobs.
	FrontGID int
	// Verify checks a job with the verifier of the site (jsv_url of root's configuration): see verifier.Server. It is nil
	// for none.
	Verify func(context.Context, []submit.Parameter, []submit.Variable) ([]submit.Correction, error)
	// Program and Args identify the fronts that this launcher starts, see ClientOptions; empty if any front will do.
	Program string
	Args    []string
	// Configuration is the configuration that qconf changes; nil for none. Its objects are those of Rules.Site.
	Configuration *Configuration
	// Manager is the service manager, which listens to the launcher alone: the front orders its messages. It is nil if the
	// manager starts the fronts.
	Manager *servicemanager.Notifier
	// Restarts has room for one value, with which Restart ends Run; it is nil if Run never ends for a restart.
	Restarts chan struct{}
	// Refused is called for each refused order, for the audit log.
	Refused func(order string, err error)

	mostWaits int           // the constant, or a smaller number in tests
	patience  time.Duration // endPatience and frontPatience, or less in tests

	trying   sync.Mutex   // there is one directory for trials
	sweeping sync.RWMutex // a control group that a job gets meanwhile could be removed

	configuring sync.RWMutex // guards the objects of Rules against UseObjects

	mails mailBudget

	opening sync.Mutex              // guards opened
	opened  map[bool]*launch.Groups // by the argument of OpenGroups

	mu          sync.Mutex
	jobs        map[job.ID]*held
	scripts     map[int]*scriptUse // by the number of the job: see useScript
	directories directories

	collecting endTurns // outcomes that are determined at the same time in orders that wait
}

// held is a job that the front has prepared or opened.
type held struct {
	mu      sync.Mutex // serialises orders about the job, but for waiting
	job     *launch.Job
	waiting bool // guarded by Server.mu
}

// Limits of concurrent orders: of orders that wait for the end of a job or for the end of other such orders (mostEnds), of
// those that wait for the verifier of the site, and of all others. A verifier checks four jobs at the same time: see verifier.Server.
const (
	mostOrders   = 32
	mostWaits    = 16 << 10
	mostVerifies = 4
)

// Serve carries out orders until the front has closed its end and all begun orders have finished.
func (s *Server) Serve(c *conn) error {
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	defer func() {
		cancel() // ends waiting orders
		wait.Wait()
		s.forget()
	}()
	s.mu.Lock()
	s.jobs, s.collecting = map[job.ID]*held{}, endTurns{all: make(chan struct{}, mostEnds)}
	s.mu.Unlock()
	turns := &turns{
		orders: make(chan struct{}, mostOrders), waits: make(chan struct{}, cmp.Or(s.mostWaits, mostWaits)), verifies: make(chan struct{}, mostVerifies),
		mails: make(chan struct{}, mostMails), ends: endTurns{all: make(chan struct{}, mostEnds)},
		bytes: newBudget(mostTogether),
	}
	workers := newWorkers(&wait)
	defer workers.end()
	buffer := make([]byte, mostMessage+1)
	for {
		text, fds, err := c.read(buffer)
		if wrong, ok := errors.AsType[*messageError](err); ok {
			closeAll(fds)
			s.refused("message", wrong)
			return wrong
		}
		if err != nil || len(text) == 0 {
			closeAll(fds)
			return err
		}
		o, size, err := unpack(text, fds)
		if err == nil {
			turns.bytes.take(size) // until other orders have been carried out
			err = o.read()
		}
		if err != nil {
			closeAll(fds)
			turns.bytes.give(size)
			s.refuse(c, o, err)
			continue
		}
		if o.envelope.Order != kindPrepare {
			closeAll(o.fds) // the body has been read
			o.fds = nil
		}
		room := turns.orders
		switch o.envelope.Order {
		case kindWait:
			room = turns.waits
		case kindVerify:
			room = turns.verifies
		case kindMail:
			room = turns.mails
		case kindRemove, kindDiscard, kindCollect:
			room = turns.waits
		}
		if room == turns.orders {
			room <- struct{}{}
		} else { // these may take long
			turns.bytes.give(size)
			size = 0
			if !tryTurn(room) {
				s.refuse(c, o, tooMany(room, o.envelope.Order))
				continue
			}
		}
		workers.do(func() {
			if isEnd(o.envelope.Order) {
				s.end(ctx, c, o, turns)
			} else {
				s.answer(ctx, c, o)
			}
			closeAll(o.fds)
			turns.bytes.give(size)
			<-room
			if o.launched {
				s.waitToo(ctx, c, o, turns.waits)
			}
		})
	}
}

// forget closes the jobs of a front that has ended. The next front opens them again.
func (s *Server) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.jobs {
		if h.job != nil {
			_ = h.job.Close()
		}
	}
	s.jobs = nil
}

// refused tells the audit log.
func (s *Server) refused(order string, err error) {
	if s.Refused != nil {
		s.Refused(order, err)
	}
}

// refuse answers an order that could not be read.
func (s *Server) refuse(c *conn, o *received, err error) {
	err = &refusal{err}
	s.refused(string(o.envelope.Order), err)
	_ = s.reply(c, &answer{Number: o.envelope.Number, Error: errorOf(err), compact: o.envelope.compact}, nil, -1)
}

// answer carries an order out and answers it.
func (s *Server) answer(ctx context.Context, c *conn, o *received) {
	a := &answer{Number: o.envelope.Number, compact: o.envelope.compact}
	body, with, err := s.carryOut(ctx, o)
	if n, ok := o.body.(*noteBody); ok && n.Note != nil && n.Note.Soon {
		s.carriedOut(o, err)
		return
	}
	if err != nil {
		if _, ok := errors.AsType[*refusal](err); ok {
			s.refused(string(o.envelope.Order), err)
		}
		a.Error = errorOf(err)
		_ = s.reply(c, a, nil, -1)
		return
	}
	if with == nil {
		a.more, o.launched = o.envelope.wait, o.envelope.wait
		_ = s.reply(c, a, body, -1)
		return
	}
	err = with.Use(func(fd int) error { return s.reply(c, a, body, fd) })
	if errors.Is(err, fs.ErrClosed) { // removed meanwhile
		a.Error = errorOf(err)
		_ = s.reply(c, a, nil, -1)
	}
}

// carriedOut tells the audit log of a refused order that wants no answer. The job of such an order may be removed already,
// because the front did not wait for the order.
func (s *Server) carriedOut(o *received, err error) {
	if _, ok := errors.AsType[*refusal](err); ok && !errors.Is(err, fs.ErrNotExist) {
		s.refused(string(o.envelope.Order), err)
	}
}

// reply sends an answer, with a descriptor; -1 for none. An error is one of the connection, which ends with the
// front.
func (s *Server) reply(c *conn, a *answer, body any, fd int) error {
	text, fds, err := packAnswer(a, body)
	defer closeAll(fds)
	if err != nil {
		a.Body, a.Memory, a.Error = nil, false, errorOf(err)
		if text, _, err = packAnswer(a, nil); err != nil {
			return err
		}
		fd = -1
	}
	all := slices.Clone(fds)
	if fd >= 0 {
		all = append(all, fd)
	}
	return c.write(text, all...)
}

// carryOut does what an order asks for. with has the descriptor that goes with the answer; nil for none.
func (s *Server) carryOut(ctx context.Context, o *received) (body any, with descriptorUser, err error) {
	switch b := o.body.(type) {
	case *prepareBody:
		return s.prepare(b, o.fds[max(len(o.fds)-1, 0):])
	case *ofJob:
		if err := checkID(b.ID); err != nil {
			return nil, nil, &refusal{err}
		}
		return s.ofJob(ctx, o.envelope.Order, b.ID)
	case *taskBody:
		return s.prepareTask(b)
	case *signalBody:
		if err := errors.Join(checkID(b.ID), checkSignal(b.Signal)); err != nil {
			return nil, nil, &refusal{err}
		}
		return nil, nil, s.with(b.ID, func(j *launch.Job) error { return j.Send(b.Signal) })
	case *noteBody:
		if err := errors.Join(checkID(b.ID), checkNote(b.Note)); err != nil {
			return nil, nil, &refusal{err}
		}
		return nil, nil, s.with(b.ID, func(j *launch.Job) error { return b.Note.Apply(j.Dir) })
	case *removeBody:
		if err := checkID(b.ID); err != nil {
			return nil, nil, &refusal{err}
		}
		a, err := s.remove(b)
		return a, nil, err
	case *gpusBody:
		return s.lookForGPUs(ctx, b.Ask), nil, nil
	case *mailBody:
		return nil, nil, s.mail(ctx, b)
	case *servicemanager.State:
		return nil, nil, s.notify(b)
	case *configureBody:
		a, err := s.configure(b)
		return a, nil, err
	case *verifyBody:
		a, err := s.verify(ctx, b)
		return a, nil, err
	case *prioritiseBody:
		if err := s.checkPriorities(b); err != nil {
			return nil, nil, &refusal{err}
		}
		return s.prioritise(b), nil, nil
	case *keepBody:
		if s.Rules.Submissions == nil {
			return nil, nil, nil
		}
		return nil, nil, s.Rules.Submissions.Keep(b.Keys, time.Now())
	case *scriptBody:
		if err := checkID(job.ID{Job: b.Job}); err != nil {
			return nil, nil, &refusal{err}
		}
		_, err := s.removeScript(b.Job)
		return nil, nil, err
	}
	switch o.envelope.Order {
	case kindHello:
		settings := settingsOf(s.Config)
		settings.Ordered, settings.Start = s.Rules.Submissions == nil, started(s.Config, s.SiteGPUs)
		return &helloAnswer{s.Spool.Path(), settings, s.Program, s.Args, s.Rules.Site.SGERoot, s.Rules.Site.SGECell}, nil, nil
	case kindJobs:
		a := &jobsAnswer{}
		if a.Jobs, err = s.Spool.Jobs(); err == nil {
			a.Scripts, err = s.Spool.Scripts()
		}
		return a, nil, err
	case kindTry:
		s.trying.Lock()
		defer s.trying.Unlock()
		groups, err := s.groups()
		if err != nil {
			return nil, nil, err
		}
		return nil, nil, launch.Try(ctx, s.Spool, groups, s.Config, s.Shepherd)
	case kindSweep:
		groups, err := s.groups()
		if err != nil {
			return nil, nil, err
		}
		s.sweeping.Lock()
		defer s.sweeping.Unlock()
		return nil, nil, groups.Sweep(s.Spool)
	}
	return nil, nil, &refusal{errors.New("the launcher does not carry out this order")}
}

// ofJob carries out an order that has nothing but a job.
func (s *Server) ofJob(ctx context.Context, k kind, id job.ID) (body any, with descriptorUser, err error) {
	switch k {
	case kindOpen:
		return s.open(id)
	case kindDiscard:
		return nil, nil, s.discard(id)
	case kindWait:
		a, err := s.wait(ctx, id)
		return a, nil, err
	case kindCollect:
		a, err := s.collect(id)
		return a, nil, err
	case kindTerminal:
		return s.terminal(id)
	}
	a := &launchAnswer{}
	err = s.with(id, func(j *launch.Job) error {
		shepherd, err := s.supervisor()
		if err == nil {
			err = j.Launch(shepherd)
		}
		a.PID = j.PID()
		return err
	})
	return a, nil, err
}

// key returns the identity of a job: a job that is not an array job has the directory of a task 1.
func key(id job.ID) job.ID { return job.ID{Job: id.Job, Task: id.TaskDir(), PETask: id.PETask} }

// find returns a job that was prepared or opened.
func (s *Server) find(id job.ID) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.jobs[key(id)]; h != nil {
		return h, nil
	}
	return nil, notHere(id)
}

func notHere(id job.ID) error {
	return &refusal{fmt.Errorf("job %s was neither prepared nor opened: %w", id, fs.ErrNotExist)}
}

// with calls f with a job, which no other order uses meanwhile.
func (s *Server) with(id job.ID, f func(*launch.Job) error) error {
	h, err := s.find(id)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.job == nil {
		return notHere(id) // it could not be prepared
	}
	return f(h.job)
}

// enter makes room for a job. The caller has the lock on it, and sets the job or drops it.
func (s *Server) enter(id job.ID) (*held, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.jobs[key(id)] != nil {
		return nil, fmt.Errorf("job %s exists already: %w", id, jobdir.ErrExists)
	}
	h := &held{}
	h.mu.Lock()
	s.jobs[key(id)] = h
	return h, nil
}

func (s *Server) drop(id job.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.jobs, key(id))
}

func (s *Server) prepare(b *prepareBody, scripts []int) (any, descriptorUser, error) {
	s.configuring.RLock()
	defer s.configuring.RUnlock()
	var script []byte
	var err error
	if b.Script {
		if script, err = contentOf(scripts[0], mostScript); err != nil {
			return nil, nil, &refusal{err}
		}
		if script == nil {
			script = []byte{}
		}
	}
	p := b.Plan
	var sent *job.Description
	if p != nil && p.Description != nil {
		sent = copyOf(p.Description)
	}
	gpus := s.inventory() // once: GPUs may appear meanwhile, which these groups would not deny
	groups, err := s.groupsFor(gpus)
	if err != nil {
		return nil, nil, err
	}
	if err := s.Rules.checkPlan(p, b.Submitted, jobdir.Area(s.Spool.Path()), script); err != nil {
		if f, ok := errors.AsType[*failure](err); ok {
			return nil, nil, f
		}
		return nil, nil, &refusal{err}
	}
	if err := s.grantGPUs(p, gpus); err != nil {
		return nil, nil, &refusal{err}
	}
	var known []string
	if gpus.Numbered() {
		known = p.GPUs
	}
	if err := s.Rules.checkElements(p.Description, cmp.Or(s.GPUComplex, launch.GPUMap), known); err != nil {
		return nil, nil, &refusal{err}
	}
	id := p.Description.ID
	h, err := s.enter(id)
	if err != nil {
		return nil, nil, err
	}
	defer h.mu.Unlock()
	if script != nil {
		defer s.useScript(id.Job, p.Description.Owner+" "+submission.ScriptSum(script))()
		err = s.storeScript(id.Job, script, p)
	}
	if err == nil {
		s.directories.made(key(id))
		s.sweeping.RLock()
		h.job, err = launch.PreparePlan(s.Spool, groups, p)
		s.sweeping.RUnlock()
	}
	if err == nil {
		if err = h.job.Dir.Share(s.FrontGID); err != nil {
			err = errors.Join(err, h.job.Remove(false), h.job.Close())
		}
	}
	if err != nil {
		s.noteRemoved(id)
		s.drop(id)
		return nil, nil, err
	}
	a := &jobAnswer{State: h.job.StateWithout(launch.Prepared)}
	a.Changes, err = changesOf(sent, h.job.Description)
	return a, h.job.Dir, err
}

// describe returns the description of a job for the front.
func describe(j *launch.Job, stage launch.Stage) (*jobAnswer, error) {
	state, err := j.State(stage)
	return &jobAnswer{Description: j.Description, State: state}, err
}

func (s *Server) open(id job.ID) (any, descriptorUser, error) {
	groups, err := s.groups()
	if err != nil {
		return nil, nil, err
	}
	h, err := s.enter(id)
	if err != nil {
		return nil, nil, err
	}
	defer h.mu.Unlock()
	j, stage, err := launch.Open(s.Spool, groups, s.Rules.Users.User, id)
	var a *jobAnswer
	if err == nil {
		if stage == launch.Kept {
			err = launch.ErrKept
		} else if err = j.Dir.Share(s.FrontGID); err == nil {
			a, err = describe(j, stage)
		}
		if err != nil {
			err = errors.Join(err, j.Close())
		}
	}
	if err != nil {
		s.drop(id)
		return nil, nil, err
	}
	h.job = j
	return a, j.Dir, nil
}

// discard removes an unfinished directory of a job that no other order prepares.
func (s *Server) discard(id job.ID) error {
	groups, err := s.groups()
	if err != nil {
		return err
	}
	h, err := s.enter(id)
	if err != nil {
		return err
	}
	defer h.mu.Unlock()
	defer s.drop(id)
	defer s.noteRemoved(id)
	return launch.Discard(s.Spool, groups, id)
}

// terminal connects with the supervisor of an interactive job, which sends the terminal over the connection.
func (s *Server) terminal(id job.ID) (any, descriptorUser, error) {
	var fd int
	err := s.with(id, func(j *launch.Job) (err error) {
		fd, err = j.ConnectTerminal()
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	return nil, connection(fd), nil
}

// wait waits for the end of a supervisor, for one order at a time.
func (s *Server) wait(ctx context.Context, id job.ID) (*waitAnswer, error) {
	h, err := s.find(id)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	again := h.waiting
	h.waiting = true
	s.mu.Unlock()
	if again {
		return nil, &refusal{fmt.Errorf("another order waits for job %s already", id)}
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		h.waiting = false
	}()
	h.mu.Lock()
	j := h.job
	h.mu.Unlock()
	if j == nil {
		return nil, notHere(id)
	}
	status, err := j.Wait(ctx)
	if err != nil {
		return nil, err
	}
	a := &waitAnswer{Status: uint32(status)}
	if d := j.Description; d.PE == nil && d.Terminal == nil && d.ID.PETask == "" {
		done, ok := s.collecting.turn(ctx, d.Owner) // thousands of jobs may end at the same time
		if !ok {
			return nil, ctx.Err()
		}
		if c, err := s.collect(id); err == nil {
			a.Outcome = c.Outcome
		}
		done()
	}
	return a, nil
}

// collect returns the outcome of a job whose supervisor has ended. It takes the status of the supervisor from its own wait,
// because the remains of a killed supervisor are ended, and those of others are not. Before the end, the job would lose its
// additional group ID to another job.
func (s *Server) collect(id job.ID) (*collectAnswer, error) {
	a := &collectAnswer{}
	err := s.with(id, func(j *launch.Job) error {
		status, over := j.Ended()
		switch {
		case over:
			a.Outcome = j.Collect(status)
			return nil
		case j.PID() > 0:
			return fmt.Errorf("cannot determine the outcome of job %s: %w", id, launch.ErrSupervised)
		}
		return fmt.Errorf("cannot determine the outcome of job %s: no supervisor of it has ended", id)
	})
	return a, err
}

// remove removes a job, and its script with the last task.
func (s *Server) remove(b *removeBody) (*removeAnswer, error) {
	if err := s.removeJob(b); err != nil {
		return nil, err
	}
	if b.ID.PETask != "" {
		return &removeAnswer{}, nil
	}
	gone, err := s.removeUnused(b.ID.Job)
	return &removeAnswer{gone && err == nil}, nil
}

func (s *Server) removeJob(b *removeBody) error {
	h, err := s.find(b.ID)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.job == nil {
		return notHere(b.ID)
	}
	if err := h.job.Remove(b.Keep); err != nil {
		return err
	}
	h.job = nil // for orders that wait for h
	s.drop(b.ID)
	s.noteRemoved(b.ID)
	s.dropTasks(b.ID)
	return nil
}
