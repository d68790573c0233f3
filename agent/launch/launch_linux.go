package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// ShepherdName is the name of the supervisor's executable. A real execd takes a
// process for a living shepherd only if its name begins with "sge_shep".
const ShepherdName = "sge_shepherd-go"

// ShepherdPath is where the shepherd lies that belongs to an execd executable:
// beside it.
func ShepherdPath(execd string) string { return filepath.Join(filepath.Dir(execd), ShepherdName) }

// Job is a job that has a directory on this host.
type Job struct {
	Dir         *jobdir.Dir
	Description *job.Description
	// Unbound says why the job is not bound to cores though it asked for it;
	// empty if it is, or did not ask.
	Unbound string

	spool  *jobdir.Spool
	order  *Order
	tmpdir jobdir.Tmpdir
	last   bool // no other task of the job needs the script
	pid    int  // of the shepherd, while it runs
}

// Prepare makes everything that the job needs on disk: its script, its TMPDIR
// and its directory. After an error nothing of it is left. The script of an
// array job is shared by its tasks; last says that no task comes after this.
func Prepare(spool *jobdir.Spool, o *Order, id job.ID, last bool) (_ *Job, err error) {
	area := jobdir.Area(spool.Path())
	d, err := o.Describe(id, area, "")
	if err != nil {
		return nil, err
	}
	j := &Job{spool: spool, order: o, last: last, Description: d}
	defer func() {
		if err != nil {
			err = errors.Join(err, j.Remove(false))
		}
	}()
	if !o.Request.Binary {
		_, err = spool.WriteScript(id.Job, o.Request.Script, int(o.Owner.UID), int(o.Owner.GID))
		if err != nil && !errors.Is(err, jobdir.ErrExists) {
			return nil, err
		}
	}
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
	host := jobdir.PEHost{Host: o.Host, Slots: o.Slots, Queue: o.Queue.Queue + "@" + o.Host, Processors: o.Queue.Processors}
	cores, unbound := o.chooseCores(spool)
	j.Unbound = unbound
	j.Description.Binding = cores.Config()
	if text := cores.Environment(); text != "" {
		j.Description.Environment = append(j.Description.Environment, "SGE_BINDING="+text)
	}
	if column := cores.HostfileColumn(); column != "" {
		host.Processors = column
	}
	j.Dir, err = spool.Create(j.Description, jobdir.CreateOptions{
		Hosts:      []jobdir.PEHost{host},
		KeepFormer: true,
		NoSync:     o.Terminal,
	})
	if err != nil {
		return nil, err
	}
	return j, j.Dir.WriteTmpdir(j.tmpdir)
}

// Start starts the shepherd, in a session of its own so that it outlives
// whoever starts it. What it ends with comes over the channel.
func (j *Job) Start(shepherd string) (<-chan syscall.WaitStatus, error) {
	path, err := filepath.Abs(shepherd)
	if err != nil {
		return nil, err
	}
	files := []*os.File{nil, nil, nil}
	if j.order.Terminal {
		files[1], files[2] = os.Stdout, os.Stderr
	}
	// Orphans of a shepherd that was killed come to us: see Destroy.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return nil, os.NewSyscallError("prctl", err)
	}
	p, err := os.StartProcess(path, []string{ShepherdName + "-" + strconv.Itoa(j.Description.ID.Job)}, &os.ProcAttr{
		Dir:   j.Dir.Path(),
		Env:   shepherdEnvironment(),
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	if err != nil {
		return nil, fmt.Errorf("cannot start the shepherd: %w", err)
	}
	j.pid = p.Pid
	done := make(chan syscall.WaitStatus, 1)
	go func() {
		state, err := p.Wait()
		status := syscall.WaitStatus(int(job.FailedBeforeJob) << 8)
		if err == nil {
			status = state.Sys().(syscall.WaitStatus)
		}
		if status.Signaled() {
			endOrphans()
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

// Suspend asks the shepherd to suspend the job, as qmod -sj does.
func (j *Job) Suspend() error {
	if c := j.Description.Ckpt; c != nil && hasOccasion(c.When, 'x') {
		return j.ask(unix.SIGTTOU, 0) // checkpoint and migrate instead
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
	if err := unix.Kill(j.pid, order); err != nil && !errors.Is(err, unix.ESRCH) {
		return os.NewSyscallError("kill", err)
	}
	return nil
}

// Destroy ends the shepherd and every process of the job, without asking.
func (j *Job) Destroy() {
	_ = unix.Kill(j.pid, unix.SIGKILL)
}

// Remove removes what is on disk for the job; keep leaves the job directory.
func (j *Job) Remove(keep bool) error {
	var errs []error
	if j.tmpdir.Path != "" {
		errs = append(errs, jobdir.RemoveTmpdir(j.tmpdir, jobdir.RemoveOptions{UID: int(j.order.Owner.UID), GID: int(j.order.Owner.GID)}))
	}
	if j.Dir != nil {
		errs = append(errs, j.Dir.Close())
		if !keep {
			errs = append(errs, j.spool.Remove(j.Description.ID, jobdir.KeepNone, false))
		}
	}
	if j.last && !j.order.Request.Binary {
		errs = append(errs, j.spool.RemoveScript(j.Description.ID.Job))
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
