// Package process reads from /proc what the kernel knows of a process: whose child
// it is, and what it uses (proc(5)).
//
// Other projects should not import this package: it may change at any time.
//
// Numbers of processes are given again. What is said of one is that of whoever has
// the number at that moment; callers that must know compare Stat.Start, or hold
// the process by a descriptor.
//
// It is linked into the per-job supervisor and imports next to nothing. All
// functions may be called from any goroutine.
package process

import (
	"errors"
	"io/fs"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// Stat is a part of /proc/PID/stat. The zero value is that of no process.
type Stat struct {
	State   byte // 'R', 'S', 'D', 'Z'…; 0 for a process that is gone
	Parent  int
	Group   int // process group
	Session int
	Start   uint64 // since boot, in ticks: which of those with one number it is
	// Waited is the CPU time of the descendants that it has waited for. Those
	// of a process that ignores SIGCHLD are nowhere.
	Waited time.Duration
	RSS    uint64 // bytes in RAM, those that it shares included
}

// ticks of a second (sysconf(3), _SC_CLK_TCK): what proc(5) counts in is the same
// on every architecture that Go knows.
const tick = time.Second / 100

// The fields of /proc/PID/stat behind the name, from 0 on.
const (
	fieldState    = 0
	fieldParent   = 1
	fieldGroup    = 2
	fieldSession  = 3
	fieldWaitUser = 13
	fieldWaitSys  = 14
	fieldStart    = 19
	fieldRSS      = 21
	fieldsWeNeed  = 22
)

// Read returns the status of a process. It is zero if the process no longer exists.
func Read(pid int) Stat {
	var room [1024]byte // the line has at most about 500
	return parse(file(pid, "/stat", room[:]))
}

// Name returns the name of a process, also of one that has exited and was not waited for (proc(5),
// comm). The process chooses it: characters that are not printable and parentheses become
// '?'. It is "?" for a process that is gone.
func Name(pid int) string {
	var room [64]byte
	b := file(pid, "/comm", room[:])
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if len(b) == 0 {
		return "?"
	}
	for i, c := range b {
		if c < ' ' || c > '~' || c == '(' || c == ')' {
			b[i] = '?'
		}
	}
	return string(b)
}

// file reads a small file of a process. It allocates nothing: a supervisor looks
// again and again for as long as its job runs, and garbage is memory, too.
func file(pid int, name string, room []byte) []byte {
	var path [64]byte
	p := append(strconv.AppendInt(append(path[:0], "/proc/"...), int64(pid), 10), name...)
	p = append(p, 0)
	at := unix.AT_FDCWD
	var fd, n uintptr
	errno := unix.EINTR
	for errno == unix.EINTR {
		fd, _, errno = unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
	}
	if errno != 0 {
		return nil
	}
	errno = unix.EINTR
	for errno == unix.EINTR {
		n, _, errno = unix.Syscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(unsafe.SliceData(room))), uintptr(len(room)))
	}
	_, _, _ = unix.Syscall(unix.SYS_CLOSE, fd, 0, 0)
	if errno != 0 {
		return nil
	}
	return room[:n]
}

// parse reads the line of /proc/PID/stat. The name is in parentheses and may hold
// anything, these included.
func parse(line []byte) Stat {
	at := len(line) - 1
	for at >= 0 && line[at] != ')' {
		at--
	}
	var s Stat
	n := 0
	for at++; at < len(line) && n < fieldsWeNeed; n++ {
		for at < len(line) && line[at] == ' ' {
			at++
		}
		begin, v := at, uint64(0)
		for ; at < len(line) && line[at] != ' '; at++ {
			v = v*10 + uint64(line[at]-'0')
		}
		switch n {
		case fieldState:
			if begin < len(line) {
				s.State = line[begin]
			}
		case fieldParent:
			s.Parent = int(v)
		case fieldGroup:
			s.Group = int(v)
		case fieldSession:
			s.Session = int(v)
		case fieldWaitUser, fieldWaitSys:
			s.Waited += time.Duration(v) * tick
		case fieldStart:
			s.Start = v
		case fieldRSS:
			s.RSS = v * uint64(unix.Getpagesize())
		}
	}
	if n < fieldsWeNeed {
		return Stat{}
	}
	return s
}

// CPU returns the CPU time that a process has used itself, with all its threads, those
// that have ended included, to the nanosecond; 0 for one that is gone. It opens
// nothing, so that it costs far less than a look into /proc.
func CPU(pid int) time.Duration {
	// The clock of a process: its number, inverted, before three bits that
	// choose what is counted (clock_getcpuclockid(3)).
	const scheduled = 2
	var ts unix.Timespec
	if unix.ClockGettime(int32(^uint32(pid)<<3|scheduled), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Swap returns the memory of a process in swap, in bytes.
func Swap(pid int) uint64 {
	var room [4096]byte
	n, _ := size(file(pid, "/status", room[:]), "VmSwap:")
	return n
}

// Share returns the memory of a process in RAM and in swap, in bytes; of memory that it shares with
// other processes only its share counts. The kernel needs milliseconds for gigabytes. ok is false
// if this process may not read it, or if the process no longer exists.
func Share(pid int) (rss, swap uint64, ok bool) {
	var room [2048]byte
	b := file(pid, "/smaps_rollup", room[:])
	rss, ok = size(b, "Pss:")
	swap, _ = size(b, "SwapPss:")
	return rss, swap, ok
}

// Transferred returns the number of bytes that a process and its reaped children have read with
// read(2) and written with write(2); 0 if this process may not read it.
func Transferred(pid int) uint64 {
	var room [512]byte
	b := file(pid, "/io", room[:])
	return TransferText(unsafe.String(unsafe.SliceData(b), len(b)))
}

// TransferText reads the content of /proc/PID/io: the sum of rchar and wchar.
func TransferText(text string) (sum uint64) {
	for line := range strings.SplitSeq(text, "\n") {
		for _, key := range [...]string{"rchar: ", "wchar: "} {
			if v, ok := strings.CutPrefix(line, key); ok {
				n, _ := strconv.ParseUint(v, 10, 64)
				sum += n
			}
		}
	}
	return sum
}

// size finds a line "key   123 kB" and returns its bytes.
func size(text []byte, key string) (uint64, bool) {
	rest := unsafe.String(unsafe.SliceData(text), len(text))
	for len(rest) > 0 {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		if v, found := strings.CutPrefix(line, key); found {
			n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(v, "kB")), 10, 64)
			return n << 10, err == nil
		}
	}
	return 0, false
}

// Children returns the children of all threads of a process.
func Children(pid int) []int {
	dir := "/proc/" + strconv.Itoa(pid) + "/task"
	tasks, err := oslite.Numbers(dir)
	if err != nil {
		return nil
	}
	var list []int
	for _, t := range tasks {
		task := dir + "/" + strconv.Itoa(t)
		b, err := oslite.Read(task + "/children")
		if errors.Is(err, fs.ErrNotExist) && exists(task) {
			return childrenByScan(pid) // a kernel without CONFIG_PROC_CHILDREN
		}
		for f := range strings.FieldsSeq(string(b)) {
			if n, err := strconv.Atoi(f); err == nil {
				list = append(list, n)
			}
		}
	}
	return list
}

func exists(path string) bool {
	var st unix.Stat_t
	return unix.Lstat(path, &st) == nil
}

// childrenByScan finds the children of a process among all processes.
func childrenByScan(parent int) []int {
	all, err := oslite.Numbers("/proc")
	if err != nil {
		return nil
	}
	var list []int
	for _, pid := range all {
		if Read(pid).Parent == parent {
			list = append(list, pid)
		}
	}
	return list
}
