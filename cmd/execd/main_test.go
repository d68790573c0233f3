package main_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestMain runs one of three programs: the tests; execd as the tests run it as root, in its own
// namespaces; or the attacks that run in place of a job.
func TestMain(m *testing.M) {
	switch filepath.Base(os.Args[0]) {
	case "execd":
		fmt.Fprintln(os.Stderr, "cannot make a world for the test:", enterWorld())
		os.Exit(99)
	case "attack":
		os.Exit(attack(os.Args[1:]))
	}
	// Tests in the background are started with these ignored, and execd would
	// respect that.
	for _, sig := range []os.Signal{unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTSTP} {
		if signal.Ignored(sig) {
			signal.Notify(make(chan os.Signal, 1), sig)
		}
	}
	status := m.Run()
	if base != "" {
		_ = os.RemoveAll(base)
	}
	os.Exit(status)
}

// base is a directory of this run that all users may enter. Below it are
//
//	bin/   execd, sge_shepherd-go, and attack
//	root/  execd in a world of its own (enterWorld)
var base string

// programs builds the executables, once, unless they were built for us.
var programs = sync.OnceValue(func() error {
	parent := ""
	if os.Getuid() == 0 {
		parent = "/tmp" // not what TMPDIR says, which may be closed to others
	}
	var err error
	if base, err = os.MkdirTemp(parent, "execd-test-"); err != nil {
		return err
	}
	for _, d := range []string{base, base + "/bin", base + "/root"} {
		if err := errors.Join(os.MkdirAll(d, 0o755), os.Chmod(d, 0o755)); err != nil {
			return err
		}
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if err := errors.Join(copyFile(self, base+"/bin/attack"), os.Symlink(self, base+"/root/execd")); err != nil {
		return err
	}
	if built := os.Getenv(testenv.ProgramsEnv); built != "" {
		return errors.Join(
			copyFile(built+"/execd", base+"/bin/execd"),
			copyFile(built+"/sge_shepherd-go", base+"/bin/sge_shepherd-go"))
	}
	flags := []string{"build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w"}
	execd := flags
	if raceEnabled {
		execd = append(slices.Clip(execd), "-race")
	}
	for _, args := range [][]string{
		append(slices.Clip(execd), "-o", base+"/bin/execd", "."),
		append(slices.Clip(flags), "-o", base+"/bin/sge_shepherd-go", "../shepherd"),
	} {
		cmd := exec.Command("go", args...)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", cmd, err, out)
		}
	}
	return nil
})

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

func build(t *testing.T) {
	t.Helper()
	if err := programs(); err != nil {
		t.Fatal(err)
	}
}

// setenv replaces or adds variables in a list of NAME=value.
func setenv(env []string, more ...string) []string {
	for _, m := range more {
		name, _, _ := strings.Cut(m, "=")
		kept := env[:0:0]
		for _, e := range env {
			if n, _, _ := strings.Cut(e, "="); n != name {
				kept = append(kept, e)
			}
		}
		env = append(kept, m)
	}
	return env
}
