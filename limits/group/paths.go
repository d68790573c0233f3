package group

import (
	"strconv"
	"strings"
)

// File is a file of a group that a supervisor reads or writes.
type File int

// The files, named like the kernel's. Those of v1 have a remark.
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
	CgroupKill                      // kills all (Linux 5.14)
	CgroupFreeze                    // freezes (Linux 5.2)
	FreezerState                    // v1: freezes
	PidsMax                         // limit of it
	PidsEvents                      // forks that were refused
	IOPressure                      // time spent waiting for I/O (CONFIG_PSI)
	MemoryHigh                      // above it memory is reclaimed, and MemoryEvents tells
	NumFiles                        // not a file
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

// V1 reports whether a file is one of cgroup v1 only.
func (f File) V1() bool {
	switch f {
	case CPUAcctUsage, MemoryUsage, MemoryMemswUsage, MemoryMaxUsage, MemoryMemswMaxUsage, MemoryFailcnt, MemoryMemswFailcnt,
		MemoryOOMControl, CgroupEventControl, FreezerState:
		return true
	default:
		return false
	}
}

// Procs is the name of the file of a v2 group into which a process that enters writes
// "0", and Tasks that of a v1 group. A write to cgroup.procs moves all threads of a process,
// for which the kernel waits for an RCU grace period (10 ms on an idle host with Linux 6.18);
// a thread that moves itself by tasks waits for nothing (since Linux 5.14).
const (
	Procs = "cgroup.procs"
	Tasks = "tasks"
)

// Paths is all that a supervisor must know of the group of its job.
type Paths struct {
	// Dirs are the directories that the job's child enters, one per hierarchy.
	// In each it writes "0" to the file Procs, on v1 Tasks.
	Dirs []string
	// Unified is the one of Dirs that is a v2 group, if any: the one for
	// CLONE_INTO_CGROUP (clone3(2)).
	Unified string
	// File holds the absolute path of each file that is there and may be used.
	File [NumFiles]string
	// RSSLimit and VmemLimit are the memory limits that the kernel enforces on
	// the group, in bytes, 0 for none: of RAM, and of RAM and swap together.
	// They are here so that an OOM kill can be named.
	RSSLimit, VmemLimit uint64
}

const (
	keyDir       = "dir"
	keyUnified   = "unified"
	keyRSSLimit  = "h_rss"
	keyVmemLimit = "h_vmem"
)

// Format prints paths as lines of key=value. A path with a newline in it cannot
// be printed; there is no such group, and it is left out.
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

// Parse reads what Format has printed. Keys that it does not know are of a
// newer version and skipped.
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
