package gridengine

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
)

//go:embed init.sh
var initScript string

// Config describes a cell. The zero value is a cell as Debian creates it, with the fastest
// scheduling that 8.1.9 supports.
type Config struct {
	// Shepherd is a program of this machine that replaces sge_shepherd. It is copied into the cell
	// and configured as shepherd_cmd.
	Shepherd string
	// Host is the name of the cell's only host, "cellhost" by default.
	Host string
	// Conf holds attributes of the global configuration, sge_conf(5).
	Conf map[string]string
	// Env is added to the environment in which sge_execd is started, which
	// jobs inherit (INHERIT_ENV).
	Env []string
	// Simulated names execution hosts that do not exist, see LoadValue. A cell with such hosts
	// starts no jobs.
	Simulated []string
	// Agent is a directory with execd, execd-launcher and sge_shepherd-go. If it is set, the execution daemon of
	// the host is execd agent --master gridengine, and there is no sge_execd.
	Agent string
	// FrontUser divides each agent into two processes, of which the front runs as this user; empty for one process.
	FrontUser string
	// AgentLog is the --log-level of each agent; debug by default.
	AgentLog string
	// Bare starts no execution daemon.
	Bare bool
	// Nodes are additional hosts of the cell, each with its own network, and with the same files as
	// the others: see StartNode.
	Nodes []string
	// Users are additional users of the cell, besides alice and bob.
	Users []string
	// Classic makes the master store its objects in files (classic spooling) instead of a database.
	Classic bool
	// Installation is the SGE_ROOT of an Open Cluster Scheduler that replaces Debian's Grid Engine.
	// It must not be below a directory that is private to the cell.
	Installation string
	// SecurityMode is security_mode of bootstrap(5); none by default.
	SecurityMode string
	// SecurityParams is security_params of bootstrap(5), which 9.1 has.
	SecurityParams string
}

// A Cell is a running Grid Engine.
type Cell struct {
	Host string

	t       testing.TB
	dir     string // on this machine
	pid     int    // of the cell's process 1, in this machine's namespace
	started time.Time
	install installation
	agent   bool       // the execution daemon of the host is the agent
	front   string     // Config.FrontUser
	level   string     // Config.AgentLog
	confMu  sync.Mutex // held while a configuration is read, edited and written
}

// startDeadline limits each step of starting a cell, which takes two seconds on an idle machine.
const startDeadline = 3 * time.Minute

// Start starts a cell and stops it when the test ends. If the machine does not support it, Start
// skips or fails the test according to testenv.
func Start(t testing.TB, cfg Config) *Cell {
	t.Helper()
	testenv.Require(t, testenv.Root, cfg.need())
	c := &Cell{
		Host: cfg.Host, t: t, dir: t.TempDir(), started: time.Now(), install: installation{cfg.Installation}, agent: cfg.Agent != "", front: cfg.FrontUser, level: cfg.AgentLog,
	}
	if c.Host == "" {
		c.Host = "cellhost"
	}
	if err := c.prepare(cfg); err != nil {
		t.Fatalf("cannot prepare the cell's files: %v", err)
	}
	if err := c.enter(); err != nil {
		t.Fatalf("cannot start the cell's namespaces: %v", err)
	}
	if err := c.startMaster(cfg); err != nil {
		t.Fatalf("cannot start sge_qmaster: %v\n%s", err, c.Messages())
	}
	if err := c.makeNodes(cfg.Nodes); err != nil {
		t.Fatalf("cannot make the hosts of the cell: %v\n%s", err, c.Messages())
	}
	switch {
	case cfg.Bare:
	case cfg.Agent != "":
		if err := c.StartAgent(cfg.Env...); err != nil {
			t.Fatalf("cannot start the agent: %v\n%s", err, c.Messages())
		}
	default:
		if err := c.StartExecd(cfg.Env...); err != nil {
			t.Fatalf("cannot start sge_execd: %v\n%s", err, c.Messages())
		}
	}
	t.Logf("cell %s is up after %v", c.Host, time.Since(c.started).Round(time.Millisecond))
	return c
}

// enter starts process 1 of the cell's namespaces and arranges for its termination.
func (c *Cell) enter() error {
	resetInternalSignals()
	cmd := exec.Command("bash", "-c", initScript, "cell-init", c.dir, c.Host)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID,
		Setsid:     true,
	}
	life, keep, err := os.Pipe()
	if err != nil {
		return err
	}
	defer life.Close()
	cmd.ExtraFiles = []*os.File{life}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		keep.Close()
		return err
	}
	c.pid = cmd.Process.Pid
	c.t.Cleanup(func() {
		// Killing process 1 makes the kernel kill all others of the namespace,
		// and wait for them before process 1 can be waited for.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		keep.Close()
	})
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if line != "ready\n" {
		_, _ = io.Copy(io.Discard, stdout)
		return fmt.Errorf("process 1 said %q (%w): %s", line, err, stderr.String())
	}
	return nil
}

// Path converts a path in the cell to the test's path of the same file. Only paths below /home,
// /tmp, the spool directory and SGE_ROOT are private to the cell.
func (c *Cell) Path(path string) string {
	for from, to := range map[string]string{"/home": "home", "/tmp": "tmp", spoolDir: "spool", sgeRoot: "root"} {
		if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(c.dir, to, rest)
		}
	}
	return path
}

// Proc returns the directory in /proc of a process with the given ID in the cell.
func (c *Cell) Proc(pid int) string {
	return filepath.Join("/proc", strconv.Itoa(c.pid), "root/proc", strconv.Itoa(pid))
}

// Messages returns the logs of the daemons, for failure messages.
func (c *Cell) Messages() string {
	var b strings.Builder
	for _, pattern := range []string{"spool/qmaster/messages", "spool/execd/*/messages", "tmp/*messages*", "home/cell/agent*.log"} {
		names, _ := filepath.Glob(filepath.Join(c.dir, pattern))
		for _, name := range names {
			text, err := os.ReadFile(name)
			fmt.Fprintf(&b, "--- %s (%v)\n%s", strings.TrimPrefix(name, c.dir), err, text)
		}
	}
	return b.String()
}

// poll calls ready until it returns true or an error, or until the deadline.
func poll(ctx context.Context, deadline time.Duration, what string, ready func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := ready()
		if ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not within %v: %w", what, deadline, errors.Join(ctx.Err(), err))
		case <-tick.C:
		}
	}
}

// Poll calls ready until it returns true, or until the deadline.
func (c *Cell) Poll(deadline time.Duration, what string, ready func() (bool, error)) error {
	return poll(c.t.Context(), deadline, what, ready)
}
