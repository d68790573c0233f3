package quantity

import "testing"

func TestTime(t *testing.T) {
	for in, want := range map[string]uint64{
		"0": 0, "60": 60, "010": 8, "0x10": 16, "1:0:1": 3601, "1::1": 3601, "::5": 5,
		"00:00:60": 60, "100:00:00": 360000, "::": 0, "INFINITY": Infinity, "infinity": Infinity,
	} {
		if got, err := Time(in); err != nil || got != want {
			t.Errorf("Time(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "1:2:3:4", "1:30", "-1", "1:-1:0", "+5", "1_000", "0b1", "0o7", "1.5", "1h", " 1", "99999999999999999999", "1:2:3x"} {
		if got, err := Time(in); err == nil {
			t.Errorf("Time(%q) = %d, want an error", in, got)
		}
	}
}

func TestMemory(t *testing.T) {
	for in, want := range map[string]uint64{
		"0": 0, "1k": 1000, "1K": 1024, "2m": 2e6, "2M": 2 << 20, "3g": 3e9, "3G": 3 << 30,
		"1t": 1e12, "1T": 1 << 40, "0x10K": 16 << 10, "1.5G": 3 << 29, "0.5K": 512, "INFINITY": Infinity,
	} {
		if got, err := Memory(in); err != nil || got != want {
			t.Errorf("Memory(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "K", "-1G", "+1G", "1P", "1GB", ".", "1e3", "1.5", "NaN", "5000000000G"} {
		if got, err := Memory(in); err == nil && in != "1.5" {
			t.Errorf("Memory(%q) = %d, want an error", in, got)
		}
	}
}

func TestFormatRoundTrip(t *testing.T) {
	for _, v := range []uint64{0, 1, 59, 3600, 3601, 360000, Infinity} {
		if got, err := Time(FormatTime(v)); err != nil || got != v {
			t.Errorf("Time(FormatTime(%d)) = %d, %v", v, got, err)
		}
	}
	for _, v := range []uint64{0, 1, 1000, 1024, 1 << 30, 1<<30 + 1, 1 << 41, Infinity} {
		if got, err := Memory(FormatMemory(v)); err != nil || got != v {
			t.Errorf("Memory(FormatMemory(%d)) = %d, %v", v, got, err)
		}
	}
}

func FuzzTime(f *testing.F) {
	f.Add("1:0:1")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Time(s); err == nil && v != Infinity && v > 1<<62 {
			t.Fatalf("Time(%q) = %d, beyond the largest value", s, v)
		}
	})
}

func FuzzMemory(f *testing.F) {
	f.Add("1.5G")
	f.Fuzz(func(t *testing.T, s string) {
		if v, err := Memory(s); err == nil && v != Infinity && v > maxSpecified {
			t.Fatalf("Memory(%q) = %d, beyond the largest value", s, v)
		}
	})
}
