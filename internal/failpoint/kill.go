//go:build failpoint

package failpoint

import (
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
)

// left says how often each place is still to be passed.
var left = map[string]*atomic.Int64{}

func init() {
	text, _ := syscall.Getenv("EXECD_FAILPOINT")
	for place := range strings.SplitSeq(text, ",") {
		name, count, _ := strings.Cut(place, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			n = 1
		}
		left[name] = &atomic.Int64{}
		left[name].Store(int64(n))
	}
}

// At kills the program if a test has chosen this place.
func At(place string) {
	if n := left[place]; n == nil || n.Add(-1) != 0 {
		return
	}
	_ = syscall.Kill(syscall.Getpid(), syscall.SIGKILL)
	select {} // until the kernel has killed this process
}

// AtOf calls At(kind + "-" + name), for a name that is not known at compile time.
func AtOf(kind, name string) { At(kind + "-" + name) }

// Environment returns the variables that pass the failpoint on to child processes.
func Environment() []string {
	text, ok := syscall.Getenv("EXECD_FAILPOINT")
	if !ok {
		return nil
	}
	return []string{"EXECD_FAILPOINT=" + text}
}
