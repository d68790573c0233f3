package differential

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The functions here are the steps of act functions: actions on a job while it runs, and events to
// wait for before the next step.

type step func(job int) error

func (d *driver) steps(job int, steps ...step) error {
	for i, s := range steps {
		if err := s(job); err != nil {
			return fmt.Errorf("job %d, step %d: %w", job, i+1, err)
		}
	}
	return nil
}

// ready waits until the job has printed READY and the master knows that it runs: an order for a job
// in transfer may never reach it.
func (d *driver) ready(job int) error {
	return d.await(phaseDeadline, "the job is ready", func() (bool, error) {
		if _, err := os.Stat(d.flagPath(job, "ready")); err != nil {
			return false, err
		}
		state, err := d.stateOf(job)
		return strings.Contains(state, "r"), fmt.Errorf("state %q, %w", state, err)
	})
}

// stateOf asks qstat, at most a few times a second for all jobs together.
func (d *driver) stateOf(job int) (string, error) {
	d.statesMu.Lock()
	defer d.statesMu.Unlock()
	if time.Since(d.statesAt) > 300*time.Millisecond {
		states, err := d.cell.JobStates()
		if err != nil {
			return "", err
		}
		d.states, d.statesAt = states, time.Now()
	}
	return d.states[job], nil
}

// let lets the job go on from AWAIT, in this run and in later ones.
func (d *driver) let(job int) error {
	err := d.await(stepDeadline, "the job waits", func() (bool, error) {
		// Without a reader this fails.
		pipe, err := os.OpenFile(d.flagPath(job, "fifo"), os.O_WRONLY|syscall.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		_, err = pipe.WriteString("go\n")
		return err == nil, errors.Join(err, pipe.Close())
	})
	return errors.Join(err, d.mayGo(job))
}

// mayGo releases every process that checks for the file from now on.
func (d *driver) mayGo(job int) error { return os.WriteFile(d.flagPath(job, "go"), nil, 0o644) }

// usageOfMemory matches the output of qstat -j for a job with at least 50 MiB of memory and some
// CPU time.
var usageOfMemory = regexp.MustCompile(`usage +1: .*\bmem=(?:0\.0[1-9]|0\.[1-9]|[1-9]).*[ ,]maxvmem=(?:[5-9]\d|[1-9]\d\d)\.\d+M`)

// memoryCounted waits until execd has counted memory of the job.
func (d *driver) memoryCounted(job int) error {
	return d.await(phaseDeadline, "execd has counted memory of the job", func() (bool, error) {
		text, err := d.cell.Root("qstat", "-j", strconv.Itoa(job))
		_, usage, _ := strings.Cut(text, "\nusage")
		usage, _, _ = strings.Cut(usage, "\n")
		return usageOfMemory.MatchString(text), errors.Join(err, fmt.Errorf("usage %q", usage))
	})
}

func (d *driver) qdel(job int) error {
	_, err := d.cell.User("alice", "qdel", strconv.Itoa(job))
	return err
}

func (d *driver) qdelTask(task int) step {
	return func(job int) error {
		_, err := d.cell.User("alice", "qdel", fmt.Sprintf("%d.%d", job, task))
		return err
	}
}

func (d *driver) qmod(option string) step {
	return func(job int) error {
		_, err := d.cell.Root("qmod", option, strconv.Itoa(job))
		return err
	}
}

func (d *driver) qmodQueue(option string) step {
	return func(job int) error {
		_, err := d.cell.Root("qmod", option, d.slugOf(job)+".q")
		return err
	}
}

func (d *driver) slugOf(job int) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.byJob[job]
}

// stopped waits until the job's first process is stopped.
func (d *driver) stopped(job int) error { return d.awaitStop(job, "stopped", true) }

// continued waits until it is no longer stopped.
func (d *driver) continued(job int) error { return d.awaitStop(job, "continued", false) }

func (d *driver) awaitStop(job int, name string, stopped bool) error {
	pid, err := d.jobPID(job)
	if err != nil {
		return err
	}
	return d.processIs(job, pid, name, stopped)
}

func (d *driver) processIs(job, pid int, name string, stopped bool) error {
	err := d.await(stepDeadline, "the job's process is "+name, func() (bool, error) {
		state := d.cell.ProcessState(pid)
		return state != "" && d.cell.Stopped(pid) == stopped, fmt.Errorf("state %q", state)
	})
	d.note(job, name, fmt.Sprint(err == nil))
	return nil
}

