package limits

import (
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/execd-project/execd/limits/topology"
)

// TestAffinity checks that Affinity returns exactly the processors in the kernel's list.
func TestAffinity(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	check := func() topology.CPUSet {
		t.Helper()
		status, err := os.ReadFile("/proc/thread-self/status")
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:")
		line, _, _ := strings.Cut(rest, "\n")
		named, err := topology.ParseList(strings.TrimSpace(line))
		if err != nil {
			t.Fatal(err)
		}
		online, err := os.ReadFile("/sys/devices/system/cpu/online")
		if err != nil {
			t.Fatal(err)
		}
		there, err := topology.ParseList(strings.TrimSpace(string(online)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Affinity()
		if want := named.Intersect(there); err != nil || got.String() != want.String() {
			t.Errorf("%v, %v; expected %v", got, err, want)
		}
		return got
	}
	all := check()
	defer func() {
		if err := SetAffinity(all); err != nil {
			t.Error(err)
		}
	}()
	last := 0
	for cpu := range all.All {
		last = cpu
	}
	if err := SetAffinity(topology.Of(last)); err != nil {
		t.Fatal(err)
	}
	if one := check(); one.String() != topology.Of(last).String() {
		t.Errorf("bound to %d, %v", last, one)
	}
}
