package spawn

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// abi is a set of system call numbers that a process can use.
type abi struct {
	arch                 uint32
	ioctl, setAttributes uint32 // the numbers of ioctl(2) and file_setattr(2)
	mask                 uint32 // of the bits of a number that count
}

// x32 is the bit of the system calls of the x32 ABI, whose other bits differ in ioctl's number alone.
const (
	x32      = 0x40000000
	x32Ioctl = x32 + 514
	setAttr  = 469 // the same for all
)

// abis returns the sets that this kernel may offer: 32-bit programs have other numbers.
func abis() []abi {
	if runtime.GOARCH == "arm64" {
		return []abi{
			{unix.AUDIT_ARCH_AARCH64, 29, setAttr, ^uint32(0)},
			{unix.AUDIT_ARCH_ARM, 54, setAttr, ^uint32(0)},
		}
	}
	return []abi{
		{unix.AUDIT_ARCH_X86_64, 16, setAttr, ^uint32(x32)},
		{unix.AUDIT_ARCH_X86_64, x32Ioctl &^ x32, setAttr, ^uint32(x32)},
		{unix.AUDIT_ARCH_I386, 54, setAttr, ^uint32(0)},
	}
}

// The requests of ioctl(2) that change the attributes of files, among them the project ID and whether
// new files inherit it. The kernel uses the lower 32 bits of a request.
var attributeRequests = []uint32{
	0x401c5820, // FS_IOC_FSSETXATTR, as chattr -p and xfs_io -c chproj use it
	0x40086602, // FS_IOC_SETFLAGS, as chattr +P uses it
	0x40046602, // FS_IOC32_SETFLAGS
}

// attributeFilter returns the filter of DenyAttributes, as a program of classic BPF (seccomp(2)).
func attributeFilter() []unix.SockFilter {
	const (
		load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
		equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
		and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
		answer = unix.BPF_RET | unix.BPF_K
		allow  = 0x7fff0000 // SECCOMP_RET_ALLOW
		deny   = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
		// The places in struct seccomp_data; amd64 and arm64 are little-endian.
		number, arch, request = 0, 4, 16 + 8
	)
	var list []unix.SockFilter
	// A jump skips as many instructions. Each set is: load the architecture, and skip the set if it
	// is another one; deny setAttributes; continue with the request if it is ioctl.
	checks := len(attributeRequests)
	for _, a := range abis() {
		set := []unix.SockFilter{
			{Code: load, K: number},
			{Code: and, K: a.mask},
			{Code: equal, K: a.setAttributes, Jf: 1},
			{Code: answer, K: deny},
			{Code: equal, K: a.ioctl, Jf: uint8(checks + 3)},
			{Code: load, K: request},
		}
		for i, r := range attributeRequests {
			set = append(set, unix.SockFilter{Code: equal, K: r, Jt: uint8(checks - i)})
		}
		set = append(set, unix.SockFilter{Code: answer, K: allow}, unix.SockFilter{Code: answer, K: deny})
		list = append(list, unix.SockFilter{Code: load, K: arch}, unix.SockFilter{Code: equal, K: a.arch, Jf: uint8(len(set))})
		list = append(list, set...)
	}
	return append(list, unix.SockFilter{Code: answer, K: allow})
}

// DenyAttributes makes the kernel refuse, with EPERM, all calls by which the child and its descendants
// could change attributes of files: flags as of chattr(1), and project IDs, which limit the size of
// directories. In the initial user namespace the owner of a file could change them. The child must
// still have CAP_SYS_ADMIN. It works on amd64 and arm64.
func (p *Program) DenyAttributes() {
	filter := attributeFilter()
	program := p.hold(unsafe.Pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}))
	// Without SPEC_ALLOW, kernels before 5.16 slow down the processor for all filtered processes.
	p.add(StageSetup, "seccomp", sys(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_SPEC_ALLOW, program))
}
