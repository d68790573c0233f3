package launch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/host/keyring"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// ErrLaunched is returned for a job that has a supervisor, or had one.
var ErrLaunched = errors.New("the job has been launched before")

// Start starts the shepherd, in a session of its own so that it survives this process. With
// Assignment.Terminal, stdout and stderr are the output of the shepherd, and of a job that did not
// redirect its output. The channel receives the shepherd's wait status, for Collect.
func (j *Job) Start(shepherd string, stdout, stderr *os.File) (<-chan syscall.WaitStatus, error) {
	files := []*os.File{nil, nil, nil}
	if j.terminal {
		files[1], files[2] = stdout, stderr
	}
	// The directory's lock is shared with the shepherd: see fileWaiting.
	var fd int
	err := j.Dir.Use(func(dir int) (err error) {
		fd, err = unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	lock := os.NewFile(uintptr(fd), j.Dir.Path())
	defer lock.Close()
	// This process inherits the orphans of a killed shepherd: see endOrphans.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	j.strays = process.Children(unix.Getpid())
	if err := j.fork(shepherd, append(files, lock)); err != nil {
		return nil, err
	}
	done := make(chan syscall.WaitStatus, 1)
	go func() {
		status, err := j.Wait(context.Background())
		if err != nil {
			status = syscall.WaitStatus(int(job.FailedBeforeJob) << 8)
		}
		done <- status
	}()
	return done, nil
}

// Launch starts the supervisor of a job that was prepared without Assignment.Terminal, in a session
// of its own, so that it survives this process. The error wraps ErrLaunched if the job already has a
// supervisor, or had one that has begun. After any other error Launch may be called again.
//
// The supervisor holds the lock on the job directory, and other processes hold it only while they
// start one. So a free lock means that there is no supervisor: it has ended, or the process that
// was about to start it was killed. A supervisor that was killed before it wrote anything has done
// nothing. So the job starts only once, however often and by however many processes Launch is
// called.
func (j *Job) Launch(shepherd string) error {
	if j.own.slave {
		return fmt.Errorf("cannot start the supervisor of job %s: its master task is on another host", j.Description.ID)
	}
	if j.remote != nil {
		return j.launchRemotely()
	}
	lock, err := j.lockToLaunch()
	if errors.Is(err, ErrSupervised) {
		err = fmt.Errorf("cannot start the supervisor of job %s: %w", j.Description.ID, ErrLaunched)
	}
	if err != nil {
		return err
	}
	failpoint.At("launch-locked")
	// The child inherits the lock, so this process can release it after the fork.
	defer lock.Close()
	begun, err := hasBegun(j.Dir)
	if err != nil {
		return err
	}
	if begun {
		return fmt.Errorf("cannot start the supervisor of job %s: %w", j.Description.ID, ErrLaunched)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	failpoint.At("launch-before-fork")
	return j.fork(shepherd, []*os.File{null, null, null, lock})
}

// fork starts the supervisor as a process and keeps the process. The supervisor inherits the files, the
// lock on the job directory among them.
func (j *Job) fork(shepherd string, files []*os.File) error {
	s, err := j.groups.startSupervisor(shepherd, strconv.Itoa(j.Description.ID.Job), j.Dir.Path(), files)
	if err != nil {
		// The kernel's error does not name the path.
		if lost := j.spool.Check(); lost != nil {
			err = lost
		}
		return fmt.Errorf("cannot start the supervisor of the job: %w", err)
	}
	failpoint.At("launch-forked")
	children.Store(s.pid, true)
	j.mu.Lock()
	j.shepherd = s
	j.mu.Unlock()
	return nil
}

// startSupervisor starts a supervisor in a directory. name represents the job in the name of the
// process. Waiting for it needs no thread: see supervisor.wait.
func (g *Groups) startSupervisor(shepherd, name, dir string, files []*os.File) (*supervisor, error) {
	pidfd := -1
	var p *os.Process
	var err error
	keyring.Apart(func() {
		p, err = g.start(shepherd, []string{ShepherdName + "-" + name}, &os.ProcAttr{
			Dir:   dir,
			Env:   shepherdEnvironment(),
			Files: files,
			Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
		})
	})
	if err != nil {
		return nil, err
	}
	s := newSupervisor(p.Pid, pidfd)
	s.child = true
	_ = p.Release()
	return s, nil
}

// shepherdEnvironment returns the environment of the shepherd. It is small on purpose. The shepherd
// mostly waits, so one processor suffices for its Go runtime. The job's environment comes from a
// file and is not affected.
func shepherdEnvironment() []string {
	env := []string{"GOMAXPROCS=1"}
	for _, name := range []string{"TZ", "SGE_ROOT", "SGE_CELL"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, failpoint.Environment()...)
}

// ErrSupervised is returned for operations that are impossible while the job's supervisor runs.
var ErrSupervised = errors.New("the supervisor of the job is running")

// lockPatience is the time limit for a lock that another process may hold for a moment: Open, or a
// child of the holder that has not executed its program yet. On an overloaded host that can take
// long.
const lockPatience = 2 * time.Second

// lockToLaunch takes the lock. It waits if another process has the lock for a moment, and returns
// ErrSupervised as soon as a supervisor has begun.
func (j *Job) lockToLaunch() (*os.File, error) {
	const look = 20 * time.Millisecond
	for deadline := time.Now().Add(lockPatience); ; {
		lock, err := j.lock(look)
		if !errors.Is(err, ErrSupervised) || !time.Now().Before(deadline) {
			return lock, err
		}
		if begun, beginErr := hasBegun(j.Dir); begun || beginErr != nil {
			return nil, cmp.Or(beginErr, err)
		}
	}
}

// lock takes the lock on the job directory. The lock belongs to an open file description: it is held
// until the returned file, and all descriptors that processes have inherited from it, are closed.
func (j *Job) lock(patience time.Duration) (*os.File, error) {
	// Not a duplicate of the descriptor of j.Dir, which would then hold the lock as well.
	var fd int
	err := j.Dir.Use(func(dir int) (err error) {
		fd, err = unix.Openat(dir, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: j.Dir.Path(), Err: err}
	}
	file := os.NewFile(uintptr(fd), j.Dir.Path())
	deadline := time.Now().Add(patience)
	for wait := time.Millisecond; ; wait = min(2*wait, 20*time.Millisecond) {
		err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB)
		switch {
		case err == nil:
			return file, nil
		case errors.Is(err, unix.EWOULDBLOCK) && time.Now().Before(deadline), errors.Is(err, unix.EINTR):
			time.Sleep(wait)
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			err = ErrSupervised
		default:
			err = os.NewSyscallError("flock", err)
		}
		file.Close()
		return nil, fmt.Errorf("cannot lock the directory %q: %w", j.Dir.Path(), err)
	}
}

// Begun reports whether a supervisor of the job has written anything. If not, the job is not the
// cause of the supervisor's end.
func (j *Job) Begun() (bool, error) { return hasBegun(j.Dir) }

// hasBegun reports whether a supervisor has written anything: first it writes its process ID, or if
// it cannot, an error.
func hasBegun(dir *jobdir.Dir) (bool, error) {
	for _, name := range []string{jobdir.FilePID, jobdir.FileExitStatus, jobdir.FileError} {
		if there, err := dir.Exists(name); there || err != nil {
			return there, err
		}
	}
	return false, nil
}
