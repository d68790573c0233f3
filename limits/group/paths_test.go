package group

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestPathsRoundTrip(t *testing.T) {
	path := rapid.StringMatching(`/[ -~äö]{0,20}`)
	rapid.Check(t, func(t *rapid.T) {
		p := &Paths{
			RSSLimit:  rapid.Uint64().Draw(t, "rss"),
			VmemLimit: rapid.Uint64().Draw(t, "vmem"),
		}
		for range rapid.IntRange(0, 4).Draw(t, "dirs") {
			p.Dirs = append(p.Dirs, path.Draw(t, "dir"))
		}
		if rapid.Bool().Draw(t, "v2") {
			p.Unified = path.Draw(t, "unified")
		}
		for f := range p.File {
			if rapid.Bool().Draw(t, "has") {
				p.File[f] = path.Draw(t, "file")
			}
		}
		got, err := Parse(p.Format())
		if diff := cmp.Diff(p, got); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestParseRefuses(t *testing.T) {
	tests := map[string]string{
		"a line without a value":       "dir=/a\nunified\n",
		"a relative path":              "cgroup.kill=sys/fs/cgroup\n",
		"an empty directory":           "dir=\n",
		"a limit that is not a number": "h_rss=64M\n",
		"a limit that is out of range": "h_vmem=99999999999999999999999\n",
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			var e *SyntaxError
			if p, err := Parse(text); !errors.As(err, &e) {
				t.Errorf("Parse = %+v, %v", p, err)
			} else if e.Line != strings.Count(text, "\n") {
				t.Errorf("the error is said to be in line %d: %v", e.Line, e)
			}
		})
	}
	if p, err := Parse("color=blue\ndir=/a\n"); err != nil || len(p.Dirs) != 1 {
		t.Errorf("a key of a newer version is refused: %+v, %v", p, err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add("dir=/a\nunified=/a\ncpu.stat=/a/cpu.stat\nh_rss=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		p, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(p.Format())
		if diff := cmp.Diff(p, again); err != nil || diff != "" {
			t.Errorf("%v\n%s", err, diff)
		}
	})
}

func TestValue(t *testing.T) {
	const events = "low 0\nhigh 0\nmax 12\noom 1\noom_kill 2\noom_group_kill 1\nlater 3 4\nodd\n"
	tests := map[string]struct {
		text, key string
		want      uint64
		found     bool
	}{
		"a key":                         {events, "max", 12, true},
		"a key that others begin with":  {events, "oom", 1, true},
		"the last of them":              {events, "oom_group_kill", 1, true},
		"a key that is not there":       {events, "oom_kil", 0, false},
		"a line with more than a value": {events, "later", 0, false},
		"a line without a value":        {events, "odd", 0, false},
		"a text without a newline":      {"populated 1", "populated", 1, true},
		"nothing":                       {"", "populated", 0, false},
		"an empty key":                  {"\n\n", "", 0, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, found := value(test.text, test.key); got != test.want || found != test.found {
				t.Errorf("value = %d, %v; want %d, %v", got, found, test.want, test.found)
			}
		})
	}
}

func FuzzValue(f *testing.F) {
	f.Add("usage_usec 12\n", "usage_usec")
	f.Fuzz(func(t *testing.T, text, key string) {
		if _, found := value(text, key); found && !strings.Contains(text, key+" ") {
			t.Errorf("%q has no %q", text, key)
		}
	})
}

func TestMemoryStat(t *testing.T) {
	tests := map[string]struct {
		text string
		want Memory
		v1   bool
	}{
		"v2": {"anon 1000\nfile 5000\nkernel 3\nshmem 200\nfile_mapped 100\n", Memory{RSS: 1200}, false},
		"v1": {
			"cache 1\nrss 2\nshmem 3\nhierarchical_memory_limit 9\ntotal_cache 70\ntotal_rss 1000\ntotal_shmem 30\ntotal_swap 7\n",
			Memory{RSS: 1030, Swap: 7},
			true,
		},
		"v1 before it told shared memory apart": {"total_cache 70\ntotal_rss 1000\n", Memory{RSS: 1000}, true},
		"nothing":                               {"", Memory{}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got, v1 := parseMemoryStat(test.text); got != test.want || v1 != test.v1 {
				t.Errorf("parseMemoryStat = %+v, %v; want %+v, %v", got, v1, test.want, test.v1)
			}
		})
	}
}

func TestMemoryLimitNames(t *testing.T) {
	tests := map[string]struct {
		rss, vmem uint64
		swap      bool
		name      string
		value     uint64
	}{
		"h_vmem alone": {0, 100, false, "h_vmem", 100},
		"h_rss alone":  {50, 0, false, "h_rss", 50},
		"h_rss below h_vmem, RAM was at its limit":  {50, 100, false, "h_rss", 50},
		"h_rss below h_vmem, the sum was at its":    {50, 100, true, "h_vmem", 100},
		"h_rss above h_vmem":                        {200, 100, false, "h_vmem", 100},
		"h_rss alone, and a host that limited swap": {50, 0, true, "h_rss", 50},
		"none": {0, 0, false, "", 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p := &Paths{RSSLimit: test.rss, VmemLimit: test.vmem}
			if n, v := p.memoryLimit(test.swap); n != test.name || v != test.value {
				t.Errorf("memoryLimit = %s, %d; want %s, %d", n, v, test.name, test.value)
			}
		})
	}
}

func TestParseStatus(t *testing.T) {
	tests := map[string]struct {
		text string
		want Process
	}{
		"a process":                    {"Name:\tcat\nUmask:\t0022\nState:\tS (sleeping)\nPid:\t12\n", Process{12, "cat", 'S'}},
		"a name like another line":     {"Name:\tState:\tR\nState:\tD (disk sleep)\n", Process{12, "State:\tR", 'D'}},
		"a text that is cut off":       {"Name:\tcat\n", Process{12, "cat", 0}},
		"a text that is no such thing": {"12", Process{12, "", 0}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := parseStatus(12, test.text); got != test.want {
				t.Errorf("parseStatus = %+v, want %+v", got, test.want)
			}
		})
	}
}

func TestBusyErrorSaysWho(t *testing.T) {
	e := &BusyError{"/g", []Process{{7, "dd", 'D'}, {8, "sh", 'R'}, {9, "a", 'R'}, {10, "b", 'R'}, {11, "c", 'R'}, {12, "d", 'R'}}}
	const want = `cannot empty group "/g": 6 processes are left: 7 (dd) in uninterruptible sleep, 8 (sh), 9 (a), 10 (b), 11 (c), ...`
	if got := e.Error(); got != want {
		t.Errorf("Error = %s\n    want %s", got, want)
	}
}
