package group

import (
	"strconv"
	"strings"
)

// File is a file of a group that a supervisor reads or writes.
type File int

// The files, with the kernel's names. Files of v1 only are marked.
const (
	CPUStat             File = iota // CPU time; also without any controller (Linux 4.15)
	CPUAcctUsage                    // v1: CPU time
	MemoryCurrent                   // RAM charged, page cache included
	MemorySwapCurrent               // swap used
	MemoryStat                      // what the memory is used for; v1 and v2 differ in the names
	MemoryEvents                    // OOM kills; pollable
	MemorySwapEvents                // how often the swap limit was hit
	MemoryUsage                     // v1: RAM charged
	MemoryMemswUsage                // v1: RAM and swap charged
	MemoryMaxUsage                  // v1: largest MemoryUsage
	MemoryMemswMaxUsage             // v1: largest MemoryMemswUsage
	MemoryFailcnt                   // v1: how often the limit was hit
	MemoryMemswFailcnt              // v1: how often the limit of RAM and swap was hit
	MemoryOOMControl                // v1: OOM kills (Linux 4.13)
	CgroupEventControl              // v1: registers an eventfd for OOM
	CgroupEvents                    // populated, frozen; pollable
	CgroupKill                      // kills all processes (Linux 5.14)
	CgroupFreeze                    // freezes the group (Linux 5.2)
	FreezerState                    // v1: freezes the group
	PidsMax                         // maximum number of threads
	PidsEvents                      // forks that were refused
	IOPressure                      // time spent waiting for I/O (CONFIG_PSI)
	MemoryHigh                      // limit above which the kernel reclaims memory, and counts it in MemoryEvents
	NumFiles                        // number of files
)

var fileNames = [NumFiles]string{
	"cpu.stat", "cpuacct.usage",
	"memory.current", "memory.swap.current", "memory.stat", "memory.events", "memory.swap.events",
	"memory.usage_in_bytes", "memory.memsw.usage_in_bytes",
	"memory.max_usage_in_bytes", "memory.memsw.max_usage_in_bytes",
	"memory.failcnt", "memory.memsw.failcnt", "memory.oom_control", "cgroup.event_control",
	"cgroup.events", "cgroup.kill", "cgroup.freeze", "freezer.state",
	"pids.max", "pids.events", "io.pressure", "memory.high",
}

// String returns the kernel's name of a file.
func (f File) String() string { return fileNames[f] }

// V1 reports whether a file exists only in cgroup v1.
func (f File) V1() bool {
	switch f {
	case CPUAcctUsage, MemoryUsage, MemoryMemswUsage, MemoryMaxUsage, MemoryMemswMaxUsage, MemoryFailcnt, MemoryMemswFailcnt,
		MemoryOOMControl, CgroupEventControl, FreezerState:
		return true
	default:
		return false
	}
}

// Procs and Tasks are the names of the files to which a process writes "0" to enter a group: Procs
// in a v2 group, Tasks in a v1 group. A write to cgroup.procs moves all threads of a process, and
// the kernel waits for an RCU grace period (10 ms on an idle host with Linux 6.18). A thread that
// moves itself by tasks does not wait (since Linux 5.14).
const (
	Procs = "cgroup.procs"
	Tasks = "tasks"
)

// Paths holds everything that a supervisor must know about the group of its job.
type Paths struct {
	// Dirs are the directories that the job's child enters, one per hierarchy.
	// In each it writes "0" to the file Procs, on v1 Tasks.
	Dirs []string
	// Unified is the directory in Dirs that is a v2 group, for CLONE_INTO_CGROUP (clone3(2)); empty
	// if there is none.
	Unified string
	// File holds the absolute path of each file that exists and may be used.
	File [NumFiles]string
	// RSSLimit and VmemLimit are the memory limits that the kernel enforces on the group, in bytes,
	// 0 for none: of RAM, and of RAM and swap together. The report about an OOM kill names the
	// limit.
	RSSLimit, VmemLimit uint64
}

const (
	keyDir       = "dir"
	keyUnified   = "unified"
	keyRSSLimit  = "h_rss"
	keyVmemLimit = "h_vmem"
)

// Format formats paths as lines of key=value. It omits a path that contains a newline; no group has
// such a path.
func (p *Paths) Format() string {
	var b strings.Builder
	line := func(key, value string) {
		if value != "" && !strings.Contains(value, "\n") {
			b.WriteString(key + "=" + value + "\n")
		}
	}
	for _, d := range p.Dirs {
		line(keyDir, d)
	}
	line(keyUnified, p.Unified)
	for f, path := range p.File {
		line(fileNames[f], path)
	}
	if p.RSSLimit > 0 {
		line(keyRSSLimit, strconv.FormatUint(p.RSSLimit, 10))
	}
	if p.VmemLimit > 0 {
		line(keyVmemLimit, strconv.FormatUint(p.VmemLimit, 10))
	}
	return b.String()
}

// Parse reads the format of Format. It skips unknown keys, which newer versions may write. The
// error is a *SyntaxError.
func Parse(text string) (*Paths, error) {
	p := &Paths{}
	for n, line := range strings.Split(text, "\n") {
		if line == "" {
			continue
		}
		key, value, found := strings.Cut(line, "=")
		if !found {
			return nil, &SyntaxError{n + 1, "expected KEY=VALUE instead of " + strconv.Quote(line)}
		}
		switch key {
		case keyRSSLimit, keyVmemLimit:
			v, err := strconv.ParseUint(value, 10, 64)
			if err != nil {
				return nil, &SyntaxError{n + 1, key + " is not a number of bytes: " + strconv.Quote(value)}
			}
			if key == keyRSSLimit {
				p.RSSLimit = v
			} else {
				p.VmemLimit = v
			}
			continue
		}
		into := p.place(key)
		if into == nil && key != keyDir {
			continue
		}
		if !strings.HasPrefix(value, "/") {
			return nil, &SyntaxError{n + 1, key + " is not an absolute path: " + strconv.Quote(value)}
		}
		if into == nil {
			p.Dirs = append(p.Dirs, value)
		} else {
			*into = value
		}
	}
	return p, nil
}

// place returns a pointer to the path of a key, or nil if the key has no single path.
func (p *Paths) place(key string) *string {
	if key == keyUnified {
		return &p.Unified
	}
	for f, name := range fileNames {
		if name == key {
			return &p.File[f]
		}
	}
	return nil
}
