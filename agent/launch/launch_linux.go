package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/limits/process"
)

// ShepherdName is the name of the supervisor's executable. A real execd takes a
// process for a living shepherd only if its name begins with "sge_shep".
const ShepherdName = "sge_shepherd-go"

// FindShepherd returns where the shepherd lies that belongs to an execd
// executable: beside it. The error says what to do where it does not.
func FindShepherd(execd string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(execd))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, ShepherdName)
	if err := unix.Access(path, unix.X_OK); err != nil {
		return "", fmt.Errorf("cannot execute the supervisor of jobs %q: %w; install %s into the directory of execd", path, err, ShepherdName)
	}
	return path, nil
}

// Job is a job that has a directory on this host.
type Job struct {
	Dir         *jobdir.Dir
	Description *job.Description
	// Binding are the cores that were chosen for the job; none if it did not
	// ask for any or could not have them.
	Binding binding.Binding
	// Affinity is what the job is restricted to: its cores, or the processors
	// of its queue. The supervisor sees to the processors; a cpuset may have
	// the memory nodes, too.
	Affinity binding.Affinity
	// Unbound says why the job is not bound to cores though it asked for it, or
	// not to the processors of its queue; empty otherwise.
	Unbound string
	// Notes say which limits of the job the kernel does not keep, and why.
	Notes []string

	group    *group.Paths // of the control group; nil without
	spool    *jobdir.Spool
	order    *Order
	tmpdir   jobdir.Tmpdir
	shepherd *os.Process
	strays   []int // children that we had before the shepherd
}

// StoreScript writes the script of a job, which all its tasks share, to the
// spool area. RemoveScript is for when the last of them has ended.
func StoreScript(spool *jobdir.Spool, o *Order, number int) error {
	if o.Request.Binary {
		return nil
	}
	_, err := spool.WriteScript(number, o.Request.Script, int(o.Owner.UID), int(o.Owner.GID))
	return err
}

// RemoveScript undoes StoreScript.
func RemoveScript(spool *jobdir.Spool, o *Order, number int) error {
	if o.Request.Binary {
		return nil
	}
	return spool.RemoveScript(number)
}

// Prepare makes what the job, or one task of it, needs on disk beside the
// script: its TMPDIR and its directory. After an error nothing of it is left.
func Prepare(spool *jobdir.Spool, o *Order, id job.ID) (_ *Job, err error) {
	area := jobdir.Area(spool.Path())
	d, err := o.Describe(id, area, "")
	if err != nil {
		return nil, err
	}
	j := &Job{spool: spool, order: o, Description: d}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Remove(false))
		}
	}()
	j.tmpdir, err = jobdir.MakeTmpdir(o.Queue.Tmpdir, jobdir.TmpdirName(id, o.Queue.Queue), int(o.Owner.UID), int(o.Owner.GID))
	if err != nil {
		return nil, err
	}
	if j.tmpdir.Path != d.Tmpdir {
		if j.Description, err = o.Describe(id, area, j.tmpdir.Path); err != nil {
			return nil, err
		}
	}
	if o.Privileged {
		if j.Description.AddGroupID, err = freeGroupID(o.Config.GIDRange, id); err != nil {
			return nil, err
		}
	}
	if err = j.create(); err != nil {
		return nil, err
	}
	if err = j.Dir.WriteTmpdir(j.tmpdir); err == nil && o.Terminal {
		err = j.wait()
	}
	if err == nil {
		err = j.makeGroup()
	}
	return j, err
}

// create chooses processors for the job and makes its directory, in which they
// stand, before another job can choose.
func (j *Job) create() error {
	o, d := j.order, j.Description
	if o.wantsCores() {
		unlock, err := j.spool.LockJobs()
		if err != nil {
			return err
		}
		defer unlock()
	}
	b := o.chooseProcessors(j.spool)
	j.Binding, j.Affinity, j.Unbound = b.cores, b.affinity, b.why
	d.Binding, d.BindingCPUs = b.cores.Config(), b.cores.CPUs.String()
	if text := b.cores.Environment(); text != "" {
		d.Environment = append(d.Environment, "SGE_BINDING="+text)
	}
	host := jobdir.PEHost{Host: o.Host, Slots: o.Slots, Queue: o.Queue.Queue + "@" + o.Host, Processors: o.Queue.Processors}
	if column := b.cores.HostfileColumn(); column != "" {
		host.Processors = column
	}
	var err error
	j.Dir, err = j.spool.Create(d, jobdir.CreateOptions{
		Hosts:      []jobdir.PEHost{host},
		KeepFormer: true,
		NoSync:     o.Terminal,
	})
	return err
}

