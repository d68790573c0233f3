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

// Config says what a cell is like. The zero value is a cell as Debian makes
// it, with the fastest scheduling that 8.1.9 takes.
type Config struct {
	// Shepherd is a program of this machine that runs instead of sge_shepherd.
	// It is copied into the cell and named by shepherd_cmd.
	Shepherd string
	// Host is the name of the cell's only host, "cellhost" by default.
	Host string
	// Conf holds attributes of the global configuration, sge_conf(5).
	Conf map[string]string
	// Env is added to the environment in which sge_execd is started, which
	// jobs inherit (INHERIT_ENV).
	Env []string
	// Simulated names execution hosts that do not exist, see LoadValue. No job is
	// started in a cell that has any.
	Simulated []string
	// Agent is a folder with execd and sge_shepherd-go: then the execution daemon of the
	// host is execd agent --master gridengine, and there is no sge_execd.
	Agent string
	// Bare has no execution daemon started.
	Bare bool
	// Nodes are further hosts of the cell, each with a network of its own and all files
	// in common with the others: see StartNode.
	Nodes []string
	// Users are users of the cell besides alice and bob.
	Users []string
	// Classic has the master keep its objects in files (classic spooling), instead of in
	// a database.
	Classic bool
	// Installation is the SGE_ROOT of an Open Cluster Scheduler that runs instead of Debian's
	// Grid Engine; it lies below none of the folders that the cell has of its own.
	Installation string
}

// A Cell is a running Grid Engine.
type Cell struct {
	Host string

	t       testing.TB
	dir     string // on this machine
	pid     int    // of the cell's process 1, as this machine sees it
	started time.Time
	install installation
	agent   bool       // the execution daemon of the host is the agent
	confMu  sync.Mutex // configurations are changed by read, edit, write
}

// startDeadline bounds each step of bringing a cell up. It takes two seconds on
// an idle machine.
const startDeadline = 3 * time.Minute

// Start brings up a cell and tears it down when the test ends. It skips or
// fails the test as testenv says when the machine cannot do it.
func Start(t testing.TB, cfg Config) *Cell {
	t.Helper()
	testenv.Require(t, testenv.Root, cfg.need())
	c := &Cell{
		Host: cfg.Host, t: t, dir: t.TempDir(), started: time.Now(), install: installation{cfg.Installation}, agent: cfg.Agent != "",
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

// enter starts process 1 of the cell's namespaces and arranges for its end.
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

// Path converts a path that the cell's processes use into the test's path of the same file. Only
// paths below /home, /tmp, the spool folder and SGE_ROOT are the cell's own.
func (c *Cell) Path(path string) string {
	for from, to := range map[string]string{"/home": "home", "/tmp": "tmp", spoolDir: "spool", sgeRoot: "root"} {
		if rest, ok := strings.CutPrefix(path, from); ok && (rest == "" || rest[0] == '/') {
			return filepath.Join(c.dir, to, rest)
		}
	}
	return path
}

// Proc returns the folder of /proc for a process that the cell knows as pid.
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

// poll calls ready until it says true, fails, or the deadline passes.
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

// Poll calls ready until it says true or the deadline passes.
func (c *Cell) Poll(deadline time.Duration, what string, ready func() (bool, error)) error {
	return poll(c.t.Context(), deadline, what, ready)
}
