package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
)

// latency starts jobs one after the other. Each writes to a pipe that this process reads.
func latency(ctx context.Context, b *bench) (string, error) {
	pipe := filepath.Join(b.dir, "pipe")
	if err := unix.Mkfifo(pipe, 0o666); err != nil {
		return "", err
	}
	defer os.Remove(pipe)
	if err := os.Chmod(pipe, 0o666); err != nil {
		return "", err
	}
	f, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	const runs = 100
	var times []time.Duration
	buffer := make([]byte, 16)
	for range runs {
		began := time.Now()
		if _, err := b.client.Start(ctx, b.job(pipe, "/bin/echo")); err != nil {
			return "", err
		}
		if _, err := f.Read(buffer); err != nil {
			return "", err
		}
		times = append(times, time.Since(began))
		if _, err := b.ends(ctx, 1); err != nil {
			return "", err
		}
	}
	slices.Sort(times)
	return fmt.Sprintf("median %v, 90 %% below %v", round(times[runs/2]), round(times[runs*9/10])), nil
}

func throughput(ctx context.Context, b *bench) (string, error) {
	const jobs, runs = 500, 3
	var best float64
	for range runs {
		took, err := b.many(ctx, jobs)
		if err != nil {
			return "", err
		}
		best = max(best, jobs/took.Seconds())
	}
	return fmt.Sprintf("%.0f/s (best of %d runs)", best, runs), nil
}

// many runs short jobs, and returns the time until the last end has arrived.
func (b *bench) many(ctx context.Context, jobs int) (time.Duration, error) {
	began := time.Now()
	running, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		if err := b.startAll(ctx, jobs, "/bin/true"); err != nil {
			cancel(err)
		}
	}()
	if _, err := b.ends(running, jobs); err != nil {
		return 0, errors.Join(err, context.Cause(running))
	}
	took := time.Since(began)
	return took, b.empty(ctx)
}

