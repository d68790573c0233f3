package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// The names of checkpoint commands as methods.
const (
	checkpointMethod = "ckpt_command"
	migrationMethod  = "migr_command"
	cleanMethod      = "clean_command"
)

// The interfaces of checkpoint(5) that act through commands of the site; the
// others, transparent and userdefined, act through signals.
func actsThroughCommands(c *job.Checkpoint) bool {
	switch c.Interface {
	case "hibernator", "cpr", "cray-ckpt", "application-level":
		return true
	}
	return false
}

// isKernelLevel reports whether the interface restarts a saved process by a
// command of its own, instead of running the job script again.
func isKernelLevel(c *job.Checkpoint) bool {
	switch c.Interface {
	case "hibernator", "cpr", "cray-ckpt":
		return true
	}
	return false
}

// restartsFromCheckpoint reports whether the job goes on from a checkpoint.
func (s *Shepherd) restartsFromCheckpoint() bool {
	c := s.d.Ckpt
	return c != nil && s.d.Restarted == job.RestartedFromCkpt && isKernelLevel(c) && c.RestartCommand != ""
}

// scheduleCheckpoint sets the time of the next periodic checkpoint: the larger
// of min_cpu_interval and -c (queue_conf(5)), as the config file has it.
func (s *Shepherd) scheduleCheckpoint(now time.Time) {
	if c := s.d.Ckpt; c != nil && c.Interval > 0 {
		s.set(dueCheckpoint, now.Add(c.Interval))
	}
}

// checkpoint has the running job write a checkpoint.
func (s *Shepherd) checkpoint(now time.Time) {
	c := s.d.Ckpt
	s.scheduleCheckpoint(now)
	switch a := s.active; {
	case a.suspended: // nothing new to save, and a stopped process could not
		return
	case s.killed, a.migrating && !a.migrationFailed: // on its way out
		return
	}
	if actsThroughCommands(c) && c.Command != "" {
		s.command(checkpointMethod, c.Command)
		return // which has the signal as $ckpt_signal, if it wants one
	}
	if sig, ok := job.ParseSignal(c.Signal); ok {
		s.trace("checkpoint signal " + job.SignalName(sig))
		s.signalJob(sig)
	}
}

// migrate has the job write a last checkpoint and end, so that it can go on
// elsewhere. The migration command has to end the job itself. Where there is
// none the job is killed and begins again from whatever it has saved; where a
// checkpoint is just being written, behind that. Neither a notification nor the
// terminate_method has a part in it (checkpoint(5)).
func (s *Shepherd) migrate() {
	s.active.migrating = true
	c := s.d.Ckpt
	switch {
	case s.methodRuns(checkpointMethod):
		s.trace("ckpt_command is still running: the job is killed behind it")
		s.active.killAfter = true
	case c != nil && actsThroughCommands(c) && c.MigrationCommand != "":
		s.command(migrationMethod, c.MigrationCommand)
	default:
		s.signalJob(unix.SIGKILL)
	}
}

// checkpointEnded takes note of how a command of the checkpoint object ended.
func (s *Shepherd) checkpointEnded(name string, status int) {
	a := s.active
	if a == nil {
		return
	}
	switch name {
	case checkpointMethod:
		a.inArena = a.inArena || status == 0
		if a.killAfter {
			s.signalJob(unix.SIGKILL)
		}
	case migrationMethod:
		a.inArena = a.inArena || status == 0
		a.migrationFailed = status != 0
	}
}

// decideMigration tells, by a file, whether the job is to migrate.
func (s *Shepherd) decideMigration() {
	if s.d.Ckpt == nil {
		return
	}
	s.waitMethods() // the verdict of a migration command is part of it
	a := s.active
	if a.migrating && a.migrationFailed && !s.ended.status.Signaled() {
		// It did not end the job, which has come to its own end then.
		s.trace("migr_command has failed, and the job has ended by itself: it does not migrate")
		a.migrating = false
	}
	if a.migrating {
		s.reportMigration(a.inArena)
	}
}

// cleanCheckpoints cleans up behind the checkpoints of a job that does not migrate.
func (s *Shepherd) cleanCheckpoints() {
	c := s.d.Ckpt
	if c == nil || s.active.migrating {
		return
	}
	if actsThroughCommands(c) && c.CleanCommand != "" {
		s.command(cleanMethod, c.CleanCommand)
		s.waitMethods()
	}
}

// reportMigration writes the file that has a real execd requeue the job, and
// tells it whether there is a checkpoint to be restarted from.
func (s *Shepherd) reportMigration(inArena bool) {
	failpoint.At("shepherd-before-checkpointed")
	content := ""
	if inArena {
		content = "1\n"
	}
	if err := s.dir.WriteFile(jobdir.FileCheckpoint, []byte(content)); err != nil {
		s.trace(err.Error())
	}
	failpoint.At("shepherd-checkpointed")
}
