package doctor

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
)

var update = flag.Bool("update", false, "write the golden files")

// all returns the features, all of which work except those in but.
func all(v2 bool, without string, but ...cgroup.Feature) (list [cgroup.NumFeatures]Feature) {
	for f := range list {
		list[f] = Feature{Works: true, V2: v2}
	}
	for _, f := range but {
		list[f] = Feature{Reason: without}
	}
	return list
}

// hosts returns hosts by a description, which is also the name of the golden file.
func hosts() map[string]*Host {
	every := []string{"CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID", "CAP_SYS_RESOURCE"}
	confined := [job.NumResources]bool{job.Descriptors: true, job.MaxProc: true}
	unified := func(parent, reason string) []Hierarchy {
		return []Hierarchy{{"/sys/fs/cgroup", true, []string{"cpu", "cpuset", "memory", "pids", "io"}, parent, reason}}
	}
	var none, denied [cgroup.NumFeatures]Feature
	for f := range none {
		none[f] = Feature{Reason: "it needs the controller: no cgroup hierarchy is mounted"}
		denied[f] = Feature{Reason: "it needs the controller: enter groups in /sys/fs/cgroup: processes cannot be moved there from the group of this process"}
	}
	ids := GroupIDs{Range: "65400-65500", Total: 101, Free: 99}
	base := Host{
		Kernel: "6.1.0", Capabilities: every, Proc: true, Children: true, Pidfd: true, IntoGroup: true, PSI: true,
		CPUs: 4, Nodes: 1, Topology: "SCTTCTT", GroupIDs: ids,
	}
	with := func(change func(h *Host)) *Host {
		h := base
		change(&h)
		return &h
	}
	return map[string]*Host{
		"MIG instances that nobody names": with(func(h *Host) {
			h.Cgroups = Cgroups{Version: cgroup.V2, Hierarchies: unified("/sys/fs/cgroup", ""), Features: all(true, "")}
			whole := gpu.GPU{Vendor: gpu.NVIDIA, Address: "0000:41:00.0", NUMA: 0, Model: "NVIDIA H100", UUID: "GPU-1", Divided: true}
			part := gpu.GPU{Vendor: gpu.NVIDIA, Address: "0000:41:00.0", NUMA: 0, Model: "NVIDIA H100 MIG instance 1.0", Instance: "1.0"}
			h.GPUs, h.NoQuery = &gpu.Inventory{GPUs: []gpu.GPU{whole, part}}, true
		}),
		"root with systemd": with(func(h *Host) {
			h.Swap = true
			h.Processes = []Process{
				{PID: 12, Role: roleFront, User: "execd", NoNewPrivs: true, Seccomp: true}, {PID: 11, Role: roleLauncher, User: "root", Capabilities: true},
			}
			h.Systemd = Systemd{Booted: true, Unified: true, Scope: "/system.slice/execd-jobs.scope"}
			h.Cgroups = Cgroups{Version: cgroup.V2, Hierarchies: unified("/sys/fs/cgroup/system.slice/execd-jobs.scope", ""), Features: all(true, "")}
		}),
		"root with v1, swap and an old kernel": with(func(h *Host) {
			h.Kernel, h.Swap, h.Pidfd, h.IntoGroup, h.PSI = "4.18.0", true, false, false, false
			h.Systemd = Systemd{Booted: true, Err: "no systemd manager is running"}
			h.Cgroups = Cgroups{
				Version: cgroup.V1, Hierarchies: []Hierarchy{{"/sys/fs/cgroup/memory", false, []string{"memory"}, "/sys/fs/cgroup/memory", ""}},
				Features: all(false, "it needs something", cgroup.Kill, cgroup.Emptied, cgroup.OOMGroup, cgroup.SwapLimit),
			}
		}),
		"root in a container": with(func(h *Host) {
			h.Capabilities, h.Confined = every[:4], confined
			h.Cgroups = Cgroups{Version: cgroup.None, Features: none}
			h.TopologyErr, h.Topology = "open /sys/devices/system/cpu: no such file or directory", ""
		}),
		"root without the memory controller": with(func(h *Host) {
			h.Cgroups = Cgroups{
				Version: cgroup.V2, Hierarchies: unified("/sys/fs/cgroup", ""), Disabled: []string{"memory"},
				Features: all(true, "it needs the memory controller", cgroup.MemoryLimit, cgroup.SwapLimit, cgroup.MemoryPeak, cgroup.OOMReport, cgroup.OOMGroup),
			}
		}),
		"a user without anything": with(func(h *Host) {
			h.UID, h.Capabilities, h.Confined = 1000, nil, confined
			h.GroupIDs = GroupIDs{Err: "cannot read /proc: permission denied"}
			h.Cgroups = Cgroups{Version: cgroup.V2, Features: denied, Hierarchies: unified("", "enter groups in /sys/fs/cgroup: processes cannot be moved there from the group of this process")}
			h.Systemd = Systemd{Booted: true, Unified: true, Err: "no systemd manager is running: stat /run/user/1000/systemd/private: no such file or directory"}
		}),
		"a user with a manager": with(func(h *Host) {
			h.UID, h.Capabilities = 1000, nil
			h.Systemd = Systemd{Booted: true, Unified: true, Scope: "/user.slice/user-1000.slice/user@1000.service/app.slice/execd-run-7.scope", Controllers: []string{"cpu", "memory", "pids"}}
			h.Cgroups = Cgroups{
				Version: cgroup.V2, Hierarchies: unified("/sys/fs/cgroup/user.slice", ""),
				Features: all(true, "it needs the cpuset controller", cgroup.Cpuset, cgroup.IOUsage, cgroup.Devices),
			}
		}),
		"nothing to be seen": with(func(h *Host) {
			h.Proc, h.Children, h.Capabilities = false, false, nil
			h.Cgroups = Cgroups{Version: cgroup.None, Err: "cannot read /proc/self/mountinfo: no such file or directory", Features: none}
			h.Confined = confined
		}),
		"switched off": with(func(h *Host) {
			h.Cgroups = Cgroups{Version: cgroup.None, Off: true, Features: none}
		}),
	}
}

