package rangelist

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"5": "5", "1-3": "1-3", "9-10": "9,10", "1,1,2": "1,2", "3,1,2": "1-3", "1-9:2": "1-9:2", "1-10:2": "1-9:2", "1-3:2": "1,3", "1-2:5": "1",
		"1-5 3-8": "1-8", "4-6,1-2": "1,2,4-6", "1-2147483647": "1-2147483647", "10-20,1-30": "1-30", "1-4,6-9,5": "1-9", "1-3,4-6": "1-6",
	} {
		l, err := ParseTasks(text)
		if err != nil || l.String() != want {
			t.Errorf("tasks %q: %s, %v, want %s", text, l, err, want)
		}
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"": "it is empty", ",": "it is empty", "0": `the first number "0" is invalid, expected 1 to 2147483647`, "0-3": "the first number", "a": "the first number",
		"-3": "the first number", "3-": `the last number ""`, "-": "the first number", "3-1": "it ends before it begins", "1-3:0": `the step number "0"`, "1-3:-1": "the step number",
		"1-3:": "the step number", "3:1": `":1" is a step`, "1-2147483648": "the last number", "1-2-3": "the last number", "1-3,x": `cannot read the range "x"`, "+1": "the first number",
		"1-9:2,2-8:2": "1-9:2 and 2-8:2 overlap", "10-20,1-30:3": "overlap", "1-2147483647:2,2-2147483646": "overlap",
	} {
		if _, err := ParseTasks(text); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "cannot read the ") {
			t.Errorf("tasks %q: %v, want %s", text, err, want)
		}
	}
	for _, r := range []Range{{0, 1, 1}, {2, 1, 1}, {1, 2, 0}, {1, 1 << 31, 1}} {
		if l, err := Of(r.First, r.Last, r.Step); err == nil {
			t.Errorf("%v: %s", r, l)
		}
	}
}

func mustParse(t testing.TB, text string) List {
	t.Helper()
	l, err := ParseTasks(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestOperations(t *testing.T) {
	l := mustParse(t, "2-8:2,11-13")
	if l.First() != 2 || l.Last() != 13 || l.Len() != 7 || l.IsEmpty() {
		t.Errorf("%s: %d to %d, %d numbers", l, l.First(), l.Last(), l.Len())
	}
	for n, want := range map[int]int{0: 0, 1: 0, 2: 2, 3: 2, 7: 6, 9: 8, 10: 8, 11: 11, 99: 13} {
		if got := l.AtMost(n); got != want {
			t.Errorf("at most %d of %s: %d, want %d", n, l, got, want)
		}
	}
	for what, c := range map[string]struct{ got, want List }{
		"the first is taken":        {l.Remove(2), mustParse(t, "4-8:2,11-13")},
		"one in the middle":         {l.Remove(6), mustParse(t, "2,4,8,11-13")},
		"one that is not there":     {l.Remove(3), l},
		"one comes back":            {l.Remove(6).Add(6), l},
		"one between":               {l.Add(3), mustParse(t, "2-4,6-8:2,11-13")},
		"one that is there already": {l.Add(12), l},
		"none":                      {l.Add(0).Add(-1), l},
		"the last one":              {mustParse(t, "5").Remove(5), List{}},
		"both":                      {l.Union(mustParse(t, "9-10,3")), mustParse(t, "2-4,6,8-13")},
	} {
		if !slices.Equal(slices.Collect(c.got.All()), slices.Collect(c.want.All())) {
			t.Errorf("%s: %s, want %s", what, c.got, c.want)
		}
	}
	if got := l.Remove(6).Add(6).String(); got != "2-8:2,11-13" {
		t.Errorf("what was taken and came back is %s", got)
	}
	if l.String() != "2-8:2,11-13" {
		t.Errorf("the list has changed to %s", l)
	}
	var none List
	if none.First() != 0 || none.Last() != 0 || none.AtMost(5) != 0 || none.Contains(0) || none.String() != "" || !none.IsEmpty() {
		t.Error("the empty list is not empty")
	}
	for n := range l.All() {
		if n > 4 {
			break
		}
	}
}

// TestLaws checks that a list remains the set of its numbers in each operation.
func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var l List
		set := map[int]bool{}
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			n := rapid.IntRange(1, 40).Draw(t, "number")
			before, text := l, l.String()
			switch rapid.IntRange(0, 3).Draw(t, "operation") {
			case 0:
				l = l.Add(n)
				set[n] = true
			case 1:
				l = l.Remove(n)
				delete(set, n)
			case 2:
				r, err := Of(n, n+rapid.IntRange(0, 20).Draw(t, "length"), rapid.IntRange(1, 5).Draw(t, "step"))
				if err != nil {
					t.Fatal(err)
				}
				l = l.Union(r)
				for n := range r.All() {
					set[n] = true
				}
			case 3:
				if !l.IsEmpty() {
					delete(set, l.First())
					l = l.Remove(l.First())
				}
			}
			if before.String() != text {
				t.Fatalf("a list has changed from %s to %s", text, before)
			}
			want := slices.Sorted(maps.Keys(set))
			if got := slices.Collect(l.All()); !slices.Equal(got, want) || l.Len() != len(want) {
				t.Fatalf("%s is %v (%d), want %v", l, got, l.Len(), want)
			}
			largest := 0
			for i := range 65 {
				if set[i] {
					largest = i
				}
				if l.Contains(i) != set[i] || l.AtMost(i) != largest {
					t.Fatalf("%s: %d is in it: %v, at most: %d", l, i, l.Contains(i), l.AtMost(i))
				}
			}
			if len(want) == 0 {
				continue
			}
			again, err := ParseTasks(l.String())
			if err != nil || !slices.Equal(slices.Collect(again.All()), want) {
				t.Fatalf("%s is read as %s: %v", l, again, err)
			}
		}
	})
}

