package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/execd-project/execd/limits/group"
)

// The range of a weight (Limits.CPUWeight). A group that was given none has
// DefaultWeight.
const (
	LeastWeight   = 1
	DefaultWeight = 100
	MostWeight    = 10000
)

// SetWeight changes the share of the CPUs that a living group has against others, from 1
// to 10000. A group that is in no hierarchy in which CPUs are weighed is a
// *group.NotSupportedError: a group cannot be entered later by processes that are
// elsewhere already.
func (g *Group) SetWeight(weight uint64) error { return SetWeight(g.paths, weight) }

// SetWeight sets the weight of a group of which only the paths are known.
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
		// Without O_CREAT: the kernel would say EACCES for a file that is not there.
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

// shares returns a weight as v1 has it. The defaults, 100 and 1024, correspond, and it is
// linear.
func shares(weight uint64) uint64 { return max(weight*1024/DefaultWeight, 2) }
