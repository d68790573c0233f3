package shrink

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// TestUnchanged checks that only memory that has the content of its file, and keeps it, is
// unmapped.
func TestUnchanged(t *testing.T) {
	areas := func(lines ...string) string {
		var b strings.Builder
		for _, l := range lines {
			head, anonymous, _ := strings.Cut(l, "|")
			b.WriteString(head + "\nSize: 100 kB\nAnonymous: " + anonymous + " kB\nVmFlags: rd ex mr\n")
		}
		return b.String()
	}
	text := areas(
		"00400000-00d2c000 r-xp 00000000 fe:00 99 /bin/execd|0",
		"00d2c000-01682000 r--p 0092c000 fe:00 99 /bin/execd (deleted)|0",
		"01682000-01683000 r--p 0092c000 fe:00 99 /bin/relocated|4",
		"01683000-016fe000 rw-p 01282000 fe:00 99 /bin/execd|0",
		"02000000-02100000 r--s 00000000 fe:00 99 /database|0",
		"02100000-02200000 rw-s 00000000 fe:00 99 /shared|0",
		"377b26c00000-377b27400000 r--p 00000000 00:00 0 |0",
		"7ffc509e4000-7ffc509e6000 r-xp 00000000 00:00 0 [vdso]|0",
	) + "03000000-03001000 r-xp 0 fe:00 9 /cut\nSize: 4 kB\n" + areas("04000000-04001000 rw-p 0 fe:00 9 /bin/other|0")
	if got, want := unchanged(text), []area{{0x400000, 0xd2c000}, {0xd2c000, 0x1682000}}; !slices.Equal(got, want) {
		t.Errorf("got %x, want %x", got, want)
	}
	own, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	if len(unchanged(string(own))) == 0 {
		t.Error("of this program nothing is")
	}
}
