package daemon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api/serve"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/gridengine"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/certfile"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/healthcheck"
	"github.com/execd-project/execd/internal/host/servicemanager"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/shrink"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// Command is one call of execd agent, or of a command that has an agent in it. The zero
// value of a field is not a default, but for Name and Master.
type Command struct {
	Args           []string // words after "execd agent"
	Stdout, Stderr io.Writer
	Executable     string // path of execd itself; the supervisor is in the same directory
	Version        string

	Name string // of the command, "agent" or "standalone"; "agent" if it is empty
	// Master makes the master that drives the agent from within this process; nil for none.
	Master func(*Host) (Master, error)
	// CellDir makes the directory that jobs find as SGE_ROOT, and returns SGE_CELL. With
	// --front-user root makes it, because jobs execute programs in it. It is nil if there is no
	// such directory.
	CellDir func(dir string, h *Host) (cell string, err error)
	// Confirm prepares the jobs in the spool directory of a daemon of one process for a launcher, before the front of
	// a daemon of two processes gets them: it calls add with all jobs. nil means that there are none.
	Confirm func(h *Host, add func([]Confirmed) error) error
	// Web makes the pages for browsers (--web); nil for a command without pages.
	Web func(*Web) (Pages, error)
}

// Master is a master in the process of the agent.
type Master interface {
	agent.Link
	// Methods are its calls on the socket of the agent.
	Methods() map[string]serve.Method
	// DeletedBy returns USER@HOST of the qdel that ends a job; empty if none does.
	DeletedBy(id job.ID) string
	// Close releases resources that Run has not used or not released.
	Close() error
}

// Host holds the resources that a daemon offers to the master in its process.
type Host struct {
	Name string // of the host
	// Spool is the directory of the daemon's own files. The master may store its files there, too.
	Spool string
	// CellDir is the directory that Command.CellDir has made; empty for none.
	CellDir string
	// Submissions is the socket on which users confirm their submissions to the launcher; it is
	// empty without a launcher. Keep removes all submissions from the launcher except new ones and
	// those with the given keys.
	Submissions string
	Keep        func(keys []string) error
	// Verify makes the launcher verify a submission of a user with jsv_url: see launcher.Client.Verify.
	Verify func(ctx context.Context, uid uint32, key string, number uint32, v *submission.Verification) (changes []submit.Correction, digest string, err error)
	// Users says that the daemon serves all users of the host, even if it does not run as root.
	Users bool
	// Socket is where commands find the daemon, and Executable is execd.
	Socket, Executable string
	// Accounting is the file of records of accounting(5), empty for none.
	Accounting string
	// PerUser is the maximum space of one user's jobs on the file system of Spool, and Reserve the
	// space that new jobs may not use. A PerUser of 0 bytes means no limit.
	PerUser, Reserve Share
	// Memory is the maximum memory of one user's requests on this host; 0 bytes mean no limit.
	Memory   Share
	Managers []string
	Version  string
	Log      hclog.Logger
	// Audit is the audit log; nil for none.
	Audit *audit.Log
	// Cluster returns the configuration that the agent uses. It may be called while the master
	// runs.
	Cluster func() *qconf.Cluster
	// Read reads the configuration files.
	Read func() (*qconf.Cluster, error)
	// Change replaces files of the configuration, by their paths below its directory, and applies the
	// result. A nil text removes a file. If the result is invalid, nothing changes.
	Change func(files map[string][]byte) error
	// Configure does the same with root's configuration, which the launcher changes. key is that of the statement with
	// which root has confirmed the change; it is empty for changes of managers. Configure is nil if this process may
	// change the configuration by itself.
	Configure func(key string, files map[string][]byte) error
	// Confine makes a control group for a process of a user that does not belong to a job: see
	// agent.Agent.Confine.
	Confine func() (dir *os.File, remove func(), err error)
	// File reads a file such as sge_request, which is in the directory of the configuration but not
	// part of it. The error is fs.ErrNotExist if there is none.
	File func(name string) ([]byte, error)
}

