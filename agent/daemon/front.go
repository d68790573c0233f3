package daemon

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/gridengine"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

// launcherName is the name of the launcher's executable, in the directory of execd.
const launcherName = "execd-launcher"

// frontDir is the directory below the spool directory that belongs to the front.
const frontDir = launcher.FrontDir

// isFront reports whether this process is a front, whose launcher is another process.
func (s *settings) isFront() bool { return s.launcher >= 0 || s.only == onlyFront }

// launcherDescriptor returns the descriptor of the launcher of this process; -1 for none. It removes the
// variable from the environment of child processes.
func launcherDescriptor() int {
	fd, err := strconv.Atoi(os.Getenv(launcher.Variable))
	if err != nil {
		return -1
	}
	_ = os.Unsetenv(launcher.Variable)
	return fd
}

// place returns the directory of the daemon's own files: the spool directory, or that of a front below it.
func (s *settings) place() string {
	if s.isFront() {
		return filepath.Join(s.spool, frontDir)
	}
	return s.spool
}

// becomeLauncher replaces this process, which is root's, by the launcher, which starts a front with
// the same options. It returns only with an error.
func (c *Command) becomeLauncher(s *settings) error {
	if os.Geteuid() != 0 {
		return options.Usagef("--front-user is for a daemon of root: one of a user has no rights to separate")
	}
	user, err := userdb.System().User(s.frontUser)
	if err != nil {
		return fmt.Errorf("--front-user: %w", err)
	}
	if user.UID == 0 || user.GID == 0 {
		return options.Usagef("--front-user %s: expected a user and a group without root's rights", s.frontUser)
	}
	if s.host == "" { // the name that an sge_qmaster knows, which objects of root's configuration have
		cell, err := gridengine.OpenCell(os.Getenv)
		if err == nil {
			s.host, err = cell.OwnName(context.Background())
		}
		if err != nil {
			return fmt.Errorf("--master gridengine: %w", err)
		}
	}
	path := filepath.Join(filepath.Dir(c.Executable), launcherName)
	if err := (trust.Users{}).Program(path); err != nil {
		return fmt.Errorf("cannot run the launcher as root: %w", err)
	}
	cluster, notice, err := s.rootConfiguration()
	if err != nil {
		return err
	}
	if notice != "" {
		printer.Fprintf(c.Stderr, "execd %s: %s\n", c.Name, notice)
	}
	config := cluster.Config(s.host)
	if err := c.makePlaces(s, user, cluster); err != nil {
		return err
	}
	if s.ownMaster && s.ownConfiguration() {
		printer.Fprintf(c.Stderr, "execd %s: qconf changes %s, which belongs to the front: the launcher does not know these changes, and jobs with their procedures, methods and shells are refused: see execd-standalone(8), --conf\n",
			c.Name, filepath.Join(s.spool, frontDir, pushedDir))
	}
	argv := []string{launcherName, "--front-user", user.Name, "--spool", s.spool, "--execd", c.Executable, "--host", s.host}
	if s.ownMaster {
		cell, err := c.makeCellDir(s)
		if err != nil {
			return err
		}
		if !s.ownConfiguration() {
			argv = append(argv, "--configures", "--conf", s.conf)
			if dir := launcher.ConfigurationDir(s.spool, s.conf); dir != "" {
				argv = append(argv, "--requests", filepath.Join(dir, "sge_request"))
			}
		}
		argv = append(argv, "--requests", filepath.Join(s.spool, cellDir, cell, "common", "sge_request"))
	} else {
		argv = append(argv, "--ordered", "--procedures", s.procedures)
		if s.proceduresRequired {
			argv = append(argv, "--procedures-required")
		}
	}
	for _, name := range launcher.Attributes {
		if value, ok := config.Value(name); ok {
			argv = append(argv, "--set", name+" "+value)
		}
	}
	// Not as arguments: a site may have thousands of queues.
	site, err := launcher.PutObjects(launcher.ObjectsOf(cluster, s.host))
	if err != nil {
		return err
	}
	argv = append(argv, "--objects", strconv.Itoa(site))
	switch {
	case !s.gridengine:
		argv = append(argv, s.gpuOptions(cluster)...)
	case s.gpuComplex != "": // otherwise an sge_qmaster does not know the GPUs of a host
		argv = append(argv, "--gpu-root", s.gpuRoot, "--gpu-complex", s.gpuComplex)
	}
	if s.only != "" {
		argv = append(argv, "--apart")
	}
	argv = append(argv, "--", c.Name)
	if s.chosen { // the front has the options of its launcher
		argv = append(argv, "--front-user", user.Name)
	}
	err = syscall.Exec(path, append(argv, c.Args...), os.Environ())
	return fmt.Errorf("cannot run the launcher %q: %w", path, err)
}

