package agent

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/admission"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/loadsensor/external"
	"github.com/execd-project/execd/qconf"
)

// Options are the directories, the configuration and the services of an agent.
type Options struct {
	Host     string        // this host, as the master spells it
	Spool    *jobdir.Spool // of this agent alone; not used with Launcher
	Shepherd string        // path of the supervisor's executable; see launch.FindShepherd
	// Launcher makes the jobs of the agent; nil is this process, in Spool. Own is the directory of
	// the agent's own files; nil means that of Spool.
	Launcher launch.Launcher
	Own      *jobdir.Dir
	Version  string

	// Configuration reads the configuration and returns it with its version. Its error joins all errors
	// that it found.
	Configuration func() (*qconf.Cluster, string, error)
	// Configured is called with each configuration that Configure has put into effect, in their order,
	// never concurrently. It must not call Configure. It may be nil.
	Configured func(*qconf.Cluster)
	// GPUs returns the current GPUs of this host. The caller must not change the result. Nil means none.
	GPUs func() *gpu.Inventory
	// MeasureGPUs measures GPUs by their numbers: see gpu.Measure. Without it nothing is measured.
	MeasureGPUs func(ctx context.Context, ids []string) (map[string]gpu.Sample, error)
	// Load makes the reports of load values; nil for none.
	Load *loadsensor.Collector
	// Users finds users of this host; nil is the name service switch.
	Users func(name string) (*userdb.User, error)
	// Groups finds the ids of groups of this host; nil is the name service switch.
	Groups func(name string) (uint32, error)
	// Account writes the accounting record of each finished job to the disk before it returns. It
	// is called once for each job, after the job's end is on the disk. again says that a previous
	// agent may already have called it for this job. Nil disables accounting.
	Account func(r *Record, d *job.Description, o *job.Outcome, again bool) error
	// Permit returns an error if this host does not run a command of its master as the given user,
	// who is not the owner of the job (execd-procedures(5)). A nil Permit permits all.
	Permit func(user, command string) error
	// Observer receives events of jobs. It may be nil.
	Observer Observer

	// HangUp is the time for which an interactive job continues after its client has disappeared without
	// detaching; then the agent terminates the job. 0 means DefaultHangUp, and a negative value means
	// forever. A restarted agent waits for the same time for the clients of the previous agent.
	HangUp time.Duration

	SGERoot, SGECell string
	Log              hclog.Logger // nil for none
	Clock            clock.Clock  // nil is the clock of the machine
}

// DefaultHangUp is the default of Options.HangUp.
const DefaultHangUp = 5 * time.Minute

// Observer receives events of jobs, for mail, metrics and similar uses. It is called from several
// goroutines, must not block, and must not change its arguments.
type Observer interface {
	// Started is called when a start was accepted, and Refused when it was refused. They must not call
	// methods of the agent.
	Started()
	Refused(Code)
	// Began is called once in the life of an agent for each job that has begun.
	Began(*Record, *job.Description, time.Time)
	Suspended(d *job.Description, began time.Time, resumed bool)
	// IdleGPUs is called when GPUs of a job have been idle for IdleGPU, for each GPU once until the
	// job has used it again.
	IdleGPUs(d *job.Description, ids []string)
	// Ended is called once for each job, or twice if the agent is killed meanwhile.
	Ended(*Record, *job.Description, *job.Outcome)
}

// noObserver ignores all calls.
type noObserver struct{}

func (noObserver) Started()                                      {}
func (noObserver) Refused(Code)                                  {}
func (noObserver) Began(*Record, *job.Description, time.Time)    {}
func (noObserver) Suspended(*job.Description, time.Time, bool)   {}
func (noObserver) IdleGPUs(*job.Description, []string)           {}
func (noObserver) Ended(*Record, *job.Description, *job.Outcome) {}

// Agent is the daemon. Make one with New.
type Agent struct {
	options  Options
	launcher launch.Launcher
	own      *jobdir.Dir
	log      hclog.Logger
	clock    clock.Clock
	users    func(name string) (*userdb.User, error)
	groupID  func(name string) (uint32, error)
	guard    *userGuard // used by users and groupID
	started  time.Time

	// launching limits how many supervisors are started at the same time, and preparing how many job
	// directories are written at the same time.
	launching, preparing chan struct{}
	watcher              *watcher
	reaper               launch.Reaper // reaps the processes of the agent that reports
	priorities           chan struct{} // wakes prioritise
	goroutines           goroutines    // those that spawn has started: for jobs, and other long-running ones
	found                []*entry      // jobs of a previous agent, until Run continues with them

	configuring sync.Mutex // held while a configuration is read and put into effect

	refusals refusals // refused starts in the log

	trying sync.Mutex // serialises trials of starts; locked before the table

	turning sync.Mutex // serialises InTurn

	disk     *disk
	journal  *journal
	finished *finished
	load     loadBook
	opened   openGroups
	scripts  scriptLocks
	settings settings
	troubles troubles
	starts   starts
	table    *table

	context  context.Context // of Run; jobs are watched until it ends
	stop     context.CancelFunc
	stopping atomic.Bool
	closing  sync.Once
}

