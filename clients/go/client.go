// Package client submits, watches and cancels jobs of execd standalone, or of a Grid Engine cell.
//
// The package runs the commands (qsub, qstat, qdel, qacct) instead of speaking to the daemon's socket.
// A process per call takes some milliseconds. In return
//
//   - everything that a user gets from the commands is there: option files, verifiers, the search for
//     the socket, the wait for a daemon that is being restarted;
//   - an error has exactly the text of the command;
//   - the same program works on a real Grid Engine cell;
//   - the interface is Grid Engine's, which does not change, and not that of the socket, which may.
//
// A Client is safe for concurrent use.
//
// Other projects may import this package: docs/compatibility.md says what may change.
package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Client runs the commands. The zero value finds them in PATH and is ready for use.
type Client struct {
	// Commands is the directory of qsub, qstat, qdel and qacct. If it is empty, they are searched in PATH of
	// this process.
	Commands string
	// Env is the environment of the commands, as of os.Environ; nil stands for that of this process.
	// EXECD_SOCKET in it names the daemon.
	Env []string
	// Poll is the longest pause between two calls of qstat while Wait waits; 0 stands for five seconds.
	Poll time.Duration
	// AccountingDelay is how long Wait and Status wait for the accounting record of a job that has left
	// qstat. execd standalone writes the record earlier, so that 0 is right for it. Grid Engine
	// writes it up to accounting_flush_time (sge_conf(5)) later: half a minute is enough with its
	// defaults.
	AccountingDelay time.Duration
}

const defaultPoll = 5 * time.Second

// CommandError is a command that failed.
type CommandError struct {
	Command []string // the command line
	Status  int      // exit status; -1 if a signal ended the command
	Text    string   // what the command printed: on standard error, or else on standard output
}

// Error returns the text of the command.
func (e *CommandError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("cannot run %s: exit status %d", e.Command[0], e.Status)
	}
	return e.Text
}

// ErrUnknownJob is wrapped by the errors about a job that is neither in qstat nor in the accounting file.
var ErrUnknownJob = errors.New("the job is not pending, not running, and has no accounting record")

// run runs a command and returns its standard output.
func (c *Client) run(ctx context.Context, stdin io.Reader, env []string, name string, args ...string) (string, error) {
	path := name
	if c.Commands != "" {
		path = filepath.Join(c.Commands, name)
	}
	cmd := exec.CommandContext(ctx, path, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &stdout, &stderr
	cmd.Env = c.Env
	if cmd.Env == nil {
		cmd.Env = os.Environ()
	}
	cmd.Env = append(slices.Clip(cmd.Env), env...)
	err := cmd.Run()
	if ctx.Err() != nil {
		return "", fmt.Errorf("cannot wait for %s: %w", name, ctx.Err())
	}
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		text := strings.TrimSpace(stderr.String())
		if text == "" {
			text = strings.TrimSpace(stdout.String())
		}
		return stdout.String(), &CommandError{append([]string{name}, args...), e.ExitCode(), text}
	}
	if err != nil {
		return "", fmt.Errorf("cannot run %s: %w", name, err)
	}
	return stdout.String(), nil
}

// Cancel deletes jobs (qdel). Running jobs finish a moment later, and Wait returns then. The error
// is a *CommandError if one of the jobs does not exist or belongs to another user; the others are
// deleted.
func (c *Client) Cancel(ctx context.Context, jobs ...int) error {
	if len(jobs) == 0 {
		return nil
	}
	args := make([]string, len(jobs))
	for i, id := range jobs {
		if id < 1 {
			return fmt.Errorf("cannot cancel job %d: the number must be at least 1", id)
		}
		args[i] = strconv.Itoa(id)
	}
	_, err := c.run(ctx, nil, nil, "qdel", args...)
	return err
}

// Logs copies what a job has printed so far to w: its standard output, and with Submission.Errors empty
// also its standard error. The task is 0 for a job that is not an array job. The error wraps
// fs.ErrNotExist if the job has not started yet.
func (c *Client) Logs(job *Job, task int, w io.Writer) error {
	path := job.OutputFile(task)
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the output of job %d: %w", job.ID, err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return fmt.Errorf("cannot read the output of job %d: %q is not a regular file", job.ID, path)
	}
	if _, err := io.Copy(w, f); err != nil {
		return fmt.Errorf("cannot read the output of job %d: %w", job.ID, err)
	}
	return nil
}
