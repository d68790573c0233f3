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

// meter measures what the job has used. Counters of the job's control group are preferred to sums
// over /proc:
//
//	CPU time  of the group, which includes all processes that were ever in it; otherwise the sum of
//	          running processes, of the children that they have waited for, and of the children that
//	          the supervisor has reaped
//	memory    of the group, which counts shared pages once; otherwise the sum of RSS and swap. If that
//	          exceeds a limit, each process counts for its share of shared pages (Pss), so that no
//	          job is ended for memory that its processes share
//	transfer  of the reaped children and their reaped descendants, from the supervisor's own counters
type meter struct {
	s *Shepherd
	// confirm is the smallest memory limit that the supervisor has to enforce.
	confirm uint64

	cpu       time.Duration // at the last look; never decreases
	measured  time.Duration // cpu when memory was last measured
	moving    time.Time     // the time of that measurement
	rss, swap uint64
	list      []int                 // processes of the last look, if there is no group
	stood     time.Duration         // sum of their CPU clocks
	waited    map[int]time.Duration // of these, what process.Waited said last
	lost      time.Duration         // CPU time of processes that no parent has waited for
	moved     transfer              // before the job
}

// sample returns the usage at this moment.
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
	// If no process has used CPU time since the last look, then none has exited, forked or written.
	// This is the usual case for a job that sleeps.
	clocks := m.clocks()
	if clocks == 0 || clocks != m.stood {
		before := m.list
		m.list = m.s.stepProcesses(true)
		m.stood = 0
		if slices.Equal(before, m.list) {
			// The value from before the measurement: a process that has forked since then has used
			// CPU time.
			m.stood = clocks
		}
		m.count()
		m.measureProcesses(m.list)
	}
	return limits.Sample{At: now, CPU: m.cpu, RSS: m.rss, Swap: m.swap}
}

// count adds up the CPU time of the job. The kernel discards the CPU time of processes whose parent
// ignores SIGCHLD, so what was seen of it before is kept.
func (m *meter) count() {
	// First the processes that were waited for, then the running ones: a process that exits in
	// between may be missed, which is checked below, but never counts twice.
	sum := func() time.Duration {
		cpu := rusageTime(&m.s.reaped)
		before := m.waited
		m.waited = make(map[int]time.Duration, len(m.list))
		for _, pid := range m.list {
			waited, ok := process.Waited(pid)
			if !ok { // the process holds up the answer: see package process
				waited = before[pid]
			}
			m.waited[pid] = waited
			cpu += waited
		}
		return cpu + m.clocks()
	}
	const tries = 3
	cpu := sum() + m.lost
	for range tries {
		if cpu >= m.cpu {
			break
		}
		m.list = m.s.stepProcesses(true)
		cpu = max(cpu, sum()+m.lost)
	}
	if cpu < m.cpu {
		m.lost += m.cpu - cpu
		cpu = m.cpu
	}
	m.cpu = cpu
}

// clocks returns the CPU time of the processes of the last look, in nanoseconds.
func (m *meter) clocks() (sum time.Duration) {
	for _, pid := range m.list {
		sum += process.CPU(pid)
	}
	return sum
}

// unmoved is the CPU time below which a job cannot have filled a relevant amount of memory.
const unmoved = 200 * time.Microsecond

// statLag is how far memory.stat may lag behind (two seconds since Linux 5.16), with a margin.
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
	// There is no memory controller, but the group knows its processes.
	if pids, err := m.s.group.PIDs(); err == nil {
		m.measureProcesses(pids)
	}
}

// measureProcesses adds up the memory of processes.
func (m *meter) measureProcesses(list []int) {
	swapped := hasSwap()
	m.rss, m.swap = 0, 0
	for _, pid := range list {
		p := process.Read(pid)
		m.rss += p.RSS
		if swapped {
			m.swap += p.Swap
		}
	}
	if m.rss+m.swap <= m.confirm {
		return
	}
	var rss, swap uint64
	var waited time.Duration // for processes that hold up the kernel: once, not once for each
	for _, pid := range list {
		var r, w uint64
		var ok bool
		if waited < mostWait {
			began := time.Now()
			if r, w, ok = process.Share(pid); !ok {
				waited += time.Since(began)
			}
		}
		if !ok {
			p := process.Read(pid)
			r, w = p.RSS, p.Swap
		}
		rss, swap = rss+r, swap+w
	}
	m.rss, m.swap = min(m.rss, rss), min(m.swap, swap)
}

// mostWait is how long a measurement waits for processes that do not let the kernel tell their shares of memory.
const mostWait = time.Second

// hasSwap reports whether the host has swap space.
func hasSwap() bool {
	var info unix.Sysinfo_t
	return unix.Sysinfo(&info) != nil || info.Totalswap > 0
}

// transfer holds the I/O counters of this process, and what it has read and written itself.
type transfer struct{ all, own process.Transfer }

// collected returns the I/O of reaped processes and their reaped children. The
// kernel adds these to the counters of this process, as it does with CPU time.
func (t transfer) collected() process.Transfer { return t.all.Minus(t.own) }

// ioFiles are the I/O counters of this process and of its thread that does all reading and writing, except what
// process.Helped counts. They stay open: a process that other processes of its user may not inspect (PR_SET_DUMPABLE)
// cannot open them itself.
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
	// In this order, so that nothing that this process reads meanwhile counts as read by the job.
	own := process.Helped()
	all := transferred(f.all)
	return transfer{all, transferred(f.own).Plus(own)}
}

func transferred(fd int) process.Transfer {
	if _, err := unix.Seek(fd, 0, unix.SEEK_SET); err != nil {
		return process.Transfer{}
	}
	b, err := oslite.ReadAll(fd)
	if err != nil {
		return process.Transfer{}
	}
	return process.TransferText(string(b))
}

// finalUsage completes the usage of a job after all its processes have exited.
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
	u.PeakRSS = int64(max(s.account.MaxRSS, uint64(u.MaxRSS)))
	u.IO, u.IOOps = amount(m.transferred())
}

// mostMovers limits the number of processes whose I/O counters are read.
const mostMovers = 256

// amount returns a transfer in GiB, and the number of calls.
func amount(t process.Transfer) (gib float64, calls int64) {
	return float64(t.Bytes) / (1 << 30), int64(t.Calls)
}

// transferring returns the I/O of the job so far. It reads the counters of reaped
// processes first and then those of running ones. So it may miss a process that exits in between,
// but never counts one twice.
func (m *meter) transferring() process.Transfer {
	sum, list := m.transferred(), m.list
	if m.s.group != nil {
		if pids, err := m.s.group.PIDs(); err == nil {
			list = pids
		}
	}
	for _, pid := range list[:min(len(list), mostMovers)] {
		sum = sum.Plus(process.Transferred(pid))
	}
	return sum
}

// transferred returns the bytes that the reaped processes of the job have read and written.
func (m *meter) transferred() process.Transfer {
	return m.s.io.read().collected().Minus(m.moved.collected())
}
