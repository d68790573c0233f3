package jobdir

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestOnlineRoundTrip(t *testing.T) {
	want := Online{
		At: time.Unix(1795229673, 877908554), Wallclock: 12.5, CPU: 3.25, Mem: 0.125, IO: 1e-9, IOWait: 7, Vmem: 1 << 40, MaxVmem: 1 << 41, RSS: 1 << 39, MaxRSS: 1 << 40,
	}
	got, err := ParseOnline("usage_online", FormatOnline(&want))
	if err != nil || !got.At.Equal(want.At) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got.At = want.At; *got != want {
		t.Errorf("got %+v, want %+v", *got, want)
	}
	if _, err := ParseOnline("usage_online", []byte("cpu=many\n")); err == nil {
		t.Error("cpu=many is accepted")
	}
	if _, err := ParseOnline("usage_online", []byte("of_tomorrow=1\n")); err != nil {
		t.Error(err)
	}
}

// TestOnline checks that Online reads what WriteOnline wrote, of any length, and each content has its
// own version.
func TestOnline(t *testing.T) {
	dir := newDir(t)
	if o, err := dir.Online(); o != nil || err != nil {
		t.Errorf("before the first look there is %+v, %v", o, err)
	}
	if v, err := dir.Version(FileOnline); v != (Version{}) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("before the first look there is version %+v, %v", v, err)
	}
	former := Version{}
	for cpu := range 50 {
		if err := dir.WriteOnline(&Online{At: time.Unix(1, 0), CPU: float64(cpu)}); err != nil {
			t.Fatal(err)
		}
		v, err := dir.Version(FileOnline)
		if err != nil || v == former {
			t.Errorf("version %d is that before: %+v, %v", cpu, v, err)
		}
		if again, err := dir.Version(FileOnline); err != nil || again != v {
			t.Errorf("version %d has become another: %v", cpu, err)
		}
		former = v
		if o, err := dir.Online(); err != nil || o.CPU != float64(cpu) {
			t.Errorf("read %+v, %v", o, err)
		}
	}
	long := append(FormatOnline(&Online{At: time.Unix(1, 0)}), strings.Repeat("of_tomorrow=1\n", 100)+"cpu=7\n"...)
	if err := dir.WriteFile(FileOnline, long); err != nil {
		t.Fatal(err)
	}
	if o, err := dir.Online(); err != nil || o.CPU != 7 {
		t.Errorf("of a long one %+v, %v is read", o, err)
	}
	if err := errors.Join(dir.Remove(FileOnline), os.Mkdir(filepath.Join(dir.Path(), FileOnline), 0o755)); err != nil {
		t.Fatal(err)
	}
	if o, err := dir.Online(); err == nil {
		t.Errorf("a directory is read: %+v", o)
	}
}

func FuzzParseOnline(f *testing.F) {
	f.Add(FormatOnline(&Online{At: time.Unix(1, 5), CPU: 1.5, Vmem: 3}))
	f.Add([]byte(nil)) // no time
	f.Fuzz(func(t *testing.T, b []byte) {
		o, err := ParseOnline("f", b)
		if err != nil {
			return
		}
		again, err := ParseOnline("f", FormatOnline(o))
		if err != nil {
			t.Fatalf("FormatOnline of %q cannot be parsed: %v", b, err)
		}
		if *again != *o {
			t.Errorf("FormatOnline of %q is parsed as %+v, want %+v", b, *again, *o)
		}
	})
}
