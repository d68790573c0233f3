package jobdir

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// TestMain also runs the child processes of tests.
func TestMain(m *testing.M) {
	switch os.Getenv("JOBDIR_TEST_CHILD") {
	case "":
		os.Exit(m.Run())
	case "create":
		childCreate()
	case "numbers":
		childNumbers()
	case "lock":
		childLock()
	case "writer":
		childWriter()
	}
	os.Exit(3)
}

// child returns a command that runs this test binary as another process.
func child(kind string, env ...string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), append(env, "JOBDIR_TEST_CHILD="+kind)...)
	cmd.Stderr = os.Stderr
	return cmd
}

// TestJobsAreSpreadOut checks that only the directory of jobs gets the flag, and only on an ext4
// file system without a journal.
func TestJobsAreSpreadOut(t *testing.T) {
	s := newSpool(t)
	flags, err := unix.IoctlGetInt(s.active, unix.FS_IOC_GETFLAGS)
	if err != nil {
		t.Log(err) // not all file systems have such flags
	}
	if spread := flags&0x20000 != 0; spread != withoutJournal(s.active) {
		t.Errorf("flags %#x, without a journal: %v", flags, !spread)
	}
}

func TestSpool(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077))
	s := newSpool(t)
	id := job.ID{Job: 7}
	want := simple(id)
	want.PE = &job.ParallelEnvironment{Name: "smp", Slots: 2}
	hosts := []PEHost{{Host: "host", Slots: 2, Queue: "all.q@host"}}
	d, err := s.Create(want, CreateOptions{Hosts: hosts})
	must(t, err)
	defer d.Close()
	if d.Path() != s.Path()+"/active_jobs/7.1" || d.Path() != s.JobPath(id) {
		t.Error(d.Path())
	}
	for name, mode := range map[string]os.FileMode{
		"": os.ModeDir | 0o711, "/config": 0o600, "/environment": 0o600, "/arguments": 0o600, "/pe_hostfile": 0o644,
		"/..": os.ModeDir | 0o711, "/../../job_scripts": os.ModeDir | 0o711,
	} {
		if got, uid, _ := stat(t, d.Path()+name); got != mode || uid != os.Geteuid() {
			t.Errorf("%q: mode %v of %d, want %v", name, got, uid, mode)
		}
	}
	again, err := s.Open(id)
	must(t, err)
	defer again.Close()
	got, err := again.Description()
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if h, err := again.PEHosts(); err != nil || cmp.Diff(hosts, h) != "" {
		t.Error(h, err)
	}
	if _, err := s.Create(want, CreateOptions{}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if _, err := s.Open(job.ID{Job: 8}); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}

	task := simple(job.ID{Job: 7, PETask: "1.host"})
	td, err := s.Create(task, CreateOptions{})
	must(t, err)
	td.Close()
	if td.Path() != d.Path()+"/1.host" {
		t.Error(td.Path())
	}
	if tasks, err := d.PETasks(); err != nil || !slices.Equal(tasks, []string{"1.host"}) {
		t.Error(tasks, err)
	}
	for _, id := range []job.ID{{Job: 12, Task: 3}, {Job: 12, Task: 1}, {Job: 3}} {
		d, err := s.Create(simple(id), CreateOptions{NoSync: true})
		must(t, err)
		d.Close()
	}
	must(t, os.Mkdir(s.Path()+"/active_jobs/007.1", 0o755))
	if ids, err := s.Jobs(); err != nil || !slices.Equal(ids, []job.ID{{Job: 3, Task: 1}, {Job: 7, Task: 1}, {Job: 12, Task: 1}, {Job: 12, Task: 3}}) {
		t.Error(ids, err)
	}

	must(t, s.Remove(id, KeepAll, true))
	must(t, s.Remove(id, KeepFailed, true))
	if !exists(d.Path() + "/config") {
		t.Error("a directory that is to be kept was removed")
	}
	must(t, s.Remove(id, KeepFailed, false))
	must(t, s.Remove(id, KeepNone, false))
	must(t, s.Remove(job.ID{Job: 7, PETask: "1.host"}, KeepNone, false))
	if exists(d.Path()) {
		t.Error("the directory is still there")
	}
}

