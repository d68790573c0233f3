package launcher

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestForgedGPUs checks that a captured front can give jobs only GPUs of this host, and chooses neither the devices
// that a job cannot open nor the variables for GPUs.
func TestForgedGPUs(t *testing.T) {
	w, s := newStrictWorld(t)
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001", Minor: 0},
		testenv.GPU{Vendor: "nvidia", Address: "0000:61:00.0", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000002", Minor: 1})
	s.GPUs = gpu.OpenRegister(root, filepath.Join(w.spool.Path(), "gpus"), nil)
	defer s.GPUs.Close()
	n := 0
	honest := func() *order {
		n++
		o := w.order(s, fmt.Sprintf("key%d", n), job.ID{Job: 7})
		o.plan.GPUs = []string{"1"}
		return o
	}
	for name, c := range map[string]struct {
		forge func(o *order)
		want  string
	}{
		"a GPU that there is not":          {func(o *order) { o.plan.GPUs = []string{"1", "2"} }, "does not offer GPU 2"},
		"a GPU that a shell would read":    {func(o *order) { o.plan.GPUs = []string{"$(id)"} }, "a character that is not allowed in names"},
		"more GPUs than possible":          {func(o *order) { o.plan.GPUs = make([]string, mostGPUs+1) }, "at most 4096"},
		"variables of another loader":      {func(o *order) { o.plan.FilteredEnv = []string{"LD_PRELOAD=/tmp/x.so"} }, "variables of GPUs"},
		"another device that is forbidden": {func(o *order) { o.plan.Devices = []string{"/dev/sda"} }, "devices"},
	} {
		o := honest()
		c.forge(o)
		w.refusedWith(name, w.prepare(o), c.want)
	}
	w.nothingIsHere()
	if err := w.prepare(honest()); err != nil {
		t.Fatal(err)
	}
	dir, err := w.spool.Open(job.ID{Job: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	d, err := dir.Description()
	if err != nil || !slices.Contains(d.Environment, "CUDA_VISIBLE_DEVICES=GPU-11111111-aaaa-bbbb-cccc-000000000002") {
		t.Errorf("the job has the variables %q (%v)", d.Environment, err)
	}
	own, err := dir.ReadFile("launch")
	if err != nil || !strings.Contains(string(own), "deny=c 195:0\n") || strings.Contains(string(own), "deny=c 195:1\n") {
		t.Errorf("the job has\n%s (%v)", own, err)
	}
}

// TestSiteGPUs checks that the launcher does not manage GPUs if root's configuration has IDs of its own.
func TestSiteGPUs(t *testing.T) {
	testenv.Require(t, testenv.Root)
	root := t.TempDir()
	testenv.GPUs(t, root, testenv.GPU{Vendor: "nvidia", Address: "0000:41:00.0", UUID: "GPU-11111111-aaaa-bbbb-cccc-000000000001"})
	s := &Server{GPUs: gpu.OpenRegister(root, filepath.Join(t.TempDir(), "gpus"), nil), SiteGPUs: []string{"0"}}
	defer s.GPUs.Close()
	if !s.inventory().Numbered() {
		t.Error("the host offers no GPU")
	}
	text, err := json.Marshal(s.lookForGPUs(t.Context(), true))
	var a gpusAnswer
	if err == nil {
		err = decode(text, &a)
	}
	if err != nil || !a.Inventory.Numbered() || !a.Inventory.Known("0") || len(a.Inventory.Offered()) != 1 {
		t.Errorf("the front gets %s (%v)", text, err)
	}
	s.SiteGPUs = []string{"a"}
	if s.inventory() != nil {
		t.Error("the host offers a GPU, which the site manages itself")
	}
}
