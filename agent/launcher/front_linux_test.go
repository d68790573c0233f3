package launcher

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestFrontLeavesProcess checks that a launcher ends with its front, also if another process of the front's user holds the
// connection: a captured front could make the launcher ignore SIGTERM.
func TestFrontLeavesProcess(t *testing.T) {
	w, s := makeWorld(t)
	dir := t.TempDir()
	said := filepath.Join(dir, "pid")
	socket, err := OpenFrontSocket(w.spool, w.owner, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	f := &Front{User: w.owner, Path: "/bin/sh", Args: []string{"-c", "sleep 300 & echo $! >&2"}}
	stderr := os.Stderr
	file, err := os.Create(said)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	os.Stderr = file // which the front gets
	defer func() { os.Stderr = stderr }()
	done := make(chan error, 1)
	go func() {
		_, err := s.Run(f, socket, nil, func(string) {})
		done <- err
	}()
	defer func() {
		text, err := os.ReadFile(said)
		if pid, _ := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
		}
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the launcher still waits for a front that has ended")
	}
}