// Start starts the shepherd, in a session of its own so that it outlives
// whoever starts it. With Order.Terminal, stdout and stderr are its output and
// that of a job that did not send it elsewhere. How the shepherd ended comes
// over the channel; it is for Collect.
func (j *Job) Start(shepherd string, stdout, stderr *os.File) (<-chan syscall.WaitStatus, error) {
	files := []*os.File{nil, nil, nil}
	if j.order.Terminal {
		files[1], files[2] = stdout, stderr
	}
	// The directory's lock is shared with the shepherd: see fileWaiting.
	fd, err := unix.FcntlInt(uintptr(j.Dir.Fd()), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	lock := os.NewFile(uintptr(fd), j.Dir.Path())
	defer lock.Close()
	files = append(files, lock)
	// Orphans of a shepherd that was killed come to us: see endOrphans.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	j.strays = process.Children(unix.Getpid())
	p, err := j.order.Groups.start(shepherd, []string{ShepherdName + "-" + strconv.Itoa(j.Description.ID.Job)}, &os.ProcAttr{
		Dir:   j.Dir.Path(),
		Env:   shepherdEnvironment(),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start the supervisor of the job: %w", err)
	}
	j.shepherd = p
	done := make(chan syscall.WaitStatus, 1)
	go func() {
		status := syscall.WaitStatus(int(job.FailedBeforeJob) << 8)
		if state, err := p.Wait(); err == nil {
			status = state.Sys().(syscall.WaitStatus)
		}
		done <- status
	}()
	return done, nil
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
	return env
}

// Terminate asks the shepherd to end the job, as qdel does.
func (j *Job) Terminate() error { return j.ask(unix.SIGTSTP, 0) }

// Migrates reports whether the job is checkpointed and ended instead of being
// suspended (checkpoint(5), when).
func (j *Job) Migrates() bool {
	c := j.Description.Ckpt
	return c != nil && hasOccasion(c.When, 'x')
}

// Suspend asks the shepherd to suspend the job, as qmod -sj does.
func (j *Job) Suspend() error {
	if j.Migrates() {
		return j.ask(unix.SIGTTOU, 0)
	}
	return j.ask(unix.SIGTTIN, unix.SIGSTOP)
}

// Resume asks the shepherd to resume the job, as qmod -usj does.
func (j *Job) Resume() error { return j.ask(unix.SIGCONT, 0) }

// ask sends the shepherd one of the signals that it takes for an order; deliver
// is the signal that SIGTTIN stands for.
func (j *Job) ask(order, deliver syscall.Signal) error {
	if deliver != 0 {
		if err := j.Dir.WriteNumber(jobdir.FileSignal, int(deliver)); err != nil {
			return err
		}
	}
	if err := j.shepherd.Signal(order); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Kill ends the job at once, without notification and terminate method. The
// steps after the job are run all the same, and its usage is recorded. It
// returns false while there is no job to be ended: before it has been started,
// and after its end.
func (j *Job) Kill() bool {
	return j.withProcess(func(fd int) error { return unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0) }) == nil
}

// Running reports whether the job itself runs, not one of the steps around it.
func (j *Job) Running() bool {
	return j.withProcess(func(int) error { return nil }) == nil
}

// withProcess calls f with a descriptor of the first process of the job, if
// that is running.
func (j *Job) withProcess(f func(pidfd int) error) error {
	pid, err := j.Dir.ReadNumber(jobdir.FileJobPID)
	if err != nil {
		return err
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	// The number may be a stranger's by now; the process that the descriptor
	// holds is the job if it is the shepherd's child.
	if !slices.Contains(process.Children(j.shepherd.Pid), pid) {
		return unix.ESRCH
	}
	return f(fd)
}

// Destroy ends the shepherd and every process of the job, without asking.
func (j *Job) Destroy() { _ = j.shepherd.Kill() }

// Remove removes the control group of the job and what is on disk for it but its
// script; keep leaves the job directory. With processes that cannot be ended all
// of it stays, for Sweep.
func (j *Job) Remove(keep bool) error {
	if err := j.removeGroup(); err != nil {
		return errors.Join(err, j.Dir.Close())
	}
	var errs []error
	if j.tmpdir.Path != "" {
		errs = append(errs, jobdir.RemoveTmpdir(j.tmpdir, jobdir.RemoveOptions{
			UID: int(j.order.Owner.UID), GID: int(j.order.Owner.GID), Owners: j.order.procedureUsers(),
		}))
	}
	if j.Dir != nil {
		if keep {
			// One whose shepherd was killed has no verdict, and would count as a
			// job that runs, with its cores, for as long as the directory stays.
			if _, done, err := j.Dir.ExitStatus(); err == nil && !done {
				errs = append(errs, j.Dir.AddExitStatus(int(job.FailedNoExitStatus)))
			}
			errs = append(errs, j.Dir.Remove(fileWaiting))
		} else {
			errs = append(errs, j.spool.Remove(j.Description.ID, jobdir.KeepNone, false))
		}
		errs = append(errs, j.Dir.Close())
	}
	return errors.Join(errs...)
}

func hasOccasion(when string, letter byte) bool {
	for i := range len(when) {
		if when[i] == letter {
			return true
		}
	}
	return false
}

// Arch is the name that Grid Engine has for an architecture of Go.
func Arch(goarch string) string {
	switch goarch {
	case "386":
		return "lx-x86"
	default:
		return "lx-" + goarch
	}
}