func FuzzParse(f *testing.F) {
	f.Add("1-10:2,3 4-5")
	f.Add("-4,6-")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseTasks(text)
		if err != nil {
			return
		}
		again, err := ParseTasks(l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q is printed as %q, read as %q: %v", text, l, again, err)
		}
	})
}

func BenchmarkNext(b *testing.B) {
	all := mustParse(b, "1-1000000")
	b.ReportAllocs()
	l := all
	for b.Loop() {
		if l = l.Remove(l.First()); l.IsEmpty() {
			l = all
		}
	}
}

func BenchmarkContains(b *testing.B) {
	l := mustParse(b, "1-9:2,20-40,60-90:3,100-200")
	b.ReportAllocs()
	for b.Loop() {
		l.Contains(77)
	}
}

// TestManyAtOnce checks AddAll and Without against Add and Remove of single numbers.
func TestManyAtOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		numbers := rapid.SliceOfN(rapid.IntRange(-1, 40), 0, 30)
		first, step := rapid.IntRange(1, 9).Draw(t, "first"), rapid.IntRange(1, 4).Draw(t, "step")
		l, err := Of(first, first+rapid.IntRange(0, 30).Draw(t, "more"), step)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range numbers.Draw(t, "removed first") {
			l = l.Remove(n)
		}
		added := numbers.Draw(t, "added")
		all, one := l.AddAll(added), l
		for _, n := range added {
			one = one.Add(n)
		}
		if !slices.Equal(slices.Collect(all.All()), slices.Collect(one.All())) {
			t.Fatalf("%s and %v are %s, want %s", l, added, all, one)
		}
		for r := range all.Ranges() {
			if r.First < 1 || r.Last < r.First || (r.Last-r.First)%r.Step != 0 {
				t.Fatalf("range %+v", r)
			}
		}
		other := List{}.AddAll(numbers.Draw(t, "removed"))
		without, want := all.Without(other), all
		for n := range other.All() {
			want = want.Remove(n)
		}
		if without.String() != want.String() {
			t.Fatalf("%s without %s is %s, want %s", all, other, without, want)
		}
	})
}
