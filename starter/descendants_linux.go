package starter

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/limits/process"
)

// killDeadline is how long killAll waits for the last processes of a step. SIGKILL always succeeds
// in the end, but a process in uninterruptible sleep delays it.
const killDeadline = 10 * time.Second

// childless reports whether this process has no child, and so no descendant at all: as the
// subreaper it inherits all orphans below it. The kernel answers this in one call; /proc would take
// several files for each thread.
func childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// strays are descendants that do not belong to the running step: processes that earlier steps have
// left running. The key is the process ID.
type strays map[int]stray

type stray struct {
	start uint64 // the start time, because the kernel reuses IDs, or ours
	stays bool   // it may continue after the job
}

// ours is the start of a child of this process: its ID is not reused before it is reaped, which removes it.
const ours = ^uint64(0)

func (s strays) add(pid int, stays bool) {
	start := ours
	if process.Read(pid).Parent != unix.Getpid() {
		start = process.Start(pid)
	}
	s[pid] = stray{start, stays}
}

// has reports whether a process is a stray. A process of which that cannot be known belongs to the step: it gets its
// limits and its signals.
func (s strays) has(pid int) bool {
	p, ok := s[pid]
	return ok && (p.start == ours || p.start != 0 && p.start == process.Start(pid))
}

// mustEnd reports whether one of them has to end with the job.
func (s strays) mustEnd() bool {
	for _, p := range s {
		if !p.stays {
			return true
		}
	}
	return false
}

// beginStep records which processes earlier steps have left running. They do not belong to the new
// step, get no signals, and keep running. stay says whether the processes that the new step leaves may
// continue after the job.
func (s *Shepherd) beginStep(stay bool) {
	earlier := s.strays
	s.strays = strays{}
	if earlier != nil { // otherwise it is the first step
		for _, pid := range s.stepProcesses(false) { // parents before their children
			s.strays.add(pid, s.stays(pid, earlier))
		}
	}
	s.leftStay = stay
	s.mixed = s.d.AddGroupKill && s.strays.mustEnd()
}

// stays reports whether a process that earlier steps have left running may continue after the job. earlier
// are the strays of the last step.
func (s *Shepherd) stays(pid int, earlier strays) bool {
	if earlier.has(pid) {
		return earlier[pid].stays
	}
	if parent, ok := s.strays[process.Read(pid).Parent]; ok {
		return parent.stays
	}
	// During a procedure of another user, strays of the owner can have left it.
	return s.leftStay && (!s.mixed || !s.isOwners(pid))
}

// isOwners reports whether a process has the real user ID of the owner, or is in a user namespace: there the owner may have
// other user IDs (subuid(5)).
func (s *Shepherd) isOwners(pid int) bool {
	if process.Read(pid).User == int(s.owner.UID) {
		return true
	}
	ours, err := oslite.Readlink("/proc/self/ns/user")
	var its string
	var err2 error
	if process.InTime(pid, func() { its, err2 = oslite.Readlink("/proc/" + itoa(pid) + "/ns/user") }) != nil {
		return true
	}
	return err == nil && err2 == nil && its != ours
}

// endStrays ends what procedures of the owner have left running. The owner can take over such a process
// (ptrace(2)), and it has no limits: it is not in the job's control group. Those of other users stay.
func (s *Shepherd) endStrays() {
	if s.strays == nil || childless() {
		return
	}
	s.beginStep(false)
	maps.DeleteFunc(s.strays, func(_ int, p stray) bool { return !p.stays })
	s.killAll(true)
}

// stepProcesses returns all processes of the running step, the first process of the step first.
// With methods it includes those of method commands. As the subreaper (prctl(2)) the supervisor is
// an ancestor of each of them, whatever session, process group or parent a process has chosen.
//
// The additional group ID is not used: a process of another job may have it, and a process of this
// job may have lost it in a user namespace.
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

