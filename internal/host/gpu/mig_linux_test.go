package gpu_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
)

const mig = "MIG-22222222-aaaa-bbbb-cccc-00000000000"

var (
	small = testenv.Instance{GI: 1, UUID: mig + "1", Profile: "1g.10gb", MiB: 9984}
	large = testenv.Instance{GI: 5, UUID: mig + "5", Profile: "3g.40gb", MiB: 40448}
	half0 = testenv.Instance{GI: 13, UUID: mig + "d", Profile: "1c.2g.20gb+me", MiB: 20096}
	half1 = testenv.Instance{GI: 13, CI: 1, UUID: mig + "e", Profile: "1c.2g.20gb+me", MiB: 20096}
)

// offered returns the offers of a register, each as "0.1.0=MODEL MiB".
func offered(r *gpu.Register) string {
	var list []string
	for _, g := range r.Inventory().Offered() {
		list = append(list, g.ID+"="+g.Type())
	}
	return strings.Join(list, " ")
}

// opened returns the devices that a job with some GPUs can open, of all that GPUs have and share.
func opened(v *gpu.Inventory, ids ...string) string {
	denied := v.Denied(ids)
	var list []string
	all := slices.Concat(v.Shared[gpu.NVIDIA], v.Forbidden)
	for _, g := range v.GPUs {
		all = append(all, g.Nodes...)
	}
	for _, n := range all {
		name := strings.TrimPrefix(strings.TrimPrefix(n.Path, "/dev/"), "nvidia-caps/nvidia-")
		if !slices.Contains(denied, n) && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return strings.Join(list, " ")
}

// users are the numbers of the GPUs that jobs have.
type users []string

func (u *users) inUse(string) ([]string, error) { return *u, nil }

// TestInstances divides a GPU into MIG instances: each is offered by itself, with its own type, memory, UUID and devices.
func TestInstances(t *testing.T) {
	root, file := hostWith(t, h100, a40)
	whole := testenv.Divided{GPU: a40, MiB: 46068}
	whole.UUID = uuid + "2"
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small, large, half0, half1}}, whole)
	r := open(t, root, file)
	if got := offered(r); got != "1=NVIDIA-A40" || !r.Wants() {
		t.Errorf("before nvidia-smi has named them, offered are %s", got)
	}
	if !r.Ask(t.Context()) {
		t.Error("nvidia-smi changes nothing")
	}
	const kinds = "0.1.0=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb 0.5.0=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb " +
		"0.13.0=NVIDIA-H100-80GB-HBM3-MIG-1c.2g.20gb+me 0.13.1=NVIDIA-H100-80GB-HBM3-MIG-1c.2g.20gb+me 1=NVIDIA-A40"
	v := r.Inventory()
	if got := offered(r); got != kinds || r.Wants() {
		t.Errorf("offered are %s, more is wanted: %t", got, r.Wants())
	}
	if g := v.GPUs[2]; g.Memory != 40448<<20 || g.NUMA != 1 || g.Address != h100.Address || g.Problem != "" {
		t.Errorf("an instance is %+v", g)
	}
	if g := v.GPUs[0]; g.ID != "" || !strings.Contains(g.Problem, "its instances are offered instead") {
		t.Errorf("the GPU is %+v", g)
	}
	const shared = "nvidiactl nvidia-modeset nvidia-uvm nvidia-uvm-tools "
	for ids, want := range map[string]string{
		"":              "",
		"0.1.0":         shared + "nvidia0 cap12 cap13",
		"0.13.1":        shared + "nvidia0 cap120 cap122",
		"0.13.0 0.13.1": shared + "nvidia0 cap120 cap121 cap122",
		"1":             shared + "nvidia1",
		"0.5.0 1":       shared + "nvidia0 cap48 cap49 nvidia1",
		"0.2.0":         "", // there is none
	} {
		if got := opened(v, strings.Fields(ids)...); got != want {
			t.Errorf("a job with %q can open %q, want %q", ids, got, want)
		}
	}
	if n := v.Forbidden; len(n) != 1 || n[0] != (gpu.Node{Path: "/dev/nvidia-caps/nvidia-cap1", Major: 236, Minor: 1}) {
		t.Errorf("no job can open %v", n)
	}
	for ids, want := range map[string]string{
		"0.5.0": mig + "5", "0.1.0 0.13.1": mig + "1," + mig + "e", "0.1.0 1": mig + "1," + uuid + "2", "": "-1",
	} {
		if got := v.Environment(strings.Fields(ids), true); got[1] != "CUDA_VISIBLE_DEVICES="+want || ids != "" && got[2] != "NVIDIA_VISIBLE_DEVICES="+want {
			t.Errorf("the variables of a job with %q are %q, want %s", ids, got, want)
		}
	}
	for id, known := range map[string]bool{"0": true, "0.1.0": true, "0.9.1": true, "2": false, "2.1.0": false, "0.1": false, "0.1.0.0": false, "0.01.0": false, "0.a.b": false} {
		if v.Known(id) != known {
			t.Errorf("%q is known: %t", id, !known)
		}
	}
	// The next daemon knows them, without nvidia-smi.
	r.Close()
	testenv.Reply(t, root, "exit 9")
	r = open(t, root, file)
	if got := offered(r); got != kinds || r.Wants() {
		t.Errorf("after a restart, offered are %s, more is wanted: %t", got, r.Wants())
	}
	samples, err := gpu.Measure(t.Context(), root, r.Inventory(), []string{"0.1.0"})
	if err == nil || len(samples) != 0 {
		t.Errorf("nvidia-smi fails, and measured are %v", samples)
	}
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small, large, half0, half1}}, whole)
	samples, err = gpu.Measure(t.Context(), root, r.Inventory(), []string{"0.1.0", "0.13.0"})
	if want := map[string]gpu.Sample{"0.1.0": {Busy: -1, Memory: 12 << 20}, "0.13.0": {Busy: -1, Memory: 14 << 20}}; err != nil || !maps.Equal(samples, want) {
		t.Errorf("measured are %v (%v), want %v", samples, err, want)
	}
}

