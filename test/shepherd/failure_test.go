package shepherd

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// TestDirectoryThatCannotBeUsed checks that no step runs, and that the exit code reports the
// failure, and also the directory if it can be written.
func TestDirectoryThatCannotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(j *testJob)
		failed job.Failed
		says   string
	}{
		"no config":                    {func(j *testJob) { j.check(os.Remove(j.active + "/config")) }, 5, "never finished"},
		"a config that is a directory": {func(j *testJob) { j.replace("config", func(p string) error { return os.Mkdir(p, 0o755) }) }, 5, "config"},
		"a config that is a link":      {func(j *testJob) { j.replace("config", func(p string) error { return os.Symlink("environment", p) }) }, 5, "config"},
		"a config that is a fifo":      {func(j *testJob) { j.replace("config", func(p string) error { return unix.Mkfifo(p, 0o644) }) }, 5, "regular file"},
		"an empty config":              {func(j *testJob) { j.overwrite("config", "") }, 30, "missing"},
		"a config of noise":            {func(j *testJob) { j.overwrite("config", "\x00\xff\x01=\n\n\n=") }, 30, "config:1"},
		"half a config":                {func(j *testJob) { s := j.file("config"); j.overwrite("config", s[:len(s)/2]) }, 30, "config"},
		"a config with a line missing": {func(j *testJob) { j.overwrite("config", strings.Replace(j.file("config"), "merge_stderr=0\n", "", 1)) }, 30, "merge_stderr"},
		"a value that cannot be": {func(j *testJob) {
			j.overwrite("config", strings.Replace(j.file("config"), "priority=0", "priority=much", 1))
		}, 30, "priority"},
		"a huge config":                 {func(j *testJob) { j.check(os.Truncate(j.active+"/config", 1<<30)) }, 5, "too large"},
		"no environment":                {func(j *testJob) { j.check(os.Remove(j.active + "/environment")) }, 5, "environment"},
		"an environment of noise":       {func(j *testJob) { j.overwrite("environment", "A=1\nnoise\n") }, 30, "environment:2"},
		"arguments of another job":      {func(j *testJob) { j.overwrite("arguments", "other\x00") }, 30, "arguments"},
		"arguments that end in the air": {func(j *testJob) { j.overwrite("arguments", "arg") }, 30, "arguments"},
	} {
		for _, m := range []mode{asRoot, asAdmin, asUser} {
			t.Run(name+" "+string(m), func(t *testing.T) {
				t.Parallel()
				j := newJob(t, m, "echo job >>$LOG")
				j.d.Prolog = j.script("prolog", "echo prolog >>"+j.log)
				j.write()
				c.damage(j)
				j.start()
				j.wait()
				j.expect(c.failed)
				j.expectError(c.says)
				j.nothingRan()
				if j.file("pid") == "" {
					t.Error("there is no file pid")
				}
			})
		}
	}
}

func (j *testJob) nothingRan() {
	j.t.Helper()
	if got := j.logged(); got[0] != "" {
		j.t.Errorf("steps %q ran", got)
	}
	if j.usage() != nil {
		j.t.Error("there is a usage file")
	}
}

// replace replaces a file by something else.
func (j *testJob) replace(name string, with func(path string) error) {
	j.check(os.Remove(j.active + "/" + name))
	j.check(with(j.active + "/" + name))
}

// overwrite changes the content of a file and keeps its owner.
func (j *testJob) overwrite(name, content string) {
	j.check(os.WriteFile(j.active+"/"+name, []byte(content), 0o644))
}

