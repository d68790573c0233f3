package spawn

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// answer runs a filter as the kernel does.
func answer(t *testing.T, filter []unix.SockFilter, arch, number uint32, request uint64) uint32 {
	t.Helper()
	var data [64]byte // struct seccomp_data
	binary.LittleEndian.PutUint32(data[0:], number)
	binary.LittleEndian.PutUint32(data[4:], arch)
	binary.LittleEndian.PutUint64(data[24:], request)
	var a uint32
	for i := 0; i < len(filter); i++ {
		switch f := filter[i]; f.Code {
		case unix.BPF_LD | unix.BPF_W | unix.BPF_ABS:
			a = binary.LittleEndian.Uint32(data[f.K:])
		case unix.BPF_ALU | unix.BPF_AND | unix.BPF_K:
			a &= f.K
		case unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K:
			if a == f.K {
				i += int(f.Jt)
			} else {
				i += int(f.Jf)
			}
		case unix.BPF_RET | unix.BPF_K:
			return f.K
		default:
			t.Fatalf("instruction %d: %+v", i, f)
		}
	}
	t.Fatal("the filter has no end")
	return 0
}

// TestAttributeFilter checks that the filter denies every way to change attributes, with the system
// call numbers of all programs that the kernel can run, and denies nothing else.
func TestAttributeFilter(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the numbers are those of amd64")
	}
	const (
		amd64, i386 = unix.AUDIT_ARCH_X86_64, unix.AUDIT_ARCH_I386
		chproj      = 0x401c5820
		chattr      = unix.FS_IOC_SETFLAGS
	)
	for name, c := range map[string]struct {
		arch, number uint32
		request      uint64
		denied       bool
	}{
		"the project ID":                      {amd64, unix.SYS_IOCTL, chproj, true},
		"flags":                               {amd64, unix.SYS_IOCTL, chattr, true},
		"flags of 32 bits":                    {amd64, unix.SYS_IOCTL, 0x40046602, true},
		"upper bits, which do not count":      {amd64, unix.SYS_IOCTL, 0xdead<<32 | chproj, true},
		"the project ID of an x32 program":    {amd64, 0x40000000 + 514, chproj, true},
		"the project ID of i386":              {i386, 54, chproj, true},
		"flags of i386":                       {i386, 54, 0x40046602, true},
		"file_setattr":                        {amd64, unix.SYS_FILE_SETATTR, 0, true},
		"file_setattr of x32":                 {amd64, 0x40000000 + unix.SYS_FILE_SETATTR, 0, true},
		"file_setattr of i386":                {i386, unix.SYS_FILE_SETATTR, 0, true},
		"reading the project ID":              {amd64, unix.SYS_IOCTL, 0x801c581f, false},
		"a terminal's ioctl":                  {amd64, unix.SYS_IOCTL, unix.TCGETS, false},
		"another call":                        {amd64, unix.SYS_WRITE, chproj, false},
		"write of i386":                       {i386, 4, chproj, false},
		"fchdir, with i386's number of ioctl": {amd64, 54, chproj, false},
		"another architecture":                {0xdeadbeef, unix.SYS_IOCTL, chproj, false},
	} {
		got := answer(t, attributeFilter(), c.arch, c.number, c.request)
		if want := uint32(unix.SECCOMP_RET_ERRNO) | uint32(unix.EPERM); (got == want) != c.denied {
			t.Errorf("%s: the answer is %#x", name, got)
		}
	}
}

// TestDenyAttributes checks that the kernel accepts the filter, and that a child and its descendants
// cannot change attributes, also as root.
func TestDenyAttributes(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	dir := t.TempDir()
	script := `cd ` + dir + ` && touch f && { chattr +d f; sh -c 'chattr +d f'; lsattr f; cat /proc/self/status; } 2>&1; true`
	if got := shell(t, dir+"/free", script, nil); strings.Contains(got, "not permitted") || strings.Contains(got, "not supported") {
		t.Skip("the file system has no attributes: " + got)
	}
	got := shell(t, dir+"/out", `cd `+dir+` && chattr -d f; `+script, (*Program).DenyAttributes)
	if n := strings.Count(got, "Operation not permitted"); n != 3 || !strings.Contains(got, "d----") || !strings.Contains(got, "Seccomp:\t2") {
		t.Errorf("%d calls were refused:\n%s", n, got)
	}
}
