package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/process"
)

// relayPatience is how long the first process of a job (job.Description.Relayed) may go on
// when all others of the job have been killed.
const relayPatience = 12 * time.Second

// commandPID is what methods know as the process of the job: also of one with a first
// process that only connects it with its client, that of its command.
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

// killCommand kills all of a job but the first process, which tells the client that its
// command was killed, and ends likewise. It reports whether there is anything to be told.
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
	// Who is stopped or stands still does not tell anybody anything.
	s.thaw()
	_ = unix.Kill(a.child.PID, unix.SIGCONT)
	const rounds = 20 // what they fork meanwhile; who goes on and on has until relayUntil
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
