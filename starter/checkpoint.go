package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// The names under which checkpoint commands run as methods.
const (
	checkpointMethod = "ckpt_command"
	migrationMethod  = "migr_command"
	cleanMethod      = "clean_command"
)

// actsThroughCommands reports whether the interface of checkpoint(5) acts through commands of the
// site. The other interfaces, transparent and userdefined, act through signals.
func actsThroughCommands(c *job.Checkpoint) bool {
	switch c.Interface {
	case "hibernator", "cpr", "cray-ckpt", "application-level":
		return true
	}
	return false
}

// isKernelLevel reports whether the interface restarts a saved process with a command of its own
// instead of running the job script again.
func isKernelLevel(c *job.Checkpoint) bool {
	switch c.Interface {
	case "hibernator", "cpr", "cray-ckpt":
		return true
	}
	return false
}

// restartsFromCheckpoint reports whether the job continues from a checkpoint.
func (s *Shepherd) restartsFromCheckpoint() bool {
	c := s.d.Ckpt
	return c != nil && s.d.Restarted == job.RestartedFromCkpt && isKernelLevel(c) && c.RestartCommand != ""
}

// scheduleCheckpoint sets the time of the next periodic checkpoint: the larger of min_cpu_interval
// and -c (queue_conf(5)), which the config file already contains as one value.
func (s *Shepherd) scheduleCheckpoint(now time.Time) {
	if c := s.d.Ckpt; c != nil && c.Interval > 0 {
		s.set(dueCheckpoint, now.Add(c.Interval))
	}
}

// checkpoint makes the running job write a checkpoint.
func (s *Shepherd) checkpoint(now time.Time) {
	c := s.d.Ckpt
	s.scheduleCheckpoint(now)
	switch a := s.active; {
	case a.suspended: // nothing new to save, and a stopped process could not save it
		return
	case s.killed, a.migrating && !a.migrationFailed: // the job is being ended
		return
	}
	if actsThroughCommands(c) && c.Command != "" {
		s.command(checkpointMethod, c.Command)
		return // the command gets the signal as $ckpt_signal
	}
	if sig, ok := job.ParseSignal(c.Signal); ok {
		s.trace("checkpoint signal " + job.SignalName(sig))
		s.signalJob(sig)
	}
}

// migrate makes the job write a last checkpoint and end, so that it can continue on another host.
// The migration command has to end the job itself. Without one the supervisor kills the job, which
// then restarts from its last checkpoint; if a checkpoint is being written, the kill follows it.
// Neither a notification nor the terminate_method takes part (checkpoint(5)).
func (s *Shepherd) migrate() {
	s.active.migrating = true
	c := s.d.Ckpt
	switch {
	case s.methodRuns(checkpointMethod):
		s.trace("ckpt_command is still running: the job is killed nevertheless")
		s.active.killAfter = true
	case c != nil && actsThroughCommands(c) && c.MigrationCommand != "":
		s.command(migrationMethod, c.MigrationCommand)
	default:
		s.signalJob(unix.SIGKILL)
	}
}

// checkpointEnded records the exit status of a command of the checkpoint object.
func (s *Shepherd) checkpointEnded(name string, status int) {
	a := s.active
	if a == nil {
		return
	}
	switch name {
	case checkpointMethod:
		a.inArena = a.inArena || status == 0
		if a.killAfter && s.ended == nil {
			s.signalJob(unix.SIGKILL)
		}
	case migrationMethod:
		a.inArena = a.inArena || status == 0
		a.migrationFailed = status != 0
	}
}

// decideMigration decides whether the job migrates, and records it in a file.
func (s *Shepherd) decideMigration() {
	if s.d.Ckpt == nil {
		return
	}
	a := s.active
	if a.migrating && a.migrationFailed && !s.ended.status.Signaled() {
		// The command did not end the job: the job finished by itself.
		s.trace("migr_command has failed, and the job has ended by itself: it does not migrate")
		a.migrating = false
	}
	if a.migrating {
		s.reportMigration(a.inArena)
	}
}

// cleanCheckpoints removes the checkpoints of a job that does not migrate.
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

// reportMigration writes the file that makes a real execd requeue the job. Its content says whether
// there is a checkpoint to restart from.
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
