package cull

import "math"

// Format describes how a series of releases packs lists, and the attributes of their elements.
type Format struct {
	// Name is the series: "8.1".
	Name string
	// Version is the first value of each payload. It is the same for 8.1 and 9.0.
	Version uint32

	// changes says that lists and elements contain marks for changed attributes.
	changes bool
	// counted says that a list begins with the number of its elements. Otherwise a mark precedes
	// each element, and another mark follows the last one.
	counted bool
	tables  func() map[string]*table
}

// The formats of the series of releases that are known.
var (
	GridEngine81 = &Format{Name: "8.1", Version: 0x10020000, changes: true, counted: true, tables: tablesOf("attributes-8.1.txt", forks81...)}
	OCS90        = &Format{Name: "9.0", Version: 0x10020000, counted: true, tables: tablesOf("attributes-9.0.txt")}
	OCS91        = &Format{Name: "9.1", Version: 0x10021000, tables: tablesOf("attributes-9.1.txt")}
)

// formats are all of them.
var formats = []*Format{GridEngine81, OCS90, OCS91}

// forks81 are attributes that a fork of 8.1.9 with the same version numbers has put between
// the others (github.com/daimh/sge).
var forks81 = []insertion{
	{"QU", "h_vmem", "mem_limit", String},
	{"PE", "stop_proc_args", "enable_cpuquota", String},
}

// Micros is a time, in microseconds since 1970, or a span of time, in microseconds. Up to
// 8.1 it is packed as an ulong of seconds, whose largest value stands for Unlimited.
type Micros uint64

// Unlimited is the largest span of time.
const Unlimited Micros = math.MaxUint64

const microsPerSecond = 1_000_000

// Seconds returns the time or the span in seconds, rounded down.
func (m Micros) Seconds() int64 { return int64(m / microsPerSecond) }

// InSeconds returns a time or a span of seconds.
func InSeconds(seconds int64) Micros { return Micros(max(seconds, 0)) * microsPerSecond }

// microsOf reads the value of an ulong.
func microsOf(n uint32) Micros {
	if n == math.MaxUint32 {
		return Unlimited
	}
	return InSeconds(int64(n))
}

// ulong returns the value that an ulong has for it.
func (m Micros) ulong() uint32 { return uint32(min(m/microsPerSecond, math.MaxUint32)) }
