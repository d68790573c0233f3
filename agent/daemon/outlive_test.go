package daemon

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// TestNothingOutlivesTheDaemon checks that everything that the daemon has started has ended when
// its command returns, including programs that are not jobs, such as a health check that hangs.
func TestNothingOutlivesTheDaemon(t *testing.T) {
	dir := t.TempDir()
	testenv.LetIn(t, dir)
	path := func(name string) string { return filepath.Join(dir, name) }
	testenv.WriteFile(t, path("conf/hosts/node1"), "hostname node1\n")
	testenv.WriteFile(t, path("conf/conf/global"), "load_sensor "+path("sensor")+"\n")
	begun := path("begun")
	if err := errors.Join(
		os.WriteFile(path("sge_shepherd-go"), []byte("#!/bin/sh\n"), 0o755),
		os.WriteFile(path("check"), []byte("#!/bin/sh\necho >"+begun+"\nexec sleep 1000\n"), 0o755),
		os.WriteFile(path("sensor"), []byte("#!/bin/sh\nwhile read line; do echo begin; echo end; done\n"), 0o755),
		unix.Mkfifo(begun, 0o666), os.Chmod(begun, 0o666),
	); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", path("notify"))
	t.Setenv("WATCHDOG_USEC", "60000000")
	stderr := &bytes.Buffer{}
	c := Command{
		Args: []string{
			"--host", "node1", "--conf", path("conf"), "--spool", path("spool"), "--socket", path("socket"),
			"--health-check", path("check"), "--metrics", "127.0.0.1:0",
		},
		Stdout: &bytes.Buffer{}, Stderr: stderr, Executable: path("execd"),
	}
	left := make(chan []string, 1)
	go func() {
		if status, err := c.Run(); err != nil || status != ExitGood {
			t.Errorf("exit status %d: %v", status, err)
		}
		left <- running()
	}()
	if _, err := os.ReadFile(begun); err != nil { // the health check runs
		t.Fatal(err)
	}
	client, err := api.Dial(api.Options{Socket: path("socket"), RetryFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	err = client.Shutdown(t.Context(), false)
	client.Close()
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range <-left {
		t.Errorf("it goes on:\n%s", g)
	}
	if t.Failed() {
		t.Logf("the log:\n%s", stderr)
	}
}

// frame is the beginning of a frame of the project in a stack; "created by" is none.
var frame = regexp.MustCompile(`(?m)^github\.com/execd-project/execd/`)

// running returns the stacks of goroutines that are in functions of the project, but for this test.
func running() (list []string) {
	buffer := make([]byte, 1<<20)
	buffer = buffer[:runtime.Stack(buffer, true)]
	for stack := range strings.SplitSeq(string(buffer), "\n\n") {
		if frame.MatchString(stack) && !strings.Contains(stack, "TestNothingOutlivesTheDaemon") {
			list = append(list, stack)
		}
	}
	return list
}
