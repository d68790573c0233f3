package spawn

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/limits/cgroup"
)

// TestCgroup: a child is born in the group, or enters it where that cannot be.
func TestCgroup(t *testing.T) {
	testenv.Require(t, testenv.Cgroup)
	m, err := cgroup.Open(cgroup.Config{Name: fmt.Sprintf("execd-spawn-%d", os.Getpid()), MoveSelf: true})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g, err := m.Create("1.1", cgroup.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := g.Remove(time.Minute); err != nil {
			t.Error(err)
		}
	}()
	unified := g.Paths().Unified
	if unified == "" {
		t.Skip("needs cgroup v2")
	}
	open := func(path string, flags int) int {
		fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { unix.Close(fd) })
		return fd
	}
	procs := unified + "/cgroup.procs"
	nothing := open("/dev/null", unix.O_WRONLY)
	for name, fds := range map[string][2]int{
		// Who is born in the group needs no door.
		"born there": {open(unified, unix.O_PATH|unix.O_DIRECTORY), nothing},
		// A directory that is no group: as if the kernel could not.
		"by the door": {open("/", unix.O_PATH|unix.O_DIRECTORY), open(procs, unix.O_WRONLY)},
	} {
		got := shell(t, filepath.Join(t.TempDir(), "out"), "cat /proc/self/cgroup", func(p *Program) { p.Cgroup(fds[0], fds[1], procs) })
		if !strings.Contains(got, "execd-spawn-") {
			t.Errorf("%s: the child is in\n%s", name, got)
		}
	}
}
