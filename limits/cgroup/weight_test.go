package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/limits/group"
)

// TestWeightOfALivingGroup changes the weight while a process is in the group.
func TestWeightOfALivingGroup(t *testing.T) {
	m := manager(t, CPUWeight)
	g := create(t, m, "1.1", Limits{CPUWeight: 200})
	cmd := run(t, g, "exec sleep 600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	for _, weight := range []uint64{1, 250, MostWeight} {
		if err := g.SetWeight(weight); err != nil {
			t.Fatal(err)
		}
		path, want := filepath.Join(g.in(CPUWeight), "cpu.shares"), shares(weight)
		if g.system.v2(CPUWeight) {
			path, want = filepath.Join(g.in(CPUWeight), "cpu.weight"), weight
		}
		if got := content(t, path); got != fmt.Sprint(want) {
			t.Errorf("%s of the weight %d is %s, want %d", path, weight, got, want)
		}
	}
	for _, weight := range []uint64{0, MostWeight + 1} {
		if g.SetWeight(weight) == nil {
			t.Errorf("the weight %d is taken", weight)
		}
	}
}

// TestWhereAWeightIsWritten uses groups of both versions, in ordinary directories.
func TestWhereAWeightIsWritten(t *testing.T) {
	dir := t.TempDir()
	folder := func(name string, files ...string) string {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(path, f), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return path
	}
	bare, unified, v1 := folder("bare"), folder("v2", "cpu.weight", "cpu.shares"), folder("v1", "cpu.shares", "cpu.weight")
	for name, c := range map[string]struct {
		paths      group.Paths
		file, want string
	}{
		"v2":                 {group.Paths{Dirs: []string{unified}, Unified: unified}, unified + "/cpu.weight", "250"},
		"v1":                 {group.Paths{Dirs: []string{v1}}, v1 + "/cpu.shares", "2560"},
		"v1 beside v2":       {group.Paths{Dirs: []string{bare, v1}, Unified: bare}, v1 + "/cpu.shares", "2560"},
		"no controller":      {paths: group.Paths{Dirs: []string{bare}, Unified: bare}},
		"no group":           {},
		"a group that ended": {paths: group.Paths{Dirs: []string{dir + "/gone"}}},
	} {
		err := SetWeight(&c.paths, 250)
		var missing *group.NotSupportedError
		switch {
		case c.file == "" && !errors.As(err, &missing):
			t.Errorf("%s: %v", name, err)
		case c.file != "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case c.file != "":
			if got := content(t, c.file); got != c.want {
				t.Errorf("%s: %s is %q, want %q", name, c.file, got, c.want)
			}
		}
	}
}
