package gpu_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
)

const uuid = "GPU-11111111-aaaa-bbbb-cccc-00000000000"

var (
	h100 = testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", Model: "NVIDIA H100 80GB HBM3", UUID: uuid + "1", NUMA: 1, Minor: 0}
	a40  = testenv.GPU{Vendor: "nvidia", Address: "0000:61:00.0", Model: "NVIDIA A40", Minor: 1, NUMA: -1}
	mi   = testenv.GPU{Vendor: "amd", Address: "0000:c1:00.0", Model: "aqua_vanjaram", Unique: 0xabc, Memory: 192 << 30, Minor: 128}
	arc  = testenv.GPU{Vendor: "intel", Address: "0000:03:00.0", Minor: 129}
	igpu = testenv.GPU{Vendor: "intel", Address: "0000:00:02.0", Minor: 130}
)

func hostWith(t *testing.T, gpus ...testenv.GPU) (root, file string) {
	t.Helper()
	root = t.TempDir()
	testenv.GPUs(t, root, gpus...)
	return root, filepath.Join(root, "gpus")
}

func open(t *testing.T, root, file string) *gpu.Register {
	t.Helper()
	r := gpu.OpenRegister(root, file, nil)
	t.Cleanup(r.Close)
	return r
}

func TestDetect(t *testing.T) {
	root, file := hostWith(t, h100, a40, mi, arc, igpu)
	testenv.WriteFile(t, filepath.Join(root, "sys/bus/pci/devices/0000:05:00.0/class"), "0x020000\n") // a network card
	v := open(t, root, file).Inventory()
	var got []string
	for _, g := range v.GPUs {
		got = append(got, strings.TrimSpace(strings.Join([]string{g.ID, g.Address, g.Type(), g.UUID}, " ")))
	}
	want := []string{
		"0000:00:02.0", "0 0000:03:00.0", "1 0000:41:00.0 NVIDIA-H100-80GB-HBM3 " + uuid + "1", "2 0000:61:00.0 NVIDIA-A40",
		"3 0000:c1:00.0 AMD-aqua_vanjaram GPU-0000000000000abc",
	}
	for i := range got {
		got[i] = strings.Join(strings.Fields(got[i]), " ")
	}
	if !slices.Equal(got, want) {
		t.Errorf("found\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if g := v.GPUs[2]; g.NUMA != 1 || g.Memory != 0 || len(g.Nodes) != 1 || g.Nodes[0] != (gpu.Node{Path: "/dev/nvidia0", Major: 195, Minor: 0}) {
		t.Errorf("the H100 is %+v", g)
	}
	if g := v.GPUs[4]; g.Memory != 192<<30 || g.Nodes[0] != (gpu.Node{Path: "/dev/dri/renderD128", Major: 226, Minor: 128}) {
		t.Errorf("the GPU of AMD is %+v", g)
	}
	if n := len(v.Denied(nil)); n != 9 { // 2 of NVIDIA and 4 shared, 1 of AMD and kfd, 1 of Intel, none of the processor's
		t.Errorf("a job without GPUs is kept from %d devices: %v", n, v.Denied(nil))
	}
}

func TestEnvironment(t *testing.T) {
	root, file := hostWith(t, h100, a40, mi, arc)
	testenv.Reply(t, root, "echo 00000000:41:00.0, "+uuid+"1, 81559", "echo 00000000:61:00.0, "+uuid+"2, '[N/A]'")
	r := open(t, root, file)
	for name, c := range map[string]struct {
		ids      string
		filtered bool
		ask      bool
		want     string
	}{
		"none": {"", true, false, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=-1 NVIDIA_VISIBLE_DEVICES=void ROCR_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1"},
		"one by its UUID": {"1", true, false, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + uuid + "1 NVIDIA_VISIBLE_DEVICES=" + uuid +
			"1 ROCR_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1"},
		"one without a UUID, the only one that can be opened": {
			"2", true, false,
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=0 NVIDIA_VISIBLE_DEVICES=0 ROCR_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1",
		},
		"one without a UUID among all": {
			"2", false, false,
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=1 NVIDIA_VISIBLE_DEVICES=1 ROCR_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1",
		},
		"another vendor's": {
			"0 3", true, false,
			"CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=-1 NVIDIA_VISIBLE_DEVICES=void ROCR_VISIBLE_DEVICES=GPU-0000000000000abc HIP_VISIBLE_DEVICES=0 ZE_AFFINITY_MASK=0",
		},
		"one that two tasks share, twice": {"1 1", true, false, "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=" + uuid + "1 NVIDIA_VISIBLE_DEVICES=" + uuid +
			"1 ROCR_VISIBLE_DEVICES=-1 HIP_VISIBLE_DEVICES=-1"},
	} {
		if got := strings.Join(r.Inventory().Environment(strings.Fields(c.ids), c.filtered), " "); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
	if !r.Wants() || !r.Ask(t.Context()) {
		t.Error("nvidia-smi does not change what is known")
	}
	if got, _, _ := strings.Cut(strings.Join(r.Inventory().Environment([]string{"2"}, false), " "), " NV"); got != "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES="+uuid+"2" {
		t.Errorf("after nvidia-smi: %s", got)
	}
	// What it has told is known to the next daemon, which need not ask.
	r.Close()
	if v := open(t, root, file).Inventory(); v.GPUs[1].Memory != 81559<<20 || v.GPUs[2].UUID != uuid+"2" {
		t.Errorf("the next daemon does not know %+v", v.GPUs)
	}
}

// TestGPUsKeepTheirNumbers removes a GPU and adds others: each keeps its number, also after
// restarts.
func TestGPUsKeepTheirNumbers(t *testing.T) {
	root, file := hostWith(t, h100, mi)
	r := open(t, root, file)
	ids := func() string {
		var list []string
		for _, g := range r.Inventory().Offered() {
			list = append(list, g.ID+"="+g.Address)
		}
		return strings.Join(list, " ")
	}
	if got := ids(); got != "0=0000:41:00.0 1=0000:c1:00.0" {
		t.Fatal(got)
	}
	for _, dir := range []string{"proc/driver/nvidia/gpus", "sys/bus/pci/devices"} {
		if err := os.RemoveAll(filepath.Join(root, dir, h100.Address)); err != nil {
			t.Fatal(err)
		}
	}
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:21:00.0", Model: "T4", UUID: uuid + "3"})
	if !r.Refresh() {
		t.Error("nothing has changed")
	}
	const want = "2=0000:21:00.0 1=0000:c1:00.0"
	if got := ids(); got != want {
		t.Errorf("one is taken out, and one put in: %s", got)
	}
	if p := r.Inventory().Problems; len(p) != 1 || !strings.Contains(p[0], "GPU 0, which was at 0000:41:00.0, has disappeared") {
		t.Errorf("the problems are %q", p)
	}
	r.Close()
	r = open(t, root, file)
	if got := ids(); got != want {
		t.Errorf("after a restart: %s", got)
	}
	if got := r.Inventory().Lacking([]string{"0", "1", "2"}); !slices.Equal(got, []string{"0"}) {
		t.Errorf("lacking are %q", got)
	}
	// The card comes back, in another place.
	moved := h100
	moved.Address = "0000:81:00.0"
	testenv.GPUs(t, root, moved)
	r.Refresh()
	if got := ids(); got != "2=0000:21:00.0 0=0000:81:00.0 1=0000:c1:00.0" {
		t.Errorf("it comes back: %s", got)
	}
}

// TestNoGPUsWithoutNumbers checks that a host that cannot determine the numbers of its GPUs offers
// none, and denies all to jobs.
func TestNoGPUsWithoutNumbers(t *testing.T) {
	for name, c := range map[string]struct {
		before func(t *testing.T, root, file string)
		want   string
	}{
		"another daemon has them": {func(t *testing.T, root, file string) { open(t, root, file+"2") }, "another daemon of this host has them"},
		"the file is broken":      {func(t *testing.T, _, file string) { testenv.WriteFile(t, file, "0 address=nonsense\n") }, `line 1: "nonsense" is no address`},
		"the file is a directory": {func(t *testing.T, _, file string) {
			if err := os.MkdirAll(file, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "it is not a regular file"},
		"the file cannot be written": {func(t *testing.T, _, file string) {
			if err := os.Symlink("/proc/none/gpus", file); err != nil {
				t.Fatal(err)
			}
		}, "cannot write their numbers"},
	} {
		t.Run(name, func(t *testing.T) {
			root, file := hostWith(t, h100, mi)
			c.before(t, root, file)
			v := open(t, root, file).Inventory()
			if len(v.IDs()) != 0 || !v.Numbered() || len(v.Denied(nil)) != 7 {
				t.Errorf("offered are %q, and denied are %v", v.IDs(), v.Denied(nil))
			}
			if len(v.Problems) != 1 || !strings.Contains(v.Problems[0], c.want) {
				t.Errorf("the problems are %q, want %q", v.Problems, c.want)
			}
		})
	}
}

// TestWaitingDaemonGetsGPUs checks that a waiting daemon gets the GPUs of one that has ended.
func TestWaitingDaemonGetsGPUs(t *testing.T) {
	root, file := hostWith(t, h100)
	first, second := open(t, root, file), open(t, root, file+"2")
	first.Close()
	if !second.Refresh() || len(second.Inventory().IDs()) != 1 {
		t.Errorf("the second daemon offers %q: %q", second.Inventory().IDs(), second.Inventory().Problems)
	}
}

func TestBrokenGPUsAreNotOffered(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"the driver does not know it": {"proc/driver/nvidia/gpus/" + h100.Address, "", "NVIDIA's driver does not know it"},
		"it is not described":         {"proc/driver/nvidia/gpus/" + h100.Address + "/information", "\x00\xff", "the driver gives no number of its device"},
		"excluded":                    {"proc/driver/nvidia/gpus/" + h100.Address + "/information", "Device Minor: 0\nGPU Excluded: Yes\n", "told not to use it"},
	} {
		t.Run(name, func(t *testing.T) {
			root, file := hostWith(t, h100)
			path := filepath.Join(root, c.file)
			if c.text == "" {
				if err := os.RemoveAll(path); err != nil {
					t.Fatal(err)
				}
			} else {
				testenv.WriteFile(t, path, c.text)
			}
			v := open(t, root, file).Inventory()
			if len(v.GPUs) != 1 || len(v.IDs()) != 0 || !strings.Contains(v.GPUs[0].Problem, c.want) {
				t.Errorf("it is offered, or says something else: %+v", v.GPUs)
			}
		})
	}
}

// TestGPUsDespiteBadNvidiaSmi makes nvidia-smi fail, write without end, or write nonsense. The GPUs
// are offered without the values that it should have printed.
func TestGPUsDespiteBadNvidiaSmi(t *testing.T) {
	for name, c := range map[string]struct{ script, want string }{
		"nonsense":           {"echo No devices were found", `"No devices were found", expected a PCI address`},
		"an error":           {"echo NVIDIA-SMI has failed; exit 9", "exit status 9: NVIDIA-SMI has failed"},
		"without end":        {"exec yes 00000000:41:00.0, " + uuid + "1, 81559", "it writes more than 1048576 bytes"},
		"a large value":      {"echo 00000000:41:00.0, " + uuid + "1, 99999999999999999999", "expected the memory in MiB"},
		"nothing":            {"", ""},
		"control characters": {`printf '\033[2Jscreen\377\nand more' >&2; exit 1`, "exit status 1: \x1b[2Jscreen?"},
		"nothing but errors": {"exec yes wrong >&2", "it writes more than 1048576 bytes"},
		"one GPU twice":      {"echo 00000000:41:00.0, " + uuid + "1, 81559; echo 00000000:41:00.0, " + uuid + "2, 1", "the same address or UUID"},
		"a UUID twice":       {"echo 00000000:41:00.0, " + uuid + "1, 81559; echo 00000000:42:00.0, " + uuid + "1, 81559", "the same address or UUID"},
		"a child that stays": {"sleep 1000 & echo 00000000:41:00.0, " + uuid + "1, 81559", "cannot ask nvidia-smi"},
	} {
		t.Run(name, func(t *testing.T) {
			root, file := hostWith(t, h100)
			testenv.Reply(t, root, c.script)
			r := open(t, root, file)
			r.Ask(t.Context())
			v := r.Inventory()
			if !slices.Equal(v.IDs(), []string{"0"}) || v.GPUs[0].Memory != 0 || !strings.Contains(v.GPUs[0].Problem, "its memory is not known") {
				t.Errorf("it is %+v", v.GPUs)
			}
			if c.want != "" && (len(v.Problems) != 1 || !strings.Contains(v.Problems[0], c.want)) {
				t.Errorf("the problems are %q, want %q", v.Problems, c.want)
			}
		})
	}
}

// TestQueryEndsWithContext makes nvidia-smi and a child of it hang: both are killed, and nvidia-smi
// is reaped. The next call works.
func TestQueryEndsWithContext(t *testing.T) {
	root, _ := hostWith(t, h100)
	fifo := filepath.Join(root, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	testenv.Reply(t, root, "sleep 1000 &", "echo $$ $! >"+fifo, "wait")
	ctx, cancel := context.WithCancel(t.Context())
	type handle struct{ pid, fd int }
	var processes []handle
	go func() {
		defer cancel()
		text, _ := os.ReadFile(fifo) // waits until it runs
		for word := range strings.FieldsSeq(string(text)) {
			pid, _ := strconv.Atoi(word)
			if fd, err := unix.PidfdOpen(pid, 0); err == nil {
				processes = append(processes, handle{pid, fd})
			}
		}
	}()
	if _, err := gpu.Query(ctx, root); err == nil {
		t.Error("it has answered")
	}
	if len(processes) != 2 {
		t.Fatalf("%d processes have told their numbers, want 2", len(processes))
	}
	for _, p := range processes {
		poll := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
		if n, err := unix.Poll(poll, 10_000); n != 1 {
			t.Errorf("process %d was not killed (%v)", p.pid, err)
			_ = unix.Kill(p.pid, unix.SIGKILL)
		}
		unix.Close(p.fd)
	}
	testenv.Reply(t, root, "echo 00000000:41:00.0, "+uuid+"1, 81559")
	if _, err := gpu.Query(t.Context(), root); err != nil {
		t.Errorf("after a call that was killed: %v", err)
	}
	if err := unix.Kill(processes[0].pid, 0); err != unix.ESRCH {
		t.Errorf("the killed nvidia-smi was not reaped: %v", err)
	}
}

// TestNvidiaSmiChangesItsMind swaps the UUIDs of two GPUs in the answer: jobs run with their numbers,
// which stay where they are.
func TestNvidiaSmiChangesItsMind(t *testing.T) {
	first, second := h100, a40
	first.UUID = ""
	root, file := hostWith(t, first, second)
	answer := func(a, b string) {
		testenv.Reply(t, root, "echo 00000000:41:00.0, "+uuid+a+", '[N/A]'", "echo 00000000:61:00.0, "+uuid+b+", '[N/A]'")
	}
	answer("1", "2")
	r := open(t, root, file)
	r.Ask(t.Context())
	before := r.Inventory().GPUs
	answer("2", "1")
	r.Ask(t.Context())
	for i, g := range r.Inventory().GPUs {
		if g.ID != before[i].ID || g.UUID != before[i].UUID || g.UUID == "" {
			t.Errorf("%+v was %+v", g, before[i])
		}
	}
	// The driver shows which it is: this is believed.
	second.UUID = uuid + "7"
	testenv.GPUs(t, root, second)
	r.Refresh()
	if g := r.Inventory().GPUs[1]; g.ID != "1" || g.UUID != uuid+"7" {
		t.Errorf("the driver shows another UUID: %+v", g)
	}
}

// TestProgramOfOthers does not run an nvidia-smi that other users can change.
func TestProgramOfOthers(t *testing.T) {
	root, _ := hostWith(t, h100)
	testenv.Reply(t, root, "touch "+root+"/ran")
	if err := os.Chmod(filepath.Join(root, "usr/bin/nvidia-smi"), 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := gpu.Query(t.Context(), root); err == nil || !strings.Contains(err.Error(), "may be written by") {
		t.Errorf("it is run: %v", err)
	}
}

func TestParseAddress(t *testing.T) {
	for text, want := range map[string]string{
		"0000:65:00.0": "0000:65:00.0", "00000000:65:00.0": "0000:65:00.0", "00010000:0A:1f.7": "10000:0a:1f.7",
		"": "", "65:00.0": "", "0000:65:00": "", "0000:65:20.0": "", "0000:65:00.8": "", "x000:65:00.0": "", "0000.65.00:0": "",
	} {
		if got, ok := gpu.ParseAddress(text); got != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
}

func FuzzParseQuery(f *testing.F) {
	f.Add("00000000:41:00.0, GPU-1, 81559\n")
	f.Add("00000000:41:00.0, [N/A], [N/A]\n\n")
	f.Fuzz(func(t *testing.T, text string) {
		told, err := gpu.ParseQuery(text)
		for _, x := range told {
			if a, ok := gpu.ParseAddress(x.Address); err != nil || !ok || a != x.Address {
				t.Errorf("%q gives %+v (%v)", text, x, err)
			}
			if strings.ContainsAny(x.UUID, ", \n=") {
				t.Errorf("the UUID %q is not a word", x.UUID)
			}
		}
	})
}