// Run carries out the command and returns the exit status. The caller prints the error.
func (c *Command) Run() (int, error) {
	c.Name = cmp.Or(c.Name, "agent")
	s, err := parse(c.Name, c.Args)
	switch {
	case errors.Is(err, options.ErrHelp):
		_, err := io.WriteString(c.Stdout, usageOf(c.Name))
		return ExitGood, err
	case err != nil:
		if _, ok := errors.AsType[*options.UsageError](err); ok {
			return options.ExitUsage, err
		}
		return ExitCannotRun, err
	}
	why, err := c.chooseProcesses(s)
	if err == nil {
		err = s.trust()
	}
	if err != nil {
		return ExitCannotRun, err
	}
	if why != "" {
		printer.Fprintf(c.Stderr, "execd %s: one process with the rights of root reads what users type, because %s: see execd-standalone(8), TWO PROCESSES\n", c.Name, why)
	}
	if s.frontUser != "" && !s.isFront() {
		err := c.becomeLauncher(s)
		if _, ok := errors.AsType[*options.UsageError](err); ok {
			return options.ExitUsage, err
		}
		return ExitCannotRun, err
	}
	if s.only == onlyFront {
		if err := s.checkFront(); err != nil {
			return options.ExitUsage, err
		}
	}
	out := &sink{stderr: c.Stderr}
	log, levels, err := newLog(out, s)
	if err != nil {
		return options.ExitUsage, err
	}
	reserveThreads(spareThreads)
	d := &daemon{Command: c, settings: s, log: log, levels: levels, sink: out}
	if err := d.open(); err != nil {
		return ExitCannotRun, err
	}
	defer d.close()
	told, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	ctx, cancel := context.WithCancel(told)
	defer cancel()
	d.told, d.cancel = told, cancel
	if d.client != nil {
		context.AfterFunc(ctx, func() {
			d.ending.Store(true)
			d.client.Leave()
		})
	}
	defer d.beside.Wait() // before the things that they use are closed
	defer stop()          // however the agent has ended
	if err := d.begin(ctx); err != nil {
		return ExitCannotRun, err
	}
	if err := d.run(ctx); err != nil || d.replaced.Load() && told.Err() == nil {
		return ExitFailed, err
	}
	return ExitGood, nil
}

// daemon is one execution of the command.
type daemon struct {
	*Command
	*settings
	log           hclog.Logger
	levels        map[string]hclog.Level // of parts of the log
	sink          *sink
	configuration *configuration
	gpus          gpuRegister      // nil if GPUs are not used
	spool         *jobdir.Spool    // nil in a front
	own           *jobdir.Dir      // of the daemon's own files
	client        *launcher.Client // of a front; nil for one process
	ready, ending atomic.Bool      // announce was called; a signal has told the front to end
	replaced      atomic.Bool      // this front ends so that another one uses a change of the configuration
	told          context.Context  // ends with a signal that ends the daemon
	cancel        context.CancelFunc
	agent         *agent.Agent
	server        *serve.Server
	load          *loadsensor.Collector
	topology      launch.Topologies // of load alone
	observer      *observer
	books         *books // nil for no accounting
	audit         *audit.Log
	known         known
	manager       *servicemanager.Notifier
	health        *healthcheck.Check // nil for none
	link          *gridengine.Link   // to an sge_qmaster; nil for none
	cell          *gridengine.Cell
	master        Master // nil for none
	pages         Pages  // nil for none
	browsers      net.Listener
	said          sync.Map // the problems that sayDoubtful has logged
	// beside counts the goroutines that begin has started. They end with its context.
	beside  sync.WaitGroup
	asking  sync.Mutex    // guards answers
	answers chan struct{} // nil, or closed when the agent has answered alive
}

