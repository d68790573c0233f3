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
	// A stray that has just died may have left orphans among these.
	for pid := range s.strays {
		if deadChild(unix.P_PID, pid) == pid && s.keepOrphans(pid) {
			list = s.descendants(methods)
		}
	}
	return list
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
	const rounds = 20
	if sig == unix.SIGKILL {
		s.killGroup()
	}
	list := s.targets()
	group := s.awaited
	if group == 0 || s.ended != nil || unix.Kill(-group, sig) != nil {
		group = -1
	}
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
				signalProcess(pid, sig)
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

func descends(pid, ancestor int) bool {
	const deep = 1000
	for range deep {
		pid = process.Read(pid).Parent
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}

// isChild reports whether a process is our child, which nobody but us collects.
func isChild(pid int) bool {
	const options = unix.WEXITED | unix.WNOHANG | unix.WNOWAIT
	return unix.Waitid(unix.P_PID, pid, nil, options, nil) == nil
}

// signalProcess signals a process that was just seen below us. A number can
// have been given to a stranger meanwhile, so the process is held by a pidfd
// first and then has to be a descendant of ours still. A child's number is its
// own until we collect it: there no time is lost that it could use to fork.
func signalProcess(pid int, sig syscall.Signal) {
	if isChild(pid) {
		_ = unix.Kill(pid, sig)
		return
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		if errors.Is(err, unix.ENOSYS) { // before Linux 5.3
			_ = unix.Kill(pid, sig)
		}
		return
	}
	defer unix.Close(fd)
	if descends(pid, unix.Getpid()) {
		_ = unix.PidfdSendSignal(fd, sig, nil, 0)
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

// killAll ends the processes that list returns, again and again, and does not
// return before there are none, or those left are known to be stuck in the
// kernel. Requests that come meanwhile are heard.
func (s *Shepherd) killAll(list func() []int) {
	deadline := time.Now().Add(killDeadline)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		s.reap()
		left := list()
		if len(left) == 0 {
			return
		}
		s.killGroup()
		if time.Now().After(deadline) {
			s.trace("cannot end " + itoa(len(left)) + " processes within " + killDeadline.String() +
				", the first is process " + itoa(left[0]))
			return
		}
		for _, pid := range left {
			signalProcess(pid, unix.SIGKILL)
		}
		s.events.Wait(time.Now().Add(wait))
		s.receiveAll()
	}
}

// endStep ends whatever is left of a procedure, with what it has started.
func (s *Shepherd) endStep() {
	s.killAll(func() []int { return s.stepProcesses(false) })
}

func itoa(n int) string { return strconv.Itoa(n) }

// atoi is 0 for what is no number.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
