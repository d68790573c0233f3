package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// MemoryBound returns the lowest memory limit, in bytes, of the control groups that contain this
// process, such as the group of a container. It is math.MaxUint64 if there is no limit.
func MemoryBound() uint64 {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return math.MaxUint64
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return math.MaxUint64
	}
	return lowestMemory(survey(string(mountinfo), string(self)))
}

// lowestMemory reads the limits of this process's groups and of the groups above them. The root of
// a hierarchy has no limit, but in a container the mounted root is the container's group.
func lowestMemory(list []Hierarchy) uint64 {
	lowest := uint64(math.MaxUint64)
	for _, h := range list {
		file := "memory.limit_in_bytes"
		if h.Unified {
			file = "memory.max"
		}
		for dir := h.Own; dir != "" && strings.HasPrefix(dir, h.Mount); dir = filepath.Dir(dir) {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				continue // another controller, or no limit is possible in this directory
			}
			if v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64); err == nil {
				lowest = min(lowest, v)
			}
		}
	}
	return lowest
}
