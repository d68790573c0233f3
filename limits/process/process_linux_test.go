package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

func TestParse(t *testing.T) {
	// Like the line of a real process that has chosen an unusual name.
	const line = "4711 (a) R 1 (b) S 42 43 44 0 -1 4194560 180 0 7 0 12 3 250 50 20 0 1 0 987654 5242880 25 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	got := parse([]byte(line))
	want := Stat{State: 'S', Parent: 42, Group: 43, Session: 44, Start: 987654, Waited: 3 * time.Second, RSS: 25 * uint64(unix.Getpagesize())}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, cut := range []int{0, 4, 10, 30, 60} {
		if got := parse([]byte(line[:cut])); got != (Stat{}) {
			t.Errorf("of the first %d bytes: %+v", cut, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 180 0 7 0 12 3 250 50 20 0 1 0 9 5242880 25 1\n"))
	f.Add([]byte(")"))
	f.Fuzz(func(_ *testing.T, b []byte) { _ = parse(b) })
}

func FuzzSize(f *testing.F) {
	f.Add([]byte("Pss:   12 kB\nSwapPss: 3 kB\n"), "Pss:")
	f.Fuzz(func(_ *testing.T, b []byte, key string) { _, _ = size(b, key) })
}

// start runs a shell that stays until the test ends.
func start(t *testing.T, script string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", script)
	testenv.Begin(t, cmd) // waits until the shell is ready
	return cmd
}

func TestReal(t *testing.T) {
	cmd := start(t, `i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; /bin/sh -c 'i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done'; echo; read x`)
	pid := cmd.Process.Pid
	s := Read(pid)
	if s.Parent != os.Getpid() || s.Group != unix.Getpgrp() || s.Start == 0 || s.RSS == 0 || s.State == 0 {
		t.Errorf("got %+v", s)
	}
	if child, me, none := Age(pid), Age(os.Getpid()), Age(-1); child <= 0 || me < child || none != 0 {
		t.Errorf("ages: this process %s, its child %s, no process %s", me, child, none)
	}
	if s.Waited == 0 {
		t.Error("no CPU time of the child that it has waited for")
	}
	if !slices.Contains(Children(os.Getpid()), pid) {
		t.Errorf("%d is not among the children", pid)
	}
	if !slices.Contains(childrenByScan(os.Getpid()), pid) {
		t.Errorf("%d is not among the children that a scan finds", pid)
	}
	cpu := CPU(pid)
	rss, _, ok := Share(pid)
	if ok && (rss == 0 || rss > s.RSS) {
		t.Errorf("its share of memory is %d bytes, it has %d", rss, s.RSS)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	if total := cpu + s.Waited; cpu == 0 || total > used+20*time.Millisecond || total < used/2 {
		t.Errorf("used %v and %v, the kernel says %v", cpu, s.Waited, used)
	}
	if s := Read(pid); s != (Stat{}) || CPU(pid) != 0 {
		t.Errorf("it is gone, and has %+v, %v", s, CPU(pid))
	}
}

func TestTransferred(t *testing.T) {
	before := Transferred(os.Getpid())
	const size = 1 << 20
	if err := os.WriteFile(filepath.Join(t.TempDir(), "file"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	if n := Transferred(os.Getpid()).Minus(before); n.Bytes < size || n.Calls == 0 {
		t.Errorf("%d bytes were written, and %d are known of", size, n)
	}
	if n := Transferred(1 << 30); n != (Transfer{}) {
		t.Errorf("a process that there is none of has moved %d", n)
	}
}

func BenchmarkLook(b *testing.B) {
	pid := syscall.Getppid()
	b.Run("clock", func(b *testing.B) {
		for b.Loop() {
			CPU(pid)
		}
	})
	b.Run("stat", func(b *testing.B) {
		for b.Loop() {
			Read(pid)
		}
	})
	b.Run("children", func(b *testing.B) {
		for b.Loop() {
			Children(pid)
		}
	})
}
