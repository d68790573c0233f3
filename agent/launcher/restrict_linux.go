package launcher

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// forbidden are the system calls that a front never needs and that would help an attacker who
// controls it: calls that access other processes, or change identities, mounts, the kernel or the
// clock.
var forbidden = []uint32{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PIDFD_GETFD,
	unix.SYS_SETUID, unix.SYS_SETGID, unix.SYS_SETREUID, unix.SYS_SETREGID, unix.SYS_SETRESUID, unix.SYS_SETRESGID,
	unix.SYS_SETGROUPS, unix.SYS_SETFSUID, unix.SYS_SETFSGID, unix.SYS_CAPSET,
	unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_PIVOT_ROOT, unix.SYS_CHROOT, unix.SYS_UNSHARE, unix.SYS_SETNS,
	unix.SYS_FSOPEN, unix.SYS_FSMOUNT, unix.SYS_FSPICK, unix.SYS_MOVE_MOUNT, unix.SYS_OPEN_TREE, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_QUOTACTL, unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT,
	unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_USERFAULTFD, unix.SYS_IO_URING_SETUP,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_REBOOT, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_CLOCK_ADJTIME, unix.SYS_ADJTIMEX,
}

// architectures are the architectures that the filter supports, with the kernel's names for them.
var architectures = map[string]uint32{"amd64": unix.AUDIT_ARCH_X86_64, "arm64": unix.AUDIT_ARCH_AARCH64}

// Restrict takes from this process and all that it starts the system calls that a front never
// needs: they fail with EPERM. It cannot be undone.
func Restrict() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot set NoNewPrivs: %w", err)
	}
	arch, ok := architectures[runtime.GOARCH]
	if !ok {
		return errors.New("cannot restrict system calls: there is no filter for " + runtime.GOARCH)
	}
	program := filter(arch, forbidden)
	p := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]} //nolint:gosec // it is short
	// All threads of the process at the same time.
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC, uintptr(unsafe.Pointer(&p)))
	runtime.KeepAlive(program)
	if errno != 0 {
		return fmt.Errorf("cannot restrict system calls: seccomp: %w", errno)
	}
	return nil
}

// CanRestrict returns why Restrict would fail on this host; nil if it would not.
func CanRestrict() error {
	if _, ok := architectures[runtime.GOARCH]; !ok {
		return errors.New("cannot restrict system calls: there is no filter for " + runtime.GOARCH)
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	if _, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action))); errno != 0 {
		return fmt.Errorf("cannot restrict system calls: seccomp: %w", errno)
	}
	return nil
}

// filter returns a program for seccomp(2) that refuses some system calls, and all calls of another
// architecture, because these have other numbers.
func filter(arch uint32, refused []uint32) []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
		result = unix.BPF_RET | unix.BPF_K
		// Places in struct seccomp_data.
		number, architecture = 0, 4
		x32                  = 1 << 30 // begins the numbers of a further interface of amd64
	)
	n := uint8(len(refused)) //nolint:gosec // it is short
	list := []unix.SockFilter{
		{Code: load, K: architecture},
		{Code: equal, K: arch, Jt: 0, Jf: n + 3},
		{Code: load, K: number},
		{Code: least, K: x32, Jt: n + 1},
	}
	for i, nr := range refused {
		list = append(list, unix.SockFilter{Code: equal, K: nr, Jt: n - uint8(i)}) //nolint:gosec // it is short
	}
	return append(list,
		unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ALLOW},
		unix.SockFilter{Code: result, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
	)
}
