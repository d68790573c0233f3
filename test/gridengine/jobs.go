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

// Wait waits until each job of want has at least that many accounting records. A job that entered
// error state or was requeued also has a record, for the failed attempt. An array job has one for
// each task.
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

// JobStates returns the state letters of all jobs in qstat. The states of an array job's tasks in
// separate lines are joined by commas.
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
			continue // the header
		}
		if states[job] != "" {
			states[job] += ","
		}
		states[job] += f[4]
	}
	return states, nil
}

// QueueStates returns the state letters of the queue instances that have any, such as E for error,
// by the name of the cluster queue.
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

// JobPID returns the process ID of a running job's first process in the cell's namespace. It waits
// until the shepherd has written it.
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

// ProcessState returns the letter of proc_pid_stat(5) for a process with the given ID in the cell,
// or "" if there is none.
func (c *Cell) ProcessState(pid int) string {
	stat, err := os.ReadFile(c.Proc(pid) + "/stat")
	if err != nil {
		return ""
	}
	rest := string(stat[strings.LastIndexByte(string(stat), ')')+1:])
	return strings.Fields(rest)[0]
}

// Stopped reports whether a process is stopped, by a signal or with its control group.
func (c *Cell) Stopped(pid int) bool {
	text, err := os.ReadFile(c.Proc(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(rest, "T") || c.frozen(pid)
}

// frozen reports whether a process is in a frozen control group.
func (c *Cell) frozen(pid int) bool {
	for _, file := range []string{"cgroup.events", "freezer.state"} {
		text := c.groupFile(pid, "freezer", file)
		if strings.Contains(text, "frozen 1") || strings.HasPrefix(text, "FROZEN") {
			return true
		}
	}
	return false
}

// Weight returns the CPU weight of a process's control group (cpu.weight, cpu.shares). ok reports
// whether the group has a weight.
func (c *Cell) Weight(pid int) (weight int, ok bool) {
	for _, file := range []string{"cpu.weight", "cpu.shares"} {
		if n, err := strconv.Atoi(strings.TrimSpace(c.groupFile(pid, "cpu", file))); err == nil {
			return n, true
		}
	}
	return 0, false
}

// Nice returns the nice value of a process.
func (c *Cell) Nice(pid int) int {
	stat, _ := os.ReadFile(c.Proc(pid) + "/stat")
	_, rest, _ := strings.Cut(string(stat), ") ")
	const nice = 16 // after the name, from proc_pid_stat(5)
	if f := strings.Fields(rest); len(f) > nice {
		n, _ := strconv.Atoi(f[nice])
		return n
	}
	return 0
}

// groupFile returns the content of a file in a process's control group: in the v1 hierarchy with
// this controller, otherwise in the v2 hierarchy. It is empty if the process is only in the root
// group.
func (c *Cell) groupFile(pid int, controller, file string) string {
	groups, _ := os.ReadFile(c.Proc(pid) + "/cgroup")
	mounts, _ := os.ReadFile("/proc/mounts")
	for line := range strings.Lines(string(groups)) {
		group := strings.SplitN(strings.TrimSpace(line), ":", 3)
		for mount := range strings.Lines(string(mounts)) {
			f := strings.Fields(mount)
			if len(group) < 3 || len(f) < 4 || group[2] == "/" {
				continue
			}
			first := f[2] == "cgroup" && slices.Contains(strings.Split(group[1], ","), controller) && slices.Contains(strings.Split(f[3], ","), controller)
			if first || f[2] == "cgroup2" && group[1] == "" {
				if text, err := os.ReadFile(f[1] + group[2] + "/" + file); err == nil {
					return string(text)
				}
			}
		}
	}
	return ""
}
