// Package heldup makes processes that hold up the kernel, for tests: execve(2) closes a file of a FUSE file system whose
// owner does not answer. Until it is released, some files in /proc of such a process cannot be read (see package
// limits/process).
//
// A test program that imports the package becomes such a process if its environment says so.
package heldup

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

const (
	roleEnv   = "EXECD_TEST_HELD_UP"        // what this process is
	deviceEnv = "EXECD_TEST_HELD_UP_DEVICE" // /dev/fuse, or a copy of it
	inputEnv  = "EXECD_TEST_HELD_UP_INPUT"  // set if it goes on at the end of its input
	roleOwner = "owner"                     // mounts the file system, and starts the victim
	roleJob   = "job"                       // starts the owner in namespaces of its own
	victim    = "victim"                    // executes a program
)

// Device returns the path of a copy of /dev/fuse that every user can open. It skips the test without root's rights or without
// FUSE.
func Device(t testing.TB) string {
	t.Helper()
	testenv.Require(t, testenv.Root)
	const major, minor = 10, 229
	path := filepath.Join(t.TempDir(), "fuse")
	testenv.LetIn(t, filepath.Dir(path))
	testenv.Node(t, path, major, minor)
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("this kernel has no FUSE: %v", err)
	}
	_ = unix.Close(fd)
	return path
}

// Failure begins the line that is printed instead of the ID if a process cannot hold up the kernel, for example because users
// cannot make namespaces.
const Failure = "cannot hold up the kernel:"

// Environment returns variables with which the test program starts a process that holds up the kernel, prints its ID,
// and never ends.
func Environment(device string) []string {
	return []string{roleEnv + "=" + roleJob, deviceEnv + "=" + device}
}

// Program copies the test program to a file in a directory, so that every user who can enter the directory can execute it,
// and returns its path.
func Program(t testing.TB, dir string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	path := filepath.Join(dir, "hostile")
	if err == nil {
		err = os.WriteFile(path, text, 0o755) //nolint:gosec // for other users
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Start starts a process of a user that holds up the kernel until release is called, and returns its ID. Both end with the
// test.
func Start(t testing.TB, uid int) (pid int, release func()) {
	t.Helper()
	device, dir := Device(t), t.TempDir()
	testenv.LetIn(t, dir)
	cmd := exec.CommandContext(t.Context(), Program(t, dir))
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}}
	cmd.Env = append(append(os.Environ(), inputEnv+"=1"), Environment(device)...)
	cmd.Stderr = os.Stderr
	first, end := testenv.Begin(t, cmd)
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		t.Skip(first)
	}
	return pid, func() { go func() { _ = end() }() } // closes the input, and then waits for the end of the test
}

func init() { //nolint:gochecknoinits // the environment decides before the tests begin whether the program is such a process
	var err error
	switch os.Getenv(roleEnv) {
	case roleJob:
		err = job()
	case roleOwner:
		err = owner()
	case victim:
		err = execute(os.Args[1])
	default:
		return
	}
	fmt.Println(Failure, err) //nolint:forbidigo // for the test
	os.Exit(1)                //nolint:forbidigo // nothing else of the test program may run
}

// job starts the owner of a file system in namespaces of its own.
func job() error {
	attr := &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNS, Pdeathsig: unix.SIGKILL}
	if uid, gid := os.Getuid(), os.Getgid(); uid != 0 {
		attr.Cloneflags |= unix.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	return run(roleOwner, attr)
}

func run(role string, attr *syscall.SysProcAttr, words ...string) error {
	runtime.LockOSThread() // Pdeathsig is about the thread
	cmd := exec.Command("/proc/self/exe", words...)
	cmd.Env = append(os.Environ(), roleEnv+"="+role)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdin, os.Stdout, os.Stderr, attr
	return cmd.Run()
}

func execute(file string) error {
	if _, err := unix.Open(file, unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
		return fmt.Errorf("open %s: %w", file, err)
	}
	return syscall.Exec("/bin/sleep", []string{"sleep", "1000"}, os.Environ())
}

// Requests of the kernel, and the sizes of what is sent: see fuse(4) and linux/fuse.h.
const (
	opLookup, opForget, opGetattr, opOpen   = 1, 2, 3, 14
	opFlush, opInit, opInterrupt, opForget2 = 25, 26, 36, 42

	headIn, headOut = 40, 16
	sizeAttr        = 88
)

// owner mounts a file system with one file, whose close it does not answer before it may.
func owner() error {
	dev, err := unix.Open(os.Getenv(deviceEnv), unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", os.Getenv(deviceEnv), err)
	}
	dir, err := os.MkdirTemp("", "execd-held-up-")
	if err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mount: %w", err)
	}
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0", dev)
	if err := unix.Mount("test", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount fuse: %w", err)
	}
	_ = os.Remove(dir)
	go func() {
		//nolint:forbidigo // of a test
		fmt.Fprintln(os.Stderr, run(victim, &syscall.SysProcAttr{Pdeathsig: unix.SIGKILL}, dir+"/file"))
	}()
	release := make(chan struct{})
	if os.Getenv(inputEnv) != "" {
		go func() {
			_, _ = bufio.NewReader(os.Stdin).ReadByte()
			close(release)
		}()
	}
	return serve(dev, release)
}

// serve answers the kernel. It prints the ID of the process that closes the file, and answers the close after release.
func serve(dev int, release <-chan struct{}) error {
	room := make([]byte, 1<<17)
	order := binary.NativeEndian
	answer := func(unique uint64, errno syscall.Errno, content []byte) {
		b := order.AppendUint32(nil, uint32(headOut+len(content)))
		b = order.AppendUint32(b, uint32(-int32(errno)))
		b = append(order.AppendUint64(b, unique), content...)
		_, _ = unix.Write(dev, b)
	}
	const root, file, forever = 1, 2, 1000
	attr := func(node uint64) []byte {
		b := make([]byte, sizeAttr)
		mode := uint32(unix.S_IFREG | 0o444)
		if node == root {
			mode = unix.S_IFDIR | 0o555
		}
		order.PutUint64(b, node)
		order.PutUint32(b[60:], mode)
		order.PutUint32(b[64:], 1) // links
		return b
	}
	for {
		n, err := unix.Read(dev, room)
		if err != nil {
			return fmt.Errorf("read requests: %w", err)
		}
		if n < headIn {
			return fmt.Errorf("a request of %d bytes", n)
		}
		unique, node := order.Uint64(room[8:]), order.Uint64(room[16:])
		switch order.Uint32(room[4:]) {
		case opInit:
			b := make([]byte, 64)
			order.PutUint32(b, 7)      // version 7.31
			order.PutUint32(b[4:], 31) //
			order.PutUint32(b[20:], 4096)
			answer(unique, 0, b)
		case opLookup:
			b := make([]byte, 40, 40+sizeAttr)
			order.PutUint64(b, file)
			order.PutUint64(b[16:], forever)
			order.PutUint64(b[24:], forever)
			answer(unique, 0, append(b, attr(file)...))
		case opGetattr:
			b := make([]byte, 16, 16+sizeAttr)
			order.PutUint64(b, forever)
			answer(unique, 0, append(b, attr(node)...))
		case opOpen:
			answer(unique, 0, make([]byte, 16))
		case opFlush:
			fmt.Println(order.Uint32(room[32:])) //nolint:forbidigo // the process, for the test
			go func() {
				<-release
				answer(unique, 0, nil)
			}()
		case opForget, opForget2, opInterrupt: // have no answer
		default:
			answer(unique, unix.ENOSYS, nil)
		}
	}
}
