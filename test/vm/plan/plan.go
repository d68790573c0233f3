// Package plan defines the data exchanged between the host and a guest: the host stores a Plan in
// the guest's file system, and the guest answers with frames on a serial line.
//
// It is for test/vm only, whose two executables share it. Nothing in it may be called from several
// goroutines at a time.
package plan

// Path is the path of the Plan in the guest, in JSON.
const Path = Dir + "/plan.json"

// Dir is the directory of the guest's own files.
const Dir = "/vm"

// Inside is the path of the guest's own executable.
const Inside = Dir + "/inside"

// The serial lines of the guest. The console has one of its own, so that what the
// kernel says never gets into a frame.
const (
	Console = "/dev/ttyS0"
	Frames  = "/dev/ttyS1"
)

// Plan is the guest's task.
type Plan struct {
	Cgroup  string // which hierarchies are mounted: "v2", "v1" or "hybrid"
	Systemd bool   // process 1 is systemd, which mounts the hierarchies itself
	Swap    int    // MiB of swap space, in memory
	Modules []Module
	Steps   []Step
}

// Module is a kernel module; the modules that it needs precede it.
type Module struct {
	Path       string
	Parameters string
}

// Step is a program to run. Steps run one after another, and each starts in a guest without
// processes of the previous step.
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

// End is the result of a step.
type End struct {
	Status       int // as in a shell: 128+N for signal N
	Milliseconds int64
}