// New makes an agent, and finds the jobs of a previous agent in the spool area. The agent reports
// these jobs, but starts none before Run.
func New(options Options) (*Agent, error) {
	a := &Agent{
		options: options, log: options.Log, clock: options.Clock,
		launching: make(chan struct{}, 2*runtime.NumCPU()), preparing: make(chan struct{}, 16),
		priorities: make(chan struct{}, 1),
	}
	if a.options.Observer == nil {
		a.options.Observer = noObserver{}
	}
	if a.log == nil {
		a.log = hclog.NewNullLogger()
	}
	if a.clock == nil {
		a.clock = clock.System()
	}
	a.table, a.troubles.log = newTable(a.log), a.log
	a.started = a.clock.Now()
	a.context, a.stop = context.WithCancel(context.Background())
	a.guardUsers()
	if a.launcher, a.own = options.Launcher, options.Own; a.launcher == nil {
		a.launcher, a.own = launch.Local{Spool: options.Spool, Shepherd: options.Shepherd}, options.Spool.Dir()
	}
	var err error
	if a.table.numbers, err = openNumbers(a.own); err != nil {
		return nil, err
	}
	a.disk = newDisk(a.own.Path(), diskPatience, a.diskChanged)
	if a.journal, err = openJournal(a.own, a.disk); err != nil {
		return nil, err
	}
	if a.finished, err = openFinished(a.own, a.disk); err != nil {
		return nil, err
	}
	if err := a.configure(); err != nil {
		return nil, err
	}
	a.watcher, a.table.online = newWatcher(a.log), newOnlineWatch()
	if err := a.recover(); err != nil {
		a.Close()
		return nil, err
	}
	a.noteService() // also if the host is in service: a previous agent may have recorded otherwise
	return a, nil
}

// Run serves the links until ctx is done, Shutdown is called or a link fails. It returns when all
// goroutines of the agent have ended; the jobs continue.
func (a *Agent) Run(ctx context.Context, links ...Link) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(a.context, cancel)
	defer stop()
	a.resumeJobs()

	var wait sync.WaitGroup
	failed := make(chan error, len(links)+1)
	for _, l := range links {
		wait.Go(func() {
			if err := l.Run(ctx, a); err != nil {
				failed <- fmt.Errorf("link %s: %w", l.Name(), err)
				cancel()
			}
		})
	}
	wait.Go(func() { a.look(ctx) })
	wait.Go(func() { a.prioritise(ctx) })
	wait.Go(func() { a.watchGPUs(ctx) })
	if a.options.Load != nil {
		wait.Go(func() { a.collect(ctx) })
		wait.Go(func() {
			if err := a.options.Load.Run(ctx); err != nil && !errors.Is(err, context.Canceled) {
				failed <- err
				cancel()
			}
		})
	}
	<-ctx.Done()
	a.stopping.Store(true)
	wait.Wait()
	a.Close()
	select {
	case err := <-failed:
		return err
	default:
		return nil
	}
}

// Close ends the agent, but neither jobs nor their supervisors. Run calls it before it returns;
// further calls do nothing.
func (a *Agent) Close() { a.closing.Do(a.close) }

func (a *Agent) close() {
	a.stop()
	a.goroutines.end()
	a.closeConsoles()
	a.watcher.close()
	a.table.online.close()
	a.opened.close()
	a.finished.end()
}

// shutdownPatience is the time limit for telling supervisors to end their jobs when the agent is
// shut down.
const shutdownPatience = 10 * time.Second

