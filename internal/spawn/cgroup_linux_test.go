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

// TestCgroup checks that a child starts in the group, or enters it where the kernel cannot start it
// there.
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
		// A child that starts in the group does not write to cgroup.procs.
		"started in the group": {open(unified, unix.O_PATH|unix.O_DIRECTORY), nothing},
		// The directory is not a group, so the kernel cannot start the child there.
		"entered by cgroup.procs": {open("/", unix.O_PATH|unix.O_DIRECTORY), open(procs, unix.O_WRONLY)},
	} {
		got := shell(t, filepath.Join(t.TempDir(), "out"), "cat /proc/self/cgroup", func(p *Program) { p.Cgroup(fds[0], fds[1], procs) })
		if !strings.Contains(got, "execd-spawn-") {
			t.Errorf("%s: the child is in\n%s", name, got)
		}
	}
}
