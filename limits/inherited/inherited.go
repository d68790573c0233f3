//go:build linux && (amd64 || arm64)

// Package inherited knows a limit as the process was started with it, before
// the Go runtime changed it.
//
// Other projects should not import this package: it may change at any time.
//
// Package syscall raises the soft limit of open files to the hard one when a
// program starts, and gives the former value back to processes that are started
// through it. Ours are not (internal/spawn), and a job must not see another limit
// than its daemon has.
//
// Packages are initialized in the order of their import paths as soon as what
// they import is (Go specification, Program initialization). This one imports
// nothing, so that it comes before syscall, and asks the kernel by itself.
package inherited

// rlimit is struct rlimit64 of prlimit(2).
type rlimit struct{ soft, hard uint64 }

var openFiles = read()

// prlimitOpenFiles reads RLIMIT_NOFILE of the process; it returns 0, or the
// negated errno.
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

// OpenFiles is the limit of open files (RLIMIT_NOFILE) that the process was
// started with. ok is false if it is not known.
func OpenFiles() (soft, hard uint64, ok bool) {
	return openFiles.soft, openFiles.hard, openFiles.hard != 0
}
