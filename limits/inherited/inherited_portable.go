//go:build !linux || (!amd64 && !arm64)

package inherited

// OpenFiles returns false: the limit is unknown on this architecture.
func OpenFiles() (soft, hard uint64, ok bool) { return 0, 0, false }
