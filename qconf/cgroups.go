package qconf

import (
	"errors"
	"fmt"
	"math"
	pathpkg "path"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// CgroupsParams is cgroups_params: the uses of control groups for jobs. Grid Engine 8.1.9 has no
// such attribute. The name and the parameters in lower case come from Univa Grid Engine. A
// parameter that the list does not name is on in execd, and off in Univa Grid Engine.
type CgroupsParams struct {
	// Off is cgroup_path=none: no control groups.
	Off bool
	// Path is cgroup_path, an absolute path: either the mount point of the hierarchies to use, or a
	// directory above their mount points, or the group below which the groups of jobs are created.
	// If it is empty, all hierarchies are used.
	Path       string
	Cpuset     bool   // cpuset: jobs with -binding cannot leave their cores; true
	Freezer    bool   // freezer: jobs are suspended by freezing them; true
	Killing    bool   // killing: jobs are killed as a group; true
	HVmemLimit bool   // h_vmem_limit: the kernel keeps the job below h_vmem; true
	MinMemory  uint64 // min_memory_limit: lower limits of memory are raised to it; bytes

	HRSSLimit bool // h_rss_limit, only in execd: the kernel keeps the job below h_rss; true
	// Weight is cpu_weight, only in execd: jobs get CPU time in proportion to their slots.
	Weight Choice
	// Pids is pids_limit, only in execd: the maximum number of processes and threads of a job for
	// each of its slots. 0, which may be written as INFINITY, means no limit. DefaultPids is the
	// default.
	Pids int
	// Devices is devices: patterns of device files that a job may not open unless
	// it has been granted them (see ExpandDevices).
	Devices []string
	// Systemd is systemd, only in execd: on hosts with systemd, jobs run in a scope; true.
	Systemd bool

	Unknown, Ineffective []string // see ExecdParams
}

// DefaultPids is the default of pids_limit: more than well-behaved jobs need, and a quarter of the
// process IDs of a small host (where kernel.pid_max is 32768). Grid Engine has no such limit.
const DefaultPids = 8192

// Choice is true, false, or left to the host.
type Choice string

// The choices.
const (
	Auto Choice = "auto"
	Yes  Choice = "true"
	No   Choice = "false"
)

var cgroupsParams = params[CgroupsParams]{
	def: func() CgroupsParams {
		return CgroupsParams{Cpuset: true, Freezer: true, Killing: true, HVmemLimit: true, HRSSLimit: true, Weight: Auto, Systemd: true, Pids: DefaultPids}
	},
	unknown:     func(c *CgroupsParams) *[]string { return &c.Unknown },
	ineffective: func(c *CgroupsParams) *[]string { return &c.Ineffective },
	// mount: hosts mount their hierarchies themselves. The others are about
	// complexes that 8.1.9 has not.
	ignored: []string{"mount", "freeze_pe_tasks", "forced_numa", "m_mem_free_hard", "m_mem_free_soft"},
	rows: []param[CgroupsParams]{
		p("cgroup_path", kind[CgroupsParams]{read: readCgroupPath}),
		p("cpuset", boolean(func(c *CgroupsParams) *bool { return &c.Cpuset })),
		p("freezer", boolean(func(c *CgroupsParams) *bool { return &c.Freezer })),
		p("killing", boolean(func(c *CgroupsParams) *bool { return &c.Killing })),
		p("h_vmem_limit", boolean(func(c *CgroupsParams) *bool { return &c.HVmemLimit })),
		p("h_rss_limit", boolean(func(c *CgroupsParams) *bool { return &c.HRSSLimit })),
		p("min_memory_limit", kind[CgroupsParams]{read: readMinMemory}),
		p("cpu_weight", kind[CgroupsParams]{read: readWeight}),
		p("pids_limit", kind[CgroupsParams]{read: readPids}),
		p("devices", kind[CgroupsParams]{read: readDevices}),
		p("systemd", boolean(func(c *CgroupsParams) *bool { return &c.Systemd })),
	},
}

func readCgroupPath(c *CgroupsParams, s string) (string, error) {
	c.Off, c.Path = isWord(s, none), ""
	if c.Off {
		return s, nil
	}
	c.Path = pathpkg.Clean(s)
	if err := checkAbsolute(s); err != nil {
		return s, fmt.Errorf("%w, or none", err)
	}
	return s, nil
}

func readMinMemory(c *CgroupsParams, s string) (string, error) {
	v, err := quantity.Memory(s)
	if err == nil && v == quantity.Infinity {
		err = fmt.Errorf("%q is not possible here, expected a finite size", s)
	}
	c.MinMemory = v
	return s, err
}

func readPids(c *CgroupsParams, s string) (string, error) {
	if strings.EqualFold(s, "INFINITY") {
		c.Pids = 0
		return s, nil
	}
	var err error
	if c.Pids, err = parseNumber(s, 0, math.MaxInt32); err != nil {
		return "", fmt.Errorf("%w, or INFINITY", err)
	}
	return strconv.Itoa(c.Pids), nil
}

func readWeight(c *CgroupsParams, s string) (string, error) {
	if isWord(s, string(Auto)) {
		c.Weight = Auto
		return s, nil
	}
	on, err := parseBool(s)
	if err != nil {
		return s, fmt.Errorf("%q is unknown, expected true, false or auto", s)
	}
	c.Weight = No
	if on {
		c.Weight = Yes
	}
	return s, nil
}

// readDevices reads patterns with | between them, or none.
func readDevices(c *CgroupsParams, s string) (string, error) {
	c.Devices = nil
	if isWord(s, none) {
		return s, nil
	}
	var errs []error
	for pattern := range strings.SplitSeq(s, "|") {
		_, err := ExpandRanges(pattern)
		if !strings.HasPrefix(pattern, "/dev/") {
			err = fmt.Errorf("%q is not a device, expected none or patterns like /dev/nvidia[0-7] with | between them", pattern)
		}
		if err != nil {
			errs = addError(errs, err)
			continue
		}
		c.Devices = append(c.Devices, pattern)
	}
	return s, errJoin(errs)
}

// mostInRange is the maximum number of names that one pattern expands to.
const mostInRange = 4096

// ExpandRanges expands ranges of numbers: /dev/nvidia[0-2] becomes /dev/nvidia0, /dev/nvidia1 and
// /dev/nvidia2. It leaves * and ? in the names, for glob(7).
func ExpandRanges(pattern string) ([]string, error) {
	before, rest, found := strings.Cut(pattern, "[")
	if !found {
		if strings.Contains(pattern, "]") {
			return nil, fmt.Errorf("%q has no opening bracket", pattern)
		}
		return []string{pattern}, nil
	}
	inner, after, closed := strings.Cut(rest, "]")
	first, last, isRange := strings.Cut(inner, "-")
	if !isRange {
		last = first
	}
	from, err := parseNumber(first, 0, math.MaxInt32)
	to, err2 := parseNumber(last, 0, math.MaxInt32)
	if err = errors.Join(err, err2); err != nil || !closed || to < from || to-from >= mostInRange {
		return nil, fmt.Errorf("%q has no range of numbers, expected one like [0-7]", pattern)
	}
	tails, err := ExpandRanges(after)
	if err != nil {
		return nil, err
	}
	if len(tails)*(to-from+1) > mostInRange {
		return nil, fmt.Errorf("%q stands for more than %d devices", pattern, mostInRange)
	}
	var list []string
	for n := from; n <= to; n++ {
		for _, tail := range tails {
			list = append(list, fmt.Sprint(before, n, tail))
		}
	}
	return list, nil
}

// VmemLimits is VMEM_LIMIT of execd_params, which only execd has. It selects the quantity that
// s_vmem and h_vmem limit: address space, memory, or both.
type VmemLimits struct {
	Default job.VmemLimit
	// Queues are the settings for single queues, by name or pattern. The last one that matches
	// counts.
	Queues []QueueVmemLimit
}

// QueueVmemLimit is the setting for some queues.
type QueueVmemLimit struct {
	Queue string // name or pattern
	Limit job.VmemLimit
}

// For returns the setting for a queue.
func (v VmemLimits) For(queue string) job.VmemLimit {
	limit := v.Default
	for _, q := range v.Queues {
		if ok, err := pathpkg.Match(q.Queue, queue); ok && err == nil {
			limit = q.Limit
		}
	}
	return limit
}

// vmemWords are the words for the values.
var vmemWords = map[string]job.VmemLimit{
	"both": job.VmemBoth, string(job.VmemMemory): job.VmemMemory, string(job.VmemAddressSpace): job.VmemAddressSpace,
}

func readVmemLimit(s string) (job.VmemLimit, error) {
	for word, limit := range vmemWords {
		if isWord(s, word) {
			return limit, nil
		}
	}
	return "", fmt.Errorf("%q is unknown, expected one of both, memory, address_space", s)
}

// vmemLimit is the parameter; [queue=value] after it sets a queue's.
var vmemLimit = param[ExecdParams]{
	name: "VMEM_LIMIT",
	kind: kind[ExecdParams]{read: func(e *ExecdParams, s string) (string, error) {
		limit, err := readVmemLimit(s)
		e.VmemLimits = VmemLimits{Default: limit}
		return s, err
	}},
	override: func(e *ExecdParams, queue, s string) error {
		limit, err := readVmemLimit(s)
		if _, bad := pathpkg.Match(queue, ""); err == nil && (bad != nil || queue == "") {
			err = fmt.Errorf("%q is not a name of a queue", queue)
		}
		e.VmemLimits.Queues = append(e.VmemLimits.Queues, QueueVmemLimit{queue, limit})
		return err
	},
}
