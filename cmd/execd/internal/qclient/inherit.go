package qclient

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/submit"
)

// inherit is qrsh -inherit host command: a task of the job that it is called in, which on
// one machine is a process of that job. ok is false where it is not that.
func (c *Command) inherit(ctx context.Context) (status int, ok bool) {
	task, ok, err := submit.ParseTask(c.Args, os.Environ())
	if err != nil || !ok {
		return 0, false // what is wrong with it is for the daemon to say
	}
	fail := func(format string, args ...any) (int, bool) {
		printer.Fprintf(c.Stderr, "error: "+format+"\n", args...)
		return exitFailed, true
	}
	host, err := os.Hostname()
	if err != nil {
		return fail("cannot find out the name of this host: %v", err)
	}
	switch {
	case os.Getenv("JOB_ID") == "":
		return fail(`"qrsh" called with option "-inherit", but "JOB_ID" not set in environment`)
	case len(task.Args) == 0:
		return fail("expected a host and a command behind -inherit")
	case !onThisHost(task.Host, host):
		return fail("the job runs on %s, and not on %s", host, task.Host)
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", strings.Join(task.Args, " ")) // as rsh(1) has it
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, c.Stdout, c.Stderr
	if task.NoStdin {
		cmd.Stdin = nil
	}
	cmd.Env = os.Environ()
	for _, v := range task.Env {
		cmd.Env = append(cmd.Env, v.String())
	}
	err = cmd.Run()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.Exited() {
		return e.ExitCode(), true
	}
	if err != nil {
		return fail("%v", err)
	}
	return exitGood, true
}

// onThisHost reports whether a name is that of this host, with or without its domain.
func onThisHost(name, host string) bool {
	short := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
	return name == "localhost" || strings.EqualFold(short(name), short(host))
}
