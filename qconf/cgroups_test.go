package qconf

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

func TestCgroupsParamsAreTyped(t *testing.T) {
	on := CgroupsParams{Cpuset: true, Freezer: true, Killing: true, HVmemLimit: true, HRSSLimit: true, Weight: Auto, Systemd: true, Pids: DefaultPids}
	for sentence, c := range map[string]struct {
		text string
		want func(c *CgroupsParams)
	}{
		"what is not named is on":   {"cpuset=true", func(*CgroupsParams) {}},
		"a parameter alone is true": {"cpuset=false,cpuset", func(*CgroupsParams) {}},
		"all as Univa's installer writes it": {
			"cgroup_path=none cpuset=false mount=false freezer=false freeze_pe_tasks=false killing=false forced_numa=false h_vmem_limit=false " +
				"m_mem_free_hard=false m_mem_free_soft=false min_memory_limit=0",
			func(c *CgroupsParams) {
				c.Off, c.Cpuset, c.Freezer, c.Killing, c.HVmemLimit = true, false, false, false, false
			},
		},
		"a path switches groups on again": {"cgroup_path=none,cgroup_path=/sys/fs/cgroup/", func(c *CgroupsParams) { c.Path = "/sys/fs/cgroup" }},
		"what is ours": {
			"h_rss_limit=0;CPU_WEIGHT=no,pids_limit=1000 systemd=false,min_memory_limit=50M",
			func(c *CgroupsParams) {
				c.HRSSLimit, c.Weight, c.Pids, c.Systemd, c.MinMemory = false, No, 1000, false, 50<<20
			},
		},
		"devices": {
			"devices=/dev/nvidia[0-7]|/dev/dri/render*,cpu_weight=true",
			func(c *CgroupsParams) { c.Devices, c.Weight = []string{"/dev/nvidia[0-7]", "/dev/dri/render*"}, Yes },
		},
		"no limit of processes":     {"pids_limit=0", func(c *CgroupsParams) { c.Pids = 0 }},
		"nor by Grid Engine's word": {"pids_limit=infinity", func(c *CgroupsParams) { c.Pids = 0 }},
		"unknown ones are kept":     {"frob=1,cpuset=false", func(c *CgroupsParams) { c.Cpuset, c.Unknown = false, []string{"frob=1"} }},
		"none is not a list":        {"NONE", func(*CgroupsParams) {}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := conf(t, "cgroups_params "+c.text)
			want := on
			c.want(&want)
			same(t, "params", want, got.CgroupsParams)
			if len(got.Warnings()) != len(want.Unknown) {
				t.Errorf("warnings: %v", got.Warnings())
			}
			again, err := ParseConfiguration("again", []byte(got.Format(Wrapped)))
			if err != nil {
				t.Fatal(err)
			}
			same(t, "read back", want, again.CgroupsParams)
		})
	}
}

func TestCgroupsParamsOfAHost(t *testing.T) {
	c, err := withLocal(conf(t, "cgroups_params cgroup_path=none\n"), "cgroups_params cpuset=false\n")
	if err != nil || c.CgroupsParams.Off || c.CgroupsParams.Cpuset {
		t.Errorf("%+v, %v", c.CgroupsParams, err)
	}
	c, err = withLocal(conf(t, "cgroups_params cgroup_path=none\n"), "")
	if err != nil || !c.CgroupsParams.Off {
		t.Errorf("%+v, %v", c.CgroupsParams, err)
	}
}

func TestCgroupsParamsRefuse(t *testing.T) {
	for text, want := range map[string]string{
		"cgroup_path=cgroup":         `cgroup_path: "cgroup" is not an absolute path, expected one that begins with /, or none`,
		"cpuset=maybe":               `cpuset: "maybe" is neither true nor false, expected TRUE or FALSE`,
		"cpu_weight=100":             `cpu_weight: "100" is unknown, expected true, false or auto`,
		"pids_limit=-1":              `pids_limit: "-1" is out of range, expected a number from 0 to 2147483647, or INFINITY`,
		"min_memory_limit=INFINITY":  `min_memory_limit: "INFINITY" is not possible here, expected a finite size`,
		"devices=nvidia0":            `devices: "nvidia0" is not a device, expected none or patterns like /dev/nvidia[0-7] with | between them`,
		"devices=/dev/a|":            `devices: "" is not a device, expected none or patterns like /dev/nvidia[0-7] with | between them`,
		"devices=/dev/nvidia[7-0]":   `devices: "/dev/nvidia[7-0]" has no range of numbers, expected one like [0-7]`,
		"devices=/dev/nvidia[0-7":    `devices: "/dev/nvidia[0-7" has no range of numbers, expected one like [0-7]`,
		"devices=/dev/n0]":           `devices: "/dev/n0]" has no opening bracket`,
		"devices=/dev/n[0-9999999]":  `devices: "/dev/n[0-9999999]" has no range of numbers, expected one like [0-7]`,
		"devices=/dev/n[0-99][0-99]": `devices: "/dev/n[0-99][0-99]" stands for more than 4096 devices`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseConfiguration("conf/global", []byte("cgroups_params "+text+"\n"))
			refused(t, err, "conf/global:1: cgroups_params: "+want)
		})
	}
}

