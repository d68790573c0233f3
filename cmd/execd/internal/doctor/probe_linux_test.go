package doctor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

func TestProbeOfThisHost(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	var out bytes.Buffer
	status, err := Run([]string{"--json"}, &out)
	if err != nil || status == StatusMissing {
		t.Fatalf("status %d, %v\n%s", status, err, &out)
	}
	var got struct {
		Kernel  string
		UID     int
		Cgroups struct {
			Version     cgroup.Version
			Hierarchies []Hierarchy
		}
		Checks []Check
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if got.Kernel == "" || got.UID != os.Geteuid() || got.Cgroups.Version == cgroup.None || len(got.Cgroups.Hierarchies) == 0 {
		t.Errorf("%s", &out)
	}
	for _, h := range got.Cgroups.Hierarchies {
		if left, err := filepath.Glob(h.Parent + "/*execd-doctor-*"); err != nil || len(left) > 0 || h.Parent == "" && h.Reason == "" {
			t.Errorf("%+v: left %q, %v", h, left, err)
		}
		left, err := filepath.Glob(h.Parent + "/.probe-*-" + strings.TrimSpace(filepath.Base(os.Args[0])))
		if err != nil || len(left) > 0 {
			t.Errorf("left: %q, %v", left, err)
		}
	}
}

func TestWordsOfTheCommand(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"conf", "queues"} {
		if err := os.Mkdir(dir+"/"+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write := func(text string) {
		if err := os.WriteFile(dir+"/conf/global", []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("cgroups_params cgroup_path=none\ngid_range 70000-70001\n")
	var out bytes.Buffer
	if _, err := Run([]string{"--conf", dir}, &out); err != nil || !strings.Contains(out.String(), "switched off by the configuration") ||
		!strings.Contains(out.String(), "70000-70001") {
		t.Errorf("%v\n%s", err, &out)
	}
	write("execd_params USE_CGROUPS=false\n")
	out.Reset()
	if _, err := Run([]string{"--conf", dir}, &out); err != nil || !strings.Contains(out.String(), "switched off by the configuration") {
		t.Errorf("%v\n%s", err, &out)
	}
	write("gid_range x\n")
	if _, err := Run([]string{"--conf", dir}, &out); err == nil || errors.As(err, new(*options.UsageError)) || !strings.Contains(err.Error(), "conf/global:1") {
		t.Errorf("a bad configuration: %v", err)
	}
	if _, err := Run([]string{"--conf", dir + "/none"}, &out); err == nil || errors.As(err, new(*options.UsageError)) {
		t.Errorf("no configuration: %v", err)
	}
	for _, args := range [][]string{{"--frob"}, {"now"}, {"--conf"}, {"--json=maybe"}} {
		if _, err := Run(args, &out); !errors.As(err, new(*options.UsageError)) {
			t.Errorf("%v: %v", args, err)
		}
	}
	out.Reset()
	if status, err := Run([]string{"--help"}, &out); status != 0 || err != nil || out.String() != Usage {
		t.Errorf("--help: %d, %v, %q", status, err, &out)
	}
}

func TestCapabilities(t *testing.T) {
	list := capabilities()
	if os.Geteuid() == 0 && !slices.Contains(list, "CAP_SETUID") {
		t.Errorf("root has %q", list)
	}
	if !intoGroup() && pidfd() {
		t.Log("a kernel before 5.7")
	}
}

// TestManualNamesEveryOption compares execd-doctor(1) with the help.
func TestManualNamesEveryOption(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/man/execd-doctor.1")
	if err != nil {
		t.Fatal(err)
	}
	for word := range strings.FieldsSeq(Usage) {
		name, ok := strings.CutPrefix(strings.Trim(word, "[]"), "--")
		if ok && !strings.Contains(string(page), "\n.It Fl -"+name) {
			t.Errorf("--%s is not explained", name)
		}
	}
	for _, s := range []State{Best, Works, Missing, Never} {
		if !strings.Contains(string(page), "\n.It Cm "+string(s)+"\n") {
			t.Errorf("state %q is not explained", s)
		}
	}
	for _, n := range []int{StatusBest, StatusMissing, StatusWorks} {
		if !strings.Contains(string(page), fmt.Sprintf("\n.It %d\n", n)) {
			t.Errorf("exit status %d is not explained", n)
		}
	}
}

// TestProcedures checks that root's report names the file that limits the programs of a master, and
// says if an invalid file would prevent the agent from starting.
func TestProcedures(t *testing.T) {
	file := filepath.Join(t.TempDir(), "procedures")
	report := func() Check {
		h := &Host{}
		h.readProcedures(file)
		return files(h)
	}
	if c := report(); c.State != Best || strings.Contains(c.Means, file) {
		t.Errorf("without the file: %+v", c)
	}
	for text, state := range map[string]State{"root /site/prolog\n": Best, "root prolog\n": Missing} {
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		c := report()
		if c.State != state || !strings.Contains(c.Means, "programs of a master by "+file) || (c.State == Missing) != strings.Contains(c.Reason, file+":1") {
			t.Errorf("%q: %+v", text, c)
		}
	}
}
