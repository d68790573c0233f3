package builtin

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/clock"
)

// proc creates a directory with files as in /proc.
func proc(t *testing.T, without ...string) string {
	t.Helper()
	archive, err := txtar.ParseFile("testdata/proc.txtar")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range archive.Files {
		path := filepath.Join(dir, f.Name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, f.Data, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range without {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func known() (Processors, error) {
	return Processors{Sockets: 1, Cores: 2, Threads: 4, Topology: "SCTTCTT", InUse: "SCTTctt"}, nil
}

func texts(values []Value) map[string]string {
	m := map[string]string{}
	for _, v := range values {
		m[v.Name] = v.Text
	}
	return m
}

func TestNamesUnitsAndFormats(t *testing.T) {
	dir := proc(t)
	r := New(Options{Proc: dir, Processors: known})
	write(t, dir, "stat", "cpu  1300 50 250 1400 999 999 999 999 0 0\n")
	values, missing := r.Read()
	if len(missing) != 0 {
		t.Errorf("missing: %v", missing)
	}
	want := map[string]string{
		"arch": Architecture(), "num_proc": "4",
		"load_avg": "1.500000", "load_short": "0.750000", "load_medium": "1.500000", "load_long": "2.000000",
		"np_load_avg": "0.375000", "np_load_short": "0.187500", "np_load_medium": "0.375000", "np_load_long": "0.500000",
		// MemFree + Buffers + Cached, without SReclaimable.
		"mem_total": "1000.000000M", "mem_free": "600.500000M", "mem_used": "399.500000M",
		"swap_total": "100.000000M", "swap_free": "75.000000M", "swap_used": "25.000000M",
		"virtual_total": "1100.000000M", "virtual_free": "675.500000M", "virtual_used": "424.500000M",
		"mem_available": "700.000000M",
		// 600 of 1000 ticks.
		"cpu":      "60.000000",
		"m_socket": "1", "m_core": "2", "m_thread": "4", "m_topology": "SCTTCTT", "m_topology_inuse": "SCTTctt",
		"psi_cpu_some": "1.250000", "psi_memory_some": "0.500000", "psi_memory_full": "0.250000", "psi_io_some": "20.000000", "psi_io_full": "10.500000",
	}
	if diff := cmp.Diff(want, texts(values)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var static []string
	for _, v := range values {
		if v.Static {
			static = append(static, v.Name)
		}
	}
	// load_parameters(5), "Static Load Values".
	if diff := cmp.Diff(strings.Fields("arch m_core m_socket m_thread m_topology mem_total num_proc swap_total virtual_total"), static); diff != "" {
		t.Errorf("static values (-want +got)\n%s", diff)
	}
}

func TestUnreadableValuesAreOmitted(t *testing.T) {
	for name, tt := range map[string]struct {
		without string
		file    string
		text    string
		missing string // names of the missing values
		reason  string
	}{
		"no meminfo":          {without: "meminfo", missing: "mem_available mem_free mem_total mem_used swap_free swap_total swap_used virtual_free virtual_total virtual_used", reason: "cannot read the memory of the host: "},
		"meminfo in ruins":    {file: "meminfo", text: "MemFree: 5 kB\n", missing: "mem_available mem_free mem_total mem_used swap_free swap_total swap_used virtual_free virtual_total virtual_used", reason: "MemTotal is 0"},
		"no stat":             {without: "stat", missing: "cpu", reason: "cannot read the times of the processors: "},
		"no pressure":         {without: "pressure", missing: "psi_cpu_some psi_io_full psi_io_some psi_memory_full psi_memory_some", reason: "no pressure stall information"},
		"pressure is garbage": {file: "pressure/io", text: "some avg60=lots\nfull\n", missing: "psi_io_full psi_io_some", reason: "cannot read pressure stall information"},
		"time stands still":   {file: "none", missing: "cpu", reason: "not gone forward"},
		"time goes backwards": {file: "stat", text: "cpu  700 50 250 1000 999 999 999 999 0 0\n", missing: "cpu", reason: "not gone forward"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := proc(t)
			r := New(Options{Proc: dir, Processors: known})
			if tt.file != "none" {
				write(t, dir, "stat", "cpu  1300 50 250 1400 999 999 999 999 0 0\n")
			}
			if tt.without != "" {
				if err := os.RemoveAll(filepath.Join(dir, tt.without)); err != nil {
					t.Fatal(err)
				}
			}
			if tt.text != "" {
				write(t, dir, tt.file, tt.text)
			}
			values, missing := r.Read()
			var names []string
			for _, m := range missing {
				names = append(names, m.Name)
				if !strings.Contains(m.Reason, tt.reason) {
					t.Errorf("%s is missing because %q, want %q", m.Name, m.Reason, tt.reason)
				}
			}
			if got := strings.Join(names, " "); got != tt.missing {
				t.Errorf("missing: %s\nwant %s", got, tt.missing)
			}
			for _, v := range values {
				if strings.Contains(" "+tt.missing+" ", " "+v.Name+" ") {
					t.Errorf("%s is there all the same: %s", v.Name, v.Text)
				}
			}
		})
	}
}

func TestTopologyIsAnArgument(t *testing.T) {
	for name, tt := range map[string]struct {
		processors func() (Processors, error)
		want       string
		missing    int
	}{
		"nobody knows": {nil, "", 5},
		"unreadable":   {func() (Processors, error) { return Processors{}, errors.New("no sysfs") }, "", 5},
		"unknown":      {func() (Processors, error) { return Processors{}, nil }, "NONE", 0},
	} {
		t.Run(name, func(t *testing.T) {
			values, missing := New(Options{Proc: proc(t, "stat", "pressure"), Processors: tt.processors}).Read()
			if got := texts(values)["m_topology"]; got != tt.want || len(missing)-6 != tt.missing {
				t.Errorf("m_topology is %q, missing %v", got, missing)
			}
		})
	}
}

// TestFileSystemThatDoesNotAnswer checks that a report does not wait for the file system, and that
// there is no second request while the first is pending.
func TestFileSystemThatDoesNotAnswer(t *testing.T) {
	m := clock.NewManual(time.Unix(0, 0))
	r := New(Options{TmpDir: "/far", Clock: m, Patience: 3 * time.Second})
	questions, answer := make(chan string, 10), make(chan struct{})
	r.statfs = func(path string, st *unix.Statfs_t) error {
		questions <- path
		<-answer
		st.Bavail, st.Blocks, st.Frsize = 3<<20, 4<<20, 4096
		return nil
	}
	for range 2 {
		read := make(chan []Missing)
		go func() {
			_, missing := r.Read()
			read <- missing
		}()
		if err := m.WaitFor(t.Context(), 3*time.Second); err != nil {
			t.Fatal(err)
		}
		m.Advance(3 * time.Second)
		missing := <-read
		if last := missing[len(missing)-1]; last.Name != TmpDirTotal || !strings.Contains(last.Reason, `"/far" has not answered for`) {
			t.Errorf("missing %v", missing)
		}
	}
	close(answer)
	r.options.Clock = clock.System()
	r.options.Patience = time.Minute
	values, _ := r.Read()
	if got := texts(values); got[TmpDirFree] != "12288.000000M" || got[TmpDirTotal] != "16384.000000M" {
		t.Errorf("%s of %s are free", got[TmpDirFree], got[TmpDirTotal])
	}
	if n := len(questions); n != 1 {
		t.Errorf("%d questions were asked", n)
	}
}

// TestThisHost checks that a real Linux host has all values except the topology.
func TestThisHost(t *testing.T) {
	r := New(Options{TmpDir: t.TempDir(), Processors: known})
	var missing []Missing
	for range 2 { // the first reading may be too early for cpu
		_, missing = r.Read()
	}
	for _, m := range missing {
		if m.Name != CPU && !strings.HasPrefix(m.Name, "psi_") {
			t.Errorf("%s is missing: %s", m.Name, m.Reason)
		}
	}
}

func FuzzPressure(f *testing.F) {
	f.Add("some avg10=0.00 avg60=1.25 avg300=0.98 total=1\nfull avg60=100\n")
	f.Add("some avg60=NaN\n")
	f.Fuzz(func(t *testing.T, text string) {
		if v, err := pressure(text, "some"); err == nil && !(v >= 0 && v <= 100) {
			t.Errorf("%v percent", v)
		}
	})
}
