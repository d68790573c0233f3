package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/process"
)

// relayPatience is how long the first process of a job (job.Description.Relayed) may continue after
// all other processes of the job were killed.
const relayPatience = 12 * time.Second

// commandPID returns the process ID that methods get as the job's. If the first process only
// connects the job with its client, it is that of the command.
func (s *Shepherd) commandPID() int {
	first := s.active.child.PID
	if s.d.Relayed {
		for _, pid := range process.Children(first) {
			if process.Read(pid).Group == pid {
				return pid
			}
		}
	}
	return first
}

// killCommand kills all processes of a job except the first, which reports to the client that its
// command was killed and exits likewise. It reports whether there is anything to report.
func (s *Shepherd) killCommand() bool {
	a, now := s.active, time.Now()
	if !s.d.Relayed || a == nil || s.ended != nil {
		return false
	}
	command := s.commandPID()
	if command == a.child.PID {
		return false
	}
	if a.relayUntil.IsZero() {
		a.relayUntil = now.Add(relayPatience)
	}
	if !now.Before(a.relayUntil) {
		return false
	}
	if due := s.due[dueForce]; due.IsZero() || due.After(a.relayUntil) {
		s.set(dueForce, a.relayUntil)
	}
	// A stopped or frozen process cannot report anything.
	s.thaw()
	_ = unix.Kill(a.child.PID, unix.SIGCONT)
	const rounds = 20 // for processes that are forked in between; if they keep forking, relayUntil ends it
	done := map[int]bool{a.child.PID: true}
	for range rounds {
		fresh := false
		for _, pid := range s.stepProcesses(false) {
			if !done[pid] && (!s.groupAlone() || process.Read(pid).Group == command) {
				done[pid], fresh = true, true
				process.SignalDescendant(pid, unix.SIGKILL)
			}
		}
		if !fresh {
			break
		}
	}
	s.trace("signal SIGKILL delivered to the command, " + itoa(len(done)-1) + " processes")
	return true
}
