package launch

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/qconf"
)

// withQuota makes the directory for TMPDIRs one of a new file system with project quotas.
func (p *place) withQuota(t *testing.T, kind string) {
	t.Helper()
	testenv.Require(t, testenv.Guest, testenv.Loop)
	p.mount(t, kind, "loop,prjquota")
}

// onDisk makes the directory for TMPDIRs one of a new file system if it is in memory, as in a guest.
func (p *place) onDisk(t *testing.T) {
	t.Helper()
	testenv.Require(t, testenv.Root, testenv.Loop)
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir+"/tmp", &st); err != nil || st.Type == unix.TMPFS_MAGIC {
		p.mount(t, "ext4", "loop")
	}
}

func (p *place) mount(t *testing.T, kind, options string) {
	t.Helper()
	image, at := t.TempDir()+"/image", p.dir+"/tmp"
	mkfs := []string{"mkfs." + kind, "-q", image}
	if kind == "ext4" && strings.Contains(options, "prjquota") { // other kernels than the guest's may refuse it
		mkfs = slices.Insert(mkfs, 1, "-O", "quota,project", "-E", "quotatype=prjquota")
	}
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 320<<20)); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][]string{mkfs, {"mount", "-t", kind, "-o", options, image, at}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", c, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	if err := errors.Join(os.RemoveAll(at+"/lost+found"), os.Chmod(at, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
}

// noLimits checks that no project of the file system for TMPDIRs has a limit.
func (p *place) noLimits(t *testing.T) {
	t.Helper()
	const getNext, projects = 0x800009, 2 // Q_GETNEXTQUOTA, PRJQUOTA of quotactl(2)
	fd, err := unix.Open(p.dir+"/tmp", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	for id := uintptr(0); ; id++ {
		var quota struct { // if_nextdqblk
			limit uint64
			_     [7]uint64
			_, id uint32
		}
		_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), getNext<<8|projects, id, uintptr(unsafe.Pointer(&quota)), 0, 0)
		if errno == unix.ENOENT {
			return
		}
		if errno != 0 || quota.limit != 0 {
			t.Errorf("project %d has a limit of %d KiB (%v)", quota.id, quota.limit, errno)
		}
		if errno != 0 {
			return
		}
		id = uintptr(quota.id)
	}
}

// attacks are the ways out of a quota that the owner of a directory has. They print which succeed.
const attacks = `
PATH=$PATH:/usr/sbin
chattr -p 7 $TMPDIR 2>/dev/null && echo chattr -p
chattr -P $TMPDIR 2>/dev/null && echo chattr -P
said=$(xfs_io -r -c 'chproj 0' $TMPDIR 2>&1)
test "$said" = 'setprojid: Operation not permitted' || echo "xfs_io chproj $said"
`

// TestScratchQuota checks that a job cannot write more to its TMPDIR than it has requested, whatever
// it does with the project ID, and its outcome says that TMPDIR was full.
func TestScratchQuota(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			p := newPlace(t)
			p.withQuota(t, kind)
			for _, private := range []bool{false, true} {
				o := p.limited(t, qconf.ScratchAuto, `
dd if=/dev/zero of=$TMPDIR/large bs=64k count=1000 2>/dev/null && exit 9`+attacks+`
dd if=/dev/zero of=$TMPDIR/more bs=64k count=2 2>/dev/null && echo more
mv $TMPDIR/large $TMPDIR/../moved 2>/dev/null
dd if=/dev/zero of=$TMPDIR/more bs=64k count=2 2>/dev/null && echo more behind a moved file
test `+strconv.FormatBool(private)+` = true && dd if=/dev/zero of=/tmp/more bs=64k count=2 2>/dev/null && echo more in /tmp
echo end
exit 3`)
				o.Config.ExecdParams.PrivateTmp.Default = private
				j, outcome, said := p.ran(t, o)
				_, text, _ := j.Dir.FirstError()
				if outcome.Failed != 0 || outcome.ExitStatus != 3 || said != "end\n" {
					t.Fatalf("outcome %+v, %s; notes %q; the job says:\n%s", outcome, text, j.Notes, said)
				}
				if j.Description.ScratchLimit != "quota" || !strings.Contains(outcome.Notice, "TMPDIR was full at ") {
					t.Errorf("limited by %q; the notice is %q", j.Description.ScratchLimit, outcome.Notice)
				}
				if err := errors.Join(j.Remove(false), os.RemoveAll(p.dir+"/tmp/moved"), os.Remove(p.dir+"/out/o")); err != nil {
					t.Error(err)
				}
				p.nothingLeft(t)
			}
		})
	}
}

// TestScratchAttacks checks that the attacks of TestScratchQuota work without the filter of the job:
// then its owner can change the project ID.
func TestScratchAttacks(t *testing.T) {
	p := newPlace(t)
	p.withQuota(t, "ext4")
	j, err := Prepare(p.spool, p.limited(t, qconf.ScratchQuota, "true"), seven)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Remove(false) }()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", ": >$TMPDIR/large"+attacks)
	cmd.Env = []string{"TMPDIR=" + j.tmpdir.Path, "PATH=/usr/sbin:/usr/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: p.owner.UID, Gid: p.owner.GID}}
	out, err := cmd.CombinedOutput()
	if want := "chattr -p\nchattr -P\nxfs_io chproj \n"; err != nil || string(out) != want {
		t.Errorf("successful are %v\n%s, expected\n%s", err, out, want)
	}
}
