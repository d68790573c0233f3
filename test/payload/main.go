// Payload is a job that uses more than it should.
//
//	payload burn N             N processes that burn CPU time, forever
//	payload spawn N MS         N processes, each starts one after the other, children
//	                           that burn MS milliseconds, and waits for each
//	payload hold N MB [FILE LIMIT]
//	                           N processes that fill MB megabytes each, then wait. FILE
//	                           gets a message when they had more than LIMIT megabytes together,
//	                           and when one of them last ran (see Beats)
//	payload tree N             N processes that wait, each in a session of its own
//	payload bomb N             every process forks as fast as it can; N forks in all
//	payload chain [setsid]     is never the same process for long: each forks and exits
//	payload undead             is held on its way out by its child, which traces it
//	payload daemon N           N daemons: twice forked, in sessions of their own; then it ends
//
// Each says "ready" on standard output before it begins. Its processes are made by
// fork alone, and all signals but SIGKILL and SIGSTOP are blocked in them.
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/payload/rawfork"
)

func main() {
	if len(os.Args) < 2 {
		usage()
	}
	n, size, limit := number(2), number(3), uint64(number(5))<<20
	var beats *[pageWords]uint64
	if len(os.Args) > 4 {
		beats = mapBeats(os.Args[4])
	}
	var memory []byte
	if os.Args[1] == "hold" {
		var err error
		memory, err = unix.Mmap(-1, 0, max(size<<20, 1), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
		exitOn(err)
	}
	shared, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	exitOn(err)
	forks := (*uint64)(unsafe.Pointer(unsafe.SliceData(shared)))
	fmt.Println("ready")
	rawfork.Quiet()
	switch os.Args[1] {
	case "burn":
		burn(n)
	case "spawn":
		spawn(n, int64(size)*1e6)
	case "hold":
		hold(n, memory, limit, beats)
	case "tree":
		rawfork.Tree(n)
	case "bomb":
		bomb(uint64(n), forks)
	case "chain":
		rawfork.Chain(len(os.Args) > 2)
	case "undead":
		undead()
	case "daemon":
		daemons(n)
	default:
		usage()
	}
}

func usage() {
	fmt.Fprintln(os.Stderr, "usage: payload burn|spawn|hold|tree|bomb|chain|undead|daemon ARGUMENTS")
	os.Exit(2)
}

// number returns an argument; 0 if it is missing.
func number(i int) int {
	if i >= len(os.Args) {
		return 0
	}
	n, err := strconv.Atoi(os.Args[i])
	if err != nil {
		return 0
	}
	return n
}

func exitOn(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "payload:", err)
		os.Exit(1)
	}
}

// Words of the file of "hold", in native 64-bit form (see Beats).
const (
	held      = 0 // bytes filled by all processes together
	crossed   = 1 // first time above the limit: nanoseconds of CLOCK_MONOTONIC
	beat      = 2 // last time that a process ran
	pageWords = 512
)

func mapBeats(path string) *[pageWords]uint64 {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err == nil {
		err = f.Truncate(4096)
	}
	var b []byte
	if err == nil {
		b, err = unix.Mmap(int(f.Fd()), 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	exitOn(err)
	return (*[pageWords]uint64)(unsafe.Pointer(unsafe.SliceData(b)))
}

// From here on there are forked children, see rawfork.

func clock(which uintptr) int64 {
	var ts unix.Timespec
	_, _, _ = syscall.RawSyscall(unix.SYS_CLOCK_GETTIME, which, uintptr(unsafe.Pointer(&ts)), 0)
	return ts.Sec*1e9 + ts.Nsec
}

// several makes n processes out of one; all of them return.
func several(n int) {
	for range n - 1 {
		if pid, _ := rawfork.Fork(); pid == 0 {
			return
		}
	}
}

func burn(n int) {
	several(n)
	for { //nolint:staticcheck // using CPU time is what it is for
	}
}

func spawn(n int, nsec int64) {
	several(n)
	for {
		pid, errno := rawfork.Fork()
		if pid == 0 && errno == 0 {
			for clock(unix.CLOCK_PROCESS_CPUTIME_ID) < nsec {
			}
			rawfork.Exit()
		}
		_, _, _ = syscall.RawSyscall6(unix.SYS_WAIT4, pid, 0, 0, 0, 0, 0)
	}
}

func hold(n int, memory []byte, limit uint64, beats *[pageWords]uint64) {
	several(n) // each gets its own copy when it writes
	const page = 4096
	for at := 0; at < len(memory); at += page {
		memory[at] = 1
		if beats == nil {
			continue
		}
		now := uint64(clock(unix.CLOCK_MONOTONIC))
		beats[beat] = now
		if atomic.AddUint64(&beats[held], page) > limit && beats[crossed] == 0 {
			beats[crossed] = now
		}
	}
	for {
		if beats != nil {
			beats[beat] = uint64(clock(unix.CLOCK_MONOTONIC))
		}
		rawfork.Nap(2e5)
	}
}

func bomb(most uint64, forks *uint64) {
	for atomic.AddUint64(forks, 1) <= most {
		_, _ = rawfork.Fork()
	}
	rawfork.Wait()
}

func undead() {
	if pid, _ := rawfork.Fork(); pid == 0 {
		parent, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
		rawfork.Setsid()
		_, _, _ = syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, parent, 0, unix.PTRACE_O_TRACEEXIT, 0, 0)
		rawfork.Wait()
	}
	rawfork.Wait()
}

func daemons(n int) {
	for range n {
		if pid, _ := rawfork.Fork(); pid == 0 {
			rawfork.Setsid()
			if pid, _ := rawfork.Fork(); pid == 0 {
				rawfork.Wait()
			}
			rawfork.Exit()
		}
	}
	rawfork.Exit()
}
