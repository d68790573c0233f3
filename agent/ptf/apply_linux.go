package ptf

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/limits/group"
)

// Target locates the processes of a job: by its control group, or otherwise by its additional group
// ID, which no process of the job can drop and no other job has.
type Target struct {
	Group   *group.Paths // nil for a job without one
	GroupID int          // 0 for a job without one
}

// Result is the result of applying a priority.
type Result struct {
	// Weighted says that the control group has got the weight. The nice values of its
	// processes are left as they are: within a group they only tell its own processes apart.
	Weighted bool
	// Processes is the number of processes that have the nice value now.
	Processes int
	// Err is the first error of a job. A job that has just ended is not an error.
	Err error
}

// Apply sets the priorities of jobs: priorities[i] belongs to targets[i]. It does not write
// unchanged values again, so that it may be called as often as priorities are computed.
func Apply(targets []Target, priorities []Priority) []Result {
	results := make([]Result, len(targets))
	byID := map[int]int{} // the target of an additional group id
	for i := range min(len(targets), len(priorities)) {
		t, r := &targets[i], &results[i]
		if t.Group != nil {
			if r.Weighted, r.Err = weigh(t.Group, priorities[i].Weight); r.Weighted || r.Err != nil {
				continue
			}
			if pids, err := members(t.Group); err == nil {
				r.Processes, r.Err = renice(pids, priorities[i].Nice)
				continue
			}
		}
		if t.GroupID > 0 {
			byID[t.GroupID] = i
		}
	}
	if len(byID) == 0 {
		return results
	}
	for i, pids := range processesOf(byID) {
		results[i].Processes, results[i].Err = renice(pids, priorities[i].Nice)
	}
	return results
}

// weigh gives a group a weight. It is false for a group that weighs nothing.
func weigh(p *group.Paths, weight uint64) (bool, error) {
	err := cgroup.SetWeight(p, weight)
	var missing *group.NotSupportedError
	if errors.As(err, &missing) || errors.Is(err, unix.ENODEV) {
		return false, nil
	}
	return err == nil, err
}

func members(p *group.Paths) ([]int, error) {
	g, err := group.Open(p)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return g.PIDs()
}

// processesOf finds the processes that have any of some group ids, in one pass, by target.
func processesOf(byID map[int]int) map[int][]int {
	found := map[int][]int{}
	for _, pid := range numbers("/proc") {
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(status, []byte("\nGroups:"))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		for word := range bytes.FieldsSeq(line) {
			gid, err := strconv.Atoi(string(word))
			if i, ok := byID[gid]; ok && err == nil {
				found[i] = append(found[i], pid)
				break
			}
		}
	}
	return found
}

// numbers returns the names in a directory that are numbers, in order.
func numbers(dir string) (list []int) {
	d, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n > 0 {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// renice sets the nice value of processes and all their threads: on Linux each thread has its own,
// and setpriority(2) changes only the one of the first thread. It repeats until it finds no new
// thread, because threads inherit the nice value of their creator.
func renice(pids []int, nice int) (done int, err error) {
	const rounds = 5
	for _, pid := range pids {
		dir := "/proc/" + strconv.Itoa(pid) + "/task"
		found, failed := false, false
		for range rounds {
			changed := false
			for _, tid := range numbers(dir) {
				was, getErr := unix.Getpriority(unix.PRIO_PROCESS, tid)
				if getErr != nil {
					continue
				}
				// The system call returns 20 - nice, so that it is never negative.
				if found = true; 20-was == nice {
					continue
				}
				setErr := unix.Setpriority(unix.PRIO_PROCESS, tid, nice)
				switch {
				case setErr == nil:
					changed = true
				case errors.Is(setErr, unix.ESRCH):
				default:
					failed = true
					if err == nil {
						err = fmt.Errorf("cannot give process %d the nice value %d: %w", pid, nice, setErr)
					}
				}
			}
			if !changed {
				break
			}
		}
		if found && !failed {
			done++
		}
	}
	return done, err
}