// TestInstancesNobodyNames checks that an instance is not offered if no UUID is known for it, and why.
func TestInstancesNobodyNames(t *testing.T) {
	list := "'GPU 0: H100 (UUID: " + h100.UUID + ")\n  MIG 1g.10gb Device 0: (UUID: " + mig + "1)'"
	describe := func(instances string) string {
		return "'<nvidia_smi_log><gpu id=\"00000000:41:00.0\"><mig_devices>" + instances + "</mig_devices><uuid>" + h100.UUID + "</uuid></gpu></nvidia_smi_log>'"
	}
	one := func(index, gi, ci string) string {
		return "<mig_device><index>" + index + "</index><gpu_instance_id>" + gi + "</gpu_instance_id><compute_instance_id>" + ci + "</compute_instance_id></mig_device>"
	}
	const query = "echo 00000000:41:00.0, " + uuid + "1, 81559, Enabled"
	for name, c := range map[string]struct{ script, trouble string }{
		"no nvidia-smi":             {"", ""},
		"an error":                  {"echo broken; exit 3", "exit status 3: broken"},
		"an error of the list":      {"[ $1 = -L ] && exit 4;" + query, "exit status 4"},
		"nonsense as list":          {"[ $1 = -L ] && echo ' MIG nonsense' || " + query, `"MIG nonsense", expected a line such as MIG`},
		"a list without GPUs":       {"[ $1 = -L ] && echo 'Error (UUID: x)\n MIG 1g.10gb Device 0: (UUID: " + mig + "1)' || " + query, "below its GPU"},
		"a profile with a quote":    {"[ $1 = -L ] && echo 'GPU 0: x (UUID: " + h100.UUID + ")\n MIG 1g\" Device 0: (UUID: " + mig + "1)' || " + query, "expected a line such as MIG"},
		"a UUID with a blank":       {"[ $1 = -L ] && echo 'GPU 0: x (UUID: " + h100.UUID + ")\n MIG 1g.10gb Device 0: (UUID: MIG-1 2)' || " + query, "expected a line such as MIG"},
		"a UUID twice":              {"[ $1 = -L ] && echo 'GPU 0: x (UUID: " + h100.UUID + ")\n MIG 1g.10gb Device 0: (UUID: MIG-1)\n MIG 1g.10gb Device 1: (UUID: MIG-1)' || " + query, "expected a line such as MIG"},
		"no XML":                    {"case $1 in -L) echo " + list + ";; -q) echo nonsense;; *) " + query + ";; esac", `"nonsense": EOF`},
		"half of the XML":           {"case $1 in -L) echo " + list + ";; -q) echo '<nvidia_smi_log><gpu>';; *) " + query + ";; esac", "unexpected EOF"},
		"XML without end":           {"case $1 in -L) echo " + list + ";; -q) exec yes '<gpu>';; *) " + query + ";; esac", "it writes more than 1048576 bytes"},
		"numbers that are not":      {"case $1 in -L) echo " + list + ";; -q) echo " + describe(one("0", "one", "0")) + ";; *) " + query + ";; esac", `MIG instance "one.0"`},
		"an instance twice":         {"case $1 in -L) echo " + list + ";; -q) echo " + describe(one("0", "1", "0")+one("1", "1", "0")) + ";; *) " + query + ";; esac", "is there twice"},
		"two instances of one UUID": {"case $1 in -L) echo " + list + ";; -q) echo " + describe(one("0", "1", "0")+one("0", "2", "0")) + ";; *) " + query + ";; esac", "is there twice"},
		"another instance":          {"case $1 in -L) echo " + list + ";; -q) echo " + describe(one("0", "2", "0")) + ";; *) " + query + ";; esac", ""},
		"another index":             {"case $1 in -L) echo " + list + ";; -q) echo " + describe(one("1", "1", "0")) + ";; *) " + query + ";; esac", ""},
		"no instances":              {"case $1 in -L) echo " + list + ";; -q) echo " + describe("None") + ";; *) " + query + ";; esac", ""},
	} {
		t.Run(name, func(t *testing.T) {
			root, file := hostWith(t, h100)
			testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small}})
			if c.script == "" {
				if err := os.Remove(filepath.Join(root, "usr/bin/nvidia-smi")); err != nil {
					t.Fatal(err)
				}
			} else {
				testenv.Reply(t, root, c.script)
			}
			r := open(t, root, file)
			r.Ask(t.Context())
			v := r.Inventory()
			if len(v.Offered()) != 0 || len(v.GPUs) != 2 || v.GPUs[1].Model != h100.Model+" MIG instance 1.0" || !strings.Contains(v.GPUs[1].Problem, "its UUID is not known") {
				t.Errorf("the host has %+v", v.GPUs)
			}
			if (c.script == "") != strings.Contains(v.GPUs[1].Problem, "there is no nvidia-smi") {
				t.Errorf("the problem of the instance is %q", v.GPUs[1].Problem)
			}
			if p := strings.Join(v.Problems, "\n"); !strings.Contains(p, c.trouble) || (p == "") != (c.trouble == "") {
				t.Errorf("the problems are %q, want %q", p, c.trouble)
			}
			if got := opened(v); got != "" {
				t.Errorf("jobs can open %s", got)
			}
		})
	}
}