// open prepares the daemon. After an error it has closed everything again.
func (d *daemon) open() (err error) {
	shepherd, err := launch.FindShepherd(d.Executable)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			d.close()
		}
	}()
	if d.manager, err = servicemanager.New(clock.System()); err != nil {
		d.log.Warn("cannot notify the service manager", "error", err)
	}
	if d.isFront() {
		err = d.connectLauncher()
	} else if d.spool, err = jobdir.OpenSpool(d.settings.spool); err == nil {
		d.own = d.spool.Dir()
	}
	if err != nil {
		return err
	}
	if err := d.alone(); err != nil {
		return err
	}
	if err := d.takeSockets(); err != nil {
		return err
	}
	if d.gridengine {
		if err := d.joinCell(); err != nil {
			return err
		}
	}
	if err := d.openAudit(); err != nil {
		return err
	}
	d.configuration = &configuration{dir: d.conf, spool: d.place(), host: d.host, root: os.Geteuid() == 0 || d.isFront()}
	if d.Master != nil {
		if err := d.configuration.buildIn(); err != nil {
			return err
		}
	}
	if d.client != nil && d.Master != nil && !d.ownConfiguration() {
		d.configuration.launcher, d.configuration.below, d.configuration.replace = d.client, d.settings.spool, d.replace
	} else if err := d.configuration.restore(); err != nil {
		return err
	}
	if err := d.openGPUs(context.Background()); err != nil {
		return err
	}
	if err := d.makeMaster(); err != nil {
		return err
	}
	if err := d.openWeb(); err != nil {
		return err
	}
	server, err := serve.New(d.serving())
	if err != nil {
		return err
	}
	d.server = server
	if d.load, err = d.newLoad(); err != nil {
		return err
	}
	d.observer = newObserver(d)
	var account func(*agent.Record, *job.Description, *job.Outcome, bool) error
	if d.accounting != "" {
		if d.books, err = openBooks(d.accounting); err != nil {
			return err
		}
		account = d.books.account
	}
	agentOptions := agent.Options{
		Host: d.host, Spool: d.spool, Shepherd: shepherd, Version: d.Version,
		Configuration: d.configuration.read, Configured: d.configured, Load: d.load, Observer: d.observer, Account: account,
		GPUs: d.inventory, MeasureGPUs: d.measureGPUs,
		Permit: d.permit, SGERoot: os.Getenv("SGE_ROOT"), SGECell: os.Getenv("SGE_CELL"), HangUp: d.hangUp,
		Log: d.logOf("agent"),
	}
	if d.client != nil {
		agentOptions.Launcher, agentOptions.Own = d.client, d.own
	}
	if d.agent, err = agent.New(agentOptions); err != nil {
		return err
	}
	d.noteConfiguration()
	d.useLog(d.agent.Cluster())
	d.sayDoubtful(d.agent.Cluster())
	if d.gridengine {
		err = d.openLink(shepherd)
	}
	return err
}

// useLog directs the log to the destination that the configuration names.
func (d *daemon) useLog(cluster *qconf.Cluster) {
	if err := d.sink.use(cluster.Config(d.host).ExecdParams.UseSyslog); err != nil {
		d.log.Error("cannot use the log that the configuration names", "error", err)
	}
}

// ours are the attributes that an sge_execd uses and its sge_qmaster does not.
var ours = map[string]bool{"set_token_cmd": true, "pag_cmd": true, "cgroups_params": true}

// sayDoubtful logs, once each, settings of the configuration that are probably mistakes, and
// settings without effect. Under an sge_qmaster it only logs the attributes of an execution daemon,
// because sge_qmaster may use the others. The agent itself logs execd_params.
func (d *daemon) sayDoubtful(cluster *qconf.Cluster) {
	say := func(text string, found []*qconf.Error) {
		for _, e := range found {
			if e.Attribute == "execd_params" || d.gridengine && !ours[e.Attribute] {
				continue
			}
			if _, again := d.said.LoadOrStore(e.Error(), true); !again {
				d.log.Warn(text, "warning", e)
			}
		}
	}
	say("a doubtful place in the configuration", cluster.Warnings())
	say("a parameter of the configuration has no effect here, see execd-conf(5)", cluster.Ineffective())
}

