package starter

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// killDeadline is how long the end of a job's last processes is waited for.
// SIGKILL is certain; a process in uninterruptible sleep takes it later.
const killDeadline = 10 * time.Second

// childless reports whether we have no child, and with that no descendant at
// all: whoever loses its parent below us becomes ours. the kernel knows it; to
// find it out from /proc takes several files for each of our threads.
func childless() bool {
	return errors.Is(unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil), unix.ECHILD)
}

// children are the processes whose parent we are.
func (s *Shepherd) children() map[int]bool {
	m := map[int]bool{}
	if childless() {
		return m
	}
	for _, pid := range childrenOf(unix.Getpid()) {
		m[pid] = true
	}
	return m
}

// jobProcesses are all processes of the job, its first process first. As the
// subreaper (prctl(2)) we are an ancestor of every one of them, whatever
// session, process group or parent it has chosen; what a prolog has left
// running, and method commands, are ours as well but not the job's.
//
// The additional group id decides nothing: a process of another job may have
// it, and a process of this one may have lost it in a user namespace.
func (s *Shepherd) jobProcesses() []int {
	if childless() {
		return nil
	}
	var list []int
	seen := map[int]bool{}
	queue := []int{unix.Getpid()}
	for len(queue) > 0 {
		parent := queue[0]
		queue = queue[1:]
		for _, pid := range childrenOf(parent) {
			if seen[pid] || s.strays[pid] || s.methods[pid] != "" {
				continue
			}
			seen[pid] = true
			list = append(list, pid)
			queue = append(queue, pid)
		}
	}
	return list
}

// childrenOf returns the children of all threads of a process.
func childrenOf(pid int) []int {
	dir := "/proc/" + itoa(pid) + "/task"
	tasks, err := oslite.Numbers(dir)
	if err != nil {
		return nil
	}
	var list []int
	for _, t := range tasks {
		task := dir + "/" + itoa(t)
		b, err := oslite.Read(task + "/children")
		if errors.Is(err, fs.ErrNotExist) && exists(task) {
			return childrenByScan(pid) // a kernel without CONFIG_PROC_CHILDREN
		}
		for f := range strings.FieldsSeq(string(b)) {
			list = append(list, atoi(f))
		}
	}
	return list
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// childrenByScan finds the children of a process among all processes.
func childrenByScan(parent int) []int {
	all, err := oslite.Numbers("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, pid := range all {
		if statField(pid, statParent) == parent {
			list = append(list, pid)
		}
	}
	return list
}

// Fields of /proc/PID/stat (proc(5)), counted from the one after the name.
const (
	statParent  = 1
	statSession = 3
)

// statField is a number of /proc/PID/stat; 0 when the process is gone.
func statField(pid, field int) int {
	b, err := oslite.Read("/proc/" + itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	// The name is in parentheses and may hold anything, these included.
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if field >= len(f) {
		return 0
	}
	return atoi(f[field])
}

// signalJob delivers a signal to every process of the job, once to each. It
// looks again until it finds no new ones, for those forked meanwhile.
func (s *Shepherd) signalJob(sig syscall.Signal) {
	const rounds = 20
	done := map[int]bool{}
	for range rounds {
		fresh := 0
		for _, pid := range s.jobProcesses() {
			if !done[pid] {
				done[pid] = true
				fresh++
				signalProcess(pid, sig)
			}
		}
		if fresh == 0 {
			break
		}
	}
	s.trace("signal " + unix.SignalName(sig) + " delivered to " + itoa(len(done)) + " processes")
}

// signalSession delivers a signal to a procedure: its session, which it leads,
// and everything below its first process.
func (s *Shepherd) signalSession(leader int, sig syscall.Signal) {
	for _, pid := range s.jobProcesses() {
		if pid == leader || statField(pid, statSession) == leader || descends(pid, leader) {
			signalProcess(pid, sig)
		}
	}
}

func descends(pid, ancestor int) bool {
	const deep = 1000
	for range deep {
		pid = statField(pid, statParent)
		if pid == ancestor {
			return true
		}
		if pid <= 1 {
			return false
		}
	}
	return false
}

// signalProcess signals a process that was just seen below us. A number can
// have been given to a stranger meanwhile, so the process is held by a pidfd
// first and then has to be a descendant of ours still.
func signalProcess(pid int, sig syscall.Signal) {
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

// endJobProcesses ends whatever the job has left behind, and does not return
// before it is gone, or known to be stuck in the kernel.
func (s *Shepherd) endJobProcesses() {
	if !s.d.AddGroupKill {
		// ENABLE_ADDGRP_KILL=false: the administrator lets daemons of jobs
		// live on. The process group goes.
		_ = unix.Kill(-s.active.child.PID, unix.SIGKILL)
		s.reap()
		return
	}
	deadline := time.Now().Add(killDeadline)
	for wait := time.Millisecond; ; wait = min(2*wait, 100*time.Millisecond) {
		s.reap()
		left := s.jobProcesses()
		if len(left) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s.trace("cannot end " + itoa(len(left)) + " processes of the job within " + killDeadline.String() +
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

func itoa(n int) string { return strconv.Itoa(n) }

// atoi is 0 for what is no number.
func atoi(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
