//go:build linux && (amd64 || arm64)

// Package inherited returns a resource limit with its value at the start of the process, before the
// Go runtime changed it.
//
// Other projects should not import this package: it may change at any time.
//
// Package syscall raises the soft limit of open files to the hard limit when a program starts, and
// restores the previous value in processes that it starts. Package internal/spawn starts processes
// in another way, and a job must have the same limit as its daemon.
//
// Go initializes packages in the order of their import paths as soon as their imports are
// initialized (Go specification, Program initialization). This package imports nothing, so it comes
// before syscall, and makes the system call by itself.
package inherited

// rlimit is struct rlimit64 of prlimit(2).
type rlimit struct{ soft, hard uint64 }

var openFiles = read()

// prlimitOpenFiles reads RLIMIT_NOFILE of the process; it returns 0, or the negated errno.
//
//go:noescape
func prlimitOpenFiles(r *rlimit) int64

func read() rlimit {
	var r rlimit
	if prlimitOpenFiles(&r) != 0 {
		return rlimit{}
	}
	return r
}

// OpenFiles returns the limit of open files (RLIMIT_NOFILE) that the process was started with. ok
// is false if it is unknown.
func OpenFiles() (soft, hard uint64, ok bool) {
	return openFiles.soft, openFiles.hard, openFiles.hard != 0
}