// keepOrphansOfDead reports whether strays have died and left orphans. It is called with a fresh
// list of processes, which may contain such orphans.
func (s *Shepherd) keepOrphansOfDead() bool {
	found := false
	for pid := range s.strays {
		if deadChild(unix.P_PID, pid).pid == pid && s.keepOrphans(pid) {
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

// keepOrphans makes strays of the orphans of a dead stray, such as a daemon that puts itself into
// the background, and reports whether there are any. It must be called before the dead child is
// reaped: until then its ID, and so its session ID, cannot be reused.
func (s *Shepherd) keepOrphans(dead int) bool {
	if !s.strays.has(dead) {
		return false
	}
	found := false
	session := process.Read(dead).Session
	for _, child := range process.Children(unix.Getpid()) {
		if child != s.awaited && s.methods[child] == "" && !s.strays.has(child) && process.Read(child).Session == session {
			s.strays.add(child, s.strays[dead].stays)
			found = true
		}
	}
	return found
}

// targets returns the processes that a signal to the job is sent to. With ENABLE_ADDGRP_KILL=false
// the administrator spares daemons that a job has started: then it is the process group alone.
func (s *Shepherd) targets() []int {
	list := s.stepProcesses(false)
	if s.active == nil || s.d.AddGroupKill {
		return list
	}
	return slices.DeleteFunc(list, func(pid int) bool { return process.Read(pid).Group != s.active.child.PID })
}

// signalJob sends a signal to every process of the step, once to each.
//
// The process group of the first process gets it from the kernel at one moment, so that no fork
// escapes it. The ID of the group cannot have been reused: it is that of a child that has not been
// reaped.
func (s *Shepherd) signalJob(sig syscall.Signal) {
	if sig == unix.SIGKILL && s.killCommand() {
		return
	}
	group := s.awaited
	if group == 0 || s.ended != nil || unix.Kill(-group, sig) != nil {
		group = -1
	}
	if sig == unix.SIGKILL && !s.groupAlone() {
		s.killGroup(false)
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
		// Processes may have forked before the signal reached them. For SIGKILL and SIGSTOP another
		// search follows. Any other signal may be answered by starting a program, which must not
		// get it as well.
		if fresh == 0 || (sig != unix.SIGKILL && sig != unix.SIGSTOP) {
			break
		}
		list = s.targets()
	}
	s.trace("signal " + unix.SignalName(sig) + " delivered to " + itoa(len(done)) + " processes")
}

// groupAlone reports whether signals to the job go to its process group only.
func (s *Shepherd) groupAlone() bool { return s.active != nil && !s.d.AddGroupKill }

// killChildren kills the supervisor's children of this step, with methods also those of method
// commands. The orphans of a killed child become children of the supervisor, so that repeated calls
// reach all descendants, even those that end or fork in between. It returns the number of children,
// dead ones included.
//
// A child that does not die keeps its own children: it may be stuck in the kernel, or a process
// that traces it may hold it at its exit (ptrace(2), PTRACE_O_TRACEEXIT). For such cases there is
// killDescendants.
func (s *Shepherd) killChildren(methods bool) int {
	n := 0
	list := process.Children(unix.Getpid())
	s.keepOrphansOfDead()
	for _, pid := range list {
		if (!methods && s.methods[pid] != "") || s.strays.has(pid) {
			continue
		}
		n++
		_ = unix.Kill(pid, unix.SIGKILL) // the ID is not reused before we reap it
	}
	return n
}

// killDescendants kills all descendants that belong to this step, whatever their parent is.
func (s *Shepherd) killDescendants(methods bool) {
	for _, pid := range s.stepProcesses(methods) {
		process.SignalDescendant(pid, unix.SIGKILL)
	}
}

// killGroup kills all processes in the job's control group, which no fork escapes. Descendants are
// killed in any case: if the group is delegated to the user, processes may have left it.
//
// Without methods it spares method commands, which are in the group, and leaves all other processes to the
// kill of the descendants. Of a frozen group of v1 these would not die.
func (s *Shepherd) killGroup(methods bool) {
	if s.group == nil || s.active == nil || !s.d.AddGroupKill {
		return
	}
	if !methods && len(s.methods) > 0 {
		s.thaw()
		return
	}
	if err := s.group.KillOnce(); err != nil {
		s.trace(err.Error())
	}
}

// killAll kills all processes of the step, with methods also those of method commands. It returns
// when there are none left, or when those left are known to be stuck in the kernel. It handles
// requests that arrive in between.
func (s *Shepherd) killAll(methods bool) {
	kill := func() int { return s.killChildren(methods) }
	alone := s.groupAlone() && !methods // methods have process groups of their own
	if alone {
		kill = s.killTargets
	}
	deadline := time.Now().Add(killDeadline)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		if wait >= undead && !alone {
			s.killDescendants(methods)
		}
		s.reap()
		if childless() {
			return
		}
		s.killGroup(methods)
		left := kill()
		if left == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.killGroup(true) // no method is spared any more: processes may fork faster than they are found
			s.trace("cannot end " + itoa(left) + " processes within " + killDeadline.String() + s.stuck())
			return
		}
		s.events.Wait(time.Now().Add(wait))
		s.receiveAll()
	}
}

// undead is the pause after which a killed process should be dead, and is checked again.
const undead = 8 * time.Millisecond

// killTargets kills the processes that signals to the job are sent to.
func (s *Shepherd) killTargets() int {
	list := s.targets()
	for _, pid := range list {
		process.SignalDescendant(pid, unix.SIGKILL)
	}
	return len(list)
}

// stuck names a process that does not die, and its state.
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

// endStep kills the processes that a procedure has left running.
func (s *Shepherd) endStep() { s.killAll(false) }

func itoa(n int) string { return strconv.Itoa(n) }
