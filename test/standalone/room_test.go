package standalone

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// disk mounts a separate file system of a size in MiB for the spool directory.
func (m *machine) disk(size int, options ...string) string {
	m.Helper()
	testenv.Require(m, testenv.Root)
	spool := m.TempDir()
	if err := unix.Mount("tmpfs", spool, "tmpfs", 0, strings.Join(append(options, fmt.Sprintf("size=%dm,mode=755", size)), ",")); err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() {
		if err := unix.Unmount(spool, unix.MNT_DETACH); err != nil {
			m.Error(err)
		}
	})
	return spool
}

// submits makes a user submit a script of a size in bytes that stays pending.
func (m *machine) submits(u *user.User, size int) result {
	m.Helper()
	text := "#!/bin/sh\n: " + rand.Text() + "\n" // identical texts would be stored once
	m.write("large.sh", text+strings.Repeat("#", size-len(text)-1)+"\n")
	return m.as(u, "qsub", "-h", "-wd", "/", "-o", "/dev/null", "-j", "y", "large.sh")
}

// full makes a user submit jobs until one is refused.
func (m *machine) full(u *user.User, size int) (n int, refusal string) {
	m.Helper()
	for range 1000 {
		r := m.submits(u, size)
		if r.status != 0 {
			return n, r.stderr
		}
		n++
	}
	m.Fatalf("%d submissions, and no end", n)
	return n, ""
}

func (m *machine) says(text, pattern string) {
	m.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		m.Errorf("%q, expected %q", text, pattern)
	}
}

// TestSpoolLimitPerUser submits jobs as one user until no more fit: other users can still submit,
// and the refusals contain the numbers.
func TestSpoolLimitPerUser(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--spool", m.disk(200)}
	m.start()
	users := someUsers(t, 2)
	m.says(m.submits(users[0], 40<<20).stderr, `more than 32 MiB, which is the limit`)
	if n, refusal := m.full(users[0], 6<<20); n != 3 {
		t.Errorf("%d jobs with 6 MiB each fit into 20 MiB: %s", n, refusal)
	} else {
		m.says(refusal, fmt.Sprintf(`job rejected: the job needs 6\.0M in the spool directory, and of the 20\.0M that user "%s" may have there 18\.0M are in use`, users[0].Username))
	}
	if r := m.submits(users[1], 6<<20); r.status != 0 {
		t.Errorf("another user: %+v", r)
	}
	m.daemon.Kill() // what is used is known to the next daemon
	m.start()
	if n, _ := m.full(users[0], 6<<20); n != 0 {
		t.Errorf("%d more jobs with 6 MiB each fit after a restart", n)
	}
	m.as(users[0], "qdel", "-u", users[0].Username)
	if n, refusal := m.full(users[0], 6<<20); n != 3 {
		t.Errorf("%d jobs with 6 MiB each fit after a qdel: %s", n, refusal)
	}
}

// TestInodeAndMemoryLimitPerUser submits jobs as one user until the inodes, or the memory for
// requests, are used up: other users can still submit.
func TestInodeAndMemoryLimitPerUser(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--spool", m.disk(200, "nr_inodes=300"), "--spool-reserve", "none", "--memory-per-user", "100K"}
	m.start()
	users := someUsers(t, 2)
	if n, refusal := m.full(users[0], 8<<10); n != 30 {
		t.Errorf("%d scripts in files: %s", n, refusal)
	} else {
		m.says(refusal, fmt.Sprintf(`job rejected: the script of the job needs a file in the spool directory, and of the 30 that user "%s" may have there 30 are in use`, users[0].Username))
	}
	small := []string{"-h", "-wd", "/", "-b", "y", "-ac", "a=" + strings.Repeat("x", 30<<10), "true"}
	var r result
	for n := 0; n < 4 && r.status == 0; n++ {
		r = m.as(users[0], "qsub", small...)
	}
	m.says(r.stderr, fmt.Sprintf(`job rejected: the job needs 30\.[0-9]K in the memory of the daemon, and of the 100\.0K that user "%s" may have there [0-9.]+K are in use`, users[0].Username))
	for _, r := range []result{m.submits(users[1], 8<<10), m.as(users[1], "qsub", small...)} {
		if r.status != 0 {
			t.Errorf("another user: %+v", r)
		}
	}
}

