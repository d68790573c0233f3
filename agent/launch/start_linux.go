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
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/process"
)

// ErrLaunched is returned for a job that has a supervisor, or had one.
var ErrLaunched = errors.New("the job has been launched before")

// Start starts the shepherd, in a session of its own so that it outlives
// whoever starts it. With Order.Terminal, stdout and stderr are its output and
// that of a job that did not send it elsewhere. How the shepherd ended comes
// over the channel; it is for Collect.
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
	// Orphans of a shepherd that was killed come to us: see endOrphans.
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

// Launch starts the supervisor of a job that was prepared without Order.Terminal,
// in a session of its own, so that it outlives whoever starts it. errors.Is(err,
// ErrLaunched) for a job that has a supervisor already, or had one that has begun;
// after any other error it may be tried again.
//
// The supervisor holds the lock on the job directory, and nobody else does for
// longer than it takes to start one. So a free lock says that there is none, be it
// that it has ended, or that whoever was about to start it was killed; and a
// supervisor that was killed before it has written anything has done nothing. The
// job is started once, whenever and by how many it is tried.
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
	// The child has it from the moment at which it exists.
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

// fork starts the shepherd with these files.
func (j *Job) fork(shepherd string, files []*os.File) error {
	s, err := j.groups.startSupervisor(shepherd, strconv.Itoa(j.Description.ID.Job), j.Dir.Path(), files)
	if err != nil {
		// The kernel does not say which of the paths it means.
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

// startSupervisor starts a supervisor in a directory. name stands for the job in the name of
// its process. It is waited for without a thread: see supervisor.wait.
func (g *Groups) startSupervisor(shepherd, name, dir string, files []*os.File) (*supervisor, error) {
	pidfd := -1
	p, err := g.start(shepherd, []string{ShepherdName + "-" + name}, &os.ProcAttr{
		Dir:   dir,
		Env:   shepherdEnvironment(),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true, PidFD: &pidfd},
	})
	if err != nil {
		return nil, err
	}
	s := newSupervisor(p.Pid, pidfd)
	s.child = true
	_ = p.Release()
	return s, nil
}

// shepherdEnvironment is small on purpose. One processor for the Go runtime is
// what a process needs that waits all its life; the job's environment comes
// from a file and never sees it.
func shepherdEnvironment() []string {
	env := []string{"GOMAXPROCS=1"}
	for _, name := range []string{"TZ", "SGE_ROOT", "SGE_CELL"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return append(env, failpoint.Environment()...)
}

// ErrSupervised is returned for what cannot be done to a job whose supervisor lives.
var ErrSupervised = errors.New("the supervisor of the job lives")

// lockPatience bounds the wait for a lock that somebody may have just for a look:
// Open, and a process that was forked from one that had it and has not yet executed
// its program. On a host that stands still that takes its time.
const lockPatience = 2 * time.Second

// lockToLaunch takes the lock, or says that a supervisor has it as soon as that has begun.
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

// lock takes the lock on the job directory. It is one of the open file description:
// the file returned has it, with all that inherit it, until the last of them is
// closed.
func (j *Job) lock(patience time.Duration) (*os.File, error) {
	// Not a duplicate: j.Dir stays without.
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

// Begun reports whether a supervisor of the job has written anything: one that has not was
// ended by something else than the job.
func (j *Job) Begun() (bool, error) { return hasBegun(j.Dir) }

// hasBegun reports whether a supervisor has written anything: the number of its
// process first, and where it cannot, what is wrong.
func hasBegun(dir *jobdir.Dir) (bool, error) {
	for _, name := range []string{jobdir.FilePID, jobdir.FileExitStatus, jobdir.FileError} {
		if there, err := dir.Exists(name); there || err != nil {
			return there, err
		}
	}
	return false, nil
}
