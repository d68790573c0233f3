package launch

import (
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// Collect reads the outcome of a job from its directory after its shepherd has ended. shepherd is
// the shepherd's wait status. Missing or damaged files are not errors: they have failure codes
// (sge_status(5)).
func Collect(dir *jobdir.Dir, d *job.Description, shepherd syscall.WaitStatus) *job.Outcome {
	o := &job.Outcome{ID: d.ID, Failed: verdict(dir, shepherd)}
	stamp, text, err := dir.FirstError()
	if err == nil && text != "" && o.Failed == job.FailedNone {
		o.Failed = job.FailedErrorFile
	}
	usage, err := dir.Usage()
	switch {
	case err == nil && usage != nil:
		addUsage(o, usage)
	case o.Failed == job.FailedNone:
		o.Failed = job.FailedAfterJob
	}
	if migrate, inArena, err := dir.Checkpointed(); err == nil && migrate {
		o.Failed, o.Restart = job.FailedMigrate, job.RestartedJob
		if !o.Ran {
			addUnfinished(o, dir)
		}
		if pid, err := dir.ReadNumber(jobdir.FileJobPID); inArena && err == nil {
			o.Restart, o.CheckpointPID = job.RestartedFromCkpt, pid
		}
	}
	if ok, err := dir.Exists(jobdir.FileNoResources); err == nil && ok {
		o.Failed = job.FailedReschedule
	}
	classify(o, d, text)
	if o.Failed == job.FailedShell && text != "" {
		if more := unfound(d); more != "" {
			text = strings.TrimSuffix(text, " (or its interpreter is missing)") + "; " + more
		}
	}
	if o.Ran && o.ExitStatus != 0 && o.Signal == 0 && o.Limit == nil && o.Notice == "" {
		o.Notice = misread(d)
	}
	o.Stamp, o.FailedText = stamp, text
	if text == "" {
		o.FailedText = job.FailureOf(o.Failed).Text
	}
	if o.Reason == "" {
		o.Reason = reason(o, dir, shepherd)
	}
	o.Reason += advice(o, d)
	return o
}

// verdict returns the failure code of the shepherd: the first number in exit_status. Without this
// file, it follows from the shepherd's wait status.
func verdict(dir *jobdir.Dir, shepherd syscall.WaitStatus) job.Failed {
	code, done, err := dir.ExitStatus()
	if done && err == nil {
		return job.Failed(code)
	}
	if shepherd.Exited() && shepherd.ExitStatus() != 0 {
		return job.Failed(shepherd.ExitStatus())
	}
	if exists, err := dir.Exists(jobdir.FileExitStatus); err == nil && !exists {
		return job.FailedBeforeProlog
	}
	return job.FailedNoExitStatus
}

func addUsage(o *job.Outcome, u *jobdir.Usage) {
	o.Ran = true
	o.ExitStatus, o.Signal = u.ExitStatus, u.Signal
	o.CoreDumped = u.WaitStatus.CoreDumped()
	o.Start, o.End = u.Start, u.End
	o.Usage, o.Limit, o.Reason, o.Notice = u.Usage, u.Limit, u.Reason, u.Notice
	if o.Failed == job.FailedLimit && u.ExitStatus > 128 {
		// The shepherd leaves it out there, where a real execd would take it
		// for the reason.
		o.Signal = u.ExitStatus - 128
	}
	if o.Signal != 0 && o.Failed != job.FailedLimit {
		o.Failed = job.FailedAfterJob
	}
}

// addUnfinished completes the outcome of a job that was ended to migrate, and whose supervisor was
// killed right before it wrote the file usage.
func addUnfinished(o *job.Outcome, dir *jobdir.Dir) {
	o.Ran, o.Signal = true, int(unix.SIGKILL)
	o.ExitStatus = 128 + o.Signal
	if start, err := dir.ModTime(jobdir.FileJobPID); err == nil {
		o.Start = start
	}
	if end, err := dir.ModTime(jobdir.FileCheckpoint); err == nil {
		o.End = end
	}
	if used, err := dir.Online(); err == nil && used != nil {
		o.Usage.Wallclock, o.Usage.CPU, o.Usage.Mem, o.Usage.IO = used.Wallclock, used.CPU, used.Mem, used.IO
		o.Usage.IOOps, o.Usage.IOWait, o.Usage.MaxVmem, o.Usage.PeakRSS = used.IOOps, used.IOWait, used.MaxVmem, used.MaxRSS
	}
}

// ownersCauses are the errors with which the kernel does not execute a program because of what the owner of a job has
// submitted, or has running: too many arguments and variables, and too many processes.
var ownersCauses = []syscall.Errno{syscall.E2BIG, syscall.EAGAIN}

// classify sets the class of the failure and its effect. text is the reason as the supervisor has written it.
func classify(o *job.Outcome, d *job.Description, text string) {
	c := d.Command
	f := job.ClassOf(o.Failed, job.ShellRequest{
		OwnShell: c.OwnShell, Binary: c.Binary, NoShell: c.NoShell, StartMode: c.StartMode,
		OwnersCause: slices.ContainsFunc(ownersCauses, func(e syscall.Errno) bool { return strings.HasSuffix(text, ": "+e.Error()) }),
		FileMissing: c.Binary && (!strings.HasPrefix(c.File, "/") || o.Failed == job.FailedInJobChild && missing(d, c.File)),
	})
	o.Class, o.Effect = f.Class, f.Effect
}

// missing reports whether there is nothing at a path that the owner of a job chose.
func missing(d *job.Description, path string) bool {
	owner, err := userdb.System().User(d.Owner)
	return err == nil && jobdir.MissingFor(int(owner.UID), int(owner.GID), path)
}

// reason returns a sentence about the failure of a job, or "" for a successful one.
func reason(o *job.Outcome, dir *jobdir.Dir, shepherd syscall.WaitStatus) string {
	switch {
	case o.Failed == job.FailedNone:
		return ""
	case o.Failed == job.FailedAfterJob && o.Signal != 0:
		text := "died through signal " + job.SignalName(syscall.Signal(o.Signal))
		if o.CoreDumped {
			text += " (core dumped)"
		}
		return text
	case o.Failed == job.FailedAfterJob:
		return "was ended before it began"
	case o.Failed == job.FailedNoExitStatus && shepherd.Signaled():
		return "its shepherd was ended by signal " + job.SignalName(shepherd.Signal())
	case o.Failed == job.FailedNoExitStatus && full(dir):
		return "its shepherd could not write down what became of it: no space left on device, at " + dir.Path()
	case o.Failed == job.FailedNoExitStatus:
		return "its shepherd has not written down what became of it"
	case o.FailedText != "":
		return o.FailedText
	}
	return job.FailureOf(o.Failed).Text
}

// full reports whether nothing more can be written to a job directory.
func full(dir *jobdir.Dir) bool {
	var st unix.Statfs_t
	err := dir.Use(func(fd int) error { return unix.Fstatfs(fd, &st) })
	return err == nil && st.Blocks > 0 && st.Bavail == 0
}
