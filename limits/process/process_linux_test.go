package process

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/internal/testenv/heldup"
)

// linesOf returns the lines of a text, read with a small buffer.
func linesOf(t testing.TB, text []byte) *lines {
	t.Helper()
	fd, err := unix.MemfdCreate("text", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	if _, err := unix.Pwrite(fd, text, 0); err != nil {
		t.Fatal(err)
	}
	return &lines{fd: fd, room: make([]byte, 64)}
}

func TestParse(t *testing.T) {
	// Like the file of a process with many groups.
	text := "Name:\tcat\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t7\nPid:\t7\nPPid:\t42\nUid:\t1000\t0\t0\t0\nGroups:\t" + strings.Repeat("65534 ", 1000) +
		"\nNStgid:\t7\t1\nNSpgid:\t43\t1\nNSsid:\t44\t0\nVmRSS:\t     100 kB\nVmSwap:\t       8 kB\nThreads:\t1\n"
	want := Stat{State: 'S', Parent: 42, User: 1000, Group: 43, Session: 44, RSS: 100 << 10, Swap: 8 << 10}
	if got := parse(linesOf(t, []byte(text))); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := parse(linesOf(t, nil)); got != (Stat{}) {
		t.Errorf("of nothing: %+v", got)
	}
}

func TestParseTimes(t *testing.T) {
	// Like the line of a real process that has chosen an unusual name.
	const line = "4711 (a) R 1 (b) S 42 43 44 0 -1 4194560 180 0 7 0 12 3 250 50 20 0 1 0 987654 5242880 25 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 0 0 0 0 0 0 0 0 0 0\n"
	if start, waited := parseTimes([]byte(line)); start != 987654 || waited != 3*time.Second {
		t.Errorf("got %d, %s", start, waited)
	}
	for _, cut := range []int{0, 4, 10, 30, 60} {
		if start, waited := parseTimes([]byte(line[:cut])); start != 0 || waited != 0 {
			t.Errorf("of the first %d bytes: %d, %s", cut, start, waited)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("Name:\tinit\nState:\tS (sleeping)\nPPid:\t0\nNSpgid:\t1\nVmRSS:\t 9 kB\n"))
	f.Add([]byte("1 (init) S 0 1 1 0 -1 4194560 180 0 7 0 12 3 250 50 20 0 1 0 9 5242880 25 1\n"))
	f.Add([]byte(")"))
	f.Fuzz(func(t *testing.T, b []byte) {
		_ = parse(linesOf(t, b))
		_, _ = parseTimes(b)
	})
}

func FuzzSize(f *testing.F) {
	f.Add([]byte("Pss:   12 kB\nSwapPss: 3 kB\n"), "Pss:")
	f.Fuzz(func(_ *testing.T, b []byte, key string) { _, _ = size(b, key) })
}

// TestHeldUp checks that a process that holds up the kernel holds up no caller.
func TestHeldUp(t *testing.T) {
	pid, release := heldup.Start(t, 0)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s := Read(pid); s.State == 0 || s.Parent == 0 || s.Group == 0 || s.RSS == 0 {
			t.Errorf("status %+v", s)
		}
		_, _ = Start(pid), Age(pid) // which only newer kernels do not tell
		if n := Transferred(pid); n != (Transfer{}) {
			t.Errorf("transferred %+v", n)
		}
		if _, _, ok := Share(pid); ok {
			t.Error("its share of memory is known")
		}
		if !errors.Is(InTime(pid, func() {}), ErrHeldUp) {
			t.Error("the process is asked although it holds up another question")
		}
		if Start(os.Getpid()) == 0 {
			t.Error("another process cannot be asked")
		}
	}()
	const patience = time.Minute
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("a question has no answer")
	}
	release()
	// It is asked again at once: it is one of mostOfUser.
	for end := time.Now().Add(patience); Start(pid) == 0; runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatal("the process is not asked again after it was released")
		}
	}
	if n := Transferred(pid); n.Calls == 0 {
		t.Errorf("transferred %+v", n)
	}
}

// TestHeldUpDuringSignals checks that signals, of which a job can cause many, do not keep a caller waiting for a process that
// holds up the kernel.
func TestHeldUpDuringSignals(t *testing.T) {
	pid, _ := heldup.Start(t, 0)
	thread, answered := make(chan int, 1), make(chan struct{})
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		thread <- unix.Gettid()
		if _, _, ok := Share(pid); ok {
			t.Error("its share of memory is known")
		}
		close(answered)
	}()
	caller := <-thread
	end := time.After(patience / 2) // with every look postponed it would take patience
	for again := time.NewTicker(lookPause / 10); ; {
		select {
		case <-answered:
			again.Stop()
			return
		case <-end:
			t.Fatal("the caller waits as long as there are signals")
		case <-again.C:
			_ = unix.Tgkill(os.Getpid(), caller, unix.SIGURG)
		}
	}
}

// TestHeldUpByMany checks that only some threads wait for processes.
func TestHeldUpByMany(t *testing.T) {
	set := func(all, user, of int, answered time.Duration) {
		held.mu.Lock()
		defer held.mu.Unlock()
		held.list = nil
		for i := range all {
			q := &question{pid: -1, user: -1, over: answered > 0, since: time.Now().Add(-answered)}
			if i < of {
				q.user = user
			}
			held.list = append(held.list, q)
		}
	}
	t.Cleanup(func() { set(0, 0, 0, 0) })
	for name, test := range map[string]struct {
		all, user, of int
		answered      time.Duration // ago
		want          bool
	}{
		"all":                         {mostHeld, -1, 1, 0, false},
		"all of this user":            {mostOfUser, os.Getuid(), mostOfUser, 0, false},
		"all of another user":         {mostOfUser, os.Getuid() + 1, mostOfUser, 0, true},
		"answered a moment ago":       {mostOfUser, os.Getuid(), mostOfUser, remembered / 2, false},
		"answered a longer while ago": {mostOfUser, os.Getuid(), mostOfUser, 2 * remembered, true},
	} {
		set(test.all, test.user, test.of, test.answered)
		if got := InTime(os.Getpid(), func() {}) == nil; got != test.want || (Start(os.Getpid()) != 0) != test.want {
			t.Errorf("%s: asked %t, expected %t", name, got, test.want)
		}
	}
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
	if s.Parent != os.Getpid() || s.Group != unix.Getpgrp() || Start(pid) == 0 || s.RSS == 0 || s.State == 0 {
		t.Errorf("got %+v", s)
	}
	if child, me, none := Age(pid), Age(os.Getpid()), Age(-1); child <= 0 || me < child || none != 0 {
		t.Errorf("ages: this process %s, its child %s, no process %s", me, child, none)
	}
	waited, ok := Waited(pid)
	if waited == 0 || !ok {
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
	if total := cpu + waited; cpu == 0 || total > used+20*time.Millisecond || total < used/2 {
		t.Errorf("used %v and %v, the kernel says %v", cpu, waited, used)
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
	b.Run("status", func(b *testing.B) {
		for b.Loop() {
			Read(pid)
		}
	})
	b.Run("start", func(b *testing.B) {
		for b.Loop() {
			Start(pid)
		}
	})
	b.Run("children", func(b *testing.B) {
		for b.Loop() {
			Children(pid)
		}
	})
}
