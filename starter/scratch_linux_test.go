package starter

import "testing"

func TestFullTMPDIR(t *testing.T) {
	const kib, mib, gib = 1 << 10, 1 << 20, 1 << 30
	for name, c := range map[string]struct {
		size, free uint64
		full       bool
	}{
		"nothing is free":                       {gib, 0, true},
		"less than a hundredth":                 {20 * gib, 200 * mib, true},
		"more than a hundredth":                 {20 * gib, 250 * mib, false},
		"less than a write of 64 KiB of little": {4 * mib, 61 * kib, true},
		"a sixteenth of little":                 {mib, 64 * kib, true},
		"more than a sixteenth of little":       {mib, 80 * kib, false},
		"more than a write of medium space":     {20 * mib, 300 * kib, false},
	} {
		if isFull(c.size, c.free) != c.full {
			t.Errorf("%s: %d of %d bytes are free: full is %v", name, c.free, c.size, !c.full)
		}
	}
}