func TestDirectoriesOfPreviousRunsAreKept(t *testing.T) {
	s := newSpool(t)
	desc := simple(job.ID{Job: 1})
	for i := range 11 {
		d, err := s.Create(desc, CreateOptions{KeepFormer: true, NoSync: true})
		if err != nil {
			t.Fatal(i, err)
		}
		must(t, d.WriteNumber(FilePID, i))
		d.Close()
	}
	for i := range 10 {
		if b, err := os.ReadFile(s.JobPath(desc.ID) + "." + strconv.Itoa(i) + "/pid"); string(b) != strconv.Itoa(i)+"\n" {
			t.Error(i, string(b), err)
		}
	}
	if _, err := s.Create(desc, CreateOptions{KeepFormer: true}); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if ids, err := s.Jobs(); err != nil || !slices.Equal(ids, []job.ID{{Job: 1, Task: 1}}) {
		t.Error(ids, err)
	}
}

// TestNothingIsMadeForBadDescription checks that an invalid description is refused before anything
// is created.
func TestNothingIsMadeForBadDescription(t *testing.T) {
	s := newSpool(t)
	for name, change := range map[string]func(d *job.Description){
		"newline in the name":    func(d *job.Description) { d.Name = "a\nb" },
		"NUL in an argument":     func(d *job.Description) { d.Command.Args = []string{"\x00"} },
		"variable without value": func(d *job.Description) { d.Environment = []string{"A"} },
		"no owner":               func(d *job.Description) { d.Owner = "" },
		"no number":              func(d *job.Description) { d.ID.Job = 0 },
		"negative number":        func(d *job.Description) { d.ID.Job = -1 },
		"task that climbs":       func(d *job.Description) { d.ID.PETask = "../.." },
		"task of no job":         func(d *job.Description) { d.ID.PETask = "1.host" },
		"environment too large":  func(d *job.Description) { d.Environment = []string{"A=" + strings.Repeat("x", mostFile)} },
	} {
		d := simple(job.ID{Job: 1})
		change(d)
		if _, err := s.Create(d, CreateOptions{}); err == nil {
			t.Error(name, "was taken")
		}
		if found, _ := filepath.Glob(s.Path() + "/active_jobs/*"); len(found) > 0 {
			t.Error(name, found)
		}
	}
}

// createSteps lists the steps of Create, in order.
var createSteps = []string{"mkdir", FileEnvironment, FileArguments, FilePEHosts, FileConfig, "sync"}

func TestFailureWhileCreatingLeavesNothing(t *testing.T) {
	s := newSpool(t)
	desc, hosts := simple(job.ID{Job: 1}), []PEHost{{Host: "h", Slots: 1, Queue: "q@h"}}
	for _, at := range createSteps {
		reached := false
		s.fault = func(step string) error {
			if step == at {
				reached = true
				return syscall.ENOSPC
			}
			return nil
		}
		_, err := s.Create(desc, CreateOptions{Hosts: hosts})
		if !reached || !errors.Is(err, syscall.ENOSPC) {
			t.Error(at, reached, err)
		}
		if found, _ := filepath.Glob(s.Path() + "/active_jobs/*"); len(found) > 0 {
			t.Errorf("%s: left %q", at, found)
		}
	}
}