// TestOldNamesOfInstances reads the names that drivers before version 470 give.
func TestOldNamesOfInstances(t *testing.T) {
	root, file := hostWith(t, h100)
	old := small
	old.UUID = "MIG-" + h100.UUID + "/1/0"
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{old}})
	r := open(t, root, file)
	r.Ask(t.Context())
	if got := r.Inventory().Environment([]string{"0.1.0"}, true)[1]; got != "CUDA_VISIBLE_DEVICES="+old.UUID {
		t.Error(got)
	}
	r.Close()
	if got := offered(open(t, root, file)); !strings.HasPrefix(got, "0.1.0=") {
		t.Errorf("after a restart, offered are %q", got)
	}
}

// TestInstanceIsMadeAgain replaces an instance by another one with the same number: the register asks again, and offers
// the earlier values until nvidia-smi answers. A register that is opened later does not believe its file.
func TestInstanceIsMadeAgain(t *testing.T) {
	root, file := hostWith(t, h100)
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small}})
	r := open(t, root, file)
	r.Ask(t.Context())
	again := large
	again.GI = small.GI
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{again}})
	access := filepath.Join(root, "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access")
	if err := os.Chtimes(access, time.Time{}, time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	r.Refresh()
	if got := offered(r); !strings.HasSuffix(got, "-1g.10gb") || !gpu.Due(r) {
		t.Errorf("offered are %s, asked again: %t", got, gpu.Due(r))
	}
	if !r.Ask(t.Context()) || !strings.HasSuffix(offered(r), "-3g.40gb") || r.Wants() {
		t.Errorf("nvidia-smi has answered, and offered are %s, more is wanted: %t", offered(r), r.Wants())
	}
	r.Close()
	if err := os.Chtimes(access, time.Time{}, time.Unix(2, 0)); err != nil {
		t.Fatal(err)
	}
	r = open(t, root, file)
	if got := offered(r); got != "" || !r.Wants() {
		t.Errorf("an instance that was made after the end of the earlier daemon: %s", got)
	}
	if r.Ask(t.Context()); !strings.HasSuffix(offered(r), "-3g.40gb") {
		t.Errorf("offered are %s", offered(r))
	}
}

