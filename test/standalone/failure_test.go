package standalone

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestFullDisk fills the disk of the queue for a while. The daemon refuses changes that it cannot
// save, and jobs keep running. Afterwards the accounting has the jobs that finished meanwhile, and
// all commands work again without a restart.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	spool := t.TempDir()
	if err := unix.Mount("tmpfs", spool, "tmpfs", 0, "size=4m,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(spool, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	m := newMachine(t, 2)
	m.args = []string{"--spool", spool, "--spool-per-user", "none", "--spool-reserve", "none"}
	m.start()
	u, out := someUsers(t, 1)[0], m.open("out")
	m.write("runs.sh", "#!/bin/sh\ntouch "+out+"/runs\nwhile ! [ -e "+out+"/go ]; do sleep 0.05; done\ntouch "+out+"/gone\nexit 7\n")
	m.write("large.sh", "#!/bin/sh\n"+strings.Repeat("# large\n", 100_000))
	there := func(name string) func() bool {
		return func() bool { _, err := os.Stat(filepath.Join(out, name)); return err == nil }
	}
	submit := func(words ...string) result {
		return m.as(u, "qsub", append([]string{"-wd", "/", "-o", "/dev/null", "-j", "y"}, words...)...)
	}
	submit("-N", "runs", "runs.sh")
	submit("-N", "waits", "-h", "-b", "y", "true")
	m.until("the job runs", there("runs"))

	fill(t, filepath.Join(spool, "filler"))
	for range 2 {
		if r := submit("-N", "refused", "large.sh"); r.status == 0 || !strings.Contains(r.stderr, "the file system of the spool directory has 0 bytes left") {
			t.Errorf("a submission that cannot be kept: %+v", r)
		}
	}
	if r := m.as(u, "qconf", "-sq", "all.q"); r.status != 0 {
		t.Errorf("what only shows: %+v", r)
	}
	if list := m.as(u, "qstat").stdout; strings.Count(list, " runs ") != 1 || strings.Count(list, " waits ") != 1 || strings.Contains(list, "refused") {
		t.Errorf("what was accepted:\n%s", list)
	}
	m.write("out/go", "")
	m.until("the job has ended", there("gone"))

	if err := os.Remove(filepath.Join(spool, "filler")); err != nil {
		t.Fatal(err)
	}
	m.until("submissions are taken again", func() bool { return submit("-N", "taken", "large.sh").status == 0 })
	if r := m.as(u, "qrls", "-u", u.Username); r.status != 0 {
		t.Errorf("%+v", r)
	}
	m.until("all have run", func() bool { return m.as(u, "qstat").stdout == "" })
	accounts := func() string { return strings.Join(lines(t, filepath.Join(spool, "accounting")), "\n") }
	m.until("all are in the accounting", func() bool { return strings.Count(accounts(), "\n") == 2 })
	for name, status := range map[string]int{"runs": 7, "waits": 0, "taken": 0} {
		// account of accounting(5): failed and exit_status are the 12th and 13th
		if n := len(regexp.MustCompile(fmt.Sprintf(`(?m)^([^:]*:){4}%s:([^:]*:){6}0:%d:`, name, status)).FindAllString(accounts(), -1)); n != 1 {
			t.Errorf("%s is %d times in the accounting:\n%s", name, n, accounts())
		}
	}
}

// fill leaves no room where a file is.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	for page := make([]byte, 4096); err == nil; {
		_, err = f.Write(page)
	}
	if err = errors.Join(err, f.Close()); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}

