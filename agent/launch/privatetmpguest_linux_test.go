package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// hung mounts a file system at a directory whose server never answers, as users can do (fuse(4)).
func hung(t *testing.T, dir string) {
	t.Helper()
	server, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(server) }) // what waits for an answer gets an error
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", server)
	if err := errors.Join(os.MkdirAll(dir, 0o755), unix.Mount("hung", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
}

// TestPrivateTmpBesideAHungServer checks that a supervisor does not wait for the server of a user's
// file system, wherever the user has mounted it.
func TestPrivateTmpBesideAHungServer(t *testing.T) {
	testenv.Require(t, testenv.Guest)
	p := newPlace(t)
	hung(t, p.dir+"/shared")
	hung(t, p.dir+"/out/cwd")
	o := p.private(t, "echo ran", "-wd", p.dir+"/out")
	o.Config.ExecdParams.PrivateTmpShare = []string{p.dir + "/shared", p.dir + "/shared/deeper/x", p.dir + "/out/cwd/y"}
	_, outcome, said := p.ran(t, o)
	if outcome.Failed != 0 || outcome.ExitStatus != 0 || said != "ran\n" {
		t.Errorf("outcome %+v; the job says %q", outcome, said)
	}
}

// TestPrivateTmpOnOtherDisks checks that a job sees its TMPDIR also if that is on a disk which is
// mounted below /tmp.
func TestPrivateTmpOnOtherDisks(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Loop)
	p := newPlace(t)
	p.mount(t, "ext4", "loop")
	_, outcome, said := p.ran(t, p.private(t, ": >$TMPDIR/mine && ls $TMPDIR"))
	if outcome.Failed != 0 || outcome.ExitStatus != 0 || said != "mine\n" {
		t.Errorf("outcome %+v; the job says %q", outcome, said)
	}
}

// TestPrivateTmpWithLinkedVarTmp checks that /var/tmp may be a link to a directory in /tmp, or to
// /tmp.
func TestPrivateTmpWithLinkedVarTmp(t *testing.T) {
	testenv.Require(t, testenv.Guest)
	before, err := filepath.EvalSymlinks("/var/tmp")
	if err != nil {
		t.Fatal(err)
	}
	linkTo := func(target string) {
		if err := errors.Join(os.RemoveAll("/var/tmp"), os.MkdirAll(target, 0o777), os.Symlink(target, "/var/tmp")); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { linkTo(before) })
	for target, want := range map[string]string{
		"/tmp":          "/tmp 1777\n/var/tmp/file\n",
		"/tmp/var/deep": "/tmp/var/deep 1777\n/var/tmp/file\n",
	} {
		p := newPlace(t)
		linkTo(target)
		testenv.WriteFile(t, "/var/tmp/of-host", "")
		j, outcome, said := p.ran(t, p.private(t, "cd /var/tmp && stat -c \"$(pwd -P) %a\" . && : >file && ls /var/tmp/file /var/tmp/of-host 2>/dev/null"))
		if outcome.Failed != 0 || said != want {
			_, text, _ := j.Dir.FirstError()
			t.Errorf("%s: outcome %+v, %s; the job says %q", target, outcome, text, said)
		}
		if err := j.Remove(false); err != nil {
			t.Error(err)
		}
	}
}
