package spawn

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

func TestMain(m *testing.M) {
	// What the test was started with is none of the children's business.
	if err := unix.CloseRange(3, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}

// run starts p and waits for it.
func run(t *testing.T, p *Program) (syscall.WaitStatus, *StartError) {
	t.Helper()
	c, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(c.PID, &ws, 0, nil)
		if err == nil {
			break
		}
		if !errors.Is(err, syscall.EINTR) {
			t.Fatal(err)
		}
	}
	return ws, c.Failed()
}

// shell returns a program that runs a shell script with its output in a file.
func shell(t *testing.T, out, script string, build func(*Program)) string {
	t.Helper()
	p := &Program{}
	p.Environment([]string{"A=1", "PATH=/usr/bin:/bin"})
	p.OpenRead(StageStdin, 0, "/dev/null")
	p.OpenAppend(StageStdout, 1, out, "", nil, nil)
	p.Dup(StageStderr, 1, 2)
	if build != nil {
		build(p)
	}
	p.Exec([]string{"/bin/sh"}, []string{"sh", "-c", script, "name", "two words", "new\nline"})
	if ws, f := run(t, p); ws.ExitStatus() != 0 || f != nil {
		t.Errorf("exit status %d, failure %v", ws.ExitStatus(), f)
	}
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestChildIsWhatTheProgramSays(t *testing.T) {
	dir := t.TempDir()
	got := shell(t, dir+"/out", `echo "$A|$1|$2"; umask; pwd; ulimit -n; nice; cut -d' ' -f5,6 /proc/$$/stat; echo $$; ls /proc/self/fd`, func(p *Program) {
		p.Setsid()
		p.Umask(0o27)
		p.Nice(7)
		p.Rlimit(unix.RLIMIT_NOFILE, 77, 78, "RLIMIT_NOFILE")
		p.Chdir(dir)
	})
	lines := strings.Split(got, "\n")
	want := []string{"1|two words|new", "line", "0027", dir, "77", "7"}
	for i, w := range want {
		if i >= len(lines) || lines[i] != w {
			t.Fatalf("line %d of\n%swant %q", i, got, w)
		}
	}
	session := strings.Fields(lines[6])
	if pid := lines[7]; session[0] != pid || session[1] != pid {
		t.Errorf("process %s has process group and session %v", pid, session)
	}
	// The last one is the directory itself.
	if fds := strings.Join(lines[8:], " "); fds != "0 1 2 3 " {
		t.Errorf("ls has descriptors %q", fds)
	}
}

func TestDirectoryFallsBackAndPatchesEnvironment(t *testing.T) {
	dir := t.TempDir()
	p := &Program{}
	p.Environment([]string{"OUT=" + dir, "ERR=" + dir, "B=2"})
	p.OpenRead(StageStdin, 0, "/dev/null")
	p.OpenAppend(StageStdout, 1, dir, dir+"/name.o1", []int{0, 1}, []string{"OUT=" + dir + "/name.o1", "ERR=" + dir + "/name.o1"})
	p.Dup(StageStderr, 1, 2)
	p.Exec([]string{"/bin/sh"}, []string{"sh", "-c", "echo $OUT $ERR $B"})
	if ws, f := run(t, p); ws != 0 || f != nil {
		t.Fatalf("status %v, failure %v", ws, f)
	}
	b, _ := os.ReadFile(dir + "/name.o1")
	if want := dir + "/name.o1 " + dir + "/name.o1 2\n"; string(b) != want {
		t.Errorf("output %q, want %q", b, want)
	}
}

func TestFailures(t *testing.T) {
	dir := t.TempDir()
	noexec := filepath.Join(dir, "noexec")
	if err := os.WriteFile(noexec, []byte("#!/bin/sh\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	badInterpreter := filepath.Join(dir, "bad")
	if err := os.WriteFile(badInterpreter, []byte("#!/no/such/interpreter\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		build func(*Program)
		want  StartError
	}{
		"no such program":                 {func(p *Program) { p.Exec([]string{"/no/such"}, []string{"x"}) }, StartError{Stage: StageExec, What: "/no/such", Errno: syscall.ENOENT}},
		"permission beats no such file":   {func(p *Program) { p.Exec([]string{"/no/such", noexec, "/none"}, []string{"x"}) }, StartError{Stage: StageExec, What: noexec, Errno: syscall.EACCES}},
		"output that cannot be looked at": {func(p *Program) { p.OpenAppend(StageStderr, 2, noexec+"/x", noexec+"/x/y", nil, nil) }, StartError{Stage: StageStderr, What: noexec + "/x", Errno: syscall.ENOTDIR, Look: true}},
		"input that cannot be looked at":  {func(p *Program) { p.OpenRead(StageStdin, 0, noexec+"/x") }, StartError{Stage: StageStdin, What: noexec + "/x", Errno: syscall.ENOTDIR, Look: true}},
		"program that is not there": {func(p *Program) {
			p.Look(StageExec, "/no/such", false)
			p.Exec([]string{"/no/such"}, []string{"x"})
		}, StartError{Stage: StageExec, What: "/no/such", Errno: syscall.ENOENT, Look: true}},
		"program that cannot be executed": {func(p *Program) {
			p.Look(StageExec, noexec, false)
			p.Exec([]string{noexec}, []string{"x"})
		}, StartError{Stage: StageExec, What: noexec, Errno: syscall.EACCES}},
		"missing interpreter":            {func(p *Program) { p.Exec([]string{badInterpreter}, []string{"x"}) }, StartError{Stage: StageExec, What: badInterpreter, Errno: syscall.ENOENT}},
		"no such directory":              {func(p *Program) { p.Chdir("/no/such") }, StartError{Stage: StageChdir, What: "/no/such", Errno: syscall.ENOENT}},
		"output cannot be made":          {func(p *Program) { p.OpenAppend(StageStdout, 1, "/proc/x", "/proc/x/y", nil, nil) }, StartError{Stage: StageStdout, What: "/proc/x", Errno: syscall.ENOENT}},
		"fallback in directory fails":    {func(p *Program) { p.OpenAppend(StageStdout, 1, "/proc", "/proc/x", nil, nil) }, StartError{Stage: StageStdout, What: "/proc/x", Errno: syscall.ENOENT}},
		"a fallback used is not a fault": {func(p *Program) { p.OpenAppend(StageStdout, 1, dir, dir+"/o", nil, nil); p.Chdir("/none") }, StartError{Stage: StageChdir, What: "/none", Errno: syscall.ENOENT}},
		"input cannot be read":           {func(p *Program) { p.OpenRead(StageStdin, 0, "/none") }, StartError{Stage: StageStdin, What: "/none", Errno: syscall.ENOENT}},
		"soft limit above hard":          {func(p *Program) { p.Rlimit(unix.RLIMIT_NOFILE, 10, 5, "RLIMIT_NOFILE") }, StartError{Stage: StageLimit, What: "RLIMIT_NOFILE", Errno: syscall.EINVAL}},
	} {
		t.Run(name, func(t *testing.T) {
			p := &Program{}
			c.build(p)
			if c.want.Stage != StageExec {
				p.Exec([]string{"/bin/true"}, []string{"true"})
			}
			_, f := run(t, p)
			if f == nil || f.PID == 0 {
				t.Fatalf("failure %+v, want %v of a process", f, &c.want)
			}
			f.PID = 0
			if *f != c.want {
				t.Errorf("failure %v, want %v", f, &c.want)
			}
		})
	}
}

func TestExecFindsTheNextCandidate(t *testing.T) {
	p := &Program{}
	p.Exec([]string{"/no/such", "/etc/passwd", "/bin/true"}, []string{"true"})
	if ws, f := run(t, p); ws != 0 || f != nil {
		t.Errorf("status %v, failure %v", ws, f)
	}
}

func TestFileWithoutInterpreterRunsUnderSh(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("echo $0 $# $1 > "+dir+"/out\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	p := &Program{}
	p.Exec([]string{script}, []string{script, "a b", "c"})
	if ws, f := run(t, p); ws != 0 || f != nil {
		t.Fatalf("status %v, failure %v", ws, f)
	}
	if b, _ := os.ReadFile(dir + "/out"); string(b) != script+" 2 a b\n" {
		t.Errorf("the script saw %q", b)
	}
}

func TestSignalStateOfTheChildIsClean(t *testing.T) {
	// Block and ignore some in the thread that forks, as a parent may have.
	got := shell(t, t.TempDir()+"/out", `grep -E '^Sig(Blk|Ign)' /proc/self/status`, nil)
	for line := range strings.SplitSeq(strings.TrimSpace(got), "\n") {
		if !strings.HasSuffix(line, "\t0000000000000000") {
			t.Errorf("%s", line)
		}
	}
}

func TestIdentity(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root: changes its identity")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	p := &Program{}
	p.Environment(nil)
	p.Groups([]uint32{30001, 30002})
	p.Setresgid(30003)
	p.Setresuid(30004)
	p.OpenAppend(StageStdout, 1, "/tmp/../"+dir+"/out", "", nil, nil)
	p.Exec([]string{"/usr/bin/id"}, []string{"id"})
	for d := dir; d != "/"; d = filepath.Dir(d) {
		if fi, err := os.Stat(d); err == nil && fi.Mode()&0o001 == 0 {
			if err := os.Chmod(d, fi.Mode()|0o011); err != nil {
				t.Fatal(err)
			}
		}
	}
	if ws, f := run(t, p); ws != 0 || f != nil {
		t.Fatalf("status %v, failure %v", ws, f)
	}
	b, _ := os.ReadFile(dir + "/out")
	if want := "uid=30004 gid=30003 groups=30003,30001,30002\n"; string(b) != want {
		t.Errorf("id says %q, want %q", b, want)
	}
	var st syscall.Stat_t
	if err := syscall.Stat(dir+"/out", &st); err != nil || st.Uid != 30004 || st.Gid != 30003 {
		t.Errorf("output belongs to %d:%d", st.Uid, st.Gid)
	}
}

func TestNULByteIsRefused(t *testing.T) {
	p := &Program{}
	p.Exec([]string{"/bin/true"}, []string{"true", "a\x00b"})
	if _, err := p.Start(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("error %v, want EINVAL", err)
	}
}

func TestManyStartsUnderLoad(t *testing.T) {
	// Garbage collections and preemption around the fork must not disturb it.
	stop := make(chan struct{})
	defer close(stop)
	for range 2 {
		go func() {
			var keep [][]byte
			for {
				select {
				case <-stop:
					return
				default:
					keep = append(keep, make([]byte, 4096))
					if len(keep) > 500 {
						keep = nil
					}
				}
			}
		}()
	}
	for range 300 {
		p := &Program{}
		p.Setsid()
		p.Exec([]string{"/bin/true"}, []string{"true"})
		if ws, f := run(t, p); ws != 0 || f != nil {
			t.Fatalf("status %v, failure %v", ws, f)
		}
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		p := &Program{}
		p.Setsid()
		p.Exec([]string{"/bin/true"}, []string{"true"})
		c, err := p.Start()
		if err != nil {
			b.Fatal(err)
		}
		_, _ = syscall.Wait4(c.PID, nil, 0, nil)
		_ = c.Failed()
	}
}

func TestAffinity(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	last := -1
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			last = cpu
		}
	}
	before := shell(t, t.TempDir()+"/out", "grep Cpus_allowed_list /proc/self/status", nil)
	for sentence, c := range map[string]struct {
		mask []uint64
		want string
	}{
		"one processor":                      {append(make([]uint64, last/64), 1<<(last%64)), fmt.Sprintf("Cpus_allowed_list:\t%d\n", last)},
		"none":                               {nil, before},
		"one that the machine does not have": {append(make([]uint64, 900), 1), before},
	} {
		t.Run(sentence, func(t *testing.T) {
			got := shell(t, t.TempDir()+"/out", "grep Cpus_allowed_list /proc/self/status", func(p *Program) { p.Affinity(c.mask) })
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}