// makeMaster makes the master of this process, if it has one.
func (d *daemon) makeMaster() (err error) {
	if d.Master == nil {
		return nil
	}
	h := &Host{
		Name: d.host, Spool: d.place(), Users: os.Geteuid() == 0 || d.isFront(), Socket: d.socket, Executable: d.Executable, PerUser: d.perUser, Reserve: d.reserve, Memory: d.memory, Accounting: d.accounting, Managers: d.managers, Version: d.Version, Log: d.logOf("master"), Audit: d.audit,
		Cluster: func() *qconf.Cluster { return d.agent.Cluster() },
		Read: func() (*qconf.Cluster, error) {
			c, _, err := d.configuration.read()
			return c, err
		},
		Confine: func() (*os.File, func(), error) { return d.agent.Confine() },
		File:    d.configuration.file,
		Change: func(files map[string][]byte) error {
			return d.configuration.change(files, func() error { return d.useFor(reader{told: files}) })
		},
	}
	if d.isFront() {
		h.CellDir, h.Submissions = filepath.Join(d.settings.spool, cellDir), filepath.Join(d.settings.spool, claim.SocketName)
		h.Keep, h.Verify = d.client.Keep, d.client.Verify
		if d.configuration.launcher != nil {
			h.Configure = func(key string, files map[string][]byte) error {
				return d.configuration.order(key, files, func() error { return d.useFor(reader{told: files}) })
			}
		}
	}
	d.master, err = d.Master(h)
	return err
}

// dying is how long a process that was killed may hold its locks.
const dying = 2 * time.Second

// alone refuses to run while another agent uses the same spool area. The lock ends with this
// process.
func (d *daemon) alone() error {
	if !d.isFront() && os.Geteuid() == 0 {
		switch there, err := d.own.Exists(frontDir); {
		case err != nil:
			return err
		case there:
			return fmt.Errorf("the spool directory %s belongs to a daemon with --front-user, and a single process cannot use it: start that daemon, or execd-front.service; for a single process name another directory with --spool", d.settings.spool)
		}
	}
	lock := func() error {
		return d.own.Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
	}
	err := lock()
	// A process that was just killed may take a while to end.
	for end := time.Now().Add(dying); errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(end); {
		time.Sleep(20 * time.Millisecond)
		err = lock()
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		return fmt.Errorf("another agent uses the spool directory %s: stop that agent first, or name another directory with --spool", d.settings.spool)
	}
	if err != nil {
		return fmt.Errorf("cannot lock the spool directory %s: %w", d.settings.spool, err)
	}
	return nil
}

// serving says where the interface listens.
func (d *daemon) serving() serve.Options {
	o := serve.Options{
		Socket: d.socket, Managers: d.managers, Version: d.Version,
		Install: func(ctx context.Context, files map[string]string) error {
			if d.gridengine {
				return errors.New("this agent gets its configuration from sge_qmaster: change it with qconf -mconf")
			}
			return d.configuration.install(files, d.useForCall(ctx))
		},
		Audit:  d.audit,
		Notify: func(err error) { d.logOf("api").Warn("the API reports an error", "error", err) },
	}
	o.Methods = d.methods()
	if d.master != nil {
		o.OwnMaster = true
		o.Limits.Connections, o.Limits.AllConnections = connections()
	}
	if d.listen != "" {
		o.TLS = &serve.TLS{
			Address: d.listen, Masters: d.masters,
			Files: certfile.Paths{Certificate: d.tlsCert, Key: d.tlsKey, CA: d.tlsCA},
		}
	}
	if d.loopback != "" {
		o.Loopback = &serve.Loopback{Address: d.loopback, TokenFile: d.tokenFile}
	}
	return o
}

