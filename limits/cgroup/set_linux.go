package cgroup

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/cgroups/v3/cgroup1"
	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"

	"github.com/execd-project/execd/limits/group"
)

// set writes the limits for which the host has the features. It must not try the others: the
// library opens files with O_CREAT, which fails with EACCES for a missing file, an error that hides
// the cause.
func (g *Group) set(l *Limits) error {
	for _, i := range g.used {
		if h := &g.system.Hierarchies[i]; h.Unified {
			r := g.resources2(l)
			if len(r.EnabledControllers()) == 0 && len(r.Devices) == 0 {
				continue // the library would open the groups above without writing anything
			}
			if _, err := cgroup2.NewManager(h.Mount, g.relative(i), r); err != nil {
				return err
			}
		}
	}
	if dir, ok := g.onlyPids(); ok {
		if l.Pids == 0 {
			return nil
		}
		return writeFile(filepath.Join(dir, group.PidsMax.String()), strconv.FormatInt(clamp(l.Pids), 10))
	}
	subsystems, path := g.subsystems()
	if len(subsystems) == 0 {
		return nil
	}
	hierarchy := func() ([]cgroup1.Subsystem, error) { return subsystems, nil }
	_, err := cgroup1.New(path, g.resources1(l), cgroup1.WithHierarchy(hierarchy))
	return err
}

// onlyPids returns the directory of the group in the v1 hierarchy of pids, if it has no other one of v1.
// That is how most jobs are limited on a host with v1. The library would look for the mounts first, and make
// the directory again.
func (g *Group) onlyPids() (dir string, ok bool) {
	for _, i := range g.used {
		h := &g.system.Hierarchies[i]
		switch {
		case h.Unified:
		case dir == "" && len(h.Controllers) == 1 && h.Controllers[0] == "pids":
			dir = g.dir(i)
		default:
			return "", false
		}
	}
	return dir, dir != ""
}

// relative returns the path of the group relative to the mount.
func (g *Group) relative(i int) string {
	h := &g.system.Hierarchies[i]
	return "/" + strings.TrimPrefix(strings.TrimPrefix(g.dir(i), h.Mount), "/")
}

// resources2 returns the limits that v2 enforces.
func (g *Group) resources2(l *Limits) *cgroup2.Resources {
	r := &cgroup2.Resources{}
	if g.system.v2(MemoryLimit) {
		r.Memory = &cgroup2.Memory{}
		if g.system.v2(OOMGroup) {
			all := true
			r.Memory.OOMGroup = &all
		}
		if most := clamp(l.ram()); most > 0 {
			r.Memory.Max = &most
			if g.system.v2(SwapLimit) && l.Vmem > 0 {
				swap := clamp(l.Vmem) - most
				r.Memory.Swap = &swap
			}
		}
	}
	if g.system.v2(CPUWeight) && l.CPUWeight > 0 {
		weight := l.CPUWeight
		r.CPU = &cgroup2.CPU{Weight: &weight}
	}
	if g.system.v2(Cpuset) && (l.CPUs != "" || l.Mems != "") {
		if r.CPU == nil {
			r.CPU = &cgroup2.CPU{}
		}
		r.CPU.Cpus, r.CPU.Mems = l.CPUs, l.Mems
	}
	if g.system.v2(PidsLimit) && l.Pids > 0 {
		r.Pids = &cgroup2.Pids{Max: clamp(l.Pids)}
	}
	if g.system.v2(Devices) {
		r.Devices = rules(l.Deny)
	}
	return r
}