// begun returns the output and exit status of a daemon that cannot start.
func (m *machine) begun(args ...string) (string, int) {
	m.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(m.bin, "execd"), append([]string{
		"standalone", "--host", hostName, "--spool", filepath.Join(m.dir, "spool"), "--socket", m.socket(), "--conf", filepath.Join(m.dir, "conf"),
	}, args...)...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestDaemonThatCannotBegin says why it does not, and leaves what there is as it is.
func TestDaemonThatCannotBegin(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qsub", "-h", "-wd", "/", "-b", "y", "true"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	refused := func(name, pattern string, args ...string) {
		t.Helper()
		const cannotRun = 125
		if said, status := m.begun(args...); status != cannotRun || !regexp.MustCompile(pattern).MatchString(said) {
			t.Errorf("%s: exit status %d\n%s", name, status, said)
		}
	}
	refused("a second daemon", `another agent uses the spool directory .*spool`)
	refused("a second daemon with another socket", `another agent uses the spool directory .*spool`, "--socket", filepath.Join(m.dir, "run", "other"))
	refused("the socket of another daemon", `agent\.sock": another process listens there already`, "--spool", filepath.Join(m.dir, "other"))
	m.daemon.Kill()

	db := filepath.Join(m.dir, "spool", "cell.db")
	good, err := os.ReadFile(db)
	if err != nil {
		t.Fatal(err)
	}
	scrambled := []byte(strings.Clone(string(good)))
	for i := 3 * 4096; i < len(scrambled); i++ {
		scrambled[i] ^= 0x5a
	}
	for name, text := range map[string][]byte{
		"empty": {}, "truncated": good[:9000], "no store": []byte(strings.Repeat("garbage\n", 9000)), "scrambled": scrambled,
	} {
		if err := os.WriteFile(db, text, 0o600); err != nil {
			t.Fatal(err)
		}
		refused("a store that is "+name, `cell\.db": it is damaged: .*; put a copy from a backup in its place, or, to begin with nothing, move it away`)
		if after, err := os.ReadFile(db); err != nil || string(after) != string(text) {
			t.Errorf("a store that is %s is another one afterwards (%v)", name, err)
		}
	}
	if err := os.WriteFile(db, good, 0o600); err != nil {
		t.Fatal(err)
	}
	refused("a socket in a folder of everybody", `has mode 0777: other users could replace the socket`, "--socket", filepath.Join(m.everybodys(), "s"))
	refused("a path that is too long", `expected at most 107`, "--socket", filepath.Join(m.dir, strings.Repeat("x", 107), "s"))

	// And in a folder that is not there yet it begins, with all that there was.
	m.args = []string{"--socket", filepath.Join(m.dir, "run", "new", "folder", "s")}
	t.Setenv("EXECD_SOCKET", m.args[1])
	m.start()
	m.until("the daemon reports its status", func() bool {
		out, err := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), "status").CombinedOutput()
		return err == nil && strings.Contains(string(out), "takes jobs")
	})
	if out, err := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), "qstat", "-u", "*").CombinedOutput(); err != nil || !strings.Contains(string(out), " hqw ") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), "qdel", "-u", "*").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	m.daemon.Kill()
	m.args = nil
}

// everybodys returns a directory without the sticky bit that everybody may write to.
func (m *machine) everybodys() string {
	path := filepath.Join(m.dir, "everybodys")
	if err := errors.Join(os.Mkdir(path, 0o700), os.Chmod(path, 0o777)); err != nil { //nolint:gosec // that is the point
		m.Fatal(err)
	}
	return path
}

// TestReadOnlySpool begins where nothing can be written.
func TestReadOnlySpool(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 1)
	m.start()
	m.root("qstat")
	m.daemon.Kill()
	spool := filepath.Join(m.dir, "spool")
	if err := errors.Join(unix.Mount(spool, spool, "", unix.MS_BIND, ""), unix.Mount("", spool, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, "")); err != nil {
		t.Fatal(err)
	}
	said, status := m.begun()
	if err := unix.Unmount(spool, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	if status == 0 || !strings.Contains(said, `cell.db": read-only file system`) {
		t.Errorf("exit status %d\n%s", status, said)
	}
}

// TestQueueThatIsGone moves the queue away while jobs run: the next daemon ends them, and
// begins again.
func TestQueueThatIsGone(t *testing.T) {
	m := newMachine(t, 4)
	m.start()
	u, out := someUsers(t, 1)[0], m.open("out")
	m.write("runs.sh", "#!/bin/sh\nexec sleep 1000\n")
	for _, name := range []string{"first", "second"} {
		if r := m.as(u, "qsub", "-N", name, "-wd", "/", "-o", "/dev/null", "-j", "y", "runs.sh"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	m.until("both run", func() bool { return strings.Count(m.as(u, "qstat").stdout, " r ") == 2 })
	m.daemon.Kill()
	if err := os.Rename(filepath.Join(m.dir, "spool", "cell.db"), filepath.Join(m.dir, "cell.db")); err != nil {
		t.Fatal(err)
	}
	m.start()
	// It has the number of one of them.
	if r := m.as(u, "qsub", "-N", "third", "-wd", "/", "-o", out+"/third", "-j", "y", "-b", "y", "-sync", "y", "echo", "ran"); r.status != 0 || !strings.Contains(r.stdout, "Your job 1 ") {
		t.Errorf("%+v", r)
	}
	if text := lines(t, filepath.Join(out, "third")); len(text) != 1 || text[0] != "ran" {
		t.Errorf("the output is %q", text)
	}
	m.until("all three are in the accounting", func() bool { return len(lines(t, filepath.Join(m.dir, "spool", "accounting"))) == 3 })
	m.until("nothing is left of them", func() bool {
		left, err := filepath.Glob(filepath.Join(m.dir, "spool", "active_jobs", "*"))
		return err == nil && len(left) == 0
	})
	log, err := os.ReadFile(filepath.Join(m.dir, "log"))
	if n := strings.Count(string(log), "ending a job of a previous queue"); err != nil || n != 2 {
		t.Errorf("%d jobs of the former queue in the log (%v)", n, err)
	}
}