// TestNewJobsLeaveSpoolReserve checks that new jobs leave --spool-reserve of the disk free.
func TestNewJobsLeaveSpoolReserve(t *testing.T) {
	m := newMachine(t, 1)
	m.args = []string{"--spool", m.disk(40), "--spool-per-user", "none", "--spool-reserve", "50%"}
	m.start()
	u := someUsers(t, 1)[0]
	n, refusal := m.full(u, 2<<20)
	m.says(refusal, `job rejected: the job needs 2\.0M, and the file system of the spool directory has [0-9.]+M left, of which 20\.0M are reserved`)
	if n == 0 {
		t.Error("no job fits")
	}
	m.as(u, "qdel", "-u", u.Username)
}

// TestFullDiskAndRestart fills the disk to the last byte and kills the daemon: the next one
// begins, the jobs of others that were accepted run, and root can delete what nobody needs.
func TestFullDiskAndRestart(t *testing.T) {
	m := newMachine(t, 1)
	spool := m.disk(64)
	m.args = []string{"--spool", spool}
	m.start()
	users, out := someUsers(t, 2), m.open("out")
	alice, bob := users[0], users[1]
	for range 20 {
		if r := m.submits(alice, 20<<10); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	if r := m.as(bob, "qsub", "-h", "-wd", "/", "-o", out+"/ran", "-j", "y", "-b", "y", "echo", "ran"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	fill(t, filepath.Join(spool, "filler"))
	for i := range 3 { // also where nothing is left of what was set aside
		m.daemon.Kill()
		m.start()
		m.until("the daemon answers", func() bool { return m.root("qstat", "-u", "*").status == 0 })
		fill(t, filepath.Join(spool, fmt.Sprintf("filler%d", i)))
	}
	if r := m.root("qdel", "1"); r.status != 0 {
		t.Errorf("root deletes a job: %+v", r)
	}
	if r := m.submits(bob, 100); r.status == 0 {
		t.Errorf("a new job is taken: %+v", r)
	}
	if r := m.root("qdel", "-u", alice.Username); r.status != 0 {
		t.Errorf("root deletes the jobs of a user: %+v", r)
	}
	if list := m.root("qstat", "-u", alice.Username).stdout; list != "" {
		t.Errorf("they are still there:\n%s", list)
	}
	info, err := os.Stat(filepath.Join(spool, "filler"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(spool, "filler"), info.Size()-1<<20); err != nil { // a little room
		t.Fatal(err)
	}
	if r := m.as(bob, "qrls", "-u", bob.Username); r.status != 0 {
		t.Errorf("%+v", r)
	}
	m.until("the job of another user has run", func() bool { return len(lines(t, filepath.Join(out, "ran"))) == 1 })
	m.until("and is gone", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	if err := os.Remove(filepath.Join(spool, "filler")); err != nil {
		t.Fatal(err)
	}
}

// TestQalterDoesNotUseSpoolReserve alters a job when only the reserve of the disk is left: each
// change would take some of it for the audit log. The job can still be deleted.
func TestQalterDoesNotUseSpoolReserve(t *testing.T) {
	m := newMachine(t, 1)
	spool := m.disk(40)
	m.args = []string{"--spool", spool, "--spool-per-user", "none", "--spool-reserve", "50%"}
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.submits(u, 1000); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if err := os.WriteFile(filepath.Join(spool, "other"), make([]byte, 25<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"qalter -ac K=V 1", "qalter -p -5 1", "qhold 1", "qmod -sj 1"} {
		r := m.as(u, strings.Fields(line)[0], strings.Fields(line)[1:]...)
		if r.status == 0 {
			t.Errorf("%s: %+v", line, r)
		}
		m.says(r.stderr, `^denied: the file system of the spool directory has [0-9.]+M left, of which 20\.0M are reserved; until there is more, jobs can only be released and deleted\n$`)
	}
	if r := m.as(u, "qstat", "-j", "1"); strings.Contains(r.stdout, "K=V") {
		t.Errorf("the job was altered: %s", r.stdout)
	}
	if r := m.root("qhold", "-h", "o", "1"); r.status != 0 {
		t.Errorf("a manager: %+v", r)
	}
	if r := m.as(u, "qrls", "1"); r.status != 0 {
		t.Errorf("qrls: %+v", r)
	}
	if r := m.as(u, "qdel", "1"); r.status != 0 {
		t.Errorf("qdel: %+v", r)
	}
}

// TestRunningJobCannotFillSpoolDirectory runs a job that tries to fill the disk through its own
// script, which is in the spool directory. When the disk is full, the owner can end the job.
func TestRunningJobCannotFillSpoolDirectory(t *testing.T) {
	m := newMachine(t, 1)
	spool := m.disk(64)
	m.args = []string{"--spool", spool}
	m.start()
	u, out := someUsers(t, 1)[0], m.open("out")
	m.write("job.sh", `{ chmod u+w "$0" && head -c 1000000 /dev/zero >>"$0" && echo BREACH; } 2>/dev/null
find '`+spool+`' -user "$(id -u)" 2>/dev/null
echo runs
exec sleep 1000
`)
	if r := m.as(u, "qsub", "-wd", "/", "-o", out+"/job", "-j", "y", "job.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the job runs", func() bool { return slices.Contains(lines(t, filepath.Join(out, "job")), "runs") })
	if got := lines(t, filepath.Join(out, "job")); len(got) != 1 {
		t.Errorf("the user has files of the spool directory: %q", got)
	}
	fill(t, filepath.Join(spool, "filler"))
	if r := m.as(u, "qdel", "1"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	m.until("the job has ended", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// TestSpoolLimitCountsRunningTasks runs an array job with a large environment: the spool directory
// has another copy for each running task.
func TestSpoolLimitCountsRunningTasks(t *testing.T) {
	m := newMachine(t, 20)
	spool := m.disk(64)
	m.args = []string{"--spool", spool}
	m.start()
	users, out := someUsers(t, 2), m.open("out")
	fifo := filepath.Join(out, "go")
	if err := errors.Join(unix.Mkfifo(fifo, 0o666), os.Chmod(fifo, 0o666)); err != nil {
		t.Fatal(err)
	}
	text := "#!/bin/sh\n"
	for i := range 20 {
		text += fmt.Sprintf("#$ -v V%d=%s\n", i, strings.Repeat("x", 100<<10))
	}
	m.write("job.sh", text+"echo $SGE_TASK_ID >>'"+out+"/began'; read x <'"+fifo+"'\n")
	if r := m.as(users[0], "qsub", "-t", "1-10", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	began := func() int { return len(lines(t, filepath.Join(out, "began"))) }
	const fit = 3 // of 2 MiB each, in a tenth of 64 MiB
	m.until("as many tasks run as there is room for", func() bool { return began() == fit })
	if r := m.as(users[1], "qsub", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "true"); r.status != 0 {
		t.Errorf("another user: %+v", r)
	}
	m.until("the next task says what it waits for", func() bool {
		return strings.Contains(m.root("qstat", "-j", "1").stdout, "in the spool directory, and those of the tasks of user")
	})
	if n := began(); n != fit {
		t.Errorf("%d tasks have begun, and there is room for %d", n, fit)
	}
	f, err := os.OpenFile(fifo, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("go\ngo\ngo\n"); err != nil {
		t.Fatal(err)
	}
	m.until("another task begins when others have ended", func() bool { return began() > fit })
	if r := m.root("qdel", "1"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	m.until("all have ended", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// TestQdelOnSmallFullDisk fills to the last byte a file system that is so small that the store sets
// less space aside than usual: jobs can still be deleted.
func TestQdelOnSmallFullDisk(t *testing.T) {
	m := newMachine(t, 1)
	spool := m.disk(6)
	m.args = []string{"--spool", spool, "--spool-per-user", "none", "--spool-reserve", "none"}
	m.start()
	u := someUsers(t, 1)[0]
	for range 20 {
		if r := m.submits(u, 7<<10); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	fill(t, filepath.Join(spool, "filler"))
	m.daemon.Kill()
	m.start()
	m.until("the daemon answers", func() bool { return m.root("qstat", "-u", "*").status == 0 })
	fill(t, filepath.Join(spool, "filler2"))
	for _, args := range [][]string{{"1"}, {"2"}, {"3"}, {"-u", u.Username}} {
		if r := m.as(u, "qdel", args...); r.status != 0 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if list := m.root("qstat", "-u", "*").stdout; list != "" {
		t.Errorf("they are still there:\n%s", list)
	}
}