// TestDirectoryOfOthers checks that such a directory is refused before it is read.
func TestDirectoryOfOthers(t *testing.T) {
	for name, c := range map[string]struct {
		mode   mode
		damage func(j *testJob)
	}{
		"anybody may write to it, root":  {asRoot, func(j *testJob) { j.check(os.Chmod(j.active, 0o777)) }},
		"anybody may write to it, execd": {asAdmin, func(j *testJob) { j.check(os.Chmod(j.active, 0o757)) }},
		"its group may write to it":      {asRoot, func(j *testJob) { j.check(os.Chmod(j.active, 0o775)) }},
		"it is a user's":                 {asRoot, func(j *testJob) { j.check(os.Chown(j.active, alice, alice)) }},
		"it is another user's":           {asUser, func(j *testJob) { j.check(os.Chown(j.active, bob, bob)) }},
	} {
		t.Run(name, func(t *testing.T) {
			needRoot(t)
			t.Parallel()
			j := newJob(t, c.mode, "echo job >>$LOG")
			j.write()
			c.damage(j)
			j.start()
			j.wait()
			if j.code != int(job.FailedBeforeProlog) {
				t.Errorf("exit code %d, want %d", j.code, job.FailedBeforeProlog)
			}
			if b, _ := os.ReadFile(j.top + "/stderr"); !strings.Contains(string(b), "cannot use directory") {
				t.Errorf("it says %q", b)
			}
			j.nothingRan()
		})
	}
}

// mount mounts a separate file system on the job directory.
func (j *testJob) mount(data string) {
	j.t.Helper()
	j.check(unix.Mount("tmpfs", j.active, "tmpfs", 0, "mode=0755,"+data))
	j.t.Cleanup(func() { _ = unix.Unmount(j.active, unix.MNT_DETACH) })
	if j.mode == asAdmin {
		j.check(os.Chown(j.active, admin, admin))
	}
}

func TestDirectoryThatCannotBeWritten(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin, asUser} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, "echo job >>$LOG")
			j.d.Prolog = j.script("prolog", "echo prolog >>"+j.log)
			if m == asUser {
				j.write()
				j.check(os.Chown(j.active, 0, 0)) // root's, like all but the files
			} else {
				j.mount("size=1m")
				j.write()
				// EBUSY while a parallel test is between fork and exec with a file open for writing
				// here.
				await(t, "the directory to be read-only", func() bool {
					return unix.Mount("none", j.active, "", unix.MS_REMOUNT|unix.MS_RDONLY, "") == nil
				})
			}
			j.start()
			j.wait()
			if j.code != int(job.FailedBeforeProlog) {
				t.Errorf("exit code %d, want %d", j.code, job.FailedBeforeProlog)
			}
			j.nothingRan()
		})
	}
}

// page is the minimum size of a file on a disk.
const page = 4096

// fill uses up the space of the job directory's file system except for some pages.
func (j *testJob) fill(leave int) {
	j.t.Helper()
	f, err := os.Create(filepath.Join(j.active, "ballast"))
	j.check(err)
	defer f.Close()
	buf := make([]byte, page)
	for {
		if _, err := f.Write(buf); err != nil {
			break
		}
	}
	fi, err := f.Stat()
	j.check(err)
	j.check(f.Truncate(fi.Size() - int64(leave*page)))
}

// TestFullDisk checks, with any amount of free space, that the end of a started job is recorded,
// and that the failure of a job that was not started is at least in the exit code.
func TestFullDisk(t *testing.T) {
	needRoot(t)
	started := 0
	for _, m := range []mode{asRoot, asAdmin} {
		for leave := range 10 {
			t.Run(fmt.Sprintf("%d pages, %s", leave, m), func(t *testing.T) {
				j := newJob(t, m, "echo job >>$LOG; exit 3")
				j.mount("size=64k")
				j.write()
				j.fill(leave)
				j.start()
				j.wait()
				if j.logged()[0] == "" {
					if j.code == 0 {
						t.Error("the job was not started, and the shepherd ended with 0")
					}
					if j.usage() != nil {
						t.Error("there is a usage file")
					}
					return
				}
				started++
				j.expect(0)
				j.expectUsage(3, 0)
			})
		}
	}
	if started == 0 || started == 20 {
		t.Errorf("%d of 20 jobs were started: the test tests nothing", started)
	}
}