// connections returns the maximum number of connected commands with a master for users: of each
// user, and of all users. Commands that wait for the end of a job are connected, too.
func connections() (each, all int) {
	const most, share = 4096, 4
	all = most
	var files unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &files) == nil {
		all = int(min(most, files.Cur/2))
	}
	return all / share, all
}

func (d *daemon) close() {
	if d.agent != nil {
		d.agent.Close()
	}
	if d.server != nil {
		d.server.Close()
	}
	if d.link != nil {
		d.link.Close()
	}
	if d.master != nil {
		if err := d.master.Close(); err != nil {
			d.log.Error("cannot close the state of the cell", "error", err)
		}
	}
	if d.browsers != nil {
		_ = d.browsers.Close()
	}
	d.topology.Close()
	if d.gpus != nil {
		d.gpus.Close()
	}
	if err := d.books.close(); err != nil {
		d.log.Error("cannot close the accounting file", "error", err)
	}
	if err := d.audit.Close(); err != nil {
		d.log.Error("cannot close the audit log", "error", err)
	}
	if d.spool != nil {
		d.spool.Close()
	} else if d.own != nil {
		_ = d.own.Close()
	}
	if d.client != nil {
		d.client.Close()
	}
}

// begin starts the goroutines that run next to the agent until the context ends.
func (d *daemon) begin(ctx context.Context) error {
	d.reloadOnHangup(ctx)
	d.beside.Go(func() {
		d.configuration.watch(ctx, d.log, func() { d.reload(reader{command: "reload", caller: audit.Caller{Via: "file"}}) })
	})
	if err := d.checkHealth(ctx); err != nil {
		return err
	}
	if err := d.serveMetrics(ctx); err != nil {
		return err
	}
	d.serveWeb(ctx)
	d.announce(ctx)
	d.beside.Go(func() { shrink.Run(ctx) })
	d.beside.Go(func() { d.lookForGPUs(ctx) })
	return nil
}

// run serves until it gets a request to end.
func (d *daemon) run(ctx context.Context) error {
	links := []agent.Link{d.server}
	if d.link != nil {
		links = append(links, d.audited(d.link))
	}
	if d.master != nil {
		links = append(links, d.master)
	}
	err := d.agent.Run(ctx, links...)
	d.say(d.manager.Stopping("jobs go on"))
	d.observer.close()
	d.log.Info("the daemon is stopping; jobs continue")
	return err
}

// reloadOnHangup makes the daemon read its configuration again and reopen its files on SIGHUP.
func (d *daemon) reloadOnHangup(ctx context.Context) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, unix.SIGHUP)
	d.beside.Go(func() {
		defer signal.Stop(hangup)
		for {
			select {
			case <-hangup:
				d.refreshGPUs(ctx)
				if err := d.books.reopen(); err != nil {
					d.log.Error("cannot open the accounting file again", "error", err)
				}
				if err := d.audit.Reopen(); err != nil {
					d.log.Error("cannot open the audit log again", "error", err)
				}
				d.reload(reader{command: "reload", caller: audit.Caller{Via: "signal"}})
			case <-ctx.Done():
				return
			}
		}
	})
}

// use applies the configuration on the disk.
func (d *daemon) use() error { return d.agent.Configure(context.Background()) }

// configured applies the agent's configuration to the load collector and to the log. It does not
// refuse the configuration because of an unusable load sensor.
func (d *daemon) configured(cluster *qconf.Cluster) {
	if err := d.load.Configure(d.loadSettings(cluster)); err != nil {
		d.log.Error("the load sensors have not been changed", "error", err)
	}
	d.useLog(cluster)
	d.sayDoubtful(cluster)
	d.noteConfiguration()
}

func (d *daemon) reload(r reader) {
	d.say(d.manager.Reloading())
	defer func() { d.say(d.manager.Ready(d.status())) }()
	if err := d.useFor(r); err != nil {
		d.log.Error("the configuration has not been changed", "error", err)
		return
	}
	d.log.Info("configuration read", "version", d.agent.Health().Configuration)
}
