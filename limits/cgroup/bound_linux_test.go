package cgroup

import (
	"math"
	"os"
	"path/filepath"
	"testing"
)

func TestLowestMemory(t *testing.T) {
	tree := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	v2 := tree(map[string]string{"memory.max": "9000000\n", "a/memory.max": "4000000\n", "a/b/memory.max": "max\n", "c/memory.max": "1\n"})
	v1 := tree(map[string]string{"memory.limit_in_bytes": "9223372036854771712\n", "a/memory.limit_in_bytes": "5000000\n"})
	for name, c := range map[string]struct {
		list []Hierarchy
		want uint64
	}{
		"none":             {nil, math.MaxUint64},
		"cannot be seen":   {[]Hierarchy{{Unified: true, Mount: v2}}, math.MaxUint64},
		"v2, of a parent":  {[]Hierarchy{{Unified: true, Mount: v2, Own: v2 + "/a/b"}}, 4000000},
		"v2, of the mount": {[]Hierarchy{{Unified: true, Mount: v2, Own: v2}}, 9000000},
		"v1":               {[]Hierarchy{{Mount: v1, Own: v1 + "/a"}}, 5000000},
		"hybrid":           {[]Hierarchy{{Mount: v1, Own: v1 + "/a"}, {Unified: true, Mount: v2, Own: v2 + "/a/b"}}, 4000000},
	} {
		if got := lowestMemory(c.list); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
