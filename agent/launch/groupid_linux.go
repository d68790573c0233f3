package launch

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// freeGroupID returns an additional group id of gid_range (sge_conf(5)) that no
// process of this host has. 0 where there is no range: the job is then told
// from others by its ancestry alone, which suffices the shepherd.
func freeGroupID(ranges []qconf.Range, id job.ID) (int, error) {
	size := 0
	for _, r := range ranges {
		size += r.Last - r.First + 1
	}
	if size == 0 {
		return 0, nil
	}
	used, err := groupsInUse()
	if err != nil {
		return 0, err
	}
	// Neighbouring jobs begin at neighbouring ids, so that those of jobs which
	// start at the same time differ.
	for i := range size {
		gid := nth(ranges, (id.Job+id.TaskDir()+i)%size)
		if !used[gid] {
			return gid, nil
		}
	}
	return 0, fmt.Errorf("all %d ids of gid_range are in use by processes of this host", size)
}

// FreeGroupIDs counts the ids of gid_range, and those of them that no process of
// this host has.
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

// groupsInUse are the supplementary groups of all processes.
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
