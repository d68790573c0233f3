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

// fullPart is the denominator of the part of the space below which TMPDIR counts as full: 1/100. When a
// write fails for lack of space, some blocks usually remain free.
const fullPart = 100

// watchScratch notes when TMPDIR is full. The kernel reports the limit of a project quota as the size
// of the file system.
func (s *Shepherd) watchScratch(now time.Time) {
	if s.space.dir == 0 || !s.space.full.IsZero() {
		return
	}
	var info unix.Statfs_t
	if unix.Fstatfs(s.space.dir, &info) == nil && info.Blocks > 0 && info.Bavail <= info.Blocks/fullPart {
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
