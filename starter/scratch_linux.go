package starter

import (
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/quantity"
)

// limitedByQuota is the value of job.Description.ScratchLimit for a project quota.
const limitedByQuota = "quota"

// space is the limited TMPDIR of a job.
type space struct {
	dir  int       // O_PATH descriptor; 0 without a limit
	full time.Time // when watchScratch first saw it full; zero if it never did
}

// openScratch opens the TMPDIR if its size is limited, before the job can put something else in its
// place, for example a file system that does not answer.
func (s *Shepherd) openScratch() {
	if s.d.Scratch == 0 || s.failed != 0 {
		return
	}
	fd, err := unix.Open(s.d.Tmpdir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		s.trace("cannot open TMPDIR " + s.d.Tmpdir + ": " + err.Error())
		return
	}
	s.space.dir = fd
}

// TMPDIR counts as full if less than a hundredth of it is free, or less than fullRest but at most a sixteenth: when a write
// fails for lack of space, less remains free than it needed, and programs write up to 256 KiB at once.
const (
	fullPart, fullMost = 100, 16
	fullRest           = 256 << 10
)

// isFull reports whether a TMPDIR of a size counts as full. Both are in bytes.
func isFull(size, free uint64) bool {
	return free <= max(size/fullPart, min(size/fullMost, fullRest))
}

// watchScratch notes when TMPDIR is full. The kernel reports the limit of a project quota as the size
// of the file system.
func (s *Shepherd) watchScratch(now time.Time) {
	if s.space.dir == 0 || !s.space.full.IsZero() {
		return
	}
	var info unix.Statfs_t
	if unix.Fstatfs(s.space.dir, &info) != nil || info.Blocks == 0 {
		return
	}
	if block := uint64(info.Bsize); isFull(info.Blocks*block, info.Bavail*block) {
		s.space.full = now
		s.trace("TMPDIR is full")
	}
}

// scratchNotice explains that TMPDIR was full, for a job that has failed; empty if it was not.
func (s *Shepherd) scratchNotice(end ending) string {
	if s.space.full.IsZero() || end.status == 0 {
		return ""
	}
	size := s.d.Scratch
	return "TMPDIR was full at " + clockText(s.space.full) + ": it is limited to " + quantity.FormatMemory(size) +
		" (scratch); next time request more, for example -l scratch=" + quantity.FormatMemory(quantity.RoundMemory(size+size/2))
}

// confine makes the kernel refuse system calls with which a process of the job could move its files out
// of the quota of TMPDIR. Only root can do this.
func (s *Shepherd) confine(p *spawn.Program) {
	if s.d.ScratchLimit == limitedByQuota && s.privileged {
		p.DenyAttributes()
	}
}
