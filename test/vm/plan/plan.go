// Package plan is what the host and a guest say to each other: the host leaves a
// Plan in the guest's file system, and the guest answers with frames on a serial
// line.
//
// It is for test/vm only, whose two executables share it. Nothing in it may be
// called from several goroutines at a time.
package plan

// Path is where the guest finds its Plan, as JSON.
const Path = Dir + "/plan.json"

// Dir holds what belongs to the machinery of the guest.
const Dir = "/vm"

// Inside is where the guest's own executable is.
const Inside = Dir + "/inside"

// The serial lines of the guest. The console has one of its own, so that what the
// kernel says never gets into a frame.
const (
	Console = "/dev/ttyS0"
	Frames  = "/dev/ttyS1"
)

// Plan says what the guest is to do.
type Plan struct {
	Cgroup  string // which hierarchies are mounted: "v2", "v1" or "hybrid"
	Systemd bool   // process 1 is systemd, which mounts the hierarchies itself
	Swap    int    // MiB of swap space, in memory
	Modules []Module
	Steps   []Step
}

// Module is a kernel module; those it needs come before it.
type Module struct {
	Path       string
	Parameters string
}

// Step is one program to run. Steps run one after another, and each of them starts
// in a guest where no process of the step before is left.
type Step struct {
	Argv []string
	Dir  string   // working directory
	Env  []string // in addition to the guest's own variables
	// User runs it, in a control group that is delegated to the user unless it is
	// root; "" is root.
	User string
	// Properties are those of the unit in which systemd runs it, in addition to our
	// own: "MemoryMax=1G".
	Properties []string
}

// End is how a step ended.
type End struct {
	Status       int // as a shell has it: 128+N for signal N
	Milliseconds int64
}
