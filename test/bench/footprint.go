package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// deadline is the timeout for everything.
const deadline = time.Minute

// measureFootprint runs n jobs that sleep and measures their shepherds for a time, which begins a
// while after the last job has started.
func measureFootprint(ctx context.Context, r *report, m *maker, s shepherd, c command, n int, settle, idle time.Duration) (err error) {
	jobs := make(map[int]*madeJob, n)
	defer func() { err = errors.Join(err, endAll(jobs)) }()
	for range n {
		j, err := m.make(c)
		if err != nil {
			return err
		}
		pid, err := s.start(j)
		if err != nil {
			return errors.Join(err, j.remove())
		}
		jobs[pid] = j
	}
	for pid := range jobs {
		if err := waitForJob(ctx, pid); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	// After the start of its job, a shepherd is busy only for a short time. Measure after that.
	if err := pause(ctx, settle); err != nil {
		return err
	}
	before, err := sumOf(jobs)
	if err != nil {
		return err
	}
	if err := pause(ctx, idle); err != nil {
		return err
	}
	after, err := sumOf(jobs)
	if err != nil {
		return err
	}
	r.footprint(s.name, n, idle, before, after)
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

// waitForJob waits until a shepherd has a child that executes sleep.
func waitForJob(ctx context.Context, pid int) error {
	for end := time.Now().Add(deadline); time.Now().Before(end); {
		tasks, err := filepath.Glob(proc(pid, "task/*/children"))
		if err != nil {
			return err
		}
		for _, t := range tasks {
			b, err := os.ReadFile(t)
			if err != nil {
				continue // the thread has exited
			}
			for child := range strings.FieldsSeq(string(b)) {
				if comm, _ := os.ReadFile("/proc/" + child + "/comm"); string(comm) == "sleep\n" {
					return nil
				}
			}
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return fmt.Errorf("process %d has not started its job within %v", pid, deadline)
}

// endAll ends the jobs in the same way as a daemon, and waits for their shepherds.
func endAll(jobs map[int]*madeJob) error {
	var errs []error
	for pid := range jobs {
		errs = append(errs, syscall.Kill(pid, unix.SIGTSTP))
	}
	end := time.Now().Add(deadline)
	for pid, j := range jobs {
		for {
			got, err := syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			if got == pid || (err != nil && !errors.Is(err, syscall.EINTR)) {
				errs = append(errs, err, j.remove())
				break
			}
			if time.Now().After(end) {
				errs = append(errs, fmt.Errorf("process %d does not end its job", pid), syscall.Kill(pid, unix.SIGKILL))
				break
			}
			_ = pause(context.Background(), 5*time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

// footprint is the resource usage of a number of processes.
type footprint struct {
	pss, privateDirty, rss int64 // bytes
	threads                int64
	ticks                  int64         // user and system time
	cpu                    time.Duration // the same in nanoseconds
	switches               int64         // of context, voluntary or not
}

func sumOf(jobs map[int]*madeJob) (footprint, error) {
	var f footprint
	for pid := range jobs {
		if err := f.add(pid); err != nil {
			return f, err
		}
	}
	return f, nil
}

func (f *footprint) add(pid int) error {
	rollup, err := os.ReadFile(proc(pid, "smaps_rollup"))
	if err != nil {
		return err
	}
	f.pss += kib(rollup, "Pss:")
	f.privateDirty += kib(rollup, "Private_Dirty:")
	f.rss += kib(rollup, "Rss:")
	stat, err := os.ReadFile(proc(pid, "stat"))
	if err != nil {
		return err
	}
	const userTime, systemTime = 11, 12 // proc(5), fields after the name
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	f.ticks += number(fields[userTime]) + number(fields[systemTime])
	tasks, err := filepath.Glob(proc(pid, "task/*"))
	if err != nil {
		return err
	}
	for _, t := range tasks {
		status, err := os.ReadFile(t + "/status")
		if err != nil {
			return err
		}
		f.threads++
		f.switches += value(status, "voluntary_ctxt_switches:") + value(status, "nonvoluntary_ctxt_switches:")
		if b, err := os.ReadFile(t + "/schedstat"); err == nil { // if the kernel has it
			ns, _, _ := strings.Cut(string(b), " ")
			f.cpu += time.Duration(number(ns))
		}
	}
	return nil
}

func proc(pid int, file string) string { return "/proc/" + strconv.Itoa(pid) + "/" + file }

func kib(text []byte, key string) int64 { return value(text, key) << 10 }

// value returns the number after a key at the beginning of a line.
func value(text []byte, key string) int64 {
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key); ok {
			return number(strings.Fields(rest)[0])
		}
	}
	return 0
}

func number(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