// rootConfiguration returns the configuration of this host as root has written it: the launcher ignores
// changes that the front makes by itself. For a daemon with a master of its own it first completes a change during which
// a launcher has ended; notice says if that is impossible.
func (s *settings) rootConfiguration() (cluster *qconf.Cluster, notice string, err error) {
	c := &configuration{host: s.host, spool: s.spool, root: true}
	if !s.ownMaster {
		if s.conf == "" {
			return c.whole(), "", nil
		}
		cluster, _, err = readDirectory(s.conf, c.basis())
		return cluster, "", err
	}
	if err := c.buildIn(); err != nil {
		return nil, "", err
	}
	spool, err := jobdir.OpenSpool(s.spool)
	if err != nil {
		return nil, "", err
	}
	defer spool.Close()
	if err := lockFor(spool.Dir(), s.spool); err != nil {
		return nil, "", err
	}
	notice, err = launcher.CompleteConfiguration(spool)
	if err := errors.Join(err, c.restore(), launcher.BuildIn(spool, c.whole())); err != nil {
		return nil, "", err
	}
	cluster, _, err = readDirectory(launcher.ConfigurationDir(s.spool, s.conf), c.basis())
	return cluster, notice, err
}

// ownConfiguration reports whether the front of a daemon with a master of its own has a configuration that an earlier
// version of execd has written for qconf. Root has not confirmed it.
func (s *settings) ownConfiguration() bool {
	_, err := os.Lstat(filepath.Join(s.spool, frontDir, pushedDir))
	return err == nil
}

// gpuOptions tell the launcher where GPUs are, unless the site manages them itself: see agent.Agent.
func (s *settings) gpuOptions(c *qconf.Cluster) []string {
	if x, ok := c.Complexes().Find(launch.GPUMap); ok && x.Type != qconf.ComplexRSMap {
		return nil
	}
	argv := []string{"--gpu-root", s.gpuRoot}
	h, err := c.Host(s.host)
	if err != nil {
		return argv
	}
	for _, v := range c.Complexes().Canonical(h.ComplexValues) {
		if v.Name != launch.GPUMap {
			continue
		}
		if m, err := qconf.ParseResourceMap(v.Value); err == nil {
			for _, id := range m.IDs {
				argv = append(argv, "--gpu", id)
			}
		}
	}
	return argv
}

// cellDir is the directory that jobs find as SGE_ROOT, below the spool directory.
const cellDir = "sge"

// makeCellDir makes the directory for SGE_ROOT, which belongs to root, and passes its path to the
// launcher and the front. A site with a Grid Engine configures its own path. cell is SGE_CELL.
func (c *Command) makeCellDir(s *settings) (cell string, err error) {
	if c.CellDir == nil {
		return "", nil
	}
	dir := filepath.Join(s.spool, cellDir)
	h := &Host{Name: s.host, Socket: s.socket, Executable: c.Executable, Accounting: s.accounting}
	if s.accounting == filepath.Join(s.spool, "accounting") {
		h.Accounting = filepath.Join(s.spool, frontDir, "accounting") // the default of a front
	}
	cell, err = c.CellDir(dir, h)
	if err != nil || os.Getenv("SGE_ROOT") != "" {
		return cell, err
	}
	return cell, errors.Join(os.Setenv("SGE_ROOT", dir), os.Setenv("SGE_CELL", cell))
}

