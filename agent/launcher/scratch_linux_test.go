package launcher

import (
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// TestForgedScratch checks that root's configuration decides how TMPDIR is limited: a file system in memory or in a
// file takes up more of the host than a quota.
func TestForgedScratch(t *testing.T) {
	w, s := newStrictWorld(t)
	for i, forged := range []qconf.ScratchLimit{qconf.ScratchTmpfs, qconf.ScratchImage, "../x"} {
		id := job.ID{Job: 7 + i}
		o := w.order(s, "key"+string(rune('a'+i)), id)
		o.plan.Scratch, o.plan.ScratchLimit = 1<<20, forged
		if err := w.prepare(o); err != nil {
			t.Fatalf("%s: %v", forged, err)
		}
		h, err := s.find(id)
		if err != nil {
			t.Fatal(err)
		}
		h.mu.Lock()
		d := h.job.Description
		h.mu.Unlock()
		if d.Scratch != 0 || d.ScratchLimit != "" {
			t.Errorf("%s: TMPDIR has %d bytes by %q, expected no limit as in root's configuration", forged, d.Scratch, d.ScratchLimit)
		}
	}
}