// TestDiskFillsUp fills the disk while the job runs.
func TestDiskFillsUp(t *testing.T) {
	needRoot(t)
	for name, c := range map[string]struct {
		end    func(j *counted)
		failed job.Failed
		status int
		signal int
	}{
		"the job ends":   {func(j *counted) { j.signal(unix.SIGTSTP) }, 0, 137, 9},
		"a limit is met": {func(j *counted) {}, 37, 137, 0},
	} {
		for _, m := range []mode{asRoot, asAdmin} {
			t.Run(name+" "+string(m), func(t *testing.T) {
				t.Parallel()
				j := count(t, m)
				j.mount("size=256k")
				if c.failed == 37 {
					j.d.Limits[job.RT] = job.Limit{Soft: none, Hard: 1}
				}
				j.begin()
				j.fill(0)
				c.end(j)
				j.wait()
				if got := j.failed(); got != c.failed {
					t.Errorf("failed %d, want %d", got, c.failed)
				}
				j.expectUsage(c.status, c.signal)
				if u := j.usage(); c.failed == 37 && (u == nil || u.Limit == nil) {
					t.Errorf("usage %+v", u)
				}
			})
		}
	}
}

// TestLeftovers checks that files of an interrupted run in this directory have no effect.
func TestLeftovers(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "exit 3")
	j.write()
	for _, name := range []string{".pid.new", ".usage.new", ".job_pid.new", ".addgrpid.new"} {
		j.check(os.WriteFile(j.active+"/"+name, []byte(strings.Repeat("left over\n", 1000)), 0o644))
		if j.mode == asUser && private {
			j.check(os.Chown(j.active+"/"+name, alice, alice))
		}
	}
	j.start()
	j.wait()
	j.expect(0)
	j.expectUsage(3, 0)
	entries, err := os.ReadDir(j.active)
	j.check(err)
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s is there", e.Name())
		}
	}
}

// TestNothingOfOursStays checks that only files known to Grid Engine stay in the directory.
func TestNothingOfOursStays(t *testing.T) {
	known := map[string]bool{
		"config": true, "environment": true, "arguments": true, "pid": true, "trace": true, "error": true,
		"exit_status": true, "usage": true, "addgrpid": true, "job_pid": true,
	}
	for name, edit := range map[string]func(j *testJob){
		"a job":                    func(*testJob) {},
		"a job that cannot start":  func(j *testJob) { j.d.Command.File = "/no/such/file" },
		"a job without its script": func(j *testJob) { j.d.Command.StartMode, j.d.Command.File = job.ScriptFromStdin, "/no/such/file" },
		"a prolog that fails":      func(j *testJob) { j.d.Prolog = "/bin/false" },
		"a job that is over h_rt": func(j *testJob) {
			j.d.Limits[job.RT] = job.Limit{Soft: none, Hard: 1}
			j.d.Command.File = j.script("s", "sleep 100")
		},
		"a user who does not exist": func(j *testJob) { j.d.Owner = "nosuchuser" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "exit 0")
			edit(j)
			j.run()
			entries, err := os.ReadDir(j.active)
			j.check(err)
			for _, e := range entries {
				if !known[e.Name()] {
					t.Errorf("%s is there", e.Name())
				}
			}
		})
	}
}

// TestRunAgain uses a directory again, as 8.1.9 does with KEEP_ACTIVE for a job that runs again.
// The new result is appended.
func TestRunAgain(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "exit 3")
	j.run()
	j.expect(0)
	first := j.cmd.Process.Pid
	j.ended = make(chan struct{})
	j.start()
	j.wait()
	if got := j.file("exit_status"); got != "0\n0\n" {
		t.Errorf("exit_status has %q", got)
	}
	if got := strings.TrimSpace(j.file("pid")); got != fmt.Sprint(j.cmd.Process.Pid) || j.cmd.Process.Pid == first {
		t.Errorf("pid has %s", got)
	}
}

// TestNoTime checks that a script_timeout of 0 means no timeout.
func TestNoTime(t *testing.T) {
	t.Parallel()
	j := newJob(t, best(), "exit 0")
	j.d.ScriptTimeout = 0
	j.d.Prolog = j.script("prolog", "sleep 0.3")
	before := time.Now()
	j.run()
	j.expect(0)
	if time.Since(before) < 300*time.Millisecond {
		t.Error("the prolog was not waited for")
	}
}
