// Execd-launcher is the part of a daemon that needs the rights of root: it starts execd as another
// user, the front, and carries out the front's orders about jobs. execd starts it, see
// execd-standalone(8), --front-user.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/procedures"
	"github.com/execd-project/execd/internal/host/servicemanager"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/printable"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/shrink"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/standalone/verifier"
	"github.com/execd-project/execd/submit"
)

func main() {
	// The front must not inherit the caller's descriptors.
	_ = unix.CloseRange(firstOther, math.MaxInt32, unix.CLOSE_RANGE_CLOEXEC)
	os.Exit(run(os.Args[1:]))
}

// firstOther is the first descriptor after the standard streams.
const firstOther = 3

// The exit statuses besides those of the front.
const (
	exitUsage     = 2
	exitCannotRun = 125
)

// say writes a line for the administrator.
func say(text string) { printer.Fprintf(os.Stderr, "execd-launcher: %s\n", text) }

func run(args []string) int {
	o, err := parse(args)
	if err != nil {
		say(err.Error())
		return exitUsage
	}
	env, signals := os.Environ(), make(chan os.Signal, 8)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	status, err := o.serve(env, signals)
	if errors.Is(err, launcher.ErrRestart) {
		if ending(signals) { // while serve closed what it had opened
			o.endFronts()
			return 0
		}
		// execd reads the configuration of root, and becomes the launcher again. Jobs and front continue.
		err = &os.PathError{Op: "exec", Path: o.execd, Err: unix.Exec(o.execd, append([]string{o.execd}, o.front...), env)}
	}
	if err != nil {
		say(err.Error())
		return exitCannotRun
	}
	return status
}

type options struct {
	user, spool, execd, host string
	gpuRoot                  string // empty if the launcher does not look after GPUs
	gpus                     list   // IDs of GPUs in root's configuration
	gpuComplex               string // see launcher.Server
	requests                 list   // places of the file sge_request of root's configuration
	rules                    launcher.Rules
	config                   *qconf.Configuration
	conf                     string // --conf of execd
	configures               bool   // qconf changes root's configuration
	front                    []string
	apart                    bool // the service manager starts the fronts
	ordered                  bool // a master orders jobs, so users confirm none
	endFronts                func()
}

// list is an option that may be repeated.
type list []string

func (l *list) String() string { return strings.Join(*l, ",") }

func (l *list) Set(s string) error {
	*l = append(*l, s)
	return nil
}

func parse(args []string) (*options, error) {
	o := &options{}
	var attributes list
	var permitted string
	var required bool
	site := -1
	flags := flag.NewFlagSet("execd-launcher", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&o.user, "front-user", "", "")
	flags.StringVar(&o.spool, "spool", "", "")
	flags.StringVar(&o.execd, "execd", "", "")
	flags.StringVar(&o.host, "host", "", "")
	flags.BoolVar(&o.apart, "apart", false, "")
	flags.BoolVar(&o.ordered, "ordered", false, "")
	flags.StringVar(&permitted, "procedures", "", "")
	flags.BoolVar(&required, "procedures-required", false, "")
	flags.Var(&attributes, "set", "")
	flags.IntVar(&site, "objects", site, "")
	flags.StringVar(&o.gpuRoot, "gpu-root", "", "")
	flags.Var(&o.gpus, "gpu", "")
	flags.StringVar(&o.gpuComplex, "gpu-complex", "", "")
	flags.Var(&o.requests, "requests", "")
	flags.StringVar(&o.conf, "conf", "", "")
	flags.BoolVar(&o.configures, "configures", false, "")
	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("%w; do not run this program yourself: execd starts it, see execd standalone --help", err)
	}
	o.front, o.rules.Users = flags.Args(), userdb.System()
	switch {
	case o.user == "" || o.spool == "" || o.execd == "" || site < 0 || len(o.front) == 0:
		return nil, errors.New("do not run this program yourself: execd starts it, see execd standalone --help")
	case os.Geteuid() != 0:
		return nil, errors.New("it is a part of a daemon of root and can only run as root")
	}
	var err error
	for _, name := range []string{"min_uid", "min_gid"} {
		if !slices.ContainsFunc(attributes, func(line string) bool { return strings.HasPrefix(line, name+" ") }) {
			return nil, fmt.Errorf("%s is missing; do not run this program yourself: execd starts it, see execd standalone --help", name)
		}
	}
	if o.config, err = qconf.ParseConfiguration("global", []byte(strings.Join(attributes, "\n")+"\n")); err != nil {
		return nil, err
	}
	objects, err := launcher.TakeObjects(site)
	if err != nil {
		return nil, err
	}
	o.rules.MinUID, o.rules.MinGID, o.rules.GroupIDs, o.rules.Tmpdirs = o.config.MinUID, o.config.MinGID, o.config.GIDRange, objects.Tmpdirs
	if permitted != "" {
		o.rules.Permitted = procedures.NewFile(permitted, required).Read
	}
	o.rules.Site = launcher.Site{
		Host: o.host, Config: o.config, Objects: *objects, BinaryPath: filepath.Dir(o.execd), Arch: job.Arch(runtime.GOARCH),
		SGERoot: os.Getenv("SGE_ROOT"), SGECell: os.Getenv("SGE_CELL"),
	}
	return o, nil
}

// dying is how long a process that was killed may hold its lock.
const dying = 2 * time.Second