// empty waits until no job has any files or processes left.
func (b *bench) empty(ctx context.Context) error {
	for {
		jobs, err := b.client.Jobs(ctx)
		if err != nil || len(jobs) == 0 {
			return err
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// settle is the time before processes are measured, and while is the duration of the measurement.
// Both are long enough for every periodic activity: load is reported every 40 seconds, and
// supervisors measure their jobs every 2 minutes.
const (
	settle = time.Minute
	while  = 2 * time.Minute
)

func idle(ctx context.Context, b *bench) (string, error) {
	return watch(ctx, b.agent.Process.Pid)
}

func watch(ctx context.Context, pids ...int) (string, error) {
	// Supervisors measure new jobs frequently, and then at growing intervals.
	if err := pause(ctx, settle); err != nil {
		return "", err
	}
	before, err := usageOf(pids...)
	if err != nil {
		return "", err
	}
	if err := pause(ctx, while); err != nil {
		return "", err
	}
	after, err := usageOf(pids...)
	if err != nil {
		return "", err
	}
	share := float64(after.cpu-before.cpu) / float64(while) * 100
	return fmt.Sprintf("PSS %.1f MB, %.3f %% of a core", float64(after.pss)/1e6, share), nil
}

// sleeperJobs is a number of jobs that makes a report large.
const sleeperJobs = 200

// sleepers starts jobs that sleep, and returns the processes of their supervisors.
func (b *bench) sleepers(ctx context.Context, n int) ([]int, error) {
	if err := b.startAll(ctx, n, "/bin/sleep", "100000"); err != nil {
		return nil, err
	}
	if err := b.states(ctx, n, api.Running); err != nil {
		return nil, err
	}
	jobs, err := b.client.Jobs(ctx)
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, j := range jobs {
		pids = append(pids, j.PID)
	}
	return pids, nil
}

func sleeping(ctx context.Context, b *bench) (string, error) {
	pids, err := b.sleepers(ctx, sleeperJobs)
	if err != nil {
		return "", err
	}
	return watch(ctx, append(pids, b.agent.Process.Pid)...)
}

// reports requests full reports, one after the other.
func reports(ctx context.Context, b *bench) (string, error) {
	if _, err := b.sleepers(ctx, sleeperJobs); err != nil {
		return "", err
	}
	if err := pause(ctx, 2*time.Second); err != nil { // supervisors measure their jobs
		return "", err
	}
	var text []string
	for _, compressed := range []bool{false, true} {
		size, cost, err := b.reportCost(ctx, compressed)
		if err != nil {
			return "", err
		}
		how := "as they are"
		if compressed {
			how = "compressed"
		}
		text = append(text, fmt.Sprintf("%s %.1f KB, %v of processor time each", how, float64(size)/1e3, round(cost)))
	}
	return strings.Join(text, "; "), nil
}

// reportCost returns the size of a full report in bytes, and the CPU time that the agent needs for
// one.
func (b *bench) reportCost(ctx context.Context, compressed bool) (size int, cost time.Duration, err error) {
	const runs = 50
	before, err := cpuOf(b.agent.Process.Pid)
	if err != nil {
		return 0, 0, err
	}
	for range runs {
		if size, err = b.report(ctx, compressed); err != nil {
			return 0, 0, err
		}
	}
	after, err := cpuOf(b.agent.Process.Pid)
	return size, (after - before) / runs, err
}

func restart(ctx context.Context, b *bench) (string, error) {
	const jobs = 50
	gate := filepath.Join(b.dir, "gate")
	if err := unix.Mkfifo(gate, 0o666); err != nil {
		return "", err
	}
	defer os.Remove(gate)
	if err := os.Chmod(gate, 0o666); err != nil {
		return "", err
	}
	if err := b.startAll(ctx, jobs/2, "/bin/sh", "-c", "read x < "+gate+"; exit 7"); err != nil {
		return "", err
	}
	if err := b.startAll(ctx, jobs/2, "/bin/sleep", "100000"); err != nil {
		return "", err
	}
	if err := b.states(ctx, jobs, api.Running); err != nil {
		return "", err
	}
	before, err := b.client.Jobs(ctx)
	if err != nil {
		return "", err
	}
	if err := b.kill(); err != nil {
		return "", err
	}
	f, err := os.OpenFile(gate, os.O_RDWR, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	for range jobs / 2 {
		if _, err := f.WriteString("\n"); err != nil {
			return "", err
		}
	}
	for _, j := range before[:jobs/2] {
		for unix.Kill(j.PID, 0) == nil && !zombie(j.PID) {
			if err := pause(ctx, time.Millisecond); err != nil {
				return "", err
			}
		}
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return "", err
	}
	statuses, err := b.ends(ctx, jobs/2)
	took := time.Since(began)
	if err != nil {
		return "", err
	}
	for id, s := range statuses {
		if s != 7 {
			return "", fmt.Errorf("job %d ended with status %d, expected 7", id.Job, s)
		}
	}
	return fmt.Sprintf("all right after %v", round(took)), nil
}

// zombie reports whether a process has exited and was not waited for.
func zombie(pid int) bool {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && strings.Contains(string(b), ") Z ")
}

func recovery(ctx context.Context, b *bench) (string, error) {
	const jobs = 1000
	if _, err := b.sleepers(ctx, jobs); err != nil {
		return "", err
	}
	if err := b.kill(); err != nil {
		return "", err
	}
	began := time.Now()
	if err := b.start(ctx); err != nil {
		return "", err
	}
	if err := b.states(ctx, jobs, api.Running); err != nil {
		return "", err
	}
	return fmt.Sprintf("all are known after %v", round(time.Since(began))), nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func round(d time.Duration) time.Duration {
	if d > 100*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// number returns the first number after a word, in bytes. It converts a number in kB.
func number(text, word string) (int64, error) {
	_, rest, ok := strings.Cut(text, word)
	fields := strings.Fields(rest)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("there is no %q", strings.TrimSpace(word))
	}
	n, err := strconv.ParseInt(fields[0], 10, 64)
	if len(fields) > 1 && fields[1] == "kB" {
		n <<= 10
	}
	return n, err
}
