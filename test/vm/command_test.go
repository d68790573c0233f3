package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestCommandVM runs programs by the command itself.
func TestCommandVM(t *testing.T) {
	testenv.RequireGuests(t)
	dir := t.TempDir()
	vm := filepath.Join(dir, "vm")
	if out, err := exec.Command("go", "build", "-buildvcs=false", "-o", vm, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	extra := filepath.Join(dir, "extra")
	if err := os.WriteFile(extra, []byte("of the host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		args           []string
		script         string
		status         int
		stdout, stderr string // what they contain
	}{
		"the exit status is that of the program, which may leave others behind": {
			script: `sleep 1000 & echo to stderr >&2; cat /extra; echo "$1"; exit 7`,
			args:   []string{"-file", extra + ":/extra"},
			status: 7, stdout: "to stderr\nof the host\ntwo  words $HOME\n",
		},
		"the exit status after a signal is 128 and its number, as in a shell": {
			script: "kill -TERM $$", status: 128 + 15,
		},
		"another user, with swap space, in a group that is delegated": {
			args: []string{"-swap", "64", "-user", "tester", "-env", "A=b  $c"},
			script: `mkdir /sys/fs/cgroup/step0/below && tail -n 1 /proc/swaps && echo "$(id -un) $HOME $A"
[ $EXECD_VM ] && cat /sys/fs/cgroup/step0/cgroup.controllers`,
			stdout: "65532\t\t0\t\t-2\ntester /home/tester b  $c\ncpuset cpu io memory",
		},
		"with systemd a signal and arguments arrive, too": {
			args:   []string{"-systemd", "-property", "MemoryMax=1G", "-user", "alice"},
			script: `echo "$1"; cat /sys/fs/cgroup/$(cut -d: -f3 /proc/self/cgroup)/memory.max; id -un; kill -KILL $$`,
			status: 128 + 9, stdout: "two  words $HOME\n1073741824\nalice\n",
		},
		"a program that exceeds the timeout is ended": {
			args:   []string{"-timeout", "4s"},
			script: "sleep 1000", status: 124, stderr: "has not ended in time",
		},
		"a guest that dies is not a program that has ended": {
			args: []string{"-verbose"}, script: "echo c > /proc/sysrq-trigger; sleep 1000",
			status: 125, stderr: "sysrq triggered crash",
		},
		"the error names a kernel module that does not exist": {
			args: []string{"-module", "nosuch"}, status: 125, stderr: `cannot find the kernel module "nosuch"`,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			script := filepath.Join(t.TempDir(), "script")
			if err := os.WriteFile(script, []byte("#!/bin/sh\n"+test.script+"\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(vm, append(test.args, script, "two  words $HOME")...)
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			if exit, ok := errors.AsType[*exec.ExitError](err); err != nil && (!ok || exit.ExitCode() < 0) {
				t.Fatal(err)
			}
			if got := cmd.ProcessState.ExitCode(); got != test.status {
				t.Errorf("exit status %d, want %d", got, test.status)
			}
			if !strings.Contains(stdout.String(), test.stdout) {
				t.Errorf("its output lacks %q", test.stdout)
			}
			if !strings.Contains(stderr.String(), test.stderr) {
				t.Errorf("its errors lack %q", test.stderr)
			}
			if t.Failed() {
				t.Logf("stdout:\n%s\nstderr:\n%s", &stdout, &stderr)
			}
		})
	}
}