func TestExpandRanges(t *testing.T) {
	for pattern, want := range map[string]string{
		"/dev/a":              "/dev/a",
		"/dev/a[3]":           "/dev/a3",
		"/dev/a[8-11]x":       "/dev/a8x /dev/a9x /dev/a10x /dev/a11x",
		"/dev/a[0-1]/b[0-1]*": "/dev/a0/b0* /dev/a0/b1* /dev/a1/b0* /dev/a1/b1*",
	} {
		got, err := ExpandRanges(pattern)
		if err != nil {
			t.Error(err)
		}
		same(t, pattern, want, strings.Join(got, " "))
	}
}

func TestVmemLimitOfAQueue(t *testing.T) {
	for sentence, c := range map[string]struct {
		text, queue string
		want        job.VmemLimit
	}{
		"both unless it is set":        {"none", "all.q", job.VmemBoth},
		"for all queues":               {"VMEM_LIMIT=memory", "all.q", job.VmemMemory},
		"in any case":                  {"vmem_limit=Address_Space", "all.q", job.VmemAddressSpace},
		"a queue of its own":           {"VMEM_LIMIT=both,[bigmem.q=memory] KEEP_ACTIVE=true", "bigmem.q", job.VmemMemory},
		"the others":                   {"VMEM_LIMIT=both,[bigmem.q=memory]", "all.q", job.VmemBoth},
		"with blanks between":          {"VMEM_LIMIT=memory , [bigmem.q=both] [all.q=address_space]", "all.q", job.VmemAddressSpace},
		"the last pattern that fits":   {"VMEM_LIMIT=both,[big*=memory],[*.q=address_space]", "big.q", job.VmemAddressSpace},
		"what comes twice counts last": {"VMEM_LIMIT=both,[all.q=memory],VMEM_LIMIT=both", "all.q", job.VmemBoth},
	} {
		t.Run(sentence, func(t *testing.T) {
			e := conf(t, "execd_params "+c.text)
			same(t, c.text, c.want, e.ExecdParams.VmemLimits.For(c.queue))
			if len(e.Warnings()) > 0 {
				t.Errorf("warnings: %v", e.Warnings())
			}
		})
	}
}

func TestVmemLimitRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"VMEM_LIMIT=ram":            `VMEM_LIMIT: "ram" is unknown, expected one of both, memory, address_space`,
		"VMEM_LIMIT=both,[a.q=ram]": `VMEM_LIMIT: "ram" is unknown, expected one of both, memory, address_space`,
		"VMEM_LIMIT=both,[a.q]":     `VMEM_LIMIT: "[a.q]" sets no value, expected [queue=value]`,
		"VMEM_LIMIT=both,[a.q=both": `VMEM_LIMIT: "[a.q=both" sets no value, expected [queue=value]`,
		"VMEM_LIMIT=both,[=both]":   `VMEM_LIMIT: "" is not a name of a queue`,
		`VMEM_LIMIT=both,[[=both]`:  `VMEM_LIMIT: "[" is not a name of a queue`,
	} {
		t.Run(text, func(t *testing.T) {
			_, err := ParseConfiguration("conf/global", []byte("execd_params "+text+"\n"))
			refused(t, err, "conf/global:1: execd_params: "+want)
		})
	}
	// After anything else a bracket is an unknown parameter.
	c := conf(t, "execd_params KEEP_ACTIVE=true,[a.q=memory]")
	same(t, "unknown", []string{"[a.q=memory]"}, c.ExecdParams.Unknown)
}
