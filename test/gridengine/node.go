package gridengine

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Nodes are hosts of a cell besides the host of sge_qmaster. They have their own names, networks
// and daemons, but share processes and files, so each queue instance needs its own tmpdir.

// firstNode is the last part of the first node's address.
const firstNode = 11

// nodeAddresses returns the lines of /etc/hosts for nodes.
func nodeAddresses(nodes []string) string {
	var b strings.Builder
	for i, name := range nodes {
		fmt.Fprintf(&b, "10.77.7.%d %s\n", firstNode+i, name)
	}
	return b.String()
}

// makeNodes creates the hosts and their virtual cables. They are administrative hosts and submit
// hosts.
func (c *Cell) makeNodes(nodes []string) error {
	if len(nodes) == 0 {
		return nil
	}
	const bridge = `ip link add br0 type bridge && ip addr add 10.77.7.1/24 dev br0 && ip link set br0 up`
	if _, err := c.Root("sh", "-c", bridge); err != nil {
		return err
	}
	for i, name := range nodes {
		pid := "/home/cell/node." + name
		script := fmt.Sprintf(`
setsid unshare --net --uts sh -c 'hostname %[1]s; echo $$ >%[2]s.new; mv %[2]s.new %[2]s; exec sleep infinity' </dev/null >/dev/null 2>&1 &
while [ ! -e %[2]s ]; do sleep 0.02; done
p=$(cat %[2]s)
ip link add v%[3]d type veth peer name eth0 netns $p
ip link set v%[3]d master br0 up
nsenter -t $p -n sh -ec 'ip link set lo up; ip addr add 10.77.7.%[3]d/24 dev eth0; ip link set eth0 up'
mkdir -p /tmp/%[1]s; chmod 1777 /tmp/%[1]s
qconf -ah %[1]s; qconf -as %[1]s`, name, pid, firstNode+i)
		if _, err := c.Root("sh", "-c", script); err != nil {
			return err
		}
	}
	return nil
}

// onNode returns a command line that runs args on a node.
func (c *Cell) onNode(node string, args ...string) ([]string, error) {
	pid, err := os.ReadFile(c.Path("/home/cell/node." + node))
	return append([]string{"nsenter", "-t", strings.TrimSpace(string(pid)), "-n", "-u", "--"}, args...), err
}

// Node runs a command on a node as root.
func (c *Cell) Node(node string, args ...string) (string, error) {
	line, err := c.onNode(node, args...)
	if err != nil {
		return "", err
	}
	return c.Root(line...)
}

// StartNode starts the execution daemon of a node, the agent or sge_execd, and waits until the
// master has its load report.
func (c *Cell) StartNode(node string, agent bool) error {
	if err := c.LaunchNode(node, agent); err != nil {
		return err
	}
	return c.Poll(startDeadline, "the daemon of "+node+" has reported its load", func() (bool, error) {
		return c.reportsLoad(node)
	})
}

// LaunchNode starts the daemon without waiting.
func (c *Cell) LaunchNode(node string, agent bool) error {
	if err := os.MkdirAll(c.Path("/home/cell/run"), 0o755); err != nil {
		return err
	}
	script := `umask 022; ulimit -Sn 1024; ulimit -Sc 0; cd /; exec sge_execd`
	if agent {
		script = c.agentScript(BinDir, "/home/cell/agent."+node, "/home/cell/run/"+node+".sock")
	}
	return c.launchNode(node, script)
}

// StartNodeWith starts an agent on a node, and waits until the master has its load report. The agent is not that of
// Config.Agent: dir is a directory of this machine with other builds of the same programs.
func (c *Cell) StartNodeWith(node, dir string) error {
	bin := "/home/cell/bin." + node
	for _, name := range agentPrograms {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		if err := c.AddFile(bin+"/"+name, string(text), 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.Path("/home/cell/run"), 0o755); err != nil {
		return err
	}
	if err := c.launchNode(node, c.agentScript(bin, "/home/cell/agent."+node, "/home/cell/run/"+node+".sock")); err != nil {
		return err
	}
	return c.Poll(startDeadline, "the daemon of "+node+" has reported its load", func() (bool, error) {
		return c.reportsLoad(node)
	})
}

// launchNode runs a script with sh on a node, which starts its daemon.
func (c *Cell) launchNode(node, script string) error {
	line, err := c.onNode(node, "sh", "-c", script)
	if err == nil {
		_, err = c.run("", c.environment(), line)
	}
	return err
}

// KillNode sends the agent of a node a signal and waits until it has exited.
func (c *Cell) KillNode(node string, sig syscall.Signal) error {
	text, err := os.ReadFile(c.Path("/home/cell/agent." + node + ".pid"))
	if err != nil {
		return err
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return err
	}
	if err := c.Kill(pid, sig); err != nil {
		return err
	}
	return c.Poll(startDeadline, "the agent of "+node+" has ended", func() (bool, error) {
		_, err := os.Stat(c.Proc(pid))
		return os.IsNotExist(err), err
	})
}

// NodeJobs returns the names of the job directories of a node's agent.
func (c *Cell) NodeJobs(node string) []string {
	list, _ := filepath.Glob(c.Path("/home/cell/agent."+node) + "/active_jobs/*")
	return list
}
