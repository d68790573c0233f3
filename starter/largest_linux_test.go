package starter

import "testing"

func TestLargest(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		seen []consumer
		want string
	}{
		"none": {nil, ""},
		"the largest three, the largest first": {
			[]consumer{{1, "a", 5 * mib, true}, {2, "b", 9 * mib, true}, {3, "c", 2 * mib, true}, {4, "d", 7 * mib, true}},
			"b (2) 9M, d (4) 7M, a (1) 5M",
		},
		"small ones only if there is no other": {[]consumer{{1, "a", 5 * mib, true}, {2, "b", 4096, true}}, "a (1) 5M"},
		"one small process":                    {[]consumer{{2, "b", 4096, true}}, "b (2) 0M"},
		"the most that was seen of one":        {[]consumer{{1, "a", 2 * mib, true}, {1, "a", 5 * mib, true}, {1, "a", mib, true}}, "a (1) 5M"},
		// The maximum of an exited process includes its children: make would be the largest.
		"what was seen before what the kernel says": {
			[]consumer{{1, "make", mib, true}, {1, "make", 9 * mib, false}, {2, "cc", 8 * mib, false}}, "cc (2) 8M, make (1) 1M",
		},
		"what the kernel says, of one that was not seen": {[]consumer{{1, "cc", 8 * mib, false}, {1, "cc", mib, true}}, "cc (1) 1M"},
	} {
		var l largest
		for _, x := range c.seen {
			l.add(x)
		}
		if got := l.String(); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