// TestModeChangesUnderJobs divides and unites a GPU while jobs have it: no job gets the other form before these have
// finished, even if the daemon was restarted, and they keep their devices.
func TestModeChangesUnderJobs(t *testing.T) {
	root, file := hostWith(t, h100)
	var jobs users
	r := gpu.OpenRegister(root, file, jobs.inUse)
	defer func() { r.Close() }()
	check := func(want, problem string) {
		t.Helper()
		if got := offered(r); got != want {
			t.Errorf("offered are %q, want %q", got, want)
		}
		for _, g := range r.Inventory().GPUs {
			if problem != "" && !strings.Contains(g.Problem, problem) {
				t.Errorf("the problem of %s is %q, want %q", g.String(), g.Problem, problem)
			}
		}
	}
	restart := func() {
		r.Close()
		r = gpu.OpenRegister(root, file, jobs.inUse)
	}
	set := func(instances ...testenv.Instance) {
		t.Helper()
		testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: instances})
		r.Refresh()
		if r.Wants() {
			r.Ask(t.Context())
		}
	}
	const whole, two = "0=NVIDIA-H100-80GB-HBM3", "0.1.0=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb 0.5.0=NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"
	check(whole, "")
	jobs = users{"0"}
	set(small, large)
	check("", "after the next check of GPUs") // a job may be about to start
	r.Refresh()
	check("", "when no job has GPU 0 any more")
	if got := opened(r.Inventory(), "0"); !strings.Contains(got, "nvidia0 cap12 cap13") {
		t.Errorf("the job can open %q", got)
	}
	restart()
	check("", "when no job has GPU 0 any more")
	jobs = users{"0.5.0"} // cannot be; but it is not of the earlier form
	r.Refresh()
	check(two, "")
	restart()
	check(two, "")
	jobs = users{"0.5.0", "1"}
	set(small) // of a job that does not use it at the moment
	check("0.1.0=NVIDIA-H100-80GB-HBM3-MIG-1g.10gb", "")
	set()
	check("", "after the next check of GPUs")
	r.Refresh()
	check("", "when no job has GPU 0.5.0 any more")
	if got := opened(r.Inventory(), "0.5.0"); got != "" {
		t.Errorf("a job whose instance was destroyed can open %q", got)
	}
	set(small, large) // back
	check(two, "")
	set()
	jobs = nil
	r.Refresh()
	check(whole, "")
}

