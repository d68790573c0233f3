package jobdir

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/execd-project/execd/job"
)

func seed(f *testing.F, kind string) {
	files, err := filepath.Glob("testdata/" + kind + "/*")
	if err != nil || len(files) == 0 {
		f.Fatal("no samples", err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
}

// FuzzConfig checks that every config that was read can be written, and reads back unchanged.
func FuzzConfig(f *testing.F) {
	seed(f, "config")
	seed(f, "ocs")
	f.Fuzz(func(t *testing.T, data []byte) {
		d, err := ParseConfig("config", data)
		if err != nil || d.Daemon != job.DaemonGridEngine {
			return
		}
		first, err := FormatConfig(d)
		if err != nil {
			t.Fatal(err)
		}
		d, err = ParseConfig("config", first)
		if err != nil {
			t.Fatal(err)
		}
		if second, err := FormatConfig(d); err != nil || !bytes.Equal(first, second) {
			t.Fatalf("%v\n%s\n%s", err, first, second)
		}
	})
}

func FuzzEnvironment(f *testing.F) {
	seed(f, "environment")
	f.Fuzz(func(t *testing.T, data []byte) {
		edited, _ := ParseEditedEnvironment(data, job.DaemonGridEngine)
		v, err := ParseEnvironment("environment", data, job.DaemonGridEngine)
		if err == nil && !slices.Equal(v, edited) {
			t.Fatalf("%q, read as an edited file %q", v, edited)
		}
		if err != nil {
			return
		}
		b, err := FormatEnvironment(v)
		if err != nil {
			t.Fatal(err)
		}
		if w, err := ParseEnvironment("environment", b, job.DaemonGridEngine); err != nil || !slices.Equal(v, w) {
			t.Fatalf("%v\n%q\n%q", err, v, w)
		}
	})
}

func FuzzUsage(f *testing.F) {
	seed(f, "usage")
	f.Add([]byte("exact_start_time=5.25\nwallclock=1.5\nlimit=h_rt 1 2\nreason=x\\ny\ncpu=1e3\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		u, err := ParseUsage("usage", data)
		if err != nil {
			return
		}
		first := FormatUsage(u)
		if u, err = ParseUsage("usage", first); err != nil {
			t.Fatalf("%v\n%s", err, first)
		}
		if second := FormatUsage(u); !bytes.Equal(first, second) {
			t.Fatalf("%s\n%s", first, second)
		}
	})
}

func FuzzPEHosts(f *testing.F) {
	seed(f, "pe_hostfile")
	f.Fuzz(func(t *testing.T, data []byte) {
		h, err := ParsePEHosts("pe_hostfile", data)
		if err != nil {
			return
		}
		b, err := FormatPEHosts(h)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := ParsePEHosts("pe_hostfile", b); err != nil || !slices.Equal(h, again) {
			t.Fatalf("%v %v", err, again)
		}
	})
}
