package guest

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/test/vm/plan"
)

func TestMachinesThatCannotBe(t *testing.T) {
	for want, m := range map[string]Machine{
		"cannot deal 3 CPUs to 2 NUMA nodes":      {Cores: 3, Nodes: 2},
		"each needs 128":                          {Cores: 2, Nodes: 2, Memory: 200},
		"cannot make a guest with -1 CPUs":        {Cores: -1},
		"it is none of v2, v1 and hybrid":         {Cgroup: "v3"},
		"cannot make 600 MiB of swap space":       {Memory: 500, Swap: 600},
		`cannot copy a file to "relative"`:        {Files: map[string]string{"relative": "/etc/passwd"}},
		`cannot copy a file to "/a/../etc/shadow`: {Files: map[string]string{"/a/../etc/shadow": "/etc/passwd"}},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := m.complete(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("complete = %v", err)
			}
		})
	}
}

func TestStepsThatCannotBe(t *testing.T) {
	for want, steps := range map[string][]Step{
		"there is nothing to run":                           {},
		"without a program":                                 {{}},
		`environment variable "A": it is no NAME=VALUE`:     {{Step: plan.Step{Argv: []string{"a"}, Env: []string{"A"}}}},
		`cannot set "MemoryMax=1": the guest is without sy`: {{Step: plan.Step{Argv: []string{"a"}, Properties: []string{"MemoryMax=1"}}}},
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := new(Machine).plan(steps, nil); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("plan = %v", err)
			}
		})
	}
}

func TestProcessorsAreDealtToNodes(t *testing.T) {
	m, err := Machine{Sockets: 2, Cores: 2, Threads: 2, Nodes: 4, Memory: 1026}.complete()
	if err != nil {
		t.Fatal(err)
	}
	args := m.qemuArgs("kernel", "initramfs", false)
	for _, want := range []string{
		"8,sockets=2,cores=2,threads=2", "1026M",
		"memory-backend-ram,id=m0,size=258M", "memory-backend-ram,id=m3,size=256M",
		"node,nodeid=0,memdev=m0,cpus=0-1", "node,nodeid=3,memdev=m3,cpus=6-7",
	} {
		if !slices.Contains(args, want) {
			t.Errorf("%q lacks %q", args, want)
		}
	}
	if slices.Contains(args, "-drive") {
		t.Errorf("%q has a disk", args)
	}
}
