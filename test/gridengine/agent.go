package gridengine

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// AgentSpool is the spool area of the agent of a cell, as the cell sees it.
const AgentSpool = "/home/cell/agent"

// Files of the agent, with the paths in the cell.
const (
	agentLog    = "/home/cell/agent.log"
	agentPID    = "/home/cell/agent.pid"
	agentSocket = "/home/cell/run/agent.sock"
)

// agentPrograms are the executables of the agent.
var agentPrograms = []string{"execd", "execd-launcher", "sge_shepherd-go"}

// StartAgent starts the agent as execution daemon of the cell, also after KillAgent, and waits
// until the master has its load report. env is added to its environment.
func (c *Cell) StartAgent(env ...string) error {
	if err := c.LaunchAgent(env...); err != nil {
		return err
	}
	return c.Poll(startDeadline, "the agent has reported its load", func() (bool, error) {
		if pid, err := c.AgentPID(); err == nil {
			if _, err := os.Stat(c.Proc(pid)); err != nil {
				return false, errors.New("it has ended: " + c.AgentLog())
			}
		}
		return c.reportsLoad(c.Host)
	})
}

// LaunchAgent starts the agent without waiting.
func (c *Cell) LaunchAgent(env ...string) error { return c.LaunchAgentWith(nil, env...) }

// LaunchAgentWith does what LaunchAgent does, with additional options.
func (c *Cell) LaunchAgentWith(options []string, env ...string) error {
	if err := os.MkdirAll(c.Path("/home/cell/run"), 0o755); err != nil {
		return err
	}
	_, err := c.run("", c.environment(env...), append([]string{"sh", "-c", c.agentScript(BinDir, "/home/cell/agent", agentSocket), "sh"}, options...))
	return err
}

// AgentFile returns a file of the job directory of a job, as the cell sees it.
func (c *Cell) AgentFile(job int, name string) string {
	return AgentSpool + "/active_jobs/" + strconv.Itoa(job) + ".1/" + name
}

// KillMaster sends sge_qmaster a signal and waits until it has exited.
func (c *Cell) KillMaster(sig syscall.Signal) error {
	out, err := c.Root("pgrep", "-x", "sge_qmaster")
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil {
		return err
	}
	if err := c.Kill(pid, sig); err != nil {
		return err
	}
	return c.Poll(startDeadline, "sge_qmaster has ended", func() (bool, error) {
		_, err := os.Stat(c.Proc(pid))
		return errors.Is(err, os.ErrNotExist), err
	})
}

// RestartMaster starts sge_qmaster after KillMaster and waits until it answers.
func (c *Cell) RestartMaster() error {
	if _, err := c.Root("sge_qmaster"); err != nil {
		return err
	}
	return c.Poll(startDeadline, "sge_qmaster answers", func() (bool, error) {
		_, err := c.Root("qconf", "-sh")
		return err == nil, err
	})
}

// agentScript returns a script that starts the agent in the directory bin. Spool area, log and file with the
// process ID share the prefix path.
func (c *Cell) agentScript(bin, path, socket string) string {
	front := ""
	if c.front != "" {
		front = "chown " + c.front + " " + filepath.Dir(socket) + "; set -- --front-user " + c.front + ` "$@"`
	}
	return `umask 022; ulimit -Sn 1024; ulimit -Sc 0; cd /
` + front + `
setsid ` + bin + `/execd agent --master gridengine --spool ` + path + ` --socket ` + socket + ` --log-level ` + cmp.Or(c.level, "debug") + ` "$@" </dev/null >>` + path + `.log 2>&1 &
echo $! >` + path + `.pid`
}

// AgentPID returns the process ID of the agent in the cell's namespace.
func (c *Cell) AgentPID() (int, error) {
	text, err := os.ReadFile(c.Path(agentPID))
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

// KillAgent sends the agent a signal and waits until it has exited. Jobs continue.
func (c *Cell) KillAgent(sig syscall.Signal) error {
	pid, err := c.AgentPID()
	if err != nil {
		return err
	}
	if err := c.Kill(pid, sig); err != nil {
		return err
	}
	return c.Poll(startDeadline, "the agent has ended", func() (bool, error) {
		_, err := os.Stat(c.Proc(pid))
		return errors.Is(err, os.ErrNotExist), err
	})
}

// AgentLog returns the log of the agent.
func (c *Cell) AgentLog() string {
	text, err := os.ReadFile(c.Path(agentLog))
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// AgentJobs returns the names of the agent's job directories.
func (c *Cell) AgentJobs() ([]string, error) {
	entries, err := os.ReadDir(c.Path(AgentSpool + "/active_jobs"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, err
}

// AgentJobPID waits until a job runs, and returns the process ID of its first process.
func (c *Cell) AgentJobPID(job, task int) (int, error) {
	return c.JobPID(job, task, startDeadline)
}
