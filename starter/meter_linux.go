package starter

import (
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/process"
)

// meter measures what the job has used. What the job's control group has counted
// is taken before what can be found out from /proc:
//
//	CPU time  the group's, which has that of every process that has ever been in
//	          it; else that of the living, that of those which they have waited
//	          for, and that of those which we have collected
//	memory    the group's, where what processes share counts once; else a sum of
//	          RSS and swap. If that is above a limit, then of what is shared each
//	          process counts its part (Pss): a job is not ended for the memory that
//	          its processes have in common
//	transfer  what our own account has of those collected by us, which has theirs
//	          of those collected by them
type meter struct {
	s *Shepherd
	// confirm is the least of the limits of memory that we have to enforce.
	confirm uint64

	cpu       time.Duration // of the last look; it does not fall
	measured  time.Duration // cpu when memory was last measured
	moving    time.Time     // when that was
	rss, swap uint64
	list      []int         // processes of the last look, without a group
	stood     time.Duration // where their clocks stood
	lost      time.Duration // CPU time of processes that nobody has waited for
	moved     transfer      // before the job
}

// sample measures now.
func (m *meter) sample() limits.Sample {
	now := time.Now()
	g := m.s.group
	if g != nil {
		if cpu, err := g.CPU(); err == nil {
			m.cpu = max(m.cpu, cpu)
			m.measureGroup(now)
			return limits.Sample{At: now, CPU: m.cpu, RSS: m.rss, Swap: m.swap}
		}
	}
	// If none of the processes has run since the last look, then none of them has
	// ended, forked or written: that is what most looks at a job find that waits.
	clocks := m.clocks()
	if clocks == 0 || clocks != m.stood {
		before := m.list
		m.list = m.s.stepProcesses(false)
		m.stood = 0
		if slices.Equal(before, m.list) {
			// As of before: who has forked while we were looking has run since.
			m.stood = clocks
		}
		m.count()
		m.measureProcesses(m.list)
	}
	return limits.Sample{At: now, CPU: m.cpu, RSS: m.rss, Swap: m.swap}
}

// count adds up the CPU time of the job. That of a process that ignores SIGCHLD, or
// rather of its children, is nowhere once they have ended: what was seen of it is
// kept.
func (m *meter) count() {
	// Who has been waited for first, who is running then: a process that ends
	// meanwhile may be missed, which is looked into, but never counts twice.
	sum := func() time.Duration {
		cpu := rusageTime(&m.s.reaped)
		for _, pid := range m.list {
			cpu += process.Read(pid).Waited
		}
		return cpu + m.clocks()
	}
	const tries = 3
	cpu := sum() + m.lost
	for range tries {
		if cpu >= m.cpu {
			break
		}
		m.list = m.s.stepProcesses(false)
		cpu = max(cpu, sum()+m.lost)
	}
	if cpu < m.cpu {
		m.lost += m.cpu - cpu
		cpu = m.cpu
	}
	m.cpu = cpu
}

// clocks is the CPU time of the processes of the last look, to the nanosecond.
func (m *meter) clocks() (sum time.Duration) {
	for _, pid := range m.list {
		sum += process.CPU(pid)
	}
	return sum
}

// unmoved is the CPU time below which a job cannot have filled memory that is
// worth a look.
const unmoved = 200 * time.Microsecond

// statLag is how far memory.stat may be behind (two seconds since Linux 5.16), and
// some more.
const statLag = 3 * time.Second

// measureGroup measures the memory of the group.
func (m *meter) measureGroup(now time.Time) {
	if m.measured == 0 || m.cpu-m.measured >= unmoved {
		m.measured, m.moving = m.cpu, now
	} else if now.Sub(m.moving) > statLag {
		return
	}
	used, err := m.s.group.MemoryUsed()
	if err == nil {
		m.rss, m.swap = used.RSS, used.Swap
		return
	}
	// There is no memory controller, but the group knows whom to ask.
	if pids, err := m.s.group.PIDs(); err == nil {
		m.measureProcesses(pids)
	}
}

// measureProcesses sums up the memory of processes.
func (m *meter) measureProcesses(list []int) {
	swapped := hasSwap()
	m.rss, m.swap = 0, 0
	for _, pid := range list {
		m.rss += process.Read(pid).RSS
		if swapped {
			m.swap += process.Swap(pid)
		}
	}
	if m.rss+m.swap <= m.confirm {
		return
	}
	var rss, swap uint64
	for _, pid := range list {
		r, w, ok := process.Share(pid)
		if !ok {
			r = process.Read(pid).RSS
		}
		rss, swap = rss+r, swap+w
	}
	m.rss, m.swap = min(m.rss, rss), min(m.swap, swap)
}

// hasSwap reports whether the host has swap space.
func hasSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Totalswap > 0
}

// transfer is what went through read(2) and write(2), in bytes.
type transfer struct{ all, own uint64 }

// collected is what the processes that we have collected have read and written,
// with those that they had collected. The kernel adds it to our own account, as
// it does with CPU time.
func (t transfer) collected() uint64 { return t.all - min(t.own, t.all) }

// ioFiles are the accounts of this process and, in it, of the thread that does all
// reading and writing. They stay open: a process that is closed to its user's
// other processes (PR_SET_DUMPABLE) cannot open them itself.
type ioFiles struct{ all, own int }

func openIO() ioFiles {
	open := func(path string) int {
		fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return -1 // a kernel without CONFIG_TASK_IO_ACCOUNTING
		}
		return fd
	}
	return ioFiles{open("/proc/self/io"), open("/proc/thread-self/io")}
}

func (f ioFiles) read() transfer {
	if f.all < 0 || f.own < 0 {
		return transfer{}
	}
	return transfer{transferred(f.all), transferred(f.own)}
}

func transferred(fd int) uint64 {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return 0
	}
	b, err := oslite.ReadAll(fd)
	if err != nil {
		return 0
	}
	return process.TransferText(string(b))
}

// finalUsage completes the usage of a job whose processes have all ended.
func (s *Shepherd) finalUsage(u *jobdir.Usage) {
	m := s.meter
	m.cpu = max(m.cpu, rusageTime(&s.reaped))
	if s.group != nil {
		if cpu, err := s.group.CPU(); err == nil {
			m.cpu = max(m.cpu, cpu)
		}
		if wait, err := s.group.IOWait(); err == nil {
			u.IOWait = wait.Seconds()
		}
	}
	s.account.End(limits.Sample{At: u.End, CPU: m.cpu}, uint64(u.MaxRSS))
	u.CPU = m.cpu.Seconds()
	u.Mem, u.MaxVmem = s.account.Mem, int64(s.account.MaxVmem)
	u.IO = m.transferred()
}

// mostMovers bounds the processes that are asked what they have moved.
const mostMovers = 256

// transferring is what the job has read and written so far, in GiB: what was collected, and
// then what those have that live. Who ends in between is missed, and never counts twice.
func (m *meter) transferring() float64 {
	const gib = 1 << 30
	gone, list := m.transferred(), m.list
	if m.s.group != nil {
		if pids, err := m.s.group.PIDs(); err == nil {
			list = pids
		}
	}
	var sum uint64
	for _, pid := range list[:min(len(list), mostMovers)] {
		sum += process.Transferred(pid)
	}
	return gone + float64(sum)/gib
}

// transferred is what processes of the job that were collected have read and
// written, in GiB.
func (m *meter) transferred() float64 {
	const gib = 1 << 30
	return float64(m.s.io.read().collected()-m.moved.collected()) / gib
}
