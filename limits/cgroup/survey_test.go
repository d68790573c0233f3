package cgroup

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSurvey(t *testing.T) {
	tests := map[string]struct {
		mountinfo, self string
		version         Version
		want            []Hierarchy
	}{
		"v2 under systemd": {
			"29 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n" +
				"23 28 0:21 / /sys rw shared:7 - sysfs sysfs rw\n",
			"0::/system.slice/execd.service\n",
			V2,
			[]Hierarchy{{Unified: true, Mount: "/sys/fs/cgroup", Own: "/sys/fs/cgroup/system.slice/execd.service"}},
		},
		"v1 with joined controllers, and systemd's own": {
			"30 25 0:26 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,xattr,name=systemd\n" +
				"33 25 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:11 - cgroup cgroup rw,cpu,cpuacct\n" +
				"34 25 0:30 / /sys/fs/cgroup/net_cls,net_prio rw - cgroup cgroup rw,net_cls,net_prio\n" +
				"35 25 0:31 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
			"5:cpu,cpuacct:/system.slice\n4:memory:/a:b\n1:name=systemd:/system.slice/x.service\n",
			V1,
			[]Hierarchy{
				{Mount: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}, Own: "/sys/fs/cgroup/cpu,cpuacct/system.slice"},
				{Mount: "/sys/fs/cgroup/memory", Controllers: []string{"memory"}, Own: "/sys/fs/cgroup/memory/a:b"},
			},
		},
		"hybrid": {
			"1 0 0:1 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
				"2 0 0:2 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"8:pids:/\n0::/\n",
			Hybrid,
			[]Hierarchy{
				{Mount: "/sys/fs/cgroup/pids", Controllers: []string{"pids"}, Own: "/sys/fs/cgroup/pids"},
				{Unified: true, Mount: "/sys/fs/cgroup/unified", Own: "/sys/fs/cgroup/unified"},
			},
		},
		"a container without a cgroup namespace, which sees its part only": {
			"1 0 0:1 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n",
			"4:memory:/docker/abc/in\n",
			V1,
			[]Hierarchy{{Mount: "/sys/fs/cgroup/memory", Controllers: []string{"memory"}, Own: "/sys/fs/cgroup/memory/in"}},
		},
		"a group outside of what is mounted": {
			"1 0 0:1 /docker/abc /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"0::/docker/abcdef\n",
			V2,
			[]Hierarchy{{Unified: true, Mount: "/sys/fs/cgroup"}},
		},
		"a group outside of the cgroup namespace": {
			"1 0 0:1 / /sys/fs/cgroup rw - cgroup2 cgroup rw\n",
			"0::/../other\n",
			V2,
			[]Hierarchy{{Unified: true, Mount: "/sys/fs/cgroup"}},
		},
		"the same hierarchy twice, and a blank in the path": {
			`1 0 0:1 / /mnt/my\040groups rw - cgroup2 none rw` + "\n" +
				"2 0 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n",
			"0::/a\n",
			V2,
			[]Hierarchy{{Unified: true, Mount: "/mnt/my groups", Own: "/mnt/my groups/a"}},
		},
		"nothing": {"23 28 0:21 / /sys rw - sysfs sysfs rw\n", "", None, nil},
		"odd lines": {
			"\n1 2 3\n1 0 0:1 / /sys - cgroup2\n - cgroup2 a b\n", "x\n::\n", None, nil,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := survey(test.mountinfo, test.self)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
			if v := version(got); v != test.version {
				t.Errorf("version = %s, want %s", v, test.version)
			}
		})
	}
}

func FuzzSurvey(f *testing.F) {
	f.Add("1 0 0:1 /a /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/a/b\n")
	f.Add("1 0 0:1 / /m rw - cgroup cgroup rw,cpu,cpuacct\n", "3:cpu,cpuacct:/x\n")
	f.Fuzz(func(t *testing.T, mountinfo, self string) {
		for _, h := range survey(mountinfo, self) {
			if !h.Unified && len(h.Controllers) == 0 {
				t.Errorf("a v1 hierarchy without controllers: %+v", h)
			}
		}
	})
}
