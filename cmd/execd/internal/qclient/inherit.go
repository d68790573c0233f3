package qclient

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/printer"
	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/internal/userfile"
	"github.com/execd-project/execd/submit"
)

// inherit runs qrsh -inherit host command: a task of the job from which it is called. On one
// machine the task is a process of that job. ok is false if the arguments are those of another
// call.
func (c *Command) inherit(ctx context.Context) (status int, ok bool) {
	task, ok, err := submit.ParseTask(c.Args, os.Environ())
	if err != nil || !ok {
		return 0, false // the daemon reports the error
	}
	fail := func(format string, args ...any) (int, bool) {
		printer.Fprintf(c.Stderr, "error: "+format+"\n", args...)
		return exitFailed, true
	}
	hosts, err := hostsOfJob()
	if err != nil {
		return fail("%v", err)
	}
	switch {
	case os.Getenv("JOB_ID") == "":
		return fail(`"qrsh" called with option "-inherit", but "JOB_ID" not set in environment`)
	case len(task.Args) == 0:
		return fail("expected a host and a command behind -inherit")
	case !slices.ContainsFunc(hosts, func(host string) bool { return sameHost(task.Host, host) }):
		return fail("the job runs on %s, and not on %s", hosts[0], task.Host)
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

// hostsOfJob returns the names of this host. The first is the one that the daemon uses
// (execd standalone --host), which the job has in HOSTNAME and in the file that PE_HOSTFILE names:
// mpirun takes names from there. The job may change both, as all its tasks run here.
func hostsOfJob() ([]string, error) {
	own, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("cannot determine the name of this host: %w", err)
	}
	var hosts []string
	if path := os.Getenv("PE_HOSTFILE"); path != "" {
		text, err := userfile.Read(path, textfile.MaxConfig)
		if err != nil {
			return nil, fmt.Errorf("cannot read the hosts of the job: %w", err)
		}
		for line := range strings.Lines(string(text)) {
			if words := strings.Fields(line); len(words) > 0 {
				hosts = append(hosts, words[0])
			}
		}
	}
	if name := os.Getenv("HOSTNAME"); name != "" {
		hosts = append(hosts, name)
	}
	return append(hosts, own, "localhost"), nil
}

// sameHost reports whether two names are of the same host, with or without its domain.
func sameHost(a, b string) bool {
	short := func(s string) string { s, _, _ = strings.Cut(s, "."); return s }
	return strings.EqualFold(short(a), short(b))
}
