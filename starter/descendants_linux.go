package starter

import (
	"errors"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/process"
)

// killDeadline is how long the end of a step's last processes is waited for.
// SIGKILL is certain; a process in uninterruptible sleep takes it later.
const killDeadline = 10 * time.Second

// childless reports whether we have no child, and with that no descendant at
// all: whoever loses its parent below us becomes ours. The kernel knows it; to
// find it out from /proc takes several files for each of our threads.
func childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// strays are processes below us that are not of the step that runs: what the
// steps before it have left running, by process id, with the time of their
// start, since the number of one that has ended may be given to another.
type strays map[int]uint64

func (s strays) add(pid int) { s[pid] = process.Read(pid).Start }

func (s strays) has(pid int) bool {
	start, ok := s[pid]
	return ok && start == process.Read(pid).Start
}

// beginStep takes note of what the steps before have left. It is not the new
// step's, is not signalled, and lives on.
func (s *Shepherd) beginStep() {
	if s.strays == nil {
		s.strays = strays{} // the first step: there is nothing yet
		return
	}
	clear(s.strays)
	for _, pid := range s.stepProcesses(false) {
		s.strays.add(pid)
	}
}

// stepProcesses are all processes of the step that runs, its first process
// first; with methods, those of method commands as well. As the subreaper
// (prctl(2)) we are an ancestor of every one of them, whatever session, process
// group or parent it has chosen.
//
// The additional group id decides nothing: a process of another job may have
// it, and a process of this one may have lost it in a user namespace.
func (s *Shepherd) stepProcesses(methods bool) []int {
	if childless() {
		return nil
	}
	list := s.descendants(methods)
	if s.keepOrphansOfDead() {
		list = s.descendants(methods)
	}
	return list
}

// keepOrphansOfDead is for a list of processes that was just made: a stray that
// died meanwhile may have left orphans among them.
func (s *Shepherd) keepOrphansOfDead() bool {
	found := false
	for pid := range s.strays {
		if deadChild(unix.P_PID, pid) == pid && s.keepOrphans(pid) {
			found = true
		}
	}
	return found
}

func (s *Shepherd) descendants(methods bool) []int {
	var list []int
	seen := map[int]bool{}
	queue := []int{unix.Getpid()}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range process.Children(parent) {
			if seen[pid] || s.strays.has(pid) || (!methods && s.methods[pid] != "") {
				continue
			}
			seen[pid] = true
			list = append(list, pid)
			queue = append(queue, pid)
		}
	}
	return list
}

// keepOrphans makes strays of what a dead one leaves behind, as a daemon does on
// its way into the background, and reports whether there is any. It is called
// before the dead child is collected: as long as it has its number, so has its
// session.
func (s *Shepherd) keepOrphans(dead int) bool {
	if !s.strays.has(dead) {
		return false
	}
	found := false
	session := process.Read(dead).Session
	for _, child := range process.Children(unix.Getpid()) {
		if child != s.awaited && s.methods[child] == "" && !s.strays.has(child) && process.Read(child).Session == session {
			s.strays.add(child)
			found = true
		}
	}
	return found
}

// targets are the processes that a signal to the job is for. With
// ENABLE_ADDGRP_KILL=false the administrator lets daemons of jobs go their way:
// then it is the process group alone.
func (s *Shepherd) targets() []int {
	list := s.stepProcesses(false)
	if s.active == nil || s.d.AddGroupKill {
		return list
	}
	return slices.DeleteFunc(list, func(pid int) bool { return process.Read(pid).Group != s.active.child.PID })
}

