package jobdir

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestMissingFor checks that root looks at the paths of users with their rights, and does not wait for file systems
// that do not answer.
func TestMissingFor(t *testing.T) {
	testenv.Require(t, testenv.Root)
	const uid, gid = 65534, 65534
	open, closed := testenv.Open(t, filepath.Join(t.TempDir(), "open")), t.TempDir()
	testenv.LetIn(t, filepath.Dir(open))
	testenv.WriteFile(t, open+"/file", "")
	if err := os.Chmod(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		open + "/file": false, open + "/none": true, open + "/file/none": true, closed + "/none": false, "": true,
	} {
		if is := MissingFor(uid, gid, path); is != want {
			t.Errorf("%q is missing: %v, expected %v", path, is, want)
		}
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Skipf("cannot make a file system that does not answer: %v", err)
	}
	dir := t.TempDir()
	testenv.LetIn(t, dir)
	options := fmt.Sprintf("fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other", fd)
	if err := unix.Mount("none", dir, "fuse", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		unix.Close(fd)
		t.Skipf("cannot make a file system that does not answer: %v", err)
	}
	var wait sync.WaitGroup
	for range 2 * cap(looking) {
		wait.Go(func() {
			if MissingFor(uid, gid, dir+"/none") {
				t.Error("a file is missing on a file system that does not answer")
			}
		})
	}
	wait.Wait()
	unix.Close(fd) // ends all requests
	if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
		t.Error(err)
	}
	for range cap(looking) {
		looking <- struct{}{} // until all calls have returned
	}
	for range cap(looking) {
		<-looking
	}
}
