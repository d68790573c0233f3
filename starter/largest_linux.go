package starter

import (
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/process"
)

// mostLargest is how many processes the reason of an end for lack of memory names.
const mostLargest = 3

// consumer is a process of the job with its memory.
type consumer struct {
	pid  int
	name string // printable
	rss  uint64 // in bytes: what it had in RAM when memory ran out, or its largest value
	seen bool   // rss was read while the process was alive
}

// largest holds the processes of the job with the most memory, the largest first.
type largest [mostLargest]consumer

// add records a process. A value that was read from the living process replaces the one that the
// kernel reports after its end, which includes children that it has waited for.
func (l *largest) add(c consumer) {
	for i, old := range l {
		if old.pid != c.pid {
			continue
		}
		if old.seen && !c.seen || old.seen == c.seen && old.rss >= c.rss {
			return
		}
		copy(l[i:], l[i+1:])
		l[len(l)-1] = consumer{}
		break
	}
	for i, old := range l {
		if old.rss < c.rss {
			copy(l[i+1:], l[i:])
			l[i] = c
			return
		}
	}
}

// String names the processes: "python3 (4711) 1900M, sh (4710) 2M". Only the first may have less
// than 1 MiB.
func (l *largest) String() string {
	const mib = 1 << 20
	var text []byte
	for i, c := range l {
		if c.pid == 0 || i > 0 && c.rss < mib {
			break
		}
		if i > 0 {
			text = append(text, ", "...)
		}
		text = append(text, c.name+" ("+itoa(c.pid)+") "+itoa(int(c.rss/mib))+"M"...)
	}
	return string(text)
}

// noteLargest records the largest of the running processes.
func (s *Shepherd) noteLargest() {
	var list []int
	err := error(nil)
	if s.group != nil {
		list, err = s.group.PIDs()
	}
	if s.group == nil || err != nil {
		list = s.stepProcesses(true)
	}
	for _, pid := range list {
		if rss := process.Read(pid).RSS; rss > 0 {
			s.active.largest.add(consumer{pid, process.Name(pid), rss, true})
		}
	}
}

// noteKilled records a process that was killed: the kernel may have killed all processes of the job
// before the supervisor has seen them. name was read before the process was reaped.
func (s *Shepherd) noteKilled(pid int, name string, r *syscall.Rusage) {
	const kib = 1024
	s.active.largest.add(consumer{pid, name, uint64(max(r.Maxrss, 0)) * kib, false})
}

// killedName returns the name of a dead child that was not reaped yet; empty if it was not killed or
// is not a process of the running job.
func (s *Shepherd) killedName(c dead) string {
	if s.active == nil || c.signal != unix.SIGKILL {
		return ""
	}
	return process.Name(c.pid)
}

// ranOut describes the end of a job for a limit. For memory it names the largest processes.
func (s *Shepherd) ranOut(x *limits.Crossing) string {
	text := crossed(x)
	if x.Unit == job.Bytes {
		text += s.largestText()
	}
	return text
}

// largestText names the largest processes, after a reason; empty if none is known.
func (s *Shepherd) largestText() string {
	if s.active.largest[0].pid == 0 {
		return ""
	}
	return addition + "largest processes: " + s.active.largest.String()
}