// signalJob delivers a signal to every process of the step, once to each.
//
// Those of the first process's group get it from the kernel, all in one moment,
// so that none is forked past it. The number of the group cannot have been given
// to another: it is that of our child, whom we have not collected.
func (s *Shepherd) signalJob(sig syscall.Signal) {
	if sig == unix.SIGKILL && s.killCommand() {
		return
	}
	group := s.awaited
	if group == 0 || s.ended != nil || unix.Kill(-group, sig) != nil {
		group = -1
	}
	if sig == unix.SIGKILL && !s.groupAlone() {
		s.killGroup()
		n := s.killChildren(false)
		s.trace("signal SIGKILL delivered, also to " + itoa(n) + " children; what they leave to us follows")
		if s.active != nil {
			s.set(dueUndead, time.Now().Add(undead))
		}
		return
	}
	const rounds = 20
	list := s.targets()
	done := map[int]bool{}
	for range rounds {
		fresh := 0
		for _, pid := range list {
			if done[pid] {
				continue
			}
			done[pid] = true
			fresh++
			if process.Read(pid).Group != group {
				process.SignalDescendant(pid, sig)
			}
		}
		// What is forked meanwhile by those not yet reached is looked for again
		// where a process that is missed defeats the purpose. Any other signal
		// may be answered by starting a program, which must not get it as well.
		if fresh == 0 || (sig != unix.SIGKILL && sig != unix.SIGSTOP) {
			break
		}
		list = s.targets()
	}
	s.trace("signal " + unix.SignalName(sig) + " delivered to " + itoa(len(done)) + " processes")
}

// groupAlone reports whether signals to the job are for its process group only.
func (s *Shepherd) groupAlone() bool { return s.active != nil && !s.d.AddGroupKill }

// killChildren kills our children of this step; with methods, method commands as
// well. What a killed child leaves behind becomes ours: so descendants come to
// their turn, without anyone having to look for them below processes that end or
// fork meanwhile. It returns how many there were, dead ones included.
//
// A child that does not end does not hand over its own, though: it may be stuck in
// the kernel, or be held on its way out by a process below it that traces it
// (ptrace(2), PTRACE_O_TRACEEXIT). That is what killDescendants is for.
func (s *Shepherd) killChildren(methods bool) int {
	n := 0
	list := process.Children(unix.Getpid())
	s.keepOrphansOfDead()
	for _, pid := range list {
		if (!methods && s.methods[pid] != "") || s.strays.has(pid) {
			continue
		}
		n++
		_ = unix.Kill(pid, unix.SIGKILL) // the number is its own until we collect it
	}
	return n
}

// killDescendants kills everything below us that is of this step, whoever its
// parent is.
func (s *Shepherd) killDescendants(methods bool) {
	for _, pid := range s.stepProcesses(methods) {
		process.SignalDescendant(pid, unix.SIGKILL)
	}
}

// killGroup kills all of the job's control group, in which no fork escapes. What
// is found by ancestry is killed in any case: where the group is the user's own,
// processes may have left it.
func (s *Shepherd) killGroup() {
	if s.group == nil || s.active == nil || !s.d.AddGroupKill {
		return
	}
	if err := s.group.KillOnce(); err != nil {
		s.trace(err.Error())
	}
}

// killAll ends all processes of the step, with methods those of method commands as
// well, and does not return before there are none, or those left are known to be
// stuck in the kernel. Requests that come meanwhile are heard.
func (s *Shepherd) killAll(methods bool) {
	kill := func() int { return s.killChildren(methods) }
	if s.groupAlone() {
		kill = s.killTargets
	}
	deadline := time.Now().Add(killDeadline)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if wait >= undead && !s.groupAlone() {
			s.killDescendants(methods)
		}
		s.reap()
		if childless() {
			return
		}
		s.killGroup()
		left := kill()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.trace("cannot end " + itoa(left) + " processes within " + killDeadline.String() + s.stuck())
			return
		}
		s.events.Wait(time.Now().Add(wait))
		s.receiveAll()
	}
}

// undead is the pause after which a killed process should have ended, and is looked
// behind.
const undead = 8 * time.Millisecond

// killTargets kills the processes that signals to the job are for.
func (s *Shepherd) killTargets() int {
	list := s.targets()
	for _, pid := range list {
		process.SignalDescendant(pid, unix.SIGKILL)
	}
	return len(list)
}

// stuck names a process that does not end, and what it does.
func (s *Shepherd) stuck() string {
	for _, pid := range s.stepProcesses(true) {
		switch process.Read(pid).State {
		case 'D':
			return ": process " + itoa(pid) + " is in uninterruptible sleep"
		case 'Z', 0:
		default:
			return ", the first is process " + itoa(pid)
		}
	}
	return ""
}

// endStep ends whatever is left of a procedure, with what it has started.
func (s *Shepherd) endStep() { s.killAll(false) }

func itoa(n int) string { return strconv.Itoa(n) }
