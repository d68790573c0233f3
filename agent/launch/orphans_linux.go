package launch

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// orphansDeadline bounds the wait for the end of processes that a killed
// shepherd has left.
const orphansDeadline = 10 * time.Second

// endOrphans ends what a shepherd has left behind that could not do so itself:
// being the next subreaper above it (prctl(2)) we have inherited its
// descendants. A shepherd that came to its end leaves only what a prolog or
// epilog started to stay; that is not ours to end, so a normal end must not
// come here.
func endOrphans() {
	deadline := time.Now().Add(orphansDeadline)
	for wait := time.Millisecond; time.Now().Before(deadline); wait = min(2*wait, 100*time.Millisecond) {
		left := descendants()
		if len(left) == 0 {
			return
		}
		for _, pid := range left {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
		for {
			var status unix.WaitStatus
			if pid, err := unix.Wait4(-1, &status, unix.WNOHANG, nil); err != nil || pid <= 0 {
				break
			}
		}
		time.Sleep(wait)
	}
}

// descendants are all processes below this one.
func descendants() []int {
	var list []int
	queue := []int{unix.Getpid()}
	for len(queue) > 0 {
		parent := strconv.Itoa(queue[0])
		queue = queue[1:]
		tasks, err := os.ReadDir("/proc/" + parent + "/task")
		if err != nil {
			continue
		}
		for _, t := range tasks {
			b, err := os.ReadFile("/proc/" + parent + "/task/" + t.Name() + "/children")
			if err != nil {
				continue
			}
			for _, f := range bytes.Fields(b) {
				if pid, err := strconv.Atoi(string(f)); err == nil {
					list = append(list, pid)
					queue = append(queue, pid)
				}
			}
		}
	}
	return list
}
