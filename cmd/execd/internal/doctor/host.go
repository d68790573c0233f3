package doctor

import (
	"slices"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/host/scratch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
)

// Host is the result of Probe.
type Host struct {
	Kernel       string   // release
	UID          int      // effective user of this process; the report is for a daemon of this user
	Capabilities []string // the effective ones that matter here
	Swap         bool     // the host has swap space
	// Confined are the resources for which this process itself has a hard limit.
	Confined [job.NumResources]bool
	Cgroups  Cgroups
	Systemd  Systemd
	Proc     bool // processes of other users are visible in /proc
	Children bool // /proc/PID/task/TID/children (CONFIG_PROC_CHILDREN)
	// NoPrivateTmp says why jobs cannot have their own /tmp; empty if they can.
	NoPrivateTmp string
	// Scratch is how TMPDIRs in /tmp can be limited, and NoScratch why they cannot be; then Scratch is
	// empty.
	Scratch     scratch.Method
	NoScratch   string
	Pidfd       bool // pidfd_open(2), Linux 5.3
	IntoGroup   bool // clone3(2) into a group, Linux 5.7
	PSI         bool // /proc/pressure
	CPUs, Nodes int  // processors and memory nodes that this process may use; 0 if unknown
	Topology    string
	TopologyErr string // why cores cannot be distinguished
	GroupIDs    GroupIDs
	GPUs        *gpu.Inventory
	Processes   []Process // of the running daemon; none if there is none
	// NoQuery is set if the host has NVIDIA GPUs and nvidia-smi is missing.
	NoQuery bool
	// Untrusted describes files that users other than root and the effective user can change, among
	// the files that a daemon reads and runs: the configuration, the supervisor, and programs that
	// run as users other than the owner of a job. A daemon refuses to start with such a
	// configuration or supervisor, and refuses jobs that need such a program.
	Untrusted []string
	// Procedures is the file that limits the programs of a master; empty if there is none. If it is
	// invalid, Untrusted says so.
	Procedures string
}

// Cgroups holds the abilities of the host's control groups.
type Cgroups struct {
	Version     cgroup.Version
	Off         bool // disabled by the configuration
	Err         string
	Hierarchies []Hierarchy
	Features    [cgroup.NumFeatures]Feature
	// Disabled lists controllers that a kernel parameter disables (cgroup_disable=).
	Disabled []string
}

// Hierarchy is one mounted tree of groups.
type Hierarchy struct {
	Mount       string   `json:"mount"`
	Unified     bool     `json:"unified"` // cgroup v2
	Controllers []string `json:"controllers"`
	Parent      string   `json:"parent"` // directory for groups of jobs; empty if there is none
	Reason      string   `json:"reason"` // why there is no directory
}

// Feature says whether groups have a feature.
type Feature struct {
	Works  bool
	V2     bool   // provided by cgroup v2
	Reason string // why it is missing
}

// Systemd describes systemd as process 1.
type Systemd struct {
	Booted, Unified bool
	// Scope is the control group of a scope that could be created for jobs; Err is the reason if
	// there is none.
	Scope, Err string
	// Controllers are the controllers that the user's service manager delegates; nil for root.
	Controllers []string
}

// GroupIDs describes gid_range of the configuration.
type GroupIDs struct {
	Range       string
	Total, Free int
	Err         string
}

func (h *Host) root() bool { return h.UID == 0 }

func (h *Host) can(capability string) bool { return slices.Contains(h.Capabilities, capability) }

func (h *Host) feature(f cgroup.Feature) Feature { return h.Cgroups.Features[f] }
