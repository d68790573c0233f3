package rangelist

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// TestStretches checks that adding all stretches at once equals adding one after another.
func TestStretches(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stretches []Stretch
		var want List
		for range rapid.IntRange(0, 12).Draw(t, "number") {
			first := rapid.IntRange(1, 40).Draw(t, "first")
			s := Stretch{first, first + rapid.IntRange(0, 5).Draw(t, "more")}
			stretches = append(stretches, s)
			l, err := Of(s.First, s.Last, 1)
			if err != nil {
				t.Fatal(err)
			}
			want = want.Union(l)
		}
		got, err := OfStretches(stretches)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.String(), got.String()); diff != "" {
			t.Errorf("%v: %s", stretches, diff)
		}
	})
	for _, bad := range []Stretch{{0, 0}, {2, 1}, {1, maxNumber + 1}} {
		if l, err := OfStretches([]Stretch{{1, 2}, bad}); err == nil {
			t.Errorf("%v: %v", bad, l)
		}
	}
}