func TestReports(t *testing.T) {
	status := map[string]int{
		"root with systemd": StatusBest, "root with v1, swap and an old kernel": StatusWorks, "root in a container": StatusMissing,
		"root without the memory controller": StatusWorks, "a user without anything": StatusWorks, "a user with a manager": StatusWorks,
		"nothing to be seen": StatusMissing, "switched off": StatusWorks, "MIG instances that nobody names": StatusWorks,
	}
	for name, h := range hosts() {
		t.Run(name, func(t *testing.T) {
			r := New(h)
			if got := r.Status(); got != status[name] {
				t.Errorf("status %d, expected %d", got, status[name])
			}
			text := r.Text()
			golden := "testdata/" + strings.ReplaceAll(name, " ", "-") + ".txt"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), text); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestJSONHasTheSame(t *testing.T) {
	for name, h := range hosts() {
		t.Run(name, func(t *testing.T) {
			r := New(h)
			b, err := r.JSON()
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Status  int
				UID     int
				Cgroups struct {
					Version string
					Missing map[string]string
				}
				Checks []Check
			}
			if err := json.Unmarshal(b, &got); err != nil {
				t.Fatal(err)
			}
			missing := 0
			for _, f := range h.Cgroups.Features {
				if !f.Works {
					missing++
				}
			}
			if got.Status != r.Status() || got.UID != h.UID || got.Cgroups.Version != string(h.Cgroups.Version) || len(got.Cgroups.Missing) != missing {
				t.Errorf("%+v", got)
			}
			if diff := cmp.Diff(r.Checks, got.Checks); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestEveryGapIsExplained removes features from a host, and expects a reason for each missing
// guarantee.
func TestEveryGapIsExplained(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		is := func(what string) bool { return rapid.Bool().Draw(t, what) }
		h := &Host{UID: rapid.IntRange(0, 1).Draw(t, "uid"), Swap: is("swap"), Proc: is("proc"), Children: is("children")}
		h.Cgroups.Version = rapid.SampledFrom([]cgroup.Version{cgroup.None, cgroup.V1, cgroup.V2, cgroup.Hybrid}).Draw(t, "version")
		h.Cgroups.Off = is("off")
		for f := range h.Cgroups.Features {
			if is("works") {
				h.Cgroups.Features[f] = Feature{Works: true, V2: is("v2")}
			} else {
				h.Cgroups.Features[f] = Feature{Reason: "reason"}
			}
		}
		for r := range h.Confined {
			h.Confined[r] = is("confined")
		}
		h.Systemd = Systemd{Booted: is("booted"), Unified: is("unified"), Err: "error"}
		if h.Systemd.Booted && is("scope") {
			h.Systemd.Scope, h.Systemd.Err = "/scope", ""
		}
		if is("topology") {
			h.TopologyErr = "error"
		}
		r := New(h)
		if len(r.Checks) != int(job.NumResources)+len(others) {
			t.Fatalf("%d checks", len(r.Checks))
		}
		text := r.Text()
		for _, c := range r.Checks {
			if c.Name == "" || c.State == Best && (c.Means == "" || c.Reason+c.Remedy != "") || c.State != Best && c.Reason == "" ||
				(c.State == Works || c.State == Missing) && c.Remedy == "" {
				t.Errorf("%+v", c)
			}
			if !strings.Contains(text, c.Name) || !strings.Contains(text, c.Reason) || !strings.Contains(text, c.Remedy) {
				t.Errorf("not told: %+v", c)
			}
		}
	})
}
