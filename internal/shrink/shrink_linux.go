// Package shrink keeps the memory of a process that runs for long small.
//
// Other projects cannot import it.
package shrink

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// settled is the time after which a daemon has finished its start.
const settled = 10 * time.Second

// again is the interval at which the pages of the executable are released: for each used page the
// kernel also maps its neighbours, and they add up. A release takes two milliseconds.
const again = 2 * time.Minute

// A time of the length of settled is busy in which more than busy of processor time was used.
// After many jobs at once most of the memory is not needed any more.
const busy = settled / 20

// The amounts of unused memory that a daemon may keep: the larger one always, and the smaller one
// only after a busy time.
const (
	much   = 32 << 20
	little = 4 << 20
)

// Run returns memory to the kernel until the context ends: memory that only the start has needed, as
// most pages of a large executable are mapped for the initialisation and never used again, and memory
// that many concurrent jobs have needed. Pages in use come back from the page cache.
func Run(ctx context.Context) {
	tick := time.NewTicker(settled)
	defer tick.Stop()
	done, used, wasBusy := time.Time{}, processorTime(), true
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		now := processorTime()
		isBusy := now-used > busy
		used = now
		over := wasBusy && !isBusy
		wasBusy = isBusy
		if !over && time.Since(done) < again {
			continue
		}
		areas := mapped() // first: what this reads is garbage
		switch {
		case done.IsZero(), over && wasteful(little), wasteful(much):
			debug.FreeOSMemory()
			used = processorTime() // that was us
		}
		done = time.Now()
		release(areas)
	}
}

// processorTime returns the processor time of this process so far (getrusage(2)).
func processorTime() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// wasteful reports whether the heap has much more than is in use: more than a quarter of that,
// and more than spare bytes.
func wasteful(spare uint64) bool {
	samples := []metrics.Sample{
		{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/unused:bytes"},
		{Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(samples)
	var n [4]uint64
	for i, s := range samples {
		if s.Value.Kind() == metrics.KindUint64 {
			n[i] = s.Value.Uint64()
		}
	}
	held, live := n[0]+n[1]+n[2], n[3]
	return held > live+max(spare, live/4)
}

// mapped returns the areas that release can release.
func mapped() []area {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return nil // this only saves memory
	}
	return unchanged(string(maps))
}

// release releases the pages of areas. It calls package syscall because each further package needs 64 KiB of the executable
// again.
func release(areas []area) {
	for _, a := range areas {
		_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, a.start, a.end-a.start, unix.MADV_DONTNEED)
	}
}

type area struct{ start, end uintptr }

// unchanged returns the areas of a process that equal their file and are read-only: releasing them
// changes nothing (proc_pid_smaps(5)). It leaves out shared mappings, because the process may map
// such a file elsewhere at any moment, and the area may then be other memory. The mapping of an
// executable does not move.
func unchanged(smaps string) (list []area) {
	var candidate *area
	for line := range strings.Lines(smaps) {
		f := strings.Fields(line)
		switch {
		case len(f) >= 5 && !strings.HasSuffix(f[0], ":"):
			candidate = nil
			start, end, _ := strings.Cut(f[0], "-")
			first, e1 := strconv.ParseUint(start, 16, 64)
			last, e2 := strconv.ParseUint(end, 16, 64)
			file := len(f) >= 6 && strings.HasPrefix(f[5], "/")
			if e1 == nil && e2 == nil && file && (f[1] == "r-xp" || f[1] == "r--p") {
				candidate = &area{uintptr(first), uintptr(last)}
			}
		case candidate != nil && len(f) == 3 && f[0] == "Anonymous:":
			if f[1] == "0" {
				list = append(list, *candidate)
			}
			candidate = nil
		}
	}
	return list
}
