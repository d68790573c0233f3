package gridengine

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// commandDeadline limits every command that a test runs in a cell.
const commandDeadline = 3 * time.Minute

// environment returns the environment of root's programs and of the daemons. It contains no
// variables of the machine: jobs inherit it from the daemon, and so have the same environment on
// all machines.
func (c *Cell) environment(extra ...string) []string {
	return append([]string{
		"PATH=" + c.install.path() + ":/usr/sbin:/usr/bin:/sbin:/bin", "SGE_ROOT=" + sgeRoot, "SGE_CELL=default", "SGE_ARCH=lx-amd64",
		"SGE_SINGLE_LINE=1", // qconf: no line breaks within values
	}, extra...)
}

// Root runs a command in the cell as root, in the directory /, and returns its standard output. An
// error contains its standard error.
func (c *Cell) Root(args ...string) (string, error) {
	return c.run("", c.environment(), args)
}

// User runs a command in the cell as one of its users, in the user's home directory and with the
// environment of a new login.
func (c *Cell) User(name string, args ...string) (string, error) {
	env, args := c.login(name, args)
	return c.run("", env, args)
}

// UserCommand returns a command like User, for callers that need its streams. The command is killed
// when the test ends.
func (c *Cell) UserCommand(name string, args ...string) *exec.Cmd {
	env, args := c.login(name, args)
	cmd := exec.CommandContext(c.t.Context(), "nsenter", append(c.entrance(), args...)...)
	cmd.Env, cmd.Dir = append(env, "TERM=xterm"), "/"
	return cmd
}

// login returns the command line that runs a command as one of the users, and its environment.
func (c *Cell) login(name string, args []string) (env, line []string) {
	home, shell := "/home/"+name, "/bin/sh"
	if name == "alice" {
		shell = "/bin/bash"
	}
	env = c.environment("HOME="+home, "USER="+name, "LOGNAME="+name, "SHELL="+shell)
	env[0] = "PATH=" + c.install.path() + ":/usr/bin:/bin"
	// nsenter would resolve the directory in the machine's namespace, so the shell changes to it.
	become := []string{
		"setpriv", "--reuid", name, "--regid", name, "--init-groups", "--",
		"/bin/sh", "-c", `cd "$HOME" && exec "$@"`, "sh",
	}
	return env, append(become, args...)
}

// entrance returns the arguments with which nsenter enters the namespaces of the cell.
func (c *Cell) entrance() []string {
	return []string{"-t", strconv.Itoa(c.pid), "-m", "-u", "-n", "-p", "--"}
}

// Admin runs a command in the cell as Grid Engine's administrator.
func (c *Cell) Admin(args ...string) (string, error) {
	return c.run("", c.environment(), append([]string{"setpriv", "--reuid", "sgeadmin", "--regid", "sgeadmin", "--init-groups", "--"}, args...))
}

// run enters the cell's namespaces for one command.
func (c *Cell) run(stdin string, env, args []string) (string, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), commandDeadline)
	defer cancel()
	cmd := exec.CommandContext(ctx, "nsenter", append(c.entrance(), args...)...)
	cmd.Env, cmd.Dir = env, "/"
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// nsenter forks to enter the process namespace: at the deadline its child must be killed, too,
	// so that no process holds the pipes open.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s%s", strings.Join(args, " "), err, stdout.String(), stderr.String())
	}
	return stdout.String(), nil
}