// Shutdown ends Run. With endJobs it first orders all jobs to end; the next agent of this spool
// area reports their ends. It does not wait for the jobs.
func (a *Agent) Shutdown(endJobs bool) {
	a.stopping.Store(true)
	if !endJobs {
		a.stop()
		return
	}
	for _, e := range a.table.list() {
		if err := a.signal(e, Terminate, Sequence{}); err != nil {
			a.log.Warn("cannot end a job at the shutdown", "job", e.id.String(), "error", err)
		}
	}
	a.spawn(func(ctx context.Context) {
		defer a.stop()
		timer := a.clock.NewTimer(shutdownPatience)
		defer timer.Stop()
		for {
			a.table.mu.Lock()
			told := true
			for _, e := range a.table.jobs {
				told = told && (!e.state.Live() || e.state == Ending)
			}
			changed := a.table.changed
			a.table.mu.Unlock()
			if told {
				return
			}
			select {
			case <-changed:
			case <-timer.C():
				a.log.Warn("cannot order all jobs to end: the next agent will do it")
				return
			case <-ctx.Done():
				return
			}
		}
	})
}

// Configure reads the configuration again. A configuration with errors changes nothing.
func (a *Agent) Configure(context.Context) error {
	// Configurations must be applied in the order in which they were read.
	a.configuring.Lock()
	defer a.configuring.Unlock()
	if err := a.configure(); err != nil {
		return &Error{InvalidArgument, err}
	}
	if a.options.Configured != nil {
		a.options.Configured(a.Cluster())
	}
	return nil
}

// configure reads the configuration. The caller holds configuring, except for New.
func (a *Agent) configure() error {
	cluster, version, err := a.options.Configuration()
	var groups *launch.Groups
	if err == nil {
		groups, err = a.groupsFor(cluster.Config(a.options.Host))
	}
	if err == nil {
		err = a.use(cluster, groups, version)
	}
	a.troubles.configuration(err)
	if err != nil {
		a.settings.refuse(err)
		return err
	}
	a.sayIneffective(cluster.Config(a.options.Host))
	a.pokePriorities()
	return nil
}

// use puts a configuration into effect, unless the jobs of this host could not continue with it.
func (a *Agent) use(cluster *qconf.Cluster, groups *launch.Groups, version string) error {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	if err := a.rebook(cluster); err != nil {
		return err
	}
	a.settings.replace(cluster, groups)
	if version != a.table.version {
		a.table.version, a.table.versionNumber = version, a.table.numbers.next()
		a.table.changes()
	}
	return nil
}

// rebook books the current jobs under another configuration. The caller holds the lock of the table.
func (a *Agent) rebook(cluster *qconf.Cluster) error {
	var problems []error
	var err error
	if a.table.book == nil {
		if a.table.book, problems = admission.New(cluster, a.options.Host); a.options.Load == nil {
			a.table.book.SetLoad(map[string]string{})
		}
	} else {
		problems, err = a.table.book.Reconfigure(cluster)
	}
	for _, p := range problems {
		a.log.Warn("a part of the configuration is ignored", "error", p)
	}
	return err
}

// Cluster returns the configuration in use. Callers must not change it.
func (a *Agent) Cluster() *qconf.Cluster {
	cluster, _ := a.settings.current()
	return cluster
}

// Health returns the status of the agent.
func (a *Agent) Health() Health {
	var sensors []external.Status
	if a.options.Load != nil {
		sensors = a.options.Load.Status().Sensors
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	h := Health{
		Host: a.options.Host, Version: a.options.Version, Started: a.started, Epoch: a.journal.master(),
		Jobs: map[State]int{}, Draining: a.whyNoJobs(), Configuration: a.table.version,
		Sensors: sensors,
	}
	h.Slots, h.Used = a.table.book.Usage()
	for _, e := range a.table.jobs {
		h.Jobs[e.state]++
	}
	h.Troubles = a.troubles.list()
	if err := a.disk.hangs(); err != nil {
		h.Troubles = append(h.Troubles, err.Error())
	}
	a.addGPUs(&h)
	if why := a.guard.whyNot(); why != "" {
		h.Troubles = append(h.Troubles, errNoUsers.Error()+": "+why)
	}
	if err := a.settings.refused(); err != nil {
		h.ConfigurationError = err.Error()
	}
	return h
}

// trouble records that something does not work, or with a nil error, that it works again.
func (a *Agent) trouble(what string, err error) { a.troubles.note(what, err) }

// diskChanged reports and logs that the disk does not answer, or answers again.
func (a *Agent) diskChanged() {
	if err := a.disk.hangs(); err != nil {
		a.log.Error("the disk does not answer", "error", err)
	} else {
		a.log.Info("the disk answers again")
	}
	a.noteService()
}

func (a *Agent) binaryPath() string { return filepath.Dir(a.options.Shepherd) }
