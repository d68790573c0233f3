package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// killAll ends every process but process 1 and this one.
func killAll() error {
	const patience = 30 * time.Second
	for deadline := time.Now().Add(patience); ; {
		left, err := processes()
		if err != nil || len(left) == 0 {
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("cannot end what a step has left behind: after %v there still is %q", patience, left)
		}
		// The kernel spares process 1 and the caller. Frozen groups of v1 do not
		// even die, and would need a hand.
		if err := unix.Kill(-1, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
			return fmt.Errorf("cannot end what a step has left behind: %w", err)
		}
		// Process 1 reaps them; nothing tells us of it.
		_, _ = unix.Poll(nil, 5)
	}
}

// processes lists the stat lines of all processes but process 1, this one and the
// kernel's own.
func processes() ([]string, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var left []string
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == 1 || pid == os.Getpid() {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue // it has ended
		}
		// After the name, which may hold anything: state, ppid, pgrp, session, tty,
		// tpgid, flags.
		_, rest, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
		fields := strings.Fields(rest)
		const kernelThread = 0x00200000 // PF_KTHREAD
		if flags, err := strconv.ParseUint(fields[6], 10, 32); err == nil && flags&kernelThread != 0 {
			continue
		}
		left = append(left, strings.TrimSpace(string(stat)))
	}
	return left, nil
}
