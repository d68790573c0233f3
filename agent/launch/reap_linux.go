package launch

import (
	"errors"
	"os"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/process"
)

// children are the supervisors that are children of this process and were not reaped yet, by process
// ID.
var children sync.Map

// Reaper collects dead orphans in a process that is the first one of a container or a subreaper
// (prctl(2), PR_SET_CHILD_SUBREAPER). They are processes that the prolog or epilog of a job has
// left running. The zero value is ready to use.
//
// An orphan cannot be distinguished from a child that another part of this program has started and
// is about to collect. So Reaper only collects processes that have been dead for a while.
type Reaper struct {
	// Executed says that the program before this one in this process has left children: Look then also collects them if
	// this process is neither the first one of a container nor a subreaper.
	Executed bool

	dead map[int]corpse
}

type corpse struct {
	start uint64
	since time.Time
}

// decay is the time after which a dead process counts as an orphan.
const decay = 10 * time.Second

// Look collects processes that have been dead for some seconds, and returns their number. Call it
// regularly.
func (r *Reaper) Look() int { return r.look(time.Now()) }

func (r *Reaper) look(now time.Time) int {
	if !r.Executed && !adopts() {
		return 0
	}
	dead, n := map[int]corpse{}, 0
	for _, pid := range process.Children(os.Getpid()) {
		if _, ours := children.Load(pid); ours || process.Read(pid).State != 'Z' {
			continue
		}
		c, known := r.dead[pid]
		if start := process.Start(pid); !known || c.start != start {
			c = corpse{start, now}
		}
		if now.Sub(c.since) >= decay {
			var status unix.WaitStatus
			if got, err := unix.Wait4(pid, &status, unix.WNOHANG, nil); err == nil && got == pid {
				n++
			}
			continue
		}
		dead[pid] = c
	}
	r.dead = dead
	return n
}

// adopts reports whether this process inherits orphans.
func adopts() bool {
	if os.Getpid() == 1 {
		return true
	}
	var set int32
	err := unix.Prctl(unix.PR_GET_CHILD_SUBREAPER, uintptr(unsafe.Pointer(&set)), 0, 0, 0)
	return err == nil && set != 0
}

// isChild reports whether a process is a child of this process.
func isChild(pid int) bool {
	for {
		err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
		if !errors.Is(err, unix.EINTR) {
			return err == nil
		}
	}
}