// childCreate creates the directory of job 1 and kills itself at a step.
func childCreate() {
	s, err := OpenSpool(os.Getenv("SPOOL"))
	if err != nil {
		os.Exit(4)
	}
	s.fault = func(step string) error {
		if step == os.Getenv("STEP") {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		return nil
	}
	if _, err := s.Create(simple(job.ID{Job: 1}), CreateOptions{Hosts: []PEHost{{Host: "h", Slots: 1, Queue: "q@h"}}}); err != nil {
		os.Exit(5)
	}
	os.Exit(0)
}

func TestKilledWhileCreating(t *testing.T) {
	s := newSpool(t)
	id := job.ID{Job: 1}
	for _, at := range append(createSteps, "never") {
		err := child("create", "SPOOL="+s.Path(), "STEP="+at).Run()
		if killed := err != nil && err.Error() == "signal: killed"; killed != (at != "never") {
			t.Fatal(at, err)
		}
		d, err := s.Open(id)
		switch {
		case at == "mkdir":
			if !errors.Is(err, fs.ErrNotExist) {
				t.Error(at, err)
			}
		case err != nil:
			t.Error(at, err)
		default:
			_, err := d.Description()
			complete := at == "sync" || at == "never"
			if complete && err != nil || !complete && !errors.Is(err, ErrIncomplete) {
				t.Error(at, err)
			}
			d.Close()
		}
		must(t, s.Remove(id, KeepNone, false))
		d, err = s.Create(simple(id), CreateOptions{})
		must(t, err)
		if _, err := d.Description(); err != nil {
			t.Error(at, err)
		}
		d.Close()
		must(t, s.Remove(id, KeepNone, false))
	}
}

// TestInterruptedRemovalIsNoJob checks that a directory whose removal was interrupted does not
// count as a job.
func TestInterruptedRemovalIsNoJob(t *testing.T) {
	s := newSpool(t)
	d, err := s.Create(simple(job.ID{Job: 1}), CreateOptions{NoSync: true})
	must(t, err)
	defer d.Close()
	s.fault = func(step string) error {
		if step == "remove the rest" {
			return syscall.EIO
		}
		return nil
	}
	if err := s.Remove(job.ID{Job: 1}, KeepNone, false); !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	if _, err := d.ReadFile(FileEnvironment); err != nil {
		t.Error(err)
	}
	if _, err := d.Description(); !errors.Is(err, ErrIncomplete) {
		t.Error(err)
	}
	s.fault = nil
	must(t, s.Remove(job.ID{Job: 1}, KeepNone, false))
	if exists(d.Path()) {
		t.Error("it is still there")
	}
}

func TestOpenSpoolRefusals(t *testing.T) {
	if _, err := OpenSpool("relative"); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Error(err)
	}
	base := publicDir(t, 0o755)
	refused := func(path, why string) {
		t.Helper()
		s, err := OpenSpool(path)
		if err == nil {
			s.Close()
			t.Error(path, "was taken")
		} else if !strings.Contains(err.Error(), why) {
			t.Error(err)
		}
	}
	must(t, os.Mkdir(base+"/open", 0o755))
	must(t, os.Chmod(base+"/open", 0o777))
	refused(base+"/open", "other users may write")
	refused(base+"/open/spool", "other users may write") // they could exchange it
	must(t, os.Chmod(base+"/open", 0o777|os.ModeSticky))
	refused(base+"/open", "other users may write")
	s, err := OpenSpool(base + "/open/a/b")
	must(t, err)
	s.Close()
	must(t, os.Chmod(base+"/open/a/b/active_jobs", 0o777))
	refused(base+"/open/a/b", "other users may write")
	must(t, os.WriteFile(base+"/file", nil, 0o644))
	refused(base+"/file", "not a directory")
	must(t, os.Mkdir(base+"/s", 0o755))
	must(t, os.Symlink("/tmp", base+"/s/job_scripts"))
	refused(base+"/s", "job_scripts")
	must(t, os.Symlink(base+"/loop", base+"/loop"))
	refused(base+"/loop", "too many levels")

	needRoot(t)
	must(t, os.Mkdir(base+"/alice", 0o755))
	must(t, os.Chown(base+"/alice", alice, alice))
	refused(base+"/alice", "belongs to user ID 20001")
	refused(base+"/alice/spool", "belongs to user ID 20001")
	must(t, os.Symlink(base, base+"/open/link"))
	must(t, os.Lchown(base+"/open/link", alice, alice))
	refused(base+"/open/link/x", "belongs to user ID 20001")
}

