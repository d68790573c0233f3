package spawn

import (
	"bytes"
	"os"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// copier starts a child that copies a pipe to path, or to fallback if that is a directory,
// and returns where the pipe is written. A path of "" is for a child that discards.
func copier(t *testing.T, path, fallback string) (*Child, *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	p := &Program{}
	p.Dup(StageSetup, int(r.Fd()), 0)
	if path == "" {
		p.Discard()
	} else {
		p.OpenAppend(StageStdout, 1, path, fallback, nil, nil)
		p.Copy()
	}
	c, err := p.Start()
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

// begun waits until the child is at the end of its list.
func begun(t *testing.T, c *Child) {
	t.Helper()
	fds := []unix.PollFd{{Fd: int32(c.ReportFD()), Events: unix.POLLIN}}
	for end := time.Now().Add(time.Minute); !c.Began(); {
		if _, err := unix.Poll(fds, int(time.Until(end).Milliseconds())); err != nil && err != unix.EINTR || time.Now().After(end) {
			t.Fatalf("the child has not begun: %v", err)
		}
	}
}

func ended(t *testing.T, c *Child) syscall.WaitStatus {
	t.Helper()
	var ws syscall.WaitStatus
	for {
		if _, err := syscall.Wait4(c.PID, &ws, 0, nil); err == nil {
			return ws
		} else if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
}

func TestCopy(t *testing.T) {
	dir := t.TempDir()
	data := bytes.Repeat([]byte("0123456789abcdef"), 50_000)
	for name, c := range map[string]struct {
		path, fallback, at string
		uses               bool
	}{
		"to a file":      {dir + "/file", dir + "/file/name", dir + "/file", false},
		"to a directory": {dir, dir + "/name", dir + "/name", true},
	} {
		t.Run(name, func(t *testing.T) {
			child, w := copier(t, c.path, c.fallback)
			begun(t, child)
			if child.UsesFallback() != c.uses {
				t.Errorf("it uses the fallback: %v", child.UsesFallback())
			}
			// Nobody waits for what the child has inherited.
			fds, err := os.ReadDir("/proc/" + strconv.Itoa(child.PID) + "/fd")
			var open []string
			for _, e := range fds {
				open = append(open, e.Name())
			}
			if want := []string{"0", "1"}; err != nil || !slices.Equal(open, want) {
				t.Errorf("its descriptors are %q, %v; expected %q", open, err, want)
			}
			if _, err := w.Write(data); err != nil {
				t.Error(err)
			}
			w.Close()
			if ws := ended(t, child); ws != 0 || child.Failed() != nil {
				t.Errorf("status %#x, failure %v", ws, child.Failed())
			}
			if b, err := os.ReadFile(c.at); err != nil || !bytes.Equal(b, data) {
				t.Errorf("the file has %d bytes, %v; expected %d", len(b), err, len(data))
			}
		})
	}
}

func TestCopyThatFails(t *testing.T) {
	t.Run("to a full device", func(t *testing.T) {
		child, w := copier(t, "/dev/full", "/dev/full/name")
		begun(t, child)
		if _, err := w.WriteString("x"); err != nil {
			t.Error(err)
		}
		if ws := ended(t, child); ws.ExitStatus() != int(unix.ENOSPC) || child.Failed() != nil {
			t.Errorf("status %#x, failure %v", ws, child.Failed())
		}
		w.Close()
	})
	t.Run("to what cannot be opened", func(t *testing.T) {
		child, w := copier(t, "/no/such/file", "")
		begun(t, child)
		ended(t, child)
		if f := child.Failed(); f == nil || f.Stage != StageStdout || f.Errno != unix.ENOENT || f.What != "/no/such/file" {
			t.Errorf("failure %v", f)
		}
		w.Close()
	})
}

func TestDiscard(t *testing.T) {
	child, w := copier(t, "", "")
	if _, err := w.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds
		t.Error(err)
	}
	w.Close()
	if ws := ended(t, child); ws != 0 || child.Failed() != nil {
		t.Errorf("status %#x, failure %v", ws, child.Failed())
	}
}
