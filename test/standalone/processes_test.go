package standalone

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// bomb forks a binary tree, of which each process stays: never more than 511, also where
// nothing stops it.
const bomb = `#!/bin/sh
f() {
	if [ $1 -gt 0 ]; then
		f $(($1 - 1)) &
		f $(($1 - 1)) &
	fi
	sleep 1000
}
f 8 &
read end < $1 # for which it needs no process
exit 0
`

// TestForkBomb checks that a job has a limit of processes by default, that only the job reaches it,
// that other jobs go on, and that all users can see the reason.
func TestForkBomb(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Pids)
	m := newMachine(t, 4)
	out := m.open("out")
	m.write("conf/conf/global", groupIDs()+"min_uid 1\nmin_gid 1\nload_report_time 0:0:1\ncgroups_params pids_limit=40\n")
	m.write("bomb.sh", bomb)
	m.start()
	u := someUsers(t, 1)[0]
	over := filepath.Join(out, "over")
	if err := errors.Join(unix.Mkfifo(over, 0o666), os.Chmod(over, 0o666)); err != nil {
		t.Fatal(err)
	}
	end, err := os.OpenFile(over, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if r := m.as(u, "qsub", "-wd", "/", "-o", filepath.Join(out, "bomb"), "-j", "y", "bomb.sh", over); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("the bomb is refused a process", func() bool {
		text, _ := os.ReadFile(filepath.Join(out, "bomb"))
		return strings.Contains(strings.ToLower(string(text)), "fork")
	})
	// Another job, of the same user, is none the worse.
	if r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "-shell", "n", "/bin/sh", "-c", "true & wait $!"); r.status != 0 {
		t.Errorf("another job: %+v", r)
	}
	m.until("qstat -j says so of the running job", func() bool {
		return strings.Contains(m.as(u, "qstat", "-j", "1").stdout, "processes and threads beyond its limit (pids_limit)")
	})
	if _, err := end.WriteString("\n"); err != nil {
		t.Fatal(err)
	}
	m.until("the bomb has ended", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
	const want = "job reached its limit of 40 processes and threads (pids_limit): the kernel had refused it "
	if r := m.as(u, "qacct", "-f", filepath.Join(m.dir, "spool", "accounting.jsonl"), "-j", "1"); !strings.Contains(r.stdout, want) || !strings.Contains(r.stdout, "failed       0") {
		t.Errorf("qacct: %+v", r)
	}
	if r := m.as(u, "qstat", "-s", "z", "-j", "1"); !strings.Contains(r.stdout, want) {
		t.Errorf("qstat -j: %+v", r)
	}
}

// TestDefaultLimitOfProcesses checks the default limit of processes of a job that requests none, as
// the kernel has it.
func TestDefaultLimitOfProcesses(t *testing.T) {
	testenv.Require(t, testenv.Root)
	testenv.Require(t, testenv.Pids)
	m := newMachine(t, 4)
	out := m.open("out")
	m.start()
	m.write("limit.sh", "#!/bin/sh\ncat /sys/fs/cgroup$(sed -n 's/^0::/\\/unified/p;s/^[0-9]*:pids:/\\/pids/p' /proc/self/cgroup | grep ^/pids)/pids.max\n")
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", filepath.Join(out, "limit"), "-j", "y", "limit.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if got := lines(t, filepath.Join(out, "limit")); len(got) != 1 || got[0] != "8192" {
		t.Errorf("%q", got)
	}
}
