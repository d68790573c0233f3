package scratch

import (
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// withQuota returns a directory of a new file system with project quotas.
func withQuota(t *testing.T, kind string) string {
	t.Helper()
	return mounted(t, kind, "loop,prjquota")
}

// mounted returns the directory of a new file system.
func mounted(t *testing.T, kind, options string) string {
	t.Helper()
	testenv.Require(t, testenv.Guest, testenv.Loop)
	dir := t.TempDir()
	image, at := dir+"/image", dir+"/at"
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 320<<20), os.Mkdir(at, 0o755)); err != nil {
		t.Fatal(err)
	}
	mkfs := []string{"mkfs.ext4", "-q", "-O", "quota,project", "-E", "quotatype=prjquota", image}
	if kind == "xfs" {
		mkfs = []string{"mkfs.xfs", "-q", image}
	}
	for _, c := range [][]string{mkfs, {"mount", "-t", kind, "-o", options, image, at}} {
		if out, err := exec.CommandContext(t.Context(), c[0], c[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", c, err, out)
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(at, unix.MNT_DETACH) })
	return at
}

func open(t *testing.T, path string) int {
	t.Helper()
	if err := os.MkdirAll(path, 0o755); err != nil {
		t.Fatal(err)
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	return fd
}

func claim(t *testing.T, path string) (fd int, id uint32) {
	t.Helper()
	fd = open(t, path)
	id, err := Claim(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fd, id
}

// startAt makes the next Claim begin with an ID.
func startAt(id uint32) { next.at = id - FirstProject - 1 }

// TestQuota checks that a project ID limits all files below its directory, belongs to one directory at
// a time, and is free again when no file has it.
func TestQuota(t *testing.T) {
	for _, kind := range []string{"ext4", "xfs"} {
		t.Run(kind, func(t *testing.T) {
			at := withQuota(t, kind)
			if m, err := Choose(at, None); m != Quota || err != nil {
				t.Fatalf("the method is %q, %v", m, err)
			}
			startAt(FirstProject + 5)
			fd, id := claim(t, at+"/a")
			if id != FirstProject+5 {
				t.Errorf("the first ID is %d", id)
			}
			if err := Limit(fd, id, 2<<20); err != nil {
				t.Fatal(err)
			}
			testenv.WriteFile(t, at+"/a/sub/file", "")
			if err := errors.Join(os.Chmod(at+"/a/sub", 0o777), os.Chmod(at+"/a/sub/file", 0o666)); err != nil {
				t.Fatal(err)
			}
			fill := exec.CommandContext(t.Context(), "dd", "if=/dev/zero", "of="+at+"/a/sub/file", "bs=64k", "count=48")
			fill.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 1000, Gid: 1000}} // root has no limit
			if out, err := fill.CombinedOutput(); err == nil {
				t.Errorf("3 MiB can be written: %s", out)
			}
			var st unix.Statfs_t
			if err := unix.Fstatfs(fd, &st); err != nil || st.Blocks*uint64(st.Bsize) != 2<<20 {
				t.Errorf("the size of the directory is %d * %d, %v", st.Blocks, st.Bsize, err)
			}

			startAt(id)
			if _, other := claim(t, at+"/b"); other == id {
				t.Errorf("two directories have the ID %d", id)
			}
			// A file that was moved out keeps the ID.
			if err := os.Rename(at+"/a/sub", at+"/moved"); err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(Release(fd, id), os.Remove(at+"/a")); err != nil {
				t.Fatal(err)
			}
			if l := limitOf(t, fd, id); l != 0 {
				t.Errorf("the limit of the released ID is %d", l)
			}
			unix.Close(fd) // with it the removed directory would still exist
			startAt(id)
			if _, other := claim(t, at+"/c"); other == id {
				t.Error("the ID of a moved file was given to another directory")
			}
			if err := os.RemoveAll(at + "/moved"); err != nil {
				t.Fatal(err)
			}
			// XFS frees files some time after they were removed.
			for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
				if n, err := projectUsage(open(t, at), id); n == 0 || err != nil {
					break
				}
			}
			startAt(id)
			d, again := claim(t, at+"/d")
			if again != id {
				t.Errorf("the free ID %d was not used again: %d", id, again)
			}
			// Another job has the ID: the limit stays.
			if err := Limit(d, id, 1<<20); err != nil {
				t.Fatal(err)
			}
			if err := Release(open(t, at+"/b"), id); err != nil || limitOf(t, d, id) != 1024 {
				t.Errorf("the limit of another directory was removed: %v", err)
			}
		})
	}
}

// limitOf returns the limit of an ID, in KiB.
func limitOf(t *testing.T, fd int, id uint32) uint64 {
	t.Helper()
	var q dqblk
	if err := quotactl(fd, getQuota, id, unsafe.Pointer(&q)); err != nil && !errors.Is(err, unix.ENOENT) {
		t.Error(err)
	}
	return q.blocksHard
}

// TestProjectsOfTheAdministrator checks that IDs in /etc/projid and /etc/projects are not used.
func TestProjectsOfTheAdministrator(t *testing.T) {
	at := withQuota(t, "ext4")
	first := uint32(FirstProject + 100)
	testenv.WriteFile(t, "/etc/projid", "# comment\nweb:"+strconv.Itoa(int(first))+"\nbroken\n")
	testenv.WriteFile(t, "/etc/projects", strconv.Itoa(int(first)+1)+":/srv/db\n")
	t.Cleanup(func() { _ = errors.Join(os.Remove("/etc/projid"), os.Remove("/etc/projects")) })
	startAt(first)
	if _, id := claim(t, at+"/a"); id != first+2 {
		t.Errorf("the ID is %d, expected %d", id, first+2)
	}
}

// TestWithoutQuota checks that a file system that counts projects, but does not enforce limits, is not
// used.
func TestWithoutQuota(t *testing.T) {
	at := mounted(t, "ext4", "loop")
	if m, err := Choose(at, Quota); err == nil || !strings.Contains(err.Error(), "does not enforce project quotas; mount it with the option prjquota") {
		t.Errorf("the method is %q, %v", m, err)
	}
	if m, err := Choose("/dev/shm", None); err == nil || !strings.Contains(err.Error(), "image: /dev/shm is in memory") {
		t.Errorf("in memory: the method is %q, %v", m, err)
	}
}
