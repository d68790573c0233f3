package standalone

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestPowerLoss checks that jobs leave no files, file systems and project IDs on a host that loses power while
// they run, and that they have their records in the accounting. A guest runs the test twice with the same disk: the
// first time the test makes the file system, starts the jobs and asks to cut the power.
func TestPowerLoss(t *testing.T) {
	testenv.Require(t, testenv.Guest, testenv.Root, testenv.Loop)
	const disk, at = "/dev/nvme0n1", "/disk"
	if err := os.Mkdir(at, 0o755); err != nil {
		t.Fatal(err)
	}
	again := unix.Mount(disk, at, "ext4", 0, "prjquota") == nil
	if !again {
		mkfs := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", disk)
		if out, err := mkfs.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if err := unix.Mount(disk, at, "ext4", 0, "prjquota"); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount(testenv.Open(t, at+"/tmp"), "/tmp", "", unix.MS_BIND, ""); err != nil {
		t.Fatal(err)
	}
	_ = os.Remove("/var/tmp") // perhaps a link
	testenv.Open(t, "/var/tmp")
	m := &machine{TB: t, bin: built(t), dir: at + "/execd", builtin: true}
	if err := os.MkdirAll(m.dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if again {
		afterPowerLoss(t, m)
	} else {
		losePower(t, m)
	}
}

// The jobs of TestPowerLoss, by their numbers.
const (
	quotaJob = 1 + iota
	imageJob
	lateJob // starts after the disk has been synced
)

// losePower starts jobs, and asks to cut the power.
func losePower(t *testing.T, m *machine) {
	t.Helper()
	m.start()
	submit := func(id int) {
		t.Helper()
		ready := fmt.Sprintf("%s/%d", m.open("out"), id)
		r := m.as(someUsers(t, 1)[0], "qsub", "-terse", "-N", "writer", "-r", "n", "-wd", "/", "-o", "/dev/null", "-j", "y", "-l", "private_tmp,scratch=8M", "-b", "y",
			"for f in /tmp/file /var/tmp/file /dev/shm/file $TMPDIR/file; do echo text >$f || exit; done; touch "+ready+"; exec sleep 100000")
		if strings.TrimSpace(r.stdout) != fmt.Sprint(id) {
			t.Fatalf("%+v", r)
		}
		m.until("the job has written its files", func() bool { _, err := os.Stat(ready); return err == nil })
	}
	submit(quotaJob)
	conf := m.root("qconf", "-sconf").stdout
	m.write("global", strings.Replace(conf, "SCRATCH_LIMIT=auto", "SCRATCH_LIMIT=image", 1))
	if r := m.root("qconf", "-Mconf", filepath.Join(m.dir, "global")); r.status != 0 {
		t.Fatalf("%+v\n%s", r, conf)
	}
	submit(imageJob)
	unix.Sync()
	submit(lateJob)
	t.Log(testenv.CutPower)
	<-time.After(patience)
	t.Error("the power is still on")
}

// afterPowerLoss checks what the jobs have left, before and after the daemon starts again.
func afterPowerLoss(t *testing.T, m *machine) {
	t.Helper()
	left := leftovers(t)
	for _, want := range []string{
		"/tmp/1.1.all.q/file", "/tmp/1.1.all.q.private/tmp/file", "/tmp/1.1.all.q.private/var_tmp/file", "/tmp/2.1.all.q.scratch/image",
	} {
		if _, err := os.Stat(want); err != nil {
			t.Errorf("%v; there are %q", err, left)
		}
	}
	if p := projects(t); len(p) == 0 {
		t.Error("the quota of the first job is not on the disk")
	}
	m.start()
	t.Cleanup(m.end)
	// None is rerunnable: the last one does not start again either, although the disk may not show that it has run.
	m.until("no job is left", func() bool { r := m.root("qstat", "-u", "*"); return r.status == 0 && r.stdout == "" })
	records := map[string]int{}
	for _, line := range lines(t, filepath.Join(m.place(), "accounting")) {
		f := strings.Split(line, ":")
		records[f[5]]++
		if f[11] == "0" {
			t.Errorf("job %s counts as finished: %q", f[5], line)
		}
	}
	for _, id := range []int{quotaJob, imageJob, lateJob} {
		if n := records[fmt.Sprint(id)]; n != 1 {
			t.Errorf("job %d has %d records in the accounting, want 1", id, n)
		}
	}
	nothing := func(when string) {
		t.Helper()
		var left, ids []string
		var mounts string
		gone := becomes(func() bool {
			b, err := os.ReadFile("/proc/self/mountinfo")
			left, ids, mounts = leftovers(t), projects(t), string(b)
			return len(left)+len(ids) == 0 && err == nil && !strings.Contains(mounts, ".all.q")
		}, 50*time.Millisecond)
		if !gone {
			t.Errorf("%s there are %q, projects %q and the mounts\n%s", when, left, ids, mounts)
		}
	}
	nothing("after the restart")
	for _, limit := range []string{"image", "auto"} {
		m.write("global", strings.Replace(m.root("qconf", "-sconf").stdout, "SCRATCH_LIMIT=image", "SCRATCH_LIMIT="+limit, 1))
		r := m.root("qconf", "-Mconf", filepath.Join(m.dir, "global"))
		if r.status == 0 {
			r = m.as(someUsers(t, 1)[0], "qsub", "-N", "next", "-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-l", "private_tmp,scratch=8M", "-b", "y", "test $(ls /tmp | wc -l) = 1")
		}
		if r.status != 0 {
			t.Errorf("the next job fails: %+v", r)
		}
	}
	nothing("after the next jobs")
}

// leftovers returns the directories of jobs that are next to their TMPDIRs.
func leftovers(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("/tmp/[0-9]*.all.q*")
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// projects returns the project IDs that have files or a limit in the file system of /tmp, except for ID 0.
func projects(t *testing.T) (list []string) {
	t.Helper()
	const getNext, ofProjects = 0x800009, 2 // Q_GETNEXTQUOTA, PRJQUOTA of quotactl(2)
	fd, err := unix.Open("/tmp", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for id := uint32(1); ; id++ {
		var quota struct { // if_nextdqblk
			limit, _, space, _, _, files, _, _ uint64
			_, id                              uint32
		}
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), getNext<<8|ofProjects, uintptr(id), uintptr(unsafe.Pointer(&quota)), 0, 0)
		if errors.Is(errno, unix.ENOENT) {
			return list
		}
		if errno != 0 {
			t.Fatal(errno)
		}
		if id = quota.id; quota.limit+quota.files > 0 {
			list = append(list, fmt.Sprintf("%d: limit %d KiB, %d bytes, %d files", id, quota.limit, quota.space, quota.files))
		}
	}
}
