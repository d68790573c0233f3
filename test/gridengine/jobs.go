package gridengine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Submit runs qsub as a user, in the user's home, and returns the job number.
func (c *Cell) Submit(user string, args ...string) (int, error) {
	out, err := c.User(user, append([]string{"qsub", "-terse"}, args...)...)
	if err != nil {
		return 0, err
	}
	// "12", for an array "12.1-5:2"
	number, _, _ := strings.Cut(strings.TrimSpace(out), ".")
	job, err := strconv.Atoi(number)
	if err != nil {
		return 0, fmt.Errorf("cannot read the job number of qsub %s: %q", strings.Join(args, " "), out)
	}
	return job, nil
}

// Wait waits until each job of want has that many accounting records or more.
// A job that went into error state or was requeued has a record, too, for the
// attempt that ended so; an array has one for each task.
func (c *Cell) Wait(want map[int]int, deadline time.Duration) error {
	err := c.Poll(deadline, "jobs have their accounting records", func() (bool, error) {
		records, err := c.Records()
		if err != nil {
			return false, err
		}
		have := map[int]int{}
		for _, r := range records {
			have[r.Job()]++
		}
		var missing []string
		for _, job := range slices.Sorted(maps.Keys(want)) {
			if have[job] < want[job] {
				missing = append(missing, fmt.Sprintf("job %d has %d of %d", job, have[job], want[job]))
			}
		}
		const enough = 20
		if len(missing) > enough {
			missing = append(missing[:enough], fmt.Sprintf("and %d more", len(missing)-enough))
		}
		return len(missing) == 0, errors.New(strings.Join(missing, ", "))
	})
	if err != nil {
		stat, _ := c.Root("qstat", "-u", "*")
		return fmt.Errorf("%w\n%s", err, stat)
	}
	return nil
}

// JobStates returns the state letters of qstat for all jobs it lists. Tasks of
// one array that are listed apart are joined by a comma.
func (c *Cell) JobStates() (map[int]string, error) {
	out, err := c.Root("qstat", "-u", "*")
	if err != nil {
		return nil, err
	}
	states := map[int]string{}
	for line := range strings.Lines(out) {
		f := strings.Fields(line)
		if len(f) < 5 {
			continue
		}
		job, err := strconv.Atoi(f[0])
		if err != nil {
			continue // the heading
		}
		if states[job] != "" {
			states[job] += ","
		}
		states[job] += f[4]
	}
	return states, nil
}

// QueueStates returns the state letters of the queue instances that have any,
// such as E for error, by the name of the cluster queue.
func (c *Cell) QueueStates() (map[string]string, error) {
	out, err := c.Root("qstat", "-f")
	if err != nil {
		return nil, err
	}
	states := map[string]string{}
	for line := range strings.Lines(out) {
		// queuename  qtype  resv/used/tot.  load_avg  arch  states
		f := strings.Fields(line)
		if len(f) == 6 && strings.Contains(f[0], "@") {
			states[strings.SplitN(f[0], "@", 2)[0]] = f[5]
		}
	}
	return states, nil
}

// JobPID is the process id of a running job's first process as the cell knows
// it; it waits for the shepherd to write it.
func (c *Cell) JobPID(job, task int, deadline time.Duration) (int, error) {
	pid := 0
	err := c.Poll(deadline, fmt.Sprintf("job %d has a process", job), func() (bool, error) {
		text, err := os.ReadFile(filepath.Join(c.ActiveDir(job, task), "job_pid"))
		if err != nil {
			return false, err
		}
		pid, err = strconv.Atoi(strings.TrimSpace(string(text)))
		return err == nil && pid > 0, err
	})
	return pid, err
}

// ProcessState is the letter of proc_pid_stat(5) for a process that the cell
// knows as pid, or "" when there is none.
func (c *Cell) ProcessState(pid int) string {
	stat, err := os.ReadFile(c.Proc(pid) + "/stat")
	if err != nil {
		return ""
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return strings.Fields(rest)[0]
}
