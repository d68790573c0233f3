package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/execd-project/execd/limits/group"
)

// The range of CPU weights (Limits.CPUWeight), and their default.
const (
	LeastWeight   = 1
	DefaultWeight = 100
	MostWeight    = 10000
)

// SetWeight changes the CPU weight of a group, from 1 to 10000. If the group has no directory in a
// hierarchy with CPU weights, the error is a *group.NotSupportedError: running processes cannot
// enter such a group later.
func (g *Group) SetWeight(weight uint64) error { return SetWeight(g.paths, weight) }

// SetWeight changes the CPU weight of a group of which only the paths are known. See
// Group.SetWeight.
func SetWeight(p *group.Paths, weight uint64) error {
	if weight < LeastWeight || weight > MostWeight {
		return fmt.Errorf("cannot give a group the weight %d: expected a number from %d to %d", weight, LeastWeight, MostWeight)
	}
	for _, dir := range p.Dirs {
		name, value := "cpu.shares", shares(weight)
		if dir == p.Unified {
			name, value = "cpu.weight", weight
		}
		path := filepath.Join(dir, name)
		// Without O_CREAT: with it the error for a missing file would be EACCES.
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("cannot change the weight of a group: %w", err)
		}
		_, err = fmt.Fprint(f, value)
		if err = errors.Join(err, f.Close()); err != nil {
			return fmt.Errorf("cannot give the group %q the weight %d: %w", dir, weight, err)
		}
		return nil
	}
	return &group.NotSupportedError{What: "weigh the CPUs of the group", Needs: "the controller cpu in the hierarchy of the group"}
}

// shares converts a weight into shares of v1. The conversion is linear, and the defaults, 100 and
// 1024, correspond.
func shares(weight uint64) uint64 { return max(weight*1024/DefaultWeight, 2) }
