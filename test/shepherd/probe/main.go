// Probe is a program for the tests of the shepherd that prints its arguments, environment and other
// properties. It takes the place of the shell, of the job, of the starter method and of procedures,
// and so ignores its arguments. Additional actions depend on the name of its file:
//
//	launch   starts a shepherd the way a real sge_execd does
//	refuse   starts a program for which no limit can be set
//	counter  tells of each signal that it is sent
//	handler  answers each SIGUSR1 by running a program
//	other    prints and exits
package main

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Report is the output of one run of the probe, as one line of JSON. Strings are bytes, since
// arguments and variables may contain any.
type Report struct {
	Exe           string
	Args, Env     [][]byte
	Stdin         []byte
	StdinPath     string
	Fds           []string
	Cwd           string
	Umask         int
	Uids, Gids    [3]int
	Groups        []int
	PID, PPID     int
	Pgid, Session int
	Nice          int
	Blocked       string // signal masks, as /proc/self/status has them
	Ignored       string
}

func init() { //nolint:gochecknoinits // in main it could be too late
	// On the main thread: the signal that a process gets when its parent dies
	// (PR_SET_PDEATHSIG) is that of a thread, and an exec in another one loses it.
	runtime.LockOSThread()
}

func main() {
	// Inherited descriptors lack close-on-exec, unlike those that Go's runtime opens.
	var fds []string
	for fd := range 1024 {
		if flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && flags&unix.FD_CLOEXEC == 0 {
			fds = append(fds, strconv.Itoa(fd))
		}
	}
	exe, err := os.Readlink("/proc/self/exe")
	if err == nil {
		switch filepath.Base(exe) {
		case "launch":
			err = launch(os.Args[1:])
		case "refuse":
			err = refuse(os.Args[1:])
		case "counter":
			err = count(os.Args[1:])
		case "handler":
			err = handle(os.Args[1:])
		default:
			err = probe(exe, fds)
		}
	}
	if err != nil {
		_, _ = os.Stderr.WriteString("probe: " + err.Error() + "\n")
		os.Exit(3)
	}
}

func probe(exe string, fds []string) error {
	r := Report{Exe: exe, PID: os.Getpid(), PPID: os.Getppid(), Fds: fds}
	for _, a := range os.Args {
		r.Args = append(r.Args, []byte(a))
	}
	for _, v := range os.Environ() {
		r.Env = append(r.Env, []byte(v))
	}
	r.StdinPath, _ = os.Readlink("/proc/self/fd/0")
	r.Stdin, _ = io.ReadAll(io.LimitReader(os.Stdin, 1<<16))
	r.Cwd, _ = os.Getwd()
	r.Umask = syscall.Umask(0)
	r.Uids[0], r.Uids[1], r.Uids[2] = unix.Getresuid()
	r.Gids[0], r.Gids[1], r.Gids[2] = unix.Getresgid()
	r.Groups, _ = os.Getgroups()
	r.Pgid = unix.Getpgrp()
	r.Session, _ = unix.Getsid(0)
	n, _ := unix.Getpriority(unix.PRIO_PROCESS, 0)
	r.Nice = 20 - n
	status, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":\t")
		switch key {
		case "SigBlk":
			r.Blocked = value
		case "SigIgn":
			r.Ignored = value
		}
	}
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(b, '\n'))
	return err
}

// launch becomes the program that its arguments name, after the user and group
// id that it is to have as its effective and saved one: what a real sge_execd
// leaves to its shepherd is root as the real and the admin user as the effective
// id, most signals blocked, and SIGQUIT ignored.
func launch(args []string) error {
	if len(args) < 4 {
		return errors.New("usage: launch UID GID PROGRAM ARGV0 [ARGUMENT...]")
	}
	uid, err1 := strconv.Atoi(args[0])
	gid, err2 := strconv.Atoi(args[1])
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if err := errors.Join(
		syscall.Setgroups([]int{gid}),
		syscall.Setresgid(0, gid, gid),
		syscall.Setresuid(0, uid, uid),
	); err != nil {
		return err
	}
	syscall.Umask(0o22)
	runtime.LockOSThread()
	var mask uint64
	for _, sig := range []syscall.Signal{
		unix.SIGHUP, unix.SIGUSR1, unix.SIGUSR2, unix.SIGSTKFLT, unix.SIGCONT, unix.SIGTSTP, unix.SIGTTIN,
		unix.SIGTTOU, unix.SIGXCPU, unix.SIGXFSZ, unix.SIGWINCH, unix.SIGPWR, unix.SIGSYS,
	} {
		mask |= 1 << (sig - 1)
	}
	for sig := 34; sig <= 64; sig++ { // and the real-time signals
		mask |= 1 << (sig - 1)
	}
	ignore := struct{ handler, flags, restorer, mask uintptr }{handler: 1}
	for _, e := range []syscall.Errno{
		raw(unix.SYS_RT_SIGPROCMASK, unix.SIG_BLOCK, uintptr(unsafe.Pointer(&mask)), 0, 8),
		raw(unix.SYS_RT_SIGACTION, uintptr(unix.SIGQUIT), uintptr(unsafe.Pointer(&ignore)), 0, 8),
	} {
		if e != 0 {
			return e
		}
	}
	return syscall.Exec(args[2], args[3:], os.Environ())
}