// lock refuses to run while another daemon uses the same spool area.
func lock(spool *jobdir.Spool) error {
	for end := time.Now().Add(dying); ; time.Sleep(20 * time.Millisecond) {
		err := spool.Dir().Use(func(fd int) error { return unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("another daemon uses the spool directory %s: stop that daemon first, or name another directory with --spool", spool.Path())
		}
	}
}

func (o *options) serve(env []string, signals <-chan os.Signal) (int, error) {
	user, err := o.rules.Users.User(o.user)
	if err != nil {
		return 0, fmt.Errorf("--front-user %s: %w", o.user, err)
	}
	shepherd, err := launch.FindShepherd(o.execd)
	if err != nil {
		return 0, err
	}
	spool, err := jobdir.OpenSpool(o.spool)
	if err != nil {
		return 0, err
	}
	defer spool.Close()
	if err := lock(spool); err != nil {
		return 0, err
	}
	log, err := audit.Open(audit.Options{Path: filepath.Join(o.spool, "launcher-audit"), Host: o.host, Daemon: "launcher", Journal: true})
	if err != nil {
		return 0, err
	}
	defer func() { _ = log.Close() }()
	var submissions *launcher.SubmissionSocket
	if !o.ordered {
		if submissions, err = o.openSubmissionSocket(spool); err != nil {
			return 0, err
		}
		defer o.rules.Submissions.Close()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wait sync.WaitGroup
	defer wait.Wait()
	if submissions != nil {
		defer submissions.Close()
	}
	defer cancel()
	wait.Go(func() { shrink.Run(ctx) })
	o.rules.FrontUID = user.UID
	server := &launcher.Server{
		Spool: spool, GPUs: o.openGPUs(), SiteGPUs: o.gpus, GPUComplex: o.gpuComplex, Config: o.config, Shepherd: shepherd, Rules: o.rules, FrontGID: int(user.GID),
		Restarts: make(chan struct{}, 1),
		Refused: func(order string, err error) {
			log.Refuse(&audit.Record{
				Caller: audit.Caller{Via: "front", UID: &user.UID, User: user.Name}, Command: order, Outcome: audit.Refused, Error: err.Error(),
			}, time.Now())
		},
	}
	defer server.GPUs.Close()
	if o.configures {
		server.Configuration = &launcher.Configuration{Spool: spool, Conf: o.conf, Host: o.host, Use: server.UseObjects, Check: server.CheckStart, Restart: server.Restart}
	}
	if submissions != nil {
		submissions.Configuration = server.Configuration
		wait.Go(func() {
			if err := submissions.Serve(ctx); err != nil {
				say(err.Error())
			}
		})
	}
	if url := o.config.JSVURL; url != "" {
		jsv := verifier.NewServer(func(level, text string) { say("the verifier of jobs says: " + printable.Cut(level+" "+text, 1000)) })
		defer jsv.Close()
		patience := time.Duration(o.config.QmasterParams.JSVTimeout) * time.Second
		server.Verify = func(ctx context.Context, parameters []submit.Parameter, environment []submit.Variable) ([]submit.Correction, error) {
			return jsv.Verify(ctx, url, patience, parameters, environment)
		}
	}
	server.OpenGroups = func(gpus bool) (*launch.Groups, error) {
		groups, err := launch.OpenGroupsFor(spool, o.config, gpus)
		if err == nil && groups != nil && groups.Warning != "" {
			say(groups.Warning)
		}
		return groups, err
	}
	defer server.Close()
	if server.Program, err = launcher.ProgramOf(o.execd); err != nil {
		return 0, err
	}
	if !o.apart {
		server.Args = o.front
		if server.Manager, err = servicemanager.New(clock.System()); err != nil {
			say(err.Error())
		}
	}
	socket, err := launcher.OpenFrontSocket(spool, user, func(err error) { say(err.Error()) })
	if err != nil {
		return 0, err
	}
	defer socket.Close()
	o.endFronts = server.EndFronts
	f := &launcher.Front{User: user, Path: o.execd, Args: o.front, Env: env, Apart: o.apart}
	status, err := server.Run(f, socket, signals, say)
	if errors.Is(err, launcher.ErrRestart) && ending(signals) {
		server.EndFronts()
		status, err = 0, nil
	}
	if server.Manager != nil && !errors.Is(err, launcher.ErrRestart) {
		_ = server.Manager.Stopping("jobs go on")
	}
	return status, err
}

// ending reports whether a signal has told the launcher to end.
func ending(signals <-chan os.Signal) bool {
	for {
		select {
		case sig := <-signals:
			if sig != unix.SIGHUP {
				return true
			}
		default:
			return false
		}
	}
}

// gpuFile is where in the spool directory the numbers of GPUs are.
const gpuFile = "gpus"

// openGPUs finds the GPUs of this host; nil if the site manages them itself.
func (o *options) openGPUs() *gpu.Register {
	if o.gpuRoot == "" {
		return nil
	}
	r := gpu.OpenRegister(o.gpuRoot, filepath.Join(o.spool, gpuFile), launch.GPUsInUse)
	if r.Wants() {
		r.Ask(context.Background())
	}
	return r
}

// openSubmissionSocket opens the socket on which users confirm their submissions.
func (o *options) openSubmissionSocket(spool *jobdir.Spool) (*launcher.SubmissionSocket, error) {
	var err error
	if o.rules.Submissions, err = launcher.OpenSubmissions(spool); err != nil {
		return nil, err
	}
	submissions, err := launcher.OpenSubmissionSocket(spool, &o.rules, o.requests)
	if err != nil {
		o.rules.Submissions.Close()
	}
	return submissions, err
}