// resources1 returns the limits that v1 enforces.
func (g *Group) resources1(l *Limits) *specs.LinuxResources {
	r := &specs.LinuxResources{}
	if g.system.v1(MemoryLimit) && l.ram() > 0 {
		most := clamp(l.ram())
		r.Memory = &specs.LinuxMemory{Limit: &most}
		if g.system.v1(SwapLimit) && l.Vmem > 0 {
			both := clamp(l.Vmem)
			r.Memory.Swap = &both
		}
	}
	cpu := &specs.LinuxCPU{}
	if g.system.v1(CPUWeight) && l.CPUWeight > 0 {
		n := shares(l.CPUWeight)
		cpu.Shares = &n
		r.CPU = cpu
	}
	if g.system.v1(Cpuset) {
		cpu.Cpus, cpu.Mems = l.CPUs, l.Mems
		r.CPU = cpu
	}
	if g.system.v1(PidsLimit) && l.Pids > 0 {
		most := clamp(l.Pids)
		r.Pids = &specs.LinuxPids{Limit: &most}
	}
	if g.system.v1(Devices) {
		// A new group may use all devices that its parent may use.
		r.Devices = slices.DeleteFunc(rules(l.Deny), func(d specs.LinuxDeviceCgroup) bool { return d.Allow })
	}
	return r
}

// clamp limits a value to the library's type. The kernel rounds to pages and treats a value this
// large as no limit.
func clamp(n uint64) int64 { return int64(min(n, math.MaxInt64)) }

// rules returns the device filter: everything except the denied devices. The last matching rule
// counts. The list does not end with a rule that denies everything, since the library ignores
// errors for such a filter.
func rules(deny []Device) []specs.LinuxDeviceCgroup {
	if len(deny) == 0 {
		return nil
	}
	all := int64(-1)
	list := []specs.LinuxDeviceCgroup{{Allow: true, Type: "a", Major: &all, Minor: &all, Access: "rwm"}}
	for _, d := range deny {
		kind := "c"
		if d.Block {
			kind = "b"
		}
		list = append(list, specs.LinuxDeviceCgroup{Type: kind, Major: &d.Major, Minor: &d.Minor, Access: "rwm"})
	}
	return list
}

// subsystems returns the library's handlers for the v1 hierarchies of the group.
func (g *Group) subsystems() ([]cgroup1.Subsystem, cgroup1.Path) {
	var list []cgroup1.Subsystem
	where := map[cgroup1.Name]string{}
	for _, i := range g.used {
		h := &g.system.Hierarchies[i]
		if h.Unified {
			continue
		}
		for _, controller := range h.Controllers {
			if !h.named(controller) {
				continue
			}
			s := subsystem(filepath.Dir(h.Mount), controller)
			if s != nil {
				list = append(list, s)
				where[s.Name()] = g.relative(i)
			}
		}
	}
	return list, func(name cgroup1.Name) (string, error) {
		path, found := where[name]
		if !found {
			return "", fmt.Errorf("no group for controller %q: %w", name, os.ErrNotExist)
		}
		return path, nil
	}
}

// named reports whether the v1 controller has a mount under its own name. The library finds a
// controller only by its name: cpu and cpuacct are often one mount, with links to it.
func (h *Hierarchy) named(controller string) bool {
	a, err := os.Stat(filepath.Join(filepath.Dir(h.Mount), controller))
	if err != nil {
		return false
	}
	b, err := os.Stat(h.Mount)
	return err == nil && os.SameFile(a, b)
}

func subsystem(root, controller string) cgroup1.Subsystem {
	switch controller {
	case "cpu":
		return cgroup1.NewCpu(root)
	case "cpuacct":
		return cgroup1.NewCpuacct(root)
	case "cpuset":
		return cgroup1.NewCpuset(root)
	case "memory":
		// The other files include what kmem counts, and newer kernels lack kmem.
		return cgroup1.NewMemory(root, cgroup1.OptionalSwap(), cgroup1.IgnoreModules("kmem", "kmem.tcp"))
	case "pids":
		return cgroup1.NewPids(root)
	case "freezer":
		return cgroup1.NewFreezer(root)
	case "blkio":
		return cgroup1.NewBlkio(root)
	case "devices":
		return cgroup1.NewDevices(root)
	}
	return nil
}
