package doctor

import (
	"slices"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
)

// Host is the result of Probe.
type Host struct {
	Kernel       string   // release
	UID          int      // who we are: what jobs could be given is judged for this user
	Capabilities []string // the effective ones that matter here
	Swap         bool     // there is any
	// Confined are the resources in which we have a hard limit ourselves.
	Confined    [job.NumResources]bool
	Cgroups     Cgroups
	Systemd     Systemd
	Proc        bool // the processes of others can be seen in /proc
	Children    bool // /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN)
	Pidfd       bool // pidfd_open(2), Linux 5.3
	IntoGroup   bool // clone3(2) into a group, Linux 5.7
	PSI         bool // /proc/pressure
	CPUs, Nodes int  // processors and memory nodes that we may use; 0 if unknown
	Topology    string
	TopologyErr string // why cores cannot be told apart
	GroupIDs    GroupIDs
	GPUs        *gpu.Inventory
	// NoQuery is set if GPUs of NVIDIA are there and nvidia-smi is not.
	NoQuery bool
	// Untrusted says which files others than root and we can change, of those that a daemon
	// reads and runs: the configuration, the supervisor, and the programs of other users than
	// the owner of a job. A daemon does not start with such a configuration or supervisor, and
	// refuses the jobs for which it would run such a program.
	Untrusted []string
	// Procedures is the file that limits the programs of a master; empty if there is none. If it
	// is not valid, Untrusted says so.
	Procedures string
}

// Cgroups holds the abilities of the host's control groups.
type Cgroups struct {
	Version     cgroup.Version
	Off         bool // switched off by the configuration
	Err         string
	Hierarchies []Hierarchy
	Features    [cgroup.NumFeatures]Feature
	// Disabled are controllers that the kernel was told not to use
	// (cgroup_disable=).
	Disabled []string
}

// Hierarchy is one mounted tree of groups.
type Hierarchy struct {
	Mount       string   `json:"mount"`
	Unified     bool     `json:"unified"` // cgroup v2
	Controllers []string `json:"controllers"`
	Parent      string   `json:"parent"` // where groups of jobs are made; empty if nowhere
	Reason      string   `json:"reason"` // why nowhere
}

// Feature is whether groups can do something.
type Feature struct {
	Works  bool
	V2     bool   // by cgroup v2
	Reason string // why not
}

// Systemd is about systemd as process 1.
type Systemd struct {
	Booted, Unified bool
	// Scope is the control group of a scope that could be made for jobs; Err says
	// why there is none.
	Scope, Err string
	// Controllers are those that the user's manager hands down; nil for root.
	Controllers []string
}

// GroupIDs is about gid_range of the configuration.
type GroupIDs struct {
	Range       string
	Total, Free int
	Err         string
}

func (h *Host) root() bool { return h.UID == 0 }

func (h *Host) can(capability string) bool { return slices.Contains(h.Capabilities, capability) }

func (h *Host) feature(f cgroup.Feature) Feature { return h.Cgroups.Features[f] }
