package main_test

import (
	"fmt"
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// attack runs an attack of a malicious user. Its exit status is 0 if the attack succeeded.
func attack(args []string) int {
	if len(args) < 2 {
		return 2
	}
	pid, err := strconv.Atoi(args[1])
	if err != nil {
		return 2
	}
	switch args[0] {
	case "trace": // without stopping it: the test should come to its end
		_, _, errno := syscall.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0, 0, 0)
		err = nil
		if errno != 0 {
			err = errno
		}
	case "memory":
		_, err = os.ReadFile("/proc/" + args[1] + "/maps")
	case "descriptor":
		var fd int
		if fd, err = unix.PidfdOpen(pid, 0); err == nil {
			_, err = unix.PidfdGetfd(fd, 1, 0)
		}
	case "signal":
		err = unix.Kill(pid, unix.SIGTERM)
	default:
		return 2
	}
	if err != nil {
		fmt.Println(args[0], "refused:", err)
		return 1
	}
	return 0
}