// TestModeWithoutInstances does not offer a GPU in MIG mode that has no instances: CUDA cannot use it.
func TestModeWithoutInstances(t *testing.T) {
	root, file := hostWith(t, h100)
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559})
	testenv.Reply(t, root, "echo 00000000:41:00.0, "+uuid+"1, 81559, Enabled")
	r := open(t, root, file)
	r.Ask(t.Context())
	if g := r.Inventory().GPUs[0]; g.ID != "" || !strings.Contains(g.Problem, "it is in MIG mode and has no MIG instances") {
		t.Errorf("it is %+v", g)
	}
	if !gpu.Due(r) {
		t.Error("the mode is not asked again")
	}
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559})
	if r.Ask(t.Context()); offered(r) != "0=NVIDIA-H100-80GB-HBM3" || gpu.Due(r) {
		t.Errorf("the mode is switched off, and offered are %q", offered(r))
	}
}

// TestInstancesWithoutDevices does not offer the instances of a driver that has no devices for them, because a filter
// could not tell them apart.
func TestInstancesWithoutDevices(t *testing.T) {
	root, file := hostWith(t, h100)
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small}})
	testenv.WriteFile(t, filepath.Join(root, "proc/devices"), "Character devices:\n195 nvidia\n")
	r := open(t, root, file)
	r.Ask(t.Context())
	if v := r.Inventory(); len(v.Offered()) != 0 || len(v.GPUs) != 1 || !strings.Contains(v.GPUs[0].Problem, "nv_cap_enable_devfs") {
		t.Errorf("the host has %+v", v.GPUs)
	}
	// A number that cannot be read is that of an instance that is not offered.
	testenv.MIG(t, root, testenv.Divided{GPU: h100, MiB: 81559, Instances: []testenv.Instance{small, large}})
	testenv.WriteFile(t, filepath.Join(root, "proc/driver/nvidia/capabilities/gpu0/mig/gi1/access"), "DeviceFileMinor: many\n")
	r.Refresh()
	r.Ask(t.Context())
	r.Refresh()
	if got, p := offered(r), strings.Join(r.Inventory().Problems, " "); !strings.HasPrefix(got, "0.5.0=") || strings.Contains(got, " ") ||
		!strings.Contains(p, "cannot read the number of a MIG instance's device in /proc/driver/nvidia/capabilities/gpu0/mig/gi1/access") {
		t.Errorf("offered are %q, the problems are %q", got, p)
	}
}

func FuzzParseInstances(f *testing.F) {
	f.Add("GPU 0: H100 (UUID: GPU-1a)\n  MIG 1g.10gb     Device  0: (UUID: MIG-1b)\n",
		"<nvidia_smi_log><gpu id=\"00000000:41:00.0\"><uuid>GPU-1a</uuid><mig_devices><mig_device><index>0</index><gpu_instance_id>1</gpu_instance_id>"+
			"<compute_instance_id>0</compute_instance_id><fb_memory_usage><total>9984 MiB</total><used>1 MiB</used></fb_memory_usage></mig_device></mig_devices></gpu></nvidia_smi_log>")
	f.Add("", "<nvidia_smi_log/>")
	f.Fuzz(func(t *testing.T, list, description string) {
		told, err := gpu.ParseInstances(list, description)
		seen := map[string]bool{}
		for _, x := range told {
			if a, ok := gpu.ParseAddress(x.Address); err != nil || !ok || a != x.Address || x.Used < -1 {
				t.Errorf("%q and %q give %+v (%v)", list, description, x, err)
			}
			if strings.ContainsAny(x.UUID+x.Profile+x.Instance, ", \n=;[]()\"'") || (x.UUID == "") != (x.Profile == "") {
				t.Errorf("the instance %+v has values that are not words", x)
			}
			if seen[x.Address+x.Instance] || x.UUID != "" && seen[x.UUID] {
				t.Errorf("%q and %q have an instance twice", list, description)
			}
			seen[x.Address+x.Instance], seen[x.UUID] = true, true
		}
	})
}
