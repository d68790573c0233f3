package guest

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/execd-project/execd/test/vm/plan"
)

// The control group hierarchies that a guest may have.
const (
	V2     = "v2"     // one hierarchy
	V1     = "v1"     // one per controller
	Hybrid = "hybrid" // like v1, and an empty v2 hierarchy in addition
)

// Machine describes a guest.
type Machine struct {
	Sockets, Cores, Threads int    // the CPUs; 1 if 0
	Nodes                   int    // NUMA nodes, with equal parts of the CPUs and memory; 1 if 0
	Memory                  int    // MiB; enough for tests if 0
	Swap                    int    // MiB of swap space, which Memory must have room for
	Cgroup                  string // V2 if empty
	Systemd                 bool
	Disk                    string            // image of the disk /dev/nvme0n1, which outlives the guest; none if empty
	Modules                 []string          // kernel modules to load
	Files                   map[string]string // files to copy: path in the guest, path on the host
	Timeout                 time.Duration     // for the whole run; three minutes if 0
	Console                 io.Writer         // receives the kernel's messages, unless nil
}

// Step is a program to run.
type Step struct {
	plan.Step           // the path of the program is a path in the guest
	Output    io.Writer // receives its standard output and standard error
}

const (
	defaultTimeout = 3 * time.Minute
	plainMemory    = 1024
	systemdMemory  = 2048
)

// complete sets defaults, and refuses invalid values.
func (m Machine) complete() (Machine, error) {
	for _, n := range []*int{&m.Sockets, &m.Cores, &m.Threads, &m.Nodes} {
		if *n == 0 {
			*n = 1
		}
		if *n < 0 {
			return m, fmt.Errorf("cannot make a guest with %d CPUs or nodes", *n)
		}
	}
	if m.Memory == 0 {
		m.Memory = plainMemory
		if m.Systemd {
			m.Memory = systemdMemory
		}
		m.Memory += m.Swap
	}
	if m.Timeout == 0 {
		m.Timeout = defaultTimeout
	}
	if m.Cgroup == "" {
		m.Cgroup = V2
	}
	const leastNode = 128 // the kernel puts less than it needs into smaller ones
	switch {
	case m.cpus()%m.Nodes != 0:
		return m, fmt.Errorf("cannot deal %d CPUs to %d NUMA nodes evenly", m.cpus(), m.Nodes)
	case m.Memory/m.Nodes < leastNode:
		return m, fmt.Errorf("cannot make a guest of %d MiB for %d NUMA nodes: each needs %d", m.Memory, m.Nodes, leastNode)
	case m.Swap < 0 || m.Swap >= m.Memory:
		return m, fmt.Errorf("cannot make %d MiB of swap space: it is a part of the guest's %d MiB", m.Swap, m.Memory)
	case !slices.Contains([]string{V1, V2, Hybrid}, m.Cgroup):
		return m, fmt.Errorf("cannot mount control groups of version %q: it is none of %s, %s and %s", m.Cgroup, V2, V1, Hybrid)
	}
	for to := range m.Files {
		if !path.IsAbs(to) || path.Clean(to) != to || to == "/" {
			return m, fmt.Errorf("cannot copy a file to %q in the guest: it is not an absolute path in its shortest form", to)
		}
	}
	return m, nil
}

func (m *Machine) cpus() int { return m.Sockets * m.Cores * m.Threads }

// plan returns the plan for the guest.
func (m *Machine) plan(steps []Step, modules []plan.Module) (*plan.Plan, error) {
	p := &plan.Plan{Cgroup: m.Cgroup, Systemd: m.Systemd, Swap: m.Swap, Modules: modules}
	if len(steps) == 0 {
		return nil, errors.New("cannot start a guest: there is nothing to run in it")
	}
	for _, s := range steps {
		if len(s.Argv) == 0 {
			return nil, errors.New("cannot run a step without a program")
		}
		for _, e := range s.Env {
			if name, _, found := strings.Cut(e, "="); !found || name == "" {
				return nil, fmt.Errorf("cannot set the environment variable %q: it is no NAME=VALUE", e)
			}
		}
		if len(s.Properties) > 0 && !m.Systemd {
			return nil, fmt.Errorf("cannot set %q: the guest is without systemd", s.Properties[0])
		}
		if s.User == "root" {
			s.User = ""
		}
		if s.Dir == "" {
			s.Dir = "/"
		}
		p.Steps = append(p.Steps, s.Step)
	}
	return p, nil
}
