package group

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Kind is the kind of an event.
type Kind int

// The kinds of events.
const (
	OutOfMemory   Kind = iota + 1 // look with OOM; on v2 it can be MemoryReached as well
	Changed                       // a process entered the empty group, the last one left, or it froze: Empty, Frozen
	MemoryReached                 // the value of Alarm was crossed
)

// An Event is a descriptor to poll(2) for.
type Event struct {
	Kind   Kind
	FD     int
	Events int16 // what to wait for: POLLPRI or POLLIN
}

// Events returns the descriptors that become ready when something happens in the
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
	if g.alarm >= 0 {
		list = append(list, Event{MemoryReached, g.alarm, unix.POLLIN})
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
	if fd, err := g.register(MemoryOOMControl, ""); err == nil {
		g.oom = fd
	}
}

// register asks v1 for an eventfd about one of its files (cgroup-v1/memory.rst, 9
// and 10). It is registered until the eventfd is closed.
func (g *Group) register(f File, argument string) (eventfd int, err error) {
	if !g.has(CgroupEventControl) || !g.has(f) {
		return -1, &NotSupportedError{"be told of events in the group", "cgroup.event_control of the memory controller", nil}
	}
	control, err := open(g.paths.File[f], unix.O_RDONLY)
	if err != nil {
		return -1, err
	}
	defer unix.Close(control)
	efd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return -1, &Error{"make an eventfd for", g.paths.File[f], err}
	}
	if err := writeFile(g.paths.File[CgroupEventControl], strconv.Itoa(efd)+" "+strconv.Itoa(control)+argument); err != nil {
		_ = unix.Close(efd)
		return -1, err
	}
	return efd, nil
}

// Alarm has an event come once when the memory that is charged to the group has
// grown to a number of bytes, swap included where v1 counts it; on v2 it is RAM.
// Page cache is charged, too: after the event ask MemoryUsed, and Disarm.
//
// v1 has thresholds for that. On v2 it is memory.high, above which the kernel takes
// memory back and slows the job down; as long as it takes to Disarm, that is.
func (g *Group) Alarm(bytes uint64) error {
	value := strconv.FormatUint(bytes, 10)
	if g.has(MemoryHigh) && g.has(MemoryEvents) {
		return writeFile(g.paths.File[MemoryHigh], value)
	}
	f := MemoryMemswUsage
	if !g.has(f) {
		f = MemoryUsage
	}
	fd, err := g.register(f, " "+value)
	if err == nil {
		g.alarm = fd
	}
	return err
}

// Disarm takes the alarm back. It may be called without one.
func (g *Group) Disarm() error {
	if g.alarm >= 0 {
		_ = unix.Close(g.alarm)
		g.alarm = -1
	}
	if !g.has(MemoryHigh) {
		return nil
	}
	return writeFile(g.paths.File[MemoryHigh], "max")
}

// drain takes what is in the eventfd.
func (g *Group) drain() {
	if g.oom >= 0 {
		var b [8]byte
		_, _ = unix.Read(g.oom, b[:])
	}
}
