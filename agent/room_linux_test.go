package agent

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/jobdir"
)

// TestStartOnFullDisk starts an agent on a full disk where another one has run. It has numbers of
// its own, and knows the jobs that the previous agent has finished.
func TestStartOnFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "mode=0755,size=256k"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	spool, err := jobdir.OpenSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	begin := func() (numbers, *finished) {
		t.Helper()
		n, err := openNumbers(spool.Dir())
		if err != nil {
			t.Fatal(err)
		}
		f, err := openFinished(spool.Dir(), newDisk(spool.Dir().Path(), diskPatience, func() {}))
		if err != nil {
			t.Fatal(err)
		}
		return n, f
	}
	first, f := begin()
	if err := f.add("key"); err != nil {
		t.Fatal(err)
	}
	f.close()
	page := make([]byte, 4096)
	for err = nil; err == nil; {
		var file *os.File
		if file, err = os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_, err = file.Write(page)
			err = errors.Join(err, file.Close())
		}
	}
	if !full(err) {
		t.Fatal(err)
	}
	last := first.last
	for range 12 { // also to a number with more digits
		n, f := begin()
		if n.last <= last || !f.has("key") {
			t.Errorf("%d after %d, finished: %v", n.last, last, f.has("key"))
		}
		last = n.last
		f.close()
	}
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	if _, f := begin(); f.add("another") != nil || !f.has("key") {
		t.Error("nothing is remembered where there is room again")
	} else {
		f.close()
	}
}