func TestSpoolThroughLinkOfAdministrator(t *testing.T) {
	base := publicDir(t, 0o755)
	must(t, os.MkdirAll(base+"/real/x", 0o755))
	must(t, os.Symlink("real/./x/../x", base+"/relative"))
	must(t, os.Symlink(base+"/relative", base+"/absolute"))
	s, err := OpenSpool(base + "/absolute/spool/")
	must(t, err)
	defer s.Close()
	if !exists(base+"/real/x/spool/active_jobs") || s.Path() != base+"/absolute/spool" {
		t.Error(s.Path())
	}
}

// childNumbers takes ten job numbers and prints them.
func childNumbers() {
	s, err := OpenSpool(os.Getenv("SPOOL"))
	if err != nil {
		os.Exit(4)
	}
	for range 10 {
		n, err := s.NextJobID()
		if err != nil {
			os.Exit(5)
		}
		printNumber(n)
	}
	os.Exit(0)
}

func printNumber(n int) { _, _ = os.Stdout.WriteString(strconv.Itoa(n) + "\n") }

func TestJobNumbers(t *testing.T) {
	s := newSpool(t)
	if n, err := s.NextJobID(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	// Goroutines and processes run concurrently: each number is given out once.
	var mu sync.Mutex
	seen := map[string]int{"1": 1}
	count := func(n string) {
		mu.Lock()
		defer mu.Unlock()
		seen[n]++
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10 {
				n, err := s.NextJobID()
				if err != nil {
					t.Error(err)
				}
				count(strconv.Itoa(n))
			}
		})
		wg.Go(func() {
			out, err := child("numbers", "SPOOL="+s.Path()).Output()
			if err != nil {
				t.Error(err)
			}
			for n := range strings.FieldsSeq(string(out)) {
				count(n)
			}
		})
	}
	wg.Wait()
	for i := 1; i <= 81; i++ {
		if seen[strconv.Itoa(i)] != 1 {
			t.Errorf("number %d was given out %d times", i, seen[strconv.Itoa(i)])
		}
	}

	file := s.Path() + "/jobseqnum"
	must(t, os.WriteFile(file, []byte("9999998\n"), 0o644))
	d, err := s.Create(simple(job.ID{Job: 1}), CreateOptions{NoSync: true})
	must(t, err)
	d.Close()
	_, err = s.WriteScript(2, nil, os.Getuid(), os.Getgid())
	must(t, err)
	for _, want := range []int{9999999, 3, 4} { // 1 and 2 are in use
		if n, err := s.NextJobID(); n != want || err != nil {
			t.Error(n, err, "want", want)
		}
	}
	for _, bad := range []string{"", "x\n", "-1\n", "10000000\n"} {
		must(t, os.WriteFile(file, []byte(bad), 0o644))
		if n, err := s.NextJobID(); err == nil {
			t.Errorf("%q: %d", bad, n)
		}
	}
	must(t, os.WriteFile(file, []byte("5\n"), 0o644))
	s.fault = func(string) error { return syscall.EIO }
	if _, err := s.NextJobID(); !errors.Is(err, syscall.EIO) {
		t.Error(err)
	}
	s.fault = nil
	if n, err := s.NextJobID(); n != 6 || err != nil {
		t.Error(n, err)
	}
}