// makePlaces makes the directories of the front: for its files, and for its socket.
func (c *Command) makePlaces(s *settings, user *userdb.User, cluster *qconf.Cluster) error {
	spool, err := jobdir.OpenSpool(s.spool)
	if err != nil {
		return err
	}
	defer spool.Close()
	if err := c.divide(s, user, spool, cluster); err != nil {
		return err
	}
	own := func(dir string) error { return ownDirectory(dir, int(user.UID), int(user.GID)) }
	dir := filepath.Join(s.spool, frontDir)
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := own(dir); err != nil {
		return err
	}
	// An existing directory for sockets is used only if it belongs to this daemon.
	sockets := filepath.Dir(s.socket)
	err = os.MkdirAll(filepath.Dir(sockets), 0o755)
	if err == nil {
		err = os.Mkdir(sockets, 0o755)
	}
	if err == nil || errors.Is(err, fs.ErrExist) && sockets == filepath.Dir(paths.Socket(true, "")) {
		return own(sockets)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// ownDirectory gives a directory to a user and a group.
func ownDirectory(dir string, uid, gid int) error {
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return &fs.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	if err := unix.Fchown(fd, uid, gid); err != nil {
		return &fs.PathError{Op: "chown", Path: dir, Err: err}
	}
	return nil
}

// checkFront refuses a front that was started by itself as another user than the one of --front-user.
func (s *settings) checkFront() error {
	user, err := userdb.System().User(s.frontUser)
	if err != nil {
		return fmt.Errorf("--front-user: %w", err)
	}
	if uid := os.Geteuid(); uid == 0 || uint32(uid) != user.UID { //nolint:gosec // a user ID
		return options.Usagef("--only front: this process has user ID %d, expected that of --front-user %s, %d", uid, user.Name, user.UID)
	}
	return nil
}

// connectLauncher makes this process a front: it drops the rights that a front does not need, and
// connects to the launcher.
func (d *daemon) connectLauncher() (err error) {
	o := launcher.ClientOptions{
		Descriptor: d.launcher, Path: filepath.Join(d.settings.spool, launcher.SocketName),
		Lost: func(err error) {
			switch {
			case d.replaced.Load() && d.told.Err() == nil:
				syscall.Exit(ExitFailed)
			case d.ending.Load():
				syscall.Exit(ExitGood)
			}
			d.log.Error("the launcher has stopped: this process exits, and jobs continue", "error", err)
			// The process must end at once, see launcher.ClientOptions. All answered calls are on the disk.
			syscall.Exit(ExitFailed)
		},
		Away: func(error) {
			d.log.Warn("the launcher has stopped: no job starts until it runs again, and running jobs continue")
			d.say(d.manager.Status("waiting for the launcher; running jobs continue"))
			if d.ready.Load() {
				d.agent.LauncherChanged()
			}
		},
		Back: func() {
			d.log.Info("the launcher runs again")
			if d.ready.Load() {
				d.agent.LauncherChanged()
				d.say(d.manager.Ready(d.status())) // to a service manager that has started the launcher again
			}
		},
	}
	if o.Program, err = launcher.ProgramOf("/proc/self/exe"); err != nil {
		return err
	}
	if d.only == "" {
		o.Args = os.Args[1:]
	}
	if d.launcher < 0 {
		d.say(d.manager.Status("waiting for the launcher"))
		d.log.Info("waiting for the launcher", "socket", o.Path)
	}
	if d.client, err = launcher.Connect(context.Background(), o); err != nil {
		return err
	}
	if d.only == "" {
		d.manager.Through(d.client.Notify)
	}
	if root, cell := d.client.Cell(); d.only != "" && os.Getenv("SGE_ROOT") == "" && root != "" {
		if err := errors.Join(os.Setenv("SGE_ROOT", root), os.Setenv("SGE_CELL", cell)); err != nil {
			return err
		}
	}
	if err := launcher.Restrict(); err != nil {
		return err
	}
	d.own, err = jobdir.OpenDir(d.place())
	return err
}

// replace ends this front after the command that it is carrying out, for a change of the configuration that the launcher has
// to start again for. The next commands get to the next front, which uses the change.
func (d *daemon) replace() {
	d.log.Info("another process continues, with the changed configuration; jobs continue")
	d.replaced.Store(true)
	d.cancel()
}

// jobPath returns the directory of a job.
func (d *daemon) jobPath(id job.ID) string {
	if d.spool == nil {
		return jobdir.Area(d.settings.spool).JobPath(id)
	}
	return d.spool.JobPath(id)
}
