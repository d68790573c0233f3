package launch

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// limited returns an assignment of a job whose TMPDIR is limited to 8 MiB.
func (p *place) limited(t testing.TB, how qconf.ScratchLimit, command string) *Assignment {
	t.Helper()
	o := p.private(t, command)
	o.Config.ExecdParams.PrivateTmp.Default = false
	o.Config.ExecdParams.ScratchLimit, o.Complexes = how, nil
	o.Request.Resources = append(o.Request.Resources, submit.ResourceRequest{Name: qconf.ScratchName, Value: "8M"})
	return o
}

// noMounts checks that nothing is mounted in the place of a test.
func (p *place) noMounts(t *testing.T) {
	t.Helper()
	if b, _ := os.ReadFile("/proc/self/mountinfo"); strings.Contains(string(b), p.dir+"/tmp/") {
		t.Errorf("there are mounts left:\n%s", b)
	}
}

// fillTmpdir writes more than the TMPDIR takes, to a file that it removes before it fails.
const fillTmpdir = `
stat -c '%u %a' $TMPDIR
dd if=/dev/zero of=$TMPDIR/large bs=64k count=1000 2>/dev/null && exit 9
echo full; ls $TMPDIR
umount $TMPDIR 2>/dev/null && echo unmounted
mv $TMPDIR $TMPDIR.moved 2>/dev/null && echo moved
ls -d ` + "${TMPDIR%/*}" + `/*.scratch/files 2>/dev/null && echo reached
exit 3`

// TestScratchImage checks that a job cannot write more to its TMPDIR than it has requested, its
// outcome says so, and nothing remains of its file system.
func TestScratchImage(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	for how, method := range map[qconf.ScratchLimit]string{qconf.ScratchImage: "image", qconf.ScratchTmpfs: "tmpfs"} {
		p := newPlace(t)
		p.onDisk(t)
		o := p.limited(t, how, fillTmpdir)
		j, outcome, said := p.ran(t, o)
		if outcome.Failed != 0 || outcome.ExitStatus != 3 {
			_, text, _ := j.Dir.FirstError()
			t.Fatalf("outcome %+v, %s", outcome, text)
		}
		if j.Description.Scratch != 8<<20 || j.Description.ScratchLimit != method {
			t.Errorf("the description has %d bytes by %s", j.Description.Scratch, j.Description.ScratchLimit)
		}
		if want := strconv.Itoa(int(p.owner.UID)) + " 700\nfull\nlarge\n"; said != want {
			t.Errorf("%s: the job says:\n%s, expected:\n%s", method, said, want)
		}
		if !strings.Contains(outcome.Notice, "TMPDIR was full at ") || !strings.Contains(outcome.Notice, "-l scratch=16M") {
			t.Errorf("%s: the notice of the outcome is %q", method, outcome.Notice)
		}
		var st unix.Statfs_t
		if err := unix.Statfs(j.tmpdir.Path, &st); err != nil || st.Flags&(unix.ST_NOSUID|unix.ST_NODEV) != unix.ST_NOSUID|unix.ST_NODEV {
			t.Errorf("%s: mounted with the flags %#x, %v", method, st.Flags, err)
		}
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
		p.nothingLeft(t)
		p.noMounts(t)
	}
}

