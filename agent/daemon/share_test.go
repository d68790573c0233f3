package daemon

import "testing"

func TestShares(t *testing.T) {
	const size = 1000 << 20
	for text, want := range map[string]int64{"10%": 100 << 20, "0.5%": 5 << 20, "0%": 0, "100%": size, "500M": 500 << 20, "7": 7, "0": 0} {
		if s, err := ParseShare(text); err != nil || s.Of(size) != want {
			t.Errorf("%s: %d, %v, expected %d", text, s.Of(size), err, want)
		}
	}
	for _, text := range []string{"", "%", "-1%", "101%", "NaN%", "x", "10 %", "-5", "INFINITY", "1e400%"} {
		if s, err := ParseShare(text); err == nil {
			t.Errorf("%q is taken for %+v", text, s)
		}
	}
	for text, want := range map[string]int64{"10%": 100, "500M": 0} {
		if s, err := ParseShare(text); err != nil || s.OfFiles(1000) != want {
			t.Errorf("%s: %d files, %v, expected %d", text, s.OfFiles(1000), err, want)
		}
	}
	if got := Percent(5, 10<<20).Of(size); got != 10<<20 {
		t.Errorf("%d", got)
	}
}

func FuzzParseShare(f *testing.F) {
	for _, text := range []string{"10%", "5G", "none", "0.0001%", "99999999999999999999%"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if s, err := ParseShare(text); err == nil && s.Of(1<<50) < 0 {
			t.Errorf("%q is %d", text, s.Of(1<<50))
		}
	})
}