// child returns the process ID of a child, which the job has written to a file.
func (d *driver) child(job int) (int, error) {
	pid := 0
	err := d.await(phaseDeadline, "the job tells of its child", func() (bool, error) {
		text, err := os.ReadFile(d.flagPath(job, "child"))
		if err != nil {
			return false, err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil, err
	})
	return pid, err
}

func (d *driver) childStopped(job int) error {
	pid, err := d.child(job)
	if err != nil {
		return err
	}
	return d.processIs(job, pid, "child stopped", true)
}

// awaitEnd waits for the job's first accounting record.
func (d *driver) awaitEnd(job int) error {
	return d.awaitRecords(map[int]int{job: 1})
}

// endedOrHelped waits for the end of a job that was notified of its deletion. The master repeats
// its order, and each repetition delays the kill of the original shepherd, on a busy machine
// forever. In that case the test kills the job.
func (d *driver) endedOrHelped(job int) error {
	pid, err := d.jobPID(job)
	if err != nil {
		return err
	}
	const patience = 15 * time.Second
	asked := time.Now()
	return d.await(phaseDeadline, "the job has ended", func() (bool, error) {
		if d.original && time.Since(asked) > patience {
			asked = time.Now()
			_ = d.cell.Kill(pid, syscall.SIGKILL)
		}
		return d.cell.ProcessState(pid) == "", nil
	})
}

// childIsGone records whether a child is alive when the job is reported as finished.
func (d *driver) childIsGone(job int) error {
	pid, err := d.child(job)
	if err != nil {
		return err
	}
	if err := d.awaitEnd(job); err != nil {
		return err
	}
	state := d.cell.ProcessState(pid)
	d.note(job, "child after the job's end", fmt.Sprintf("alive: %v", state != "" && state != "Z"))
	return nil
}

// childStays does what childIsGone does, for a child that is known to survive, and kills it.
func (d *driver) childStays(job int) error {
	if err := d.childIsGone(job); err != nil {
		return err
	}
	pid, err := d.child(job)
	if err != nil {
		return err
	}
	_ = d.cell.Kill(pid, 9) // the child has exited if the results differ
	return nil
}

// hold prevents another start of the job.
func (d *driver) hold(job int) error {
	_, err := d.cell.User("alice", "qhold", strconv.Itoa(job))
	return err
}

func (d *driver) release(job int) error {
	_, err := d.cell.User("alice", "qrls", strconv.Itoa(job))
	return err
}

// forgotten waits until sge_execd has removed the job's directory.
func (d *driver) forgotten(job int) error {
	return d.await(stepDeadline, "execd has forgotten the job", func() (bool, error) {
		_, err := os.Stat(d.cell.ActiveDir(job, 0))
		return errors.Is(err, os.ErrNotExist), err
	})
}

// signalled waits until sge_execd logs that it signals the job's shepherd for the nth time. The log
// line precedes the signal, so wait for two to be sure that the shepherd has received one: the
// master repeats a kill after some seconds.
//
// The agent records an order before it acknowledges it, and then executes it.
func (d *driver) signalled(name string, times int) step {
	return func(job int) error {
		if d.agent {
			text := fmt.Sprintf("job=%d state=ending", job)
			return d.await(stepDeadline, "the agent logs "+text, func() (bool, error) {
				return strings.Contains(d.execdLog(), text), nil
			})
		}
		text := fmt.Sprintf("SIGNAL jid: %d jatask: 1 signal: %s", job, name)
		return d.await(stepDeadline, "execd logs "+text, func() (bool, error) {
			return strings.Count(d.execdLog(), text) >= times, nil
		})
	}
}

// printed waits until the job has written a line to its standard output.
func (d *driver) printed(line string) step {
	return func(job int) error {
		pattern := d.cell.Path("/home/alice/*.o" + strconv.Itoa(job))
		return d.await(stepDeadline, "the job prints "+line, func() (bool, error) {
			names, _ := filepath.Glob(pattern)
			for _, name := range names {
				if text, err := os.ReadFile(name); err == nil && strings.Contains("\n"+string(text), "\n"+line+"\n") {
					return true, nil
				}
			}
			return false, fmt.Errorf("not in %v", names)
		})
	}
}
