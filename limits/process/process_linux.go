// Package process reads the parent and the resource usage of processes from /proc (proc(5)).
//
// Other projects should not import this package: it may change at any time.
//
// The kernel reuses process numbers. Every function describes the process that has the number at
// the time of the call. A caller that needs a specific process compares Stat.Start, or keeps a
// pidfd.
//
// The package is linked into the per-job supervisor and imports very little. All functions may be
// called from any goroutine.
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

// Stat is a part of /proc/PID/stat. The zero value means that there is no such process.
type Stat struct {
	State   byte // 'R', 'S', 'D', 'Z'…; 0 if there is no such process
	Parent  int
	Group   int // process group
	Session int
	Start   uint64 // ticks since boot; distinguishes processes with the same number
	// Waited is the CPU time of the descendants that the process has waited for. If a process
	// ignores SIGCHLD, the time of its children is lost.
	Waited time.Duration
	RSS    uint64 // bytes in RAM, including shared memory
}

// tick is the unit of times in proc(5) (sysconf(3), _SC_CLK_TCK). It is the same on every
// architecture that Go supports.
const tick = time.Second / 100

// The fields of /proc/PID/stat after the name, counted from 0.
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
	var room [1024]byte // the line has at most about 500 bytes
	return parse(file(pid, "/stat", room[:]))
}

// Name returns the name of a process, even if it has exited and was not waited for yet (proc(5),
// comm). The process chooses its name: Name replaces parentheses and characters that are not
// printable by '?'. It is "?" if there is no such process.
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

// file reads a small file of a process. It allocates nothing: a supervisor calls it repeatedly for
// as long as its job runs, and garbage uses memory, too.
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

// parse reads the line of /proc/PID/stat. The name is in parentheses and may contain any
// characters, including parentheses.
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

// Age returns how long a process has existed, with a resolution of 10 ms. It is 0 if there is no such
// process.
func Age(pid int) time.Duration {
	s := Read(pid)
	var now unix.Timespec // since boot, as the start of a process (proc(5))
	if s.State == 0 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return max(time.Duration(now.Nano())-time.Duration(s.Start)*tick, 0)
}

// CPU returns the CPU time that a process has used itself, in all its threads including finished
// ones, with a resolution of nanoseconds. It is 0 if there is no such process. It opens no file,
// and is therefore much cheaper than reading /proc.
func CPU(pid int) time.Duration {
	// The ID of a process's clock: the inverted process number, followed by three bits that select
	// the kind of time (clock_getcpuclockid(3)).
	const scheduled = 2
	var ts unix.Timespec
	if unix.ClockGettime(int32(^uint32(pid)<<3|scheduled), &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// Swap returns the swap space used by a process, in bytes.
func Swap(pid int) uint64 {
	var room [4096]byte
	n, _ := size(file(pid, "/status", room[:]), "VmSwap:")
	return n
}

// Share returns the memory of a process in RAM and in swap, in bytes. Of shared memory it counts
// only the process's proportional share. The kernel needs milliseconds for gigabytes. ok is false
// if the caller may not read it, or if there is no such process.
func Share(pid int) (rss, swap uint64, ok bool) {
	var room [2048]byte
	b := file(pid, "/smaps_rollup", room[:])
	rss, ok = size(b, "Pss:")
	swap, _ = size(b, "SwapPss:")
	return rss, swap, ok
}

// Transfer counts read(2), write(2) and similar calls, and the bytes that they have read and written.
type Transfer struct{ Bytes, Calls uint64 }

// Plus returns the sum of two transfers.
func (t Transfer) Plus(other Transfer) Transfer {
	return Transfer{t.Bytes + other.Bytes, t.Calls + other.Calls}
}

// Minus returns the difference of two transfers, which is not less than 0.
func (t Transfer) Minus(other Transfer) Transfer {
	return Transfer{t.Bytes - min(other.Bytes, t.Bytes), t.Calls - min(other.Calls, t.Calls)}
}

// Transferred returns the I/O of a process and its reaped children: bytes and calls of reads and
// writes together. It is 0 if the caller may not read the counters.
func Transferred(pid int) Transfer {
	var room [512]byte
	b := file(pid, "/io", room[:])
	return TransferText(unsafe.String(unsafe.SliceData(b), len(b)))
}

// TransferText returns the sums of rchar and wchar, and of syscr and syscw, in the content of
// /proc/PID/io.
func TransferText(text string) (sum Transfer) {
	for line := range strings.SplitSeq(text, "\n") {
		key, value, _ := strings.Cut(line, ": ")
		n, _ := strconv.ParseUint(value, 10, 64)
		switch key {
		case "rchar", "wchar":
			sum.Bytes += n
		case "syscr", "syscw":
			sum.Calls += n
		}
	}
	return sum
}

// size finds a line "key   123 kB" and returns its value in bytes.
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