func TestScript(t *testing.T) {
	s := newSpool(t)
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = alice, alice
	}
	content := "#!/bin/sh\n\x00\xff"
	path, err := s.WriteScript(5, []byte(content), uid, gid)
	must(t, err)
	if path != s.Path()+"/job_scripts/5" || path != s.ScriptPath(5) {
		t.Error(path)
	}
	mode, u, g := stat(t, path)
	acl := os.Geteuid() == 0 && hasACLs(t)
	if acl && (mode != 0o550 || u != 0) || !acl && (mode != 0o500 || u != uid || g != gid) {
		t.Error(mode, u, g)
	}
	for user, want := range map[int]bool{uid: true, uid + 1: os.Geteuid() != 0} {
		if is, err := s.HasScript(5, []byte(content), user); is != want || err != nil {
			t.Errorf("the script is that of user %d: %v, %v", user, is, err)
		}
	}
	if _, err := s.WriteScript(5, []byte("evil"), uid, gid); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
	if b, err := os.ReadFile(path); string(b) != content {
		t.Error(string(b), err)
	}
	s.fault = func(step string) error {
		if step == "script link" {
			return syscall.ENOSPC
		}
		return nil
	}
	if _, err := s.WriteScript(6, nil, uid, gid); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	s.fault = nil
	if found, err := os.ReadDir(s.Path() + "/job_scripts"); len(found) != 1 || err != nil {
		t.Error(found, err)
	}
	if _, err := s.WriteScript(0, nil, uid, gid); err == nil {
		t.Error("job 0 was taken")
	}
	if os.Geteuid() == 0 {
		as(t, alice, func() {
			if _, err := os.ReadFile(path); err != nil {
				t.Error("the owner of the job cannot read the script:", err)
			}
			if os.Remove(path) == nil || os.Rename(path, path+"x") == nil {
				t.Error("the script can be exchanged")
			}
			if acl && (os.Chmod(path, 0o700) == nil || os.Truncate(path, 1<<20) == nil) {
				t.Error("the owner of the job can write to the script, and fill the file system")
			}
		})
		execute := exec.Command("/bin/sh", "-c", "test -r "+path+" && test -x "+path+" && ! test -w "+path)
		execute.SysProcAttr, execute.Dir = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: alice, Gid: alice}}, "/"
		if out, err := execute.CombinedOutput(); acl && err != nil {
			t.Errorf("the owner of the job cannot execute the script, or can write to it: %v %s", err, out)
		}
		as(t, bob, func() {
			if _, err := os.ReadFile(path); err == nil {
				t.Error("another user can read the script")
			}
		})
	}
	must(t, s.RemoveScript(5))
	must(t, s.RemoveScript(5))
	if exists(path) {
		t.Error("the script is still there")
	}
	// A planted link is not followed.
	must(t, os.Symlink("/etc/passwd", path))
	if _, err := s.WriteScript(5, nil, uid, gid); !errors.Is(err, ErrExists) {
		t.Error(err)
	}
}

// hasACLs reports whether the file system of t.TempDir has access control lists.
func hasACLs(t *testing.T) bool {
	t.Helper()
	err := unix.Setxattr(t.TempDir(), aclAttribute, scriptACL(os.Getuid()), 0)
	if err != nil && !errors.Is(err, unix.EOPNOTSUPP) {
		t.Error(err)
	}
	return err == nil
}

// TestScriptIsNotBusy checks that a script can be executed as soon as it exists, even while other
// processes are started.
func TestScriptIsNotBusy(t *testing.T) {
	s := newSpool(t)
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := exec.Command("/bin/true").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	for i := range 50 {
		path, err := s.WriteScript(i+1, []byte("#!/bin/true\n"), os.Getuid(), os.Getgid())
		if err == nil {
			err = exec.Command(path).Run()
		}
		if err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	wg.Wait()
}

// childLock calls LockJobs and keeps the lock.
func childLock() {
	s, err := OpenSpool(os.Getenv("SPOOL"))
	if err == nil {
		_, err = s.LockJobs()
	}
	if err != nil {
		os.Exit(4)
	}
	os.Stdout.WriteString("locked\n")
	_, _ = os.Stdin.Read(make([]byte, 1))
	os.Exit(0)
}

// TestLockJobs checks that the kernel releases the lock when the process that holds it exits in any
// way, and that NextJobID does not wait for the lock.
func TestLockJobs(t *testing.T) {
	s := newSpool(t)
	c := child("lock", "SPOOL="+s.Path())
	in, err := c.StdinPipe()
	must(t, err)
	defer in.Close()
	out, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	_, err = out.Read(make([]byte, 7))
	must(t, err)
	_, err = s.NextJobID()
	must(t, err)
	fd, err := reopen(s.active)
	must(t, err)
	defer syscall.Close(fd)
	if err := syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB); !errors.Is(err, syscall.EWOULDBLOCK) {
		t.Error("a second one got the lock", err)
	}
	must(t, c.Process.Kill())
	unlock, err := s.LockJobs() // waits until it is dead
	must(t, err)
	_ = c.Wait()
	unlock()
	must(t, syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB))
}
