package daemon

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// settled is when an agent has done what it does once.
const settled = 10 * time.Second

// again is how often the executable is let go: with each page that is used the kernel maps
// those around it, too, and they add up. It costs two milliseconds.
const again = 2 * time.Minute

// A time of the length of settled is busy in which more than busy of processor time was used.
// After many jobs at once most of the memory is not needed any more.
const busy = settled / 20

// What may be held that is not in use: much always, and little after a busy time.
const (
	much   = 32 << 20
	little = 4 << 20
)

// shrink gives back the memory that only the start has needed: most of an executable of
// this size that was mapped for the sake of initialisation is not used again. What is comes
// back from the page cache. So it is with what many jobs at once have needed.
func (d *daemon) shrink(ctx context.Context) {
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
		switch {
		case done.IsZero(), over && wasteful(little), wasteful(much):
			debug.FreeOSMemory()
			used = processorTime() // that was us
		}
		release()
		done = time.Now()
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

// release lets go what is mapped of files and was not changed.
func release() {
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return // it is no more than thrift
	}
	for _, a := range unchanged(string(maps)) {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, a.start, a.end-a.start, unix.MADV_DONTNEED)
	}
}

type area struct{ start, end uintptr }

// unchanged returns the areas of a process that are exactly what their file has, and cannot
// be written: to take them away changes nothing (proc_pid_smaps(5)). What is shared is left
// out: it is a file that somebody maps elsewhere in a moment, and the area may then be memory
// of another kind. Executables stay where they are.
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
