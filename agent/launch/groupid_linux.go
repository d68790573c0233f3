package launch

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// groupIDs assigns additional group IDs from gid_range (sge_conf(5)) that are used neither by a job
// of this process, from its preparation to its end, nor by any process of this host. So a process
// with the ID of a job belongs to that job.
//
// It finds the used IDs in /proc, which takes time in proportion to the number of processes. An ID
// that was free there and has not been assigned since is still free, except for uses by execd run,
// which searches itself and does not need a unique ID.
type groupIDs struct {
	mu     sync.Mutex
	ranges []qconf.Range
	free   []int // not in use when it was looked, and not given out since
	looked time.Time
	held   map[string]int // by the path of the job directory
}

// jobGroupIDs are the IDs of the jobs of this process.
var jobGroupIDs groupIDs

// ErrNoGroupID is returned if no additional group ID is free for a job. A later attempt may succeed,
// when other jobs have finished.
var ErrNoGroupID = errors.New("IDs of gid_range are in use by processes of this host")

// groupIDsAge is the time after which the IDs in use are read from /proc again.
const groupIDsAge = time.Minute

// take assigns an ID to a job. It returns 0 if there is no range: the shepherd then identifies the
// processes of the job by their ancestry only.
func (g *groupIDs) take(ranges []qconf.Range, j *Job) (int, error) {
	size := 0
	for _, r := range ranges {
		size += r.Last - r.First + 1
	}
	if size == 0 {
		return 0, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.free) == 0 || !slices.Equal(ranges, g.ranges) || time.Since(g.looked) > groupIDsAge {
		if err := g.look(ranges, size, j.Description.ID); err != nil {
			return 0, err
		}
	}
	if len(g.free) == 0 {
		return 0, fmt.Errorf("all %d %w", size, ErrNoGroupID)
	}
	gid := g.free[0]
	g.hold(gid, j)
	return gid, nil
}

// look finds the ids that are free.
func (g *groupIDs) look(ranges []qconf.Range, size int, id job.ID) error {
	used, err := groupsInUse()
	if err != nil {
		return err
	}
	for _, gid := range g.held {
		used[gid] = true
	}
	g.free, g.ranges, g.looked = nil, slices.Clone(ranges), time.Now()
	// The search begins at an ID that depends on the job number, so that jobs which other processes
	// start at the same time get different IDs.
	for i := range size {
		if gid := nth(ranges, (id.Job+id.TaskDir()+i)%size); !used[gid] {
			g.free = append(g.free, gid)
		}
	}
	return nil
}

// hold notes whose an id is.
func (g *groupIDs) hold(gid int, j *Job) {
	if g.held == nil {
		g.held = map[string]int{}
	}
	g.held[j.Dir.Path()] = gid
	g.free = slices.DeleteFunc(g.free, func(n int) bool { return n == gid })
}

// keep registers the ID of a job that was opened.
func (g *groupIDs) keep(j *Job) {
	if j.Description.AddGroupID == 0 {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.hold(j.Description.AddGroupID, j)
}

// giveBack releases the ID of a finished job. The ID is given out again once no process has it.
func (g *groupIDs) giveBack(j *Job) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.held, j.Dir.Path())
}

// FreeGroupIDs returns the number of IDs in gid_range, and the number of those that no process of
// this host uses.
func FreeGroupIDs(ranges []qconf.Range) (total, free int, err error) {
	used, err := groupsInUse()
	if err != nil {
		return 0, 0, err
	}
	for _, r := range ranges {
		for gid := r.First; gid <= r.Last; gid++ {
			total++
			if !used[gid] {
				free++
			}
		}
	}
	return total, free, nil
}

func nth(ranges []qconf.Range, n int) int {
	for _, r := range ranges {
		if size := r.Last - r.First + 1; n >= size {
			n -= size
		} else {
			return r.First + n
		}
	}
	return 0
}

// groupsInUse returns the supplementary groups of all processes.
func groupsInUse() (map[int]bool, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	used := map[int]bool{}
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err != nil {
			continue
		}
		b, err := os.ReadFile("/proc/" + e.Name() + "/status")
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := bytes.Cut(b, []byte("\nGroups:"))
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		for f := range bytes.FieldsSeq(line) {
			if gid, err := strconv.Atoi(string(f)); err == nil {
				used[gid] = true
			}
		}
	}
	return used, nil
}
