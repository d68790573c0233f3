package topology

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestCPUSetForms(t *testing.T) {
	for sentence, c := range map[string]struct {
		list         string
		want         []int
		print, masks string
	}{
		"empty":               {"", nil, "", "00000000"},
		"one":                 {"3\n", []int{3}, "3", "00000008"},
		"a range and one":     {"0-3,8", []int{0, 1, 2, 3, 8}, "0-3,8", "0000010f"},
		"two are a range":     {"1,2", []int{1, 2}, "1-2", "00000006"},
		"unordered, repeated": {"8,0-3,2", []int{0, 1, 2, 3, 8}, "0-3,8", "0000010f"},
		"the second group":    {"32-33", []int{32, 33}, "32-33", "00000003,00000000"},
		"across words":        {"63-64", []int{63, 64}, "63-64", "00000001,80000000,00000000"},
	} {
		t.Run(sentence, func(t *testing.T) {
			s, err := ParseList(c.list)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(s.Slice(), c.want) || s.String() != c.print || s.Mask() != c.masks || s.Len() != len(c.want) {
				t.Errorf("got %v, %q, %q", s.Slice(), s, s.Mask())
			}
		})
	}
	if got := Of(4, 0, 5).Fields(); got != "0 4 5" {
		t.Errorf("fields are %q", got)
	}
	if Of(-1, MaxCPU+1).Len() != 0 || Of(MaxCPU).Len() != 1 || !Range(-5, 2).Equal(Of(0, 1, 2)) || !Range(3, 2).IsEmpty() {
		t.Error("numbers out of range")
	}
}

func TestParseListRefusesInvalidLists(t *testing.T) {
	for _, text := range []string{",", "1,", "-1", "1-", "3-1", "a", "1-2-3", "+1", "0x1", "65536", "0-65536", "1 2", "99999999999999999999"} {
		if s, err := ParseList(text); err == nil || !strings.HasPrefix(err.Error(), "cannot read CPU list ") {
			t.Errorf("%q reads as %v, %v", text, s, err)
		}
	}
}

func drawSet(t *rapid.T, label string) (CPUSet, map[int]bool) {
	cpus := rapid.SliceOf(rapid.IntRange(0, 300)).Draw(t, label)
	model := map[int]bool{}
	for _, c := range cpus {
		model[c] = true
	}
	return Of(cpus...), model
}

func TestCPUSetIsASet(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, ma := drawSet(t, "a")
		b, mb := drawSet(t, "b")
		before := a.String() + "/" + b.String()
		union, both, minus := a.Union(b), a.Intersect(b), a.Minus(b)
		for c := -1; c < 310; c++ {
			if a.Contains(c) != ma[c] || union.Contains(c) != (ma[c] || mb[c]) ||
				both.Contains(c) != (ma[c] && mb[c]) || minus.Contains(c) != (ma[c] && !mb[c]) {
				t.Fatalf("wrong about %d", c)
			}
		}
		if a.Len() != len(ma) || !both.Union(minus).Equal(a) || !both.SubsetOf(b) || both.IsEmpty() != (both.Len() == 0) {
			t.Fatal("not a set")
		}
		if a.String()+"/"+b.String() != before {
			t.Fatal("an operation changed its operand")
		}
		if first := a.First(); len(ma) > 0 && !ma[first] || len(ma) == 0 && first != -1 {
			t.Fatalf("first is %d", first)
		}
	})
}

func TestCPUSetParsesWhatItPrints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawSet(t, "s")
		if got, err := ParseList(s.String()); err != nil || !got.Equal(s) {
			t.Fatalf("%q reads as %v, %v", s, got, err)
		}
	})
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{"", "0-3,8", "1,2\n", "65535", "0-"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := ParseList(text)
		if err != nil {
			return
		}
		if again, err := ParseList(s.String()); err != nil || !again.Equal(s) {
			t.Errorf("%q prints as %q, which reads as %v, %v", text, s, again, err)
		}
	})
}

func TestParseMask(t *testing.T) {
	for text, want := range map[string]string{
		"0x0": "", "0x00000003": "0-1", "0xff,,0x80000001": "0,31,64-71", "0x00000001,0x00000000": "32", "3": "0-1",
	} {
		if s, err := ParseMask(text); err != nil || s.String() != want {
			t.Errorf("%s is %s, %v, want %s", text, s, err, want)
		}
	}
	for _, text := range []string{"", "0x", "0x123456789", "x", "1 2", "0xg", strings.Repeat(",", 300)} {
		if s, err := ParseMask(text); err == nil {
			t.Errorf("%.20q is %s", text, s)
		}
	}
}
