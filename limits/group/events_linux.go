package group

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Kind is what an event is about.
type Kind int

// The kinds of events.
const (
	OutOfMemory Kind = iota + 1 // look with OOM
	Changed                     // a process entered the empty group, the last one left, or it froze: Empty, Frozen
)

// An Event is a descriptor to poll(2) for.
type Event struct {
	Kind   Kind
	FD     int
	Events int16 // what to wait for: POLLPRI or POLLIN
}

// Events are the descriptors that become ready when something happens in the
// group. After each wake-up the state has to be read, which rearms them. They are
// the group's: Close closes them.
//
// The kernel wakes pollers of cgroup.events and memory.events with POLLPRI and
// POLLERR (kernfs_generic_poll), so that no inotify is needed. v1 has an eventfd
// for the out of memory (cgroup-v1/memory.rst, 9 and 10), and nothing for an empty
// group: without an event of kind Changed its emptiness is found by looking.
func (g *Group) Events() []Event {
	var list []Event
	switch {
	case g.fds[MemoryEvents] >= 0:
		list = append(list, Event{OutOfMemory, g.fds[MemoryEvents], unix.POLLPRI})
	case g.oom >= 0:
		list = append(list, Event{OutOfMemory, g.oom, unix.POLLIN})
	}
	if g.fds[CgroupEvents] >= 0 {
		list = append(list, Event{Changed, g.fds[CgroupEvents], unix.POLLPRI})
	}
	return list
}

// listen arms what Events offers. Files are armed by reading them. It is not an
// error when v1 refuses: cgroup.event_control is a file that kernels may lose
// (CONFIG_MEMCG_V1 since Linux 6.11), and refuse with PREEMPT_RT.
func (g *Group) listen() {
	for _, f := range [...]File{MemoryEvents, CgroupEvents} {
		if g.fds[f] >= 0 {
			_, _ = g.read(f)
		}
	}
	if !g.has(CgroupEventControl) || !g.has(MemoryOOMControl) {
		return
	}
	control, err := open(g.paths.File[MemoryOOMControl], unix.O_RDONLY)
	if err != nil {
		return
	}
	defer unix.Close(control)
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return
	}
	if writeFile(g.paths.File[CgroupEventControl], strconv.Itoa(efd)+" "+strconv.Itoa(control)) != nil {
		_ = unix.Close(efd)
		return
	}
	g.oom = efd
}

// drain takes what is in the eventfd.
func (g *Group) drain() {
	if g.oom >= 0 {
		var b [8]byte
		_, _ = unix.Read(g.oom, b[:])
	}
}
