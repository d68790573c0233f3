// Package process reads the parent and the resource usage of processes from /proc (proc(5)).
//
// Other projects should not import this package: it may change at any time.
//
// The kernel reuses process numbers. Every function describes the process that has the number at
// the time of the call. A caller that needs a specific process compares Start, or keeps a
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

// Stat is a part of /proc/PID/status. The zero value means that there is no such process.
type Stat struct {
	State   byte // 'R', 'S', 'D', 'Z'…; 0 if there is no such process
	Parent  int
	Group   int // process group
	Session int
	User    int    // real user ID
	RSS     uint64 // bytes in RAM, including shared memory
	Swap    uint64 // bytes
}

// tick is the unit of times in proc(5) (sysconf(3), _SC_CLK_TCK). It is the same on every
// architecture that Go supports.
const tick = time.Second / 100

// The fields of /proc/PID/stat after the name, counted from 0.
const (
	fieldWaitUser = 13
	fieldWaitSys  = 14
	fieldStart    = 19
)

// Read returns the status of a process. It is zero if the process no longer exists.
func Read(pid int) Stat {
	var room [4096]byte // the file has about 1500 bytes, but a line may have a group ID for each of 65,536 groups
	f := open(pid, "/status")
	if f < 0 {
		return Stat{}
	}
	defer closeFile(f)
	l := lines{fd: f, room: room[:]}
	return parse(&l)
}

// Start returns the time at which a process has started, in ticks since the start of the kernel: processes with the
// same number have different ones. It is 0 if there is no such process, or if the process does not let the kernel tell.
func Start(pid int) uint64 {
	start, _, _ := times(pid)
	return start
}

// Waited returns the CPU time of the descendants that a process has waited for. If a process
// ignores SIGCHLD, the time of its children is lost. It is 0 if there is no such process. ok is false if the process does
// not let the kernel tell.
func Waited(pid int) (time.Duration, bool) {
	_, waited, ok := times(pid)
	return waited, ok
}

func times(pid int) (start uint64, waited time.Duration, ok bool) {
	c, b := fileInTime(pid, "/stat")
	defer c.release()
	start, waited = parseTimes(b)
	return start, waited, c != nil
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
	fd := open(pid, name)
	if fd < 0 {
		return nil
	}
	n := read(fd, room)
	closeFile(fd)
	return room[:max(n, 0)]
}

// open opens a file of a process. It returns -1 if it cannot be opened.
func open(pid int, name string) int {
	var path [64]byte
	p := append(strconv.AppendInt(append(path[:0], "/proc/"...), int64(pid), 10), name...)
	p = append(p, 0)
	at := unix.AT_FDCWD
	for {
		fd, _, errno := unix.Syscall6(unix.SYS_OPENAT, uintptr(at), uintptr(unsafe.Pointer(unsafe.SliceData(p))),
			unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		switch errno {
		case 0:
			return int(fd)
		case unix.EINTR:
		default:
			return -1
		}
	}
}

// read reads once. It returns -1 if that fails.
func read(fd int, room []byte) int {
	for {
		n, _, errno := unix.Syscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(room))), uintptr(len(room)))
		switch errno {
		case 0:
			return int(n)
		case unix.EINTR:
		default:
			return -1
		}
	}
}

func closeFile(fd int) { _, _, _ = unix.Syscall(unix.SYS_CLOSE, uintptr(fd), 0, 0) }

// lines reads a file line by line. It skips lines that are longer than its buffer.
type lines struct {
	fd       int
	room     []byte
	from, to int  // what was read and not returned yet
	skipping bool // the rest of a line that is too long
}

// next returns the next line, without its end. It is valid until the next call. ok is false at the end of the file.
func (l *lines) next() (line []byte, ok bool) {
	for {
		for i := l.from; i < l.to; i++ {
			if l.room[i] != '\n' {
				continue
			}
			line = l.room[l.from:i]
			l.from = i + 1
			if !l.skipping {
				return line, true
			}
			l.skipping = false
		}
		if l.from == 0 && l.to == len(l.room) {
			l.skipping = true
		}
		if l.skipping {
			l.from = l.to
		}
		l.to = copy(l.room, l.room[l.from:l.to])
		l.from = 0
		n := read(l.fd, l.room[l.to:])
		if n <= 0 {
			return nil, false
		}
		l.to += n
	}
}

// parse reads /proc/PID/status. The name of the process, which comes first, cannot contain the end of a line.
func parse(l *lines) (s Stat) {
	for {
		line, ok := l.next()
		if !ok {
			return s
		}
		text := unsafe.String(unsafe.SliceData(line), len(line)) // valid as long as line
		key, value, _ := strings.Cut(text, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "State":
			if value != "" {
				s.State = value[0]
			}
		case "PPid":
			s.Parent = number(value)
		case "Uid":
			s.User = number(value)
		case "NSpgid":
			s.Group = number(value)
		case "NSsid":
			s.Session = number(value)
		case "VmRSS":
			s.RSS = kibibytes(value)
		case "VmSwap":
			s.Swap = kibibytes(value)
		}
	}
}

// number returns the first number of a list: the one that counts where this process is.
func number(list string) int {
	first, _, _ := strings.Cut(list, "\t")
	n, _ := strconv.Atoi(first)
	return n
}

func kibibytes(value string) uint64 {
	n, _ := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(value, "kB")), 10, 64)
	return n << 10
}

// parseTimes reads the line of /proc/PID/stat. The name is in parentheses and may contain any
// characters, including parentheses.
func parseTimes(line []byte) (start uint64, waited time.Duration) {
	at := len(line) - 1
	for at >= 0 && line[at] != ')' {
		at--
	}
	n := 0
	for at++; at < len(line) && n <= fieldStart; n++ {
		for at < len(line) && line[at] == ' ' {
			at++
		}
		v := uint64(0)
		for ; at < len(line) && line[at] != ' '; at++ {
			v = v*10 + uint64(line[at]-'0')
		}
		switch n {
		case fieldWaitUser, fieldWaitSys:
			waited += time.Duration(v) * tick
		case fieldStart:
			start = v
		}
	}
	if n <= fieldStart {
		return 0, 0
	}
	return start, waited
}

// Age returns how long a process has existed, with a resolution of 10 ms. It is 0 if there is no such
// process, or if the process does not let the kernel tell.
func Age(pid int) time.Duration {
	start := Start(pid)
	var now unix.Timespec // since boot, as the start of a process (proc(5))
	if start == 0 || unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return max(time.Duration(now.Nano())-time.Duration(start)*tick, 0)
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

// Share returns the memory of a process in RAM and in swap, in bytes. Of shared memory it counts
// only the process's proportional share. The kernel needs milliseconds for gigabytes. ok is false
// if the caller may not read it, if there is no such process, or if the process does not let the kernel tell.
func Share(pid int) (rss, swap uint64, ok bool) {
	c, b := fileInTime(pid, "/smaps_rollup")
	defer c.release()
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
// writes together. It is 0 if the caller may not read the counters, or if the process does not let the kernel tell.
func Transferred(pid int) Transfer {
	c, b := fileInTime(pid, "/io")
	defer c.release()
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