func raw(nr, a, b, c, d uintptr) syscall.Errno {
	_, _, e := syscall.RawSyscall6(nr, a, b, c, d, 0, 0)
	return e
}

// count writes a line to a fifo for each signal, "LABEL NUMBER", and before the
// first one "LABEL ready PID". No signal ends it but SIGQUIT, and those that
// cannot be caught. All are blocked and read from a descriptor, where those that
// are sent twice (the real-time ones) are seen twice.
func count(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: counter FIFO LABEL [again]")
	}
	path, label := args[0], args[1]
	runtime.LockOSThread()
	all := ^uint64(0)
	if e := raw(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK, uintptr(unsafe.Pointer(&all)), 0, 8); e != 0 {
		return e
	}
	if len(args) == 2 {
		// Every thread of the runtime inherits the mask that it is started with.
		return syscall.Exec("/proc/self/exe", []string{"counter", path, label, "again"}, os.Environ())
	}
	// These the runtime keeps open in its threads, whatever it has inherited.
	caught := make(chan os.Signal, 100)
	set := unix.Sigset_t{}
	set.Val[0] = ^uint64(0)
	for _, sig := range []syscall.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM} {
		signal.Notify(caught, sig)
		set.Val[0] &^= 1 << (sig - 1)
	}
	fd, err := unix.Signalfd(-1, &set, unix.SFD_CLOEXEC)
	if err != nil {
		return err
	}
	out, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	say := func(words ...string) { _, _ = out.WriteString(label + " " + strings.Join(words, " ") + "\n") }
	say("ready", strconv.Itoa(os.Getpid()))
	go func() {
		for sig := range caught {
			say(strconv.Itoa(int(sig.(syscall.Signal))))
			if sig == unix.SIGQUIT {
				os.Exit(0)
			}
		}
	}()
	var info unix.SignalfdSiginfo
	buf := unsafe.Slice((*byte)(unsafe.Pointer(&info)), unsafe.Sizeof(info))
	for {
		n, err := unix.Read(fd, buf)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return err
		}
		if n != len(buf) || syscall.Signal(info.Signo) == unix.SIGURG { // of the runtime's own
			continue
		}
		say(strconv.Itoa(int(info.Signo)))
	}
}

// handle writes a line to a fifo for each SIGUSR1: how the program has ended
// that it starts in answer.
func handle(args []string) error {
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, unix.SIGUSR1)
	out, err := os.OpenFile(args[0], os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, _ = out.WriteString("ready\n")
	for range caught {
		line := "fine\n"
		if err := exec.Command("/bin/sleep", "0.01").Run(); err != nil {
			line = err.Error() + "\n"
		}
		_, _ = out.WriteString(line)
	}
	return nil
}

// refuse becomes the program that its arguments name, and has the kernel refuse
// with EPERM each prlimit(2) that sets something, as the seccomp filter of a
// container may.
func refuse(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: refuse PROGRAM ARGV0 [ARGUMENT...]")
	}
	const newLimit = 16 + 2*8 // the third argument in struct seccomp_data
	load := func(at uint32) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: at}
	}
	equal := func(k uint32, yes, no uint8) unix.SockFilter {
		return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jt: yes, Jf: no}
	}
	filter := []unix.SockFilter{
		load(0),
		equal(unix.SYS_PRLIMIT64, 0, 4), // another call is allowed
		load(newLimit),
		equal(0, 0, 3),
		load(newLimit + 4),
		equal(0, 0, 1),
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program))); errno != 0 {
		return os.NewSyscallError("seccomp", errno)
	}
	return syscall.Exec(args[0], args[1:], os.Environ())
}
