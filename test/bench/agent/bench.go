package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
)

// patience is the timeout for everything.
const patience = settle + while + 2*time.Minute

const host = "bench"

// queue is a queue with room for all measured jobs.
const queue = `qname all.q
hostlist bench
slots 2000
shell /bin/sh
load_thresholds NONE
`

// global has group IDs for that many concurrent jobs.
const global = `gid_range 60000-62000
`

// bench holds the common state of all measurements, and the agent of one of them.
type bench struct {
	dir, bin string
	owner    *user.User
	spool    string
	agent    *exec.Cmd
	client   *api.Client
	next     int    // number of the last job
	taken    uint64 // number of the last end that was read
}

// measure runs a measurement with its own agent, and ends its jobs afterwards.
func (b *bench) measure(ctx context.Context, m measurement) (text string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	b.taken = 0
	if b.spool, err = os.MkdirTemp(b.dir, "spool-"); err != nil {
		return "", err
	}
	if err := os.Chmod(b.spool, 0o755); err != nil {
		return "", err
	}
	tmp := filepath.Join(b.spool, "tmp")
	if err := errors.Join(os.Mkdir(tmp, 0o755), os.Chmod(tmp, os.ModeSticky|0o777)); err != nil {
		return "", err
	}
	for name, text := range map[string]string{"queues/all.q": queue + "tmpdir " + tmp + "\n", "conf/global": global} {
		path := filepath.Join(b.spool, "conf", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return "", err
		}
	}
	if err := b.start(ctx); err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.end()) }()
	return m.run(ctx, b)
}

// start starts an agent and waits until it accepts jobs.
func (b *bench) start(ctx context.Context) error {
	socket := filepath.Join(b.spool, "run", "agent.sock")
	log, err := os.OpenFile(filepath.Join(b.spool, "log"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	b.agent = exec.Command(filepath.Join(b.bin, "execd"), "agent", "--host", host, "--socket", socket, //nolint:noctx // it outlives a measurement that fails
		"--spool", filepath.Join(b.spool, "area"), "--conf", filepath.Join(b.spool, "conf"))
	b.agent.Stdout, b.agent.Stderr = log, log
	if err := b.agent.Start(); err != nil {
		return err
	}
	if b.client, err = api.Dial(api.Options{Socket: socket}); err != nil {
		return err
	}
	for {
		h, err := b.client.Health(ctx)
		if err != nil {
			return err
		}
		if h.Draining == "" {
			return nil
		}
		if err := pause(ctx, time.Millisecond); err != nil {
			return err
		}
	}
}

// kill kills the agent with SIGKILL.
func (b *bench) kill() error {
	if err := b.agent.Process.Kill(); err != nil {
		return err
	}
	_ = b.agent.Wait()
	return nil
}

// end ends all jobs, and stops the agent when they have finished.
func (b *bench) end() error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	jobs, err := b.client.Jobs(ctx)
	if err != nil {
		return errors.Join(err, b.kill())
	}
	live := 0
	for _, j := range jobs {
		if !j.State.Over() {
			live++
			if err := b.client.Signal(ctx, j.ID, api.Kill); err != nil {
				return errors.Join(err, b.kill())
			}
		}
	}
	if _, err := b.ends(ctx, live); err != nil {
		return errors.Join(err, b.kill())
	}
	if err := b.empty(ctx); err != nil {
		return errors.Join(err, b.kill())
	}
	if err := b.agent.Process.Signal(unix.SIGTERM); err != nil {
		return err
	}
	return b.agent.Wait()
}

// job returns the start of a command.
func (b *bench) job(output string, command ...string) api.Start {
	b.next++
	return api.Start{
		Job: b.next, Owner: b.owner.Username,
		Command: append([]string{"-b", "y", "-shell", "n", "-wd", "/", "-o", output, "-j", "y"}, command...),
		Grants:  []api.Grant{{Queue: "all.q", Host: host, Slots: 1}},
	}
}

// startAll starts n jobs of a command, in batches.
func (b *bench) startAll(ctx context.Context, n int, command ...string) error {
	const batch = 100
	for n > 0 {
		var starts []api.Start
		for range min(batch, n) {
			starts = append(starts, b.job("/dev/null", command...))
		}
		n -= len(starts)
		results, err := b.client.StartBatch(ctx, starts)
		if err != nil {
			return err
		}
		for _, r := range results {
			if r.Error != nil {
				return r.Error
			}
		}
	}
	return nil
}

// states waits until n jobs have been reported in one of some states.
func (b *bench) states(ctx context.Context, n int, states ...api.State) error {
	seen := map[api.ID]bool{}
	return b.follow(ctx, 0, func(r api.Report) bool {
		if r.Job != nil {
			for _, s := range states {
				if r.Job.State == s {
					seen[r.Job.ID] = true
				}
			}
		}
		return len(seen) >= n
	})
}

// ends reads and acknowledges the next ends of n jobs, and returns their exit statuses.
func (b *bench) ends(ctx context.Context, n int) (map[api.ID]int, error) {
	seen := map[api.ID]int{}
	if n == 0 {
		return seen, nil
	}
	err := b.follow(ctx, b.taken, func(r api.Report) bool {
		if r.Job != nil && r.Job.State.Over() {
			seen[r.Job.ID] = r.Job.Outcome.ExitStatus
			b.taken = r.Number
		}
		return len(seen) >= n
	})
	return seen, errors.Join(err, b.client.Acknowledge(ctx, b.taken))
}

var errEnough = errors.New("enough")

// follow reads reports until enough returns true.
func (b *bench) follow(ctx context.Context, after uint64, enough func(api.Report) bool) error {
	err := b.client.Reports(ctx, after, func(r api.Report) error {
		if enough(r) {
			return errEnough
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		return nil
	}
	return err
}

// usage is the resource usage of processes.
type usage struct {
	pss int64         // bytes
	cpu time.Duration // of running processes
}

func usageOf(pids ...int) (u usage, err error) {
	for _, pid := range pids {
		pss, e1 := pssOf(pid)
		cpu, e2 := cpuOf(pid)
		u.pss, u.cpu = u.pss+pss, u.cpu+cpu
		err = errors.Join(err, e1, e2)
	}
	return u, err
}

func pssOf(pid int) (int64, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/smaps_rollup")
	if err != nil {
		return 0, err
	}
	return number(string(b), "\nPss:")
}

// cpuOf returns the CPU time of a process, in nanoseconds and not in ticks.
func cpuOf(pid int) (time.Duration, error) {
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat")
	var sum time.Duration
	for _, t := range tasks {
		b, err := os.ReadFile(t)
		if err != nil {
			continue // the thread has exited
		}
		var ns int64
		if _, err := fmt.Sscan(string(b), &ns); err != nil {
			return 0, err
		}
		sum += time.Duration(ns)
	}
	return sum, err
}
