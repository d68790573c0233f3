package verifier

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/submit"
)

// answers are those of a verifier that takes the job.
const answers = "while read -r line; do case \"$line\" in START) echo STARTED;; BEGIN) echo RESULT STATE ACCEPT;; QUIT) exit;; esac; done\n"

// long is more than what a pipe holds.
var long = []submit.Parameter{{Name: "N", Value: strings.Repeat("x", 1<<20)}}

// holds leaves a process, and goes on when that has the pipe.
const holds = "{ : > PID; exec sleep 600; } 9>FIFO &\nuntil [ -e PID ]; do :; done\n"

// TestHostileVerifiers checks that a verifier and the processes that it has started end, and that the daemon does not wait longer than its time limit, whatever processes it leaves
// behind and however little it reads.
func TestHostileVerifiers(t *testing.T) {
	for name, c := range map[string]struct {
		text, err string
		leaves    bool // a process that has left the group
	}{
		"a process holds its output":            {text: holds + answers},
		"the same, after it was silent":         {text: holds + "exec sleep 600\n", err: "got no response"},
		"a process of another session holds it": {text: "setsid sh -c 'echo $$ > PID; exec sleep 600' 9>FIFO &\nuntil [ -s PID ]; do :; done\n" + answers, leaves: true},
		"it does not read":                      {text: "exec 9>FIFO; echo STARTED; exec sleep 600\n", err: "got no response"},
		"it does not read and does not end":     {text: "exec 9>FIFO; read x; echo STARTED; exec <&-; exec sleep 600\n", err: "got no response"},
		"it says so much that it cannot read":   {text: "exec 9>FIFO; echo STARTED; while :; do echo; done\n", err: "got no response"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			fifo, pid := filepath.Join(dir, "fifo"), filepath.Join(dir, "pid")
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			// Does not wait for somebody to open the other end, who may be killed before.
			pipe, err := os.OpenFile(fifo, os.O_RDONLY|syscall.O_NONBLOCK, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer pipe.Close()
			path := written(t, "#!/bin/sh\n"+strings.NewReplacer("FIFO", fifo, "PID", pid).Replace(c.text))
			// One that answers may be slow; shells read a byte at a time.
			parameters, patience := long, time.Second
			if c.err == "" {
				parameters, patience = nil, time.Minute
			}
			_, err = Run(t.Context(), path, parameters, nil, func(_, _ string) {}, patience)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if c.leaves {
				text, err := os.ReadFile(pid)
				if err != nil {
					t.Fatal(err)
				}
				n, err := strconv.Atoi(strings.TrimSpace(string(text)))
				if err != nil {
					t.Fatal(err)
				}
				if err := syscall.Kill(n, syscall.SIGKILL); err != nil {
					t.Errorf("it has been ended: %v", err)
				}
			}
			// To its end: until the last process that has it open has ended.
			if err := pipe.SetReadDeadline(time.Now().Add(3 * time.Minute)); err != nil {
				t.Fatal(err)
			}
			if _, err := io.ReadAll(pipe); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestInterrupted checks that a caller that cancels a verification returns at once.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	path := written(t, "#!/bin/sh\necho LOG INFO here; sleep 600 &\nwait\n")
	if _, err := Run(ctx, path, nil, nil, func(_, _ string) { cancel() }, time.Hour); err == nil {
		t.Error("the job was taken")
	}
}
