package group

import (
	"strconv"

	"golang.org/x/sys/unix"
)

// Kind is the kind of an event.
type Kind int

// The kinds of events.
const (
	OutOfMemory   Kind = iota + 1 // call OOM; on v2 it can be MemoryReached as well
	Changed                       // a process entered the empty group, the last one left, or the group froze
	MemoryReached                 // memory has reached the value of Alarm
)

// An Event is a descriptor to pass to poll(2).
type Event struct {
	Kind   Kind
	FD     int
	Events int16 // the event to wait for: POLLPRI or POLLIN
}

// Events returns descriptors that become ready when something happens in the group. After each
// wake-up the caller must read the state, which rearms them. They belong to the group: Close closes
// them.
//
// For changes of cgroup.events and memory.events the kernel wakes pollers with POLLPRI and POLLERR
// (kernfs_generic_poll), so inotify is not needed. v1 has an eventfd for running out of memory
// (cgroup-v1/memory.rst, 9 and 10), and nothing for an empty group: without an event of kind
// Changed the caller must call Empty periodically.
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

// listen arms the descriptors of Events. Reading a file arms it. It is no error if v1 refuses:
// kernels may lack cgroup.event_control (CONFIG_MEMCG_V1 since Linux 6.11), and refuse it with
// PREEMPT_RT.
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

// register gets an eventfd for one of the group's v1 files (cgroup-v1/memory.rst, 9 and 10). The
// registration lasts until the eventfd is closed.
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

// Alarm requests one event when the memory charged to the group has grown to a number of bytes. On
// v1 this includes swap if v1 counts it; on v2 it is RAM only. The charge includes page cache:
// after the event call MemoryUsed, and Disarm.
//
// v1 has thresholds for this. On v2 Alarm sets memory.high, above which the kernel reclaims memory
// and slows the job down until Disarm is called.
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

// Disarm removes the alarm. It may be called without one.
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

// drain empties the eventfd.
func (g *Group) drain() {
	if g.oom >= 0 {
		var b [8]byte
		_, _ = unix.Read(g.oom, b[:])
	}
}
