// Package spawn starts a process from a list of system calls that the child makes between fork and
// exec.
//
// A batch job needs more there than os.StartProcess offers: a session, limits, an identity, files
// opened as its owner, a working directory, a search along PATH. A re-executed helper would cost a
// second start of the Go runtime for every job. So the parent builds a Program in
// ordinary Go, with every argument and string prepared, and the forked child only walks through the
// list: it allocates nothing, makes only system calls, and stops at the first required call that
// fails. The child never blocks the parent: one that blocks in the kernel (opening a FIFO, a dead
// file server) is an ordinary process that can be signalled.
//
// A Program is for one Start. Different Programs may be started from different
// goroutines.
package spawn

import (
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// Stage is the step of the child in which a call failed.
type Stage int

// The stages of a child's life before its exec.
const (
	StageSetup Stage = iota + 1 // session, signals, umask, cgroup
	StageLimit
	StageIdentity
	StageStdin
	StageStdout
	StageStderr
	StageChdir
	StageExec
)

// call is one system call of the child. It holds no pointers: the child must
// not run into a write barrier, and Program.keep holds what args point to.
type call struct {
	nr   uintptr
	args [6]uintptr
	// want is the result that the call must have, or anyResult.
	want uintptr
	// tolerate is an errno that does not end the child, or anyErrno.
	tolerate uintptr
	// refuse, if not 0, makes a successful call count as failed with this errno.
	refuse uintptr
	// after skips the call unless the call before it failed with this errno.
	after uintptr
	// patch, when not 0, makes patchWith entry patch-1 of the environment once
	// the call has succeeded.
	patch     int
	patchWith uintptr
	// entersGroup marks a call that a child does not need if it was started directly in its control group.
	entersGroup bool
}

const (
	anyResult = ^uintptr(0)
	anyErrno  = ^uintptr(0)
)

// Program is the list of calls that a child makes before it executes another program. The zero
// value is empty. Every method appends to the list; the comments say which failures fail the start.
type Program struct {
	calls []call
	about []description // of each call
	room  []byte        // for the next strings
	envp  []uintptr
	err   error
	// keep holds the objects to which the calls point, because the garbage collector does not see
	// these pointers.
	keep []unsafe.Pointer
	// unblocked is set once the list clears the signal mask.
	unblocked bool
	// cgroup is the descriptor of Cgroup and one more; 0 for none.
	cgroup int
	stat   uintptr // where Look has the kernel write; 0 until it is needed
}

// description describes a call for errors.
type description struct {
	stage Stage
	what  string
	look  bool // the call only looks at the file
}

// StartError says why a child did not execute its program.
type StartError struct {
	Stage Stage
	What  string // the object of the failed call: a path, or the call's name
	Errno syscall.Errno
	Look  bool // stat(2) of What failed, before it was opened or executed
	PID   int  // of the child
}

// Error returns "What: reason".
func (f *StartError) Error() string { return f.What + ": " + f.Errno.Error() }

// Unwrap returns the errno.
func (f *StartError) Unwrap() error { return f.Errno }

// add appends a system call and its description. It must not be inlined into its many callers: that
// would make the package a tenth larger.
//
//go:noinline
func (p *Program) add(stage Stage, what string, c call) {
	const usual = 48
	if p.calls == nil {
		p.calls, p.about = make([]call, 0, usual), make([]description, 0, usual)
	}
	p.calls, p.about = append(p.calls, c), append(p.about, description{stage: stage, what: what})
}

func sys(nr uintptr, args ...uintptr) call {
	c := call{nr: nr, want: anyResult}
	copy(c.args[:], args)
	return c
}

// hold keeps the object at an address alive until the child has been started and reaped.
func (p *Program) hold(at unsafe.Pointer) uintptr {
	if p.keep == nil {
		p.keep = make([]unsafe.Pointer, 0, 24)
	}
	p.keep = append(p.keep, at)
	return uintptr(at)
}

// str prepares a NUL-terminated string that outlives the fork.
func (p *Program) str(s string) uintptr {
	if strings.IndexByte(s, 0) >= 0 && p.err == nil {
		p.err = &StartError{Stage: StageSetup, What: "string with a NUL byte", Errno: syscall.EINVAL}
		return 0
	}
	const usual = 6 << 10 // an environment and its paths, in one piece
	if len(p.room) <= len(s) {
		p.room = make([]byte, max(usual, len(s)+1))
		p.hold(unsafe.Pointer(unsafe.SliceData(p.room)))
	}
	b := p.room
	copy(b, s) // followed by a NUL
	p.room = b[len(s)+1:]
	return uintptr(unsafe.Pointer(unsafe.SliceData(b)))
}

// vector prepares a NULL-terminated array of strings.
func (p *Program) vector(list []string) []uintptr {
	v := make([]uintptr, len(list)+1)
	for i, s := range list {
		v[i] = p.str(s)
	}
	p.hold(unsafe.Pointer(unsafe.SliceData(v)))
	return v
}

// Setsid makes the child the leader of a new session and process group.
func (p *Program) Setsid() { p.add(StageSetup, "setsid", sys(unix.SYS_SETSID)) }

// ControllingTerminal makes the terminal of the parent's descriptor the controlling terminal of the
// child's session, which must not have one yet.
func (p *Program) ControllingTerminal(fd int) {
	p.add(StageSetup, "ioctl TIOCSCTTY", sys(unix.SYS_IOCTL, uintptr(fd), unix.TIOCSCTTY, 0))
}

// Umask sets the file mode creation mask.
func (p *Program) Umask(mask int) { p.add(StageSetup, "umask", sys(unix.SYS_UMASK, uintptr(mask))) }

// ParentDeathSignal makes the kernel send sig to the child when the thread that started it ends,
// and then checks that the thread has not ended already. It must follow the last change of
// identity, which clears it.
func (p *Program) ParentDeathSignal(sig syscall.Signal) {
	p.add(StageSetup, "prctl", sys(unix.SYS_PRCTL, unix.PR_SET_PDEATHSIG, uintptr(sig)))
	c := sys(unix.SYS_GETPPID)
	c.want = uintptr(unix.Getpid())
	p.add(StageSetup, "getppid", c)
}

// Nice sets the nice value, -20 to 20. If the value is not permitted, the start does not fail.
func (p *Program) Nice(n int) {
	c := sys(unix.SYS_SETPRIORITY, unix.PRIO_PROCESS, 0, uintptr(n))
	c.tolerate = anyErrno
	p.add(StageSetup, "setpriority", c)
}

// Write writes text to a descriptor of the parent: the way into a control
// group is a "0" written to its open cgroup.procs.
func (p *Program) Write(fd int, text, what string) {
	p.add(StageSetup, what, sys(unix.SYS_WRITE, uintptr(fd), p.str(text), uintptr(len(text))))
}

// Setns moves the child into the mount namespace of the parent's descriptor. Its working directory
// becomes the root of that namespace.
func (p *Program) Setns(fd int) {
	p.add(StageSetup, "setns", sys(unix.SYS_SETNS, uintptr(fd), unix.CLONE_NEWNS))
}

// Affinity restricts the child to the processors whose bits are set. If that is not permitted, the
// start does not fail.
func (p *Program) Affinity(mask []uint64) {
	if len(mask) == 0 {
		return
	}
	at := p.hold(unsafe.Pointer(unsafe.SliceData(mask)))
	c := sys(unix.SYS_SCHED_SETAFFINITY, 0, uintptr(len(mask))*unsafe.Sizeof(mask[0]), at)
	c.tolerate = anyErrno
	p.add(StageSetup, "sched_setaffinity", c)
}

// Cgroup starts the child in a control group of v2: dir is a descriptor of its directory. If the
// kernel cannot do that (before Linux 5.7, or without permission), the child writes "0" to procs,
// the open file cgroup.procs, named what; this waits for an RCU grace period of some milliseconds.
func (p *Program) Cgroup(dir, procs int, what string) {
	p.cgroup = dir + 1
	p.Write(procs, "0", what)
	p.calls[len(p.calls)-1].entersGroup = true
}

// Rlimit sets a resource limit.
func (p *Program) Rlimit(resource int, soft, hard uint64, name string) {
	r := p.hold(unsafe.Pointer(&unix.Rlimit{Cur: soft, Max: hard}))
	p.add(StageLimit, name, sys(unix.SYS_PRLIMIT64, 0, uintptr(resource), r))
}

// Groups sets the supplementary groups.
func (p *Program) Groups(gids []uint32) {
	if len(gids) == 0 {
		p.add(StageIdentity, "setgroups", sys(unix.SYS_SETGROUPS))
		return
	}
	list := p.hold(unsafe.Pointer(unsafe.SliceData(gids)))
	p.add(StageIdentity, "setgroups", sys(unix.SYS_SETGROUPS, uintptr(len(gids)), list))
}

// Setresgid sets the real, effective and saved group id.
func (p *Program) Setresgid(gid uint32) {
	g := uintptr(gid)
	p.add(StageIdentity, "setresgid", sys(unix.SYS_SETRESGID, g, g, g))
}

// Setresuid sets the real, effective and saved user id.
func (p *Program) Setresuid(uid uint32) {
	u := uintptr(uid)
	p.add(StageIdentity, "setresuid", sys(unix.SYS_SETRESUID, u, u, u))
}

// Seteuid sets the effective user id and leaves the others, so that a later
// Setresuid can go back.
func (p *Program) Seteuid(uid uint32) {
	same := ^uintptr(0)
	p.add(StageIdentity, "setresuid", sys(unix.SYS_SETRESUID, same, uintptr(uid), same))
}

// Chdir changes the working directory, with the child's identity at that point of the list.
func (p *Program) Chdir(path string) {
	p.add(StageChdir, path, sys(unix.SYS_CHDIR, p.str(path)))
}

// nullDevice is always there.
const nullDevice = "/dev/null"

// Dup makes descriptor to a copy of from.
func (p *Program) Dup(stage Stage, from, to int) {
	p.add(stage, "descriptor", sys(unix.SYS_DUP3, uintptr(from), uintptr(to), 0))
}

// Look fails if stat(2) of a path fails: Grid Engine checks files before it opens or executes them,
// and reports which of the two steps has failed. With mayBeMissing, a missing path is not a
// failure.
func (p *Program) Look(stage Stage, path string, mayBeMissing bool) {
	if p.stat == 0 {
		p.stat = p.hold(unsafe.Pointer(new(unix.Stat_t)))
	}
	at := unix.AT_FDCWD
	c := sys(unix.SYS_NEWFSTATAT, uintptr(at), p.str(path), p.stat, 0)
	if mayBeMissing {
		c.tolerate = uintptr(unix.ENOENT)
	}
	p.unblock()
	p.add(stage, path, c)
	p.about[len(p.about)-1].look = true
}

// OpenRead opens a file for reading as descriptor fd, which must be the lowest
// one once it is closed: 0 to 2, in their order. A directory is refused: the
// kernel would open it, and a program that reads it would fail.
func (p *Program) OpenRead(stage Stage, fd int, path string) {
	p.closeFirst(stage, fd)
	if path != nullDevice {
		p.Look(stage, path, true)
	}
	p.add(stage, path, p.openCall(fd, path, unix.O_RDONLY))
	if path == nullDevice {
		return
	}
	c := sys(unix.SYS_OPENAT, uintptr(fd), p.str("."), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	c.tolerate, c.refuse = uintptr(unix.ENOTDIR), uintptr(unix.EISDIR)
	p.add(stage, path, c)
}

// OpenAppend opens a file for appending as descriptor fd, creating it with mode 0644. If path is a
// directory, fallback is opened instead, and fallbackEnv replaces the entries envIndex of the
// environment; without an index, Child.UsesFallback reports this.
func (p *Program) OpenAppend(stage Stage, fd int, path, fallback string, envIndex []int, fallbackEnv []string) {
	const flags = unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND
	p.closeFirst(stage, fd)
	if path != nullDevice {
		p.Look(stage, path, true)
	}
	first := p.openCall(fd, path, flags)
	if fallback == "" {
		p.add(stage, path, first)
		return
	}
	first.tolerate = uintptr(unix.EISDIR)
	p.add(stage, path, first)
	second := p.openCall(fd, fallback, flags)
	second.after = uintptr(unix.EISDIR)
	for i, at := range envIndex {
		// A call patches one entry. The call that opens the file patches the first; calls that cannot fail
		// patch the others.
		c := second
		if i > 0 {
			c = sys(unix.SYS_GETPID)
			c.after = uintptr(unix.EISDIR)
		}
		c.patch, c.patchWith = at+1, p.str(fallbackEnv[i])
		p.add(stage, fallback, c)
	}
	if len(envIndex) == 0 {
		p.add(stage, fallback, second)
		tell := sys(callTell)
		tell.after = uintptr(unix.EISDIR)
		p.add(stage, fallback, tell)
	}
}

// Calls that are not system calls: actions of the child itself, see fork.
const (
	callTell = ^uintptr(0) - iota // report that the child has reached this point
	callCopy                      // see Copy
)

// Copy ends the list: the child copies descriptor 0 to descriptor 1 until the end of file, and ends
// with status 0, or with the errno of the failed call. It closes all other descriptors.
func (p *Program) Copy() { p.copyTo(1) }

// Discard makes the child read descriptor 0 and throw the data away.
func (p *Program) Discard() { p.copyTo(0) }

func (p *Program) copyTo(fd uintptr) {
	p.unblock()
	const size = 64 << 10 // of a pipe
	buf := p.hold(unsafe.Pointer(unsafe.SliceData(make([]byte, size))))
	p.add(StageExec, "copy", sys(callCopy, fd+1, fd, buf, size))
}

func (p *Program) closeFirst(stage Stage, fd int) {
	p.unblock()
	c := sys(unix.SYS_CLOSE, uintptr(fd))
	c.tolerate = uintptr(unix.EBADF)
	p.add(stage, "descriptor", c)
}

// unblock clears the signal mask. After this the child may block, for example on a FIFO without a
// reader or on a file server, and must be killable by any signal.
func (p *Program) unblock() {
	if p.unblocked {
		return
	}
	p.unblocked = true
	none := p.hold(unsafe.Pointer(new(uint64)))
	p.add(StageSetup, "rt_sigprocmask", sys(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, none, 0, unsafe.Sizeof(uint64(0))))
}

func (p *Program) openCall(fd int, path string, flags int) call {
	at := unix.AT_FDCWD
	// No O_NOFOLLOW: the file is opened with the rights of the job's owner, so links can only lead
	// to files that the owner may access. O_NOCTTY prevents a terminal from becoming the
	// controlling terminal of the child's session.
	c := sys(unix.SYS_OPENAT, uintptr(at), p.str(path), uintptr(flags|unix.O_NOCTTY), 0o644)
	c.want = uintptr(fd)
	return c
}

// Environment sets the environment of the program. It must come before
// OpenAppend and Exec.
func (p *Program) Environment(env []string) { p.envp = p.vector(env) }

// Exec ends the list: the child becomes the first of the candidates that can
// be executed. A file that the kernel does not recognise (ENOEXEC) is given to
// /bin/sh with the same arguments, as execvp(3) does.
func (p *Program) Exec(candidates []string, argv []string) {
	if p.envp == nil {
		p.Environment(nil)
	}
	env := uintptr(unsafe.Pointer(unsafe.SliceData(p.envp)))
	p.unblock()
	args, shell := p.vector(argv), p.str("/bin/sh")
	for _, path := range candidates {
		file := p.str(path)
		c := sys(unix.SYS_EXECVE, file, uintptr(unsafe.Pointer(unsafe.SliceData(args))), env)
		c.tolerate = anyErrno
		p.add(StageExec, path, c)
		script := make([]uintptr, 0, len(args)+1)
		script = append(append(script, shell, file), args[min(1, len(argv)):]...)
		c = sys(unix.SYS_EXECVE, shell, p.hold(unsafe.Pointer(unsafe.SliceData(script))), env)
		c.tolerate = anyErrno
		c.after = uintptr(unix.ENOEXEC)
		p.add(StageExec, path, c)
	}
}

// Child is a started process. The caller reaps it and sees its end; Failed says
// afterwards whether it ever became the program.
type Child struct {
	PID     int
	report  int // read end of the pipe
	program *Program

	failure      *StartError
	usesFallback bool
}

// report is the message of a failed child: the index of the call and the errno. Errno 0 comes from
// callTell.
type report struct{ index, errno int32 }

// Start forks the child. The error concerns the fork itself; Child.Failed returns errors of the
// child.
func (p *Program) Start() (*Child, error) {
	if p.err != nil {
		return nil, p.err
	}
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, &oslite.CallError{Call: "pipe2", Err: err}
	}
	// The write end moves out of the way of 0 to 2, which the child reopens.
	if fds[1] <= 2 {
		fd, err := unix.FcntlInt(uintptr(fds[1]), unix.F_DUPFD_CLOEXEC, 3)
		if err != nil {
			_ = unix.Close(fds[0])
			_ = unix.Close(fds[1])
			return nil, &oslite.CallError{Call: "fcntl", Err: err}
		}
		_ = unix.Close(fds[1])
		fds[1] = fd
	}
	syscall.ForkLock.Lock()
	pid, errno := fork(p.calls, p.envp, uintptr(fds[1]), p.cgroup-1)
	if errno != 0 && p.cgroup > 0 {
		pid, errno = fork(p.calls, p.envp, uintptr(fds[1]), -1)
	}
	syscall.ForkLock.Unlock()
	runtime.KeepAlive(p)
	_ = unix.Close(fds[1])
	if errno != 0 {
		_ = unix.Close(fds[0])
		return nil, &oslite.CallError{Call: "fork", Err: errno}
	}
	return &Child{PID: int(pid), report: fds[0], program: p}, nil
}

// Waiting reports whether the child has not executed its program yet, and its current stage. It may
// be called until the child has been reaped.
func (c *Child) Waiting() (Stage, bool) {
	fds := []unix.PollFd{{Fd: int32(c.report)}}
	// The other end is closed by exec, and by the child's end.
	if _, err := unix.Poll(fds, 0); err != nil || fds[0].Revents != 0 {
		return 0, false
	}
	for fd, stage := range []Stage{StageStdin, StageStdout, StageStderr} {
		// A closed descriptor means that its file is being opened. Without root's rights such a
		// child cannot be inspected; then opening a file is the most likely stage.
		_, err := oslite.Readlink("/proc/" + strconv.Itoa(c.PID) + "/fd/" + strconv.Itoa(fd))
		if err != nil {
			return stage, true
		}
	}
	return StageExec, true
}

// ReportFD returns the descriptor that can be read (poll(2)) when Began may have become true.
func (c *Child) ReportFD() int { return c.report }

// Began reports whether the child is at the end of its list: it has become the program, it
// copies (Copy), or it has failed before and ends.
func (c *Child) Began() bool {
	var r report
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&r)), unsafe.Sizeof(r))
	for {
		n, err := unix.Read(c.report, buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN:
			return false
		case err != nil || n != len(buf): // the other end is closed by exec, by Copy and by the child's end
			return true
		case r.index < 0 || int(r.index) >= len(c.program.about):
			c.failure = &StartError{Stage: StageExec, What: "no program", Errno: syscall.ENOENT, PID: c.PID}
		case r.errno == 0:
			c.usesFallback = true
		default:
			at := c.program.about[r.index]
			c.failure = &StartError{Stage: at.stage, What: at.what, Errno: syscall.Errno(r.errno), Look: at.look, PID: c.PID}
		}
	}
}

// UsesFallback reports whether OpenAppend has opened its fallback, of a child that has begun.
func (c *Child) UsesFallback() bool { return c.usesFallback }

// Failed returns the error of a child that ended before it became the program, or nil if it became
// the program. Call it once, after the child has been reaped or has begun.
func (c *Child) Failed() *StartError {
	_ = c.Began()
	_ = unix.Close(c.report)
	return c.failure
}