// TestScratchOfPrivateTmp checks that the job's own /tmp and its TMPDIR share the limit.
func TestScratchOfPrivateTmp(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	p := newPlace(t)
	p.onDisk(t)
	o := p.limited(t, qconf.ScratchImage, `
echo tmp >/tmp/file; : >$TMPDIR/mine; ls $TMPDIR
dd if=/dev/zero of=/tmp/large bs=64k count=1000 2>/dev/null || echo full
dd if=/dev/zero of=$TMPDIR/large bs=64k count=10 2>/dev/null || echo full
exit 1`)
	o.Config.ExecdParams.PrivateTmp.Default = true
	j, outcome, said := p.ran(t, o)
	if said != "mine\nfull\nfull\n" || !strings.Contains(outcome.Notice, "TMPDIR was full") {
		_, text, _ := j.Dir.FirstError()
		t.Errorf("outcome %+v, %s; the job says %q", outcome, text, said)
	}
	if !exists(j.private.Path+"/tmp/file") || !exists(j.tmpdir.Path+"/mine") {
		t.Error("the host does not see the files of the job")
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	p.nothingLeft(t)
	p.noMounts(t)
}

// TestScratchOfAKilledSupervisor checks that an agent that starts again removes the file systems of
// jobs whose supervisor was killed, whose preparation was interrupted, and after the host has crashed.
func TestScratchOfAKilledSupervisor(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	p := newPlace(t)
	p.onDisk(t)
	o := p.limited(t, qconf.ScratchImage, ": >$TMPDIR/mine; sleep 1000")
	prepare := func() *Job {
		t.Helper()
		j, err := Prepare(p.spool, o, seven)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = j.Remove(false) })
		return j
	}
	clean := func(what string) {
		t.Helper()
		p.nothingLeft(t)
		p.noMounts(t)
		if t.Failed() {
			t.Fatal(what)
		}
	}
	j := prepare()
	launched(t, j)
	until(t, "the job runs", func() bool { return exists(j.tmpdir.Path + "/mine") })
	if err := unix.Kill(j.PID(), unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	status := waited(t, j)
	again := p.reopen(t, seven, Over)
	again.Collect(status)
	if err := again.Remove(false); err != nil {
		t.Error(err)
	}
	clean("a killed supervisor")

	j = prepare()
	if err := j.Dir.Remove(jobdir.FileConfig); err != nil { // as if it was never finished
		t.Fatal(err)
	}
	if err := Discard(p.spool, nil, seven); err != nil {
		t.Error(err)
	}
	clean("an interrupted preparation")

	j = prepare()
	for _, path := range []string{j.tmpdir.Path, j.scratch.Path + "/files"} { // as a crash does
		if err := unix.Unmount(path, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.reopen(t, seven, Prepared).Remove(false); err != nil {
		t.Error(err)
	}
	clean("a crash of the host")
}

// TestScratchWithoutMeans checks that a job whose TMPDIR the host cannot limit is refused, or starts
// with a note if the method is auto.
func TestScratchWithoutMeans(t *testing.T) {
	p := newPlace(t)
	o, err := p.order("true")
	if err != nil {
		t.Fatal(err)
	}
	o.Request.Resources = append(o.Request.Resources, submit.ResourceRequest{Name: "scratch", Value: "8M"})
	o.Privileged, o.Complexes = false, nil
	o.Config.ExecdParams.ScratchLimit = qconf.ScratchImage
	if _, err := Prepare(p.spool, o, seven); err == nil || !strings.Contains(err.Error(), "scratch: only a daemon that runs as root can limit TMPDIR (SCRATCH_LIMIT=image)") {
		t.Errorf("the error is %v", err)
	}
	if os.Geteuid() == 0 {
		p = newPlace(t)
		o = p.limited(t, qconf.ScratchTmpfs, "true")
		o.Config.ExecdParams.ScratchLimit = "quota"
		o.Queue.Tmpdir = "/dev/shm/" + filepath.Base(p.dir) // a tmpfs has no project quotas
		t.Cleanup(func() { _ = os.RemoveAll(o.Queue.Tmpdir) })
		if _, err := Prepare(p.spool, o, seven); err == nil || !strings.Contains(err.Error(), "cannot limit TMPDIR (SCRATCH_LIMIT=quota): quota: the file system of /dev/shm does not enforce project quotas") {
			t.Errorf("the error is %v", err)
		}
	}
	o.Config.ExecdParams.ScratchLimit = qconf.ScratchAuto
	j, err := Prepare(p.spool, o, seven)
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Remove(false); err != nil {
		t.Error(err)
	}
	if text := strings.Join(j.Notes, "\n"); !strings.Contains(text, "TMPDIR is not limited to the requested 8") || j.Description.Scratch != 0 {
		t.Errorf("the notes are %q, the limit %d", text, j.Description.Scratch)
	}
}
