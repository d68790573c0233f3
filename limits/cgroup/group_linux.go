package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/limits/group"
)

// Group is the group of a job: one directory in each hierarchy that it needs.
type Group struct {
	name, within string
	system       *System
	used         []int // indices of System.Hierarchies
	paths        *group.Paths
	unmet        []*group.NotSupportedError
}

// Name returns the name of the group.
func (g *Group) Name() string { return g.name }

// Paths returns the paths that the supervisor of the job needs: write their Format into a file of
// the job directory.
func (g *Group) Paths() *group.Paths { return g.paths }

// Unmet returns the limits that the group does not enforce because the host lacks the feature.
func (g *Group) Unmet() []*group.NotSupportedError { return g.unmet }

// dir returns the directory of the group in a hierarchy.
func (g *Group) dir(i int) string {
	return filepath.Join(g.system.Hierarchies[i].Parent, g.within, g.name)
}

// in returns the directory of the group in the hierarchy of a feature; empty if the group has none
// there.
func (g *Group) in(f Feature) string {
	p := g.system.files[f]
	if p.err != nil || !slices.Contains(g.used, p.hierarchy) {
		return ""
	}
	return g.dir(p.hierarchy)
}

// owners maps each file to the feature that provides it.
var owners = [group.NumFiles]Feature{
	group.CPUStat:             CPUTime,
	group.CPUAcctUsage:        CPUTime,
	group.MemoryCurrent:       MemoryLimit,
	group.MemorySwapCurrent:   MemoryLimit,
	group.MemoryStat:          MemoryLimit,
	group.MemoryEvents:        MemoryLimit,
	group.MemorySwapEvents:    MemoryLimit,
	group.MemoryUsage:         MemoryLimit,
	group.MemoryMemswUsage:    MemoryLimit,
	group.MemoryMaxUsage:      MemoryLimit,
	group.MemoryMemswMaxUsage: MemoryLimit,
	group.MemoryFailcnt:       MemoryLimit,
	group.MemoryMemswFailcnt:  MemoryLimit,
	group.MemoryOOMControl:    MemoryLimit,
	group.CgroupEventControl:  MemoryLimit,
	group.CgroupEvents:        Emptied,
	group.CgroupKill:          Kill,
	group.CgroupFreeze:        Freeze,
	group.FreezerState:        Freeze,
	group.PidsMax:             PidsLimit,
	group.PidsEvents:          PidsLimit,
	group.MemoryHigh:          MemoryLimit,
	group.IOPressure:          Emptied, // every v2 group has it, too
}

// findPaths returns the paths of the files that exist, for the supervisor.
func (g *Group) findPaths(l *Limits) *group.Paths {
	p := &group.Paths{}
	for _, i := range g.used {
		p.Dirs = append(p.Dirs, g.dir(i))
		if g.system.Hierarchies[i].Unified {
			p.Unified = g.dir(i)
		}
	}
	for f, feature := range owners {
		dir := g.in(feature)
		unified := g.system.v2(feature)
		if dir == "" || !belongs(group.File(f), unified) {
			continue
		}
		path := filepath.Join(dir, group.File(f).String())
		var there bool
		if unified {
			there = g.system.core.find(group.File(f), path)
		} else {
			there = exists(path)
		}
		if there {
			p.File[f] = path
		}
	}
	if g.in(MemoryLimit) != "" {
		p.RSSLimit = l.RSS
	}
	switch {
	case g.in(SwapLimit) != "", g.in(MemoryLimit) != "" && (l.RSS == 0 || l.RSS >= l.Vmem):
		p.VmemLimit = l.Vmem
	}
	return p
}

// belongs reports whether a file belongs to that version. The same name can have another meaning:
// cpu.stat of v1 has no CPU time.
func belongs(f group.File, unified bool) bool {
	switch f {
	case group.MemoryStat, group.PidsMax, group.PidsEvents:
		return true
	}
	return f.V1() != unified
}

// Remove kills all processes in the group, waits until they have exited, and removes the group with
// all groups below it. After patience it returns a *group.BusyError, which names the remaining
// processes; the caller may try again. It is no error if the group does not exist.
func (g *Group) Remove(patience time.Duration) error { return RemovePaths(g.paths, patience) }

// RemoveEmpty removes a group without processes, the usual state after a supervisor that has
// finished, and reports whether the group was removed. It refuses a group with several directories of
// which none is a v2 group: use RemovePaths, which needs all of its files.
//
// The v2 group goes first. All processes of the job are in it, and the kernel does not remove it while
// there are any: then RemovePaths finds all that it needs to kill them at once.
func RemoveEmpty(p *group.Paths) bool {
	first := p.Unified
	switch {
	case len(p.Dirs) == 1:
		first = p.Dirs[0]
	case len(p.Dirs) == 0 || first == "":
		return false
	}
	if !rmdir(first) {
		return false
	}
	for _, dir := range p.Dirs {
		if dir != first && !rmdir(dir) {
			return false
		}
	}
	return true
}

// rmdir removes a directory, and reports whether it does not exist any more.
func rmdir(dir string) bool {
	err := unix.Rmdir(dir)
	return err == nil || errors.Is(err, unix.ENOENT)
}

// RemovePaths does what Remove does, for a group of which only the paths are known, because the
// process that created it has exited.
func RemovePaths(p *group.Paths, patience time.Duration) error {
	if RemoveEmpty(p) {
		return nil
	}
	deadline := time.Now().Add(patience)
	open, err := group.Open(p)
	switch {
	case err == nil && len(p.Dirs) > 0:
		err = open.Kill(patience)
		open.Close()
		if err != nil {
			return err
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	const shortest, longest = time.Millisecond, 50 * time.Millisecond
	for wait := shortest; ; wait = min(2*wait, longest) {
		err := removeDirs(p.Dirs)
		if err == nil {
			return nil
		}
		if time.Until(deadline) < wait {
			return fmt.Errorf("cannot remove the group %q: %w", p.Dirs[0], err)
		}
		// Kill lists the processes of one directory. A process that is only in another directory
		// was entering the group when the supervisor was killed.
		for _, dir := range p.Dirs {
			killIn(dir)
		}
		// EBUSY: the kernel has not finished with exited processes, or a group was created in the
		// meantime.
		time.Sleep(wait)
	}
}

// killIn kills the processes in one directory of a group.
func killIn(dir string) {
	g, err := group.Open(&group.Paths{Dirs: []string{dir}})
	if err != nil {
		return
	}
	defer g.Close()
	_ = g.KillOnce() // removing the directory shows whether this worked
}

// dirs returns the directories of the group.
func (g *Group) dirs() []string {
	var list []string
	for _, i := range g.used {
		list = append(list, g.dir(i))
	}
	return list
}

// removeDirs removes the empty directories of a group.
func removeDirs(dirs []string) error {
	var errs []error
	for _, dir := range dirs {
		if err := removeTree(dir); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// removeTree removes a group and the groups in it. Only rmdir(2) removes groups: their files cannot
// be unlinked, which os.RemoveAll would try.
func removeTree(dir string) error {
	err := os.Remove(dir)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	entries, readErr := os.ReadDir(dir)
	if readErr != nil {
		return err
	}
	nested := false
	for _, e := range entries {
		if e.IsDir() {
			nested = true
			if err := removeTree(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if !nested {
		return err
	}
	if err = os.Remove(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
