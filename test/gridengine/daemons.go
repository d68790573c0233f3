package gridengine

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// GIDRange is the cell's gid_range: the additional group IDs that mark jobs.
const GIDRange = "30000-30999"

// startMaster creates the initial objects of the master, as Debian's init_cluster does, and starts
// sge_qmaster.
func (c *Cell) startMaster(cfg Config) error {
	text, err := c.install.configuration()
	if err != nil {
		return err
	}
	conf := map[string]string{
		"gid_range": GIDRange,
		// The delay until execd notices a changed configuration.
		"load_report_time": "00:00:02",
		// Records are in the file when the job has left qstat.
		"reporting_params": "accounting=true reporting=false flush_time=00:00:01 accounting_flush_time=00:00:00 joblog=false sharelog=00:00:00",
	}
	if cfg.Shepherd != "" {
		conf["shepherd_cmd"] = BinDir + "/sge_shepherd-go"
	}
	if len(cfg.Simulated) > 0 {
		maps.Copy(conf, simulation)
	}
	maps.Copy(conf, cfg.Conf)
	if err := c.AddFile("/home/cell/etc/conf", edit(text, conf), 0o644); err != nil {
		return err
	}
	spooling := "berkeleydb libspoolb " + spoolDir + "/spooldb"
	if cfg.classic() {
		spooling = "classic libspoolc '" + classicParams + "'"
	}
	_, err = c.Admin("sh", "-ec", `
		spoolinit `+spooling+` init
		spooldefaults configuration /home/cell/etc/conf
		spooldefaults complexes `+sgeRoot+`/util/resources/centry
		spooldefaults usersets `+sgeRoot+`/util/resources/usersets
		spooldefaults managers root sgeadmin`)
	if err != nil {
		return err
	}
	if _, err := c.Root("sge_qmaster"); err != nil {
		return err
	}
	if err := c.Poll(startDeadline, "sge_qmaster answers", func() (bool, error) {
		_, err := c.Root("qconf", "-sh")
		return err == nil, err
	}); err != nil {
		return err
	}
	if _, err := c.Root("qconf", "-as", c.Host); err != nil {
		return err
	}
	sched, err := c.Root("qconf", "-ssconf")
	if err != nil {
		return err
	}
	// A second is the minimum that 8.1.9 accepts for each of these.
	sched = edit(sched, map[string]string{"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"})
	return c.qconf("-Msconf", "sched", sched)
}

// StartExecd starts sge_execd, also after StopExecd, and waits until the master knows it. env is
// added to its environment.
func (c *Cell) StartExecd(env ...string) error {
	if err := os.Remove(c.pidFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	// execd and the original shepherd close every possible descriptor one by one, so a large limit
	// costs milliseconds per job. There are no core files, unless a queue requests them. The umask
	// is that of a boot script.
	start := `umask 022; ulimit -Sn 1024; ulimit -Sc 0; cd /; exec sge_execd`
	if _, err := c.run("", c.environment(env...), []string{"sh", "-c", start}); err != nil {
		return err
	}
	if err := c.Poll(startDeadline, "sge_execd has registered", func() (bool, error) {
		_, err := os.Stat(c.pidFile())
		return err == nil, err
	}); err != nil || c.install.root == "" {
		return err
	}
	return c.Poll(startDeadline, "sge_execd has reported its load", func() (bool, error) { return c.reportsLoad(c.Host) })
}

// StopExecd stops sge_execd like its boot script. Jobs and their shepherds continue.
func (c *Cell) StopExecd() error {
	pid, err := c.ExecdPID()
	if err != nil {
		return err
	}
	if _, err := c.Root("kill", strconv.Itoa(pid)); err != nil {
		return err
	}
	// sge_execd was observed to miss the signal while it was busy.
	const patience = 5 * time.Second
	asked := time.Now()
	return c.Poll(startDeadline, "sge_execd has ended", func() (bool, error) {
		_, err := os.Stat(c.Proc(pid))
		if err == nil && time.Since(asked) > patience {
			asked = time.Now()
			_, err = c.Root("kill", strconv.Itoa(pid))
		}
		return errors.Is(err, os.ErrNotExist), err
	})
}

// ExecdPID returns the process ID of sge_execd in the cell's namespace.
func (c *Cell) ExecdPID() (int, error) {
	text, err := os.ReadFile(c.pidFile())
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (c *Cell) pidFile() string { return filepath.Join(c.SpoolDir(), "execd.pid") }

// SpoolDir returns the test's path of sge_execd's spool directory.
func (c *Cell) SpoolDir() string { return filepath.Join(c.dir, "spool/execd", c.Host) }

// ActiveDir returns the test's path of the directory that sge_execd, or the agent, and the shepherd
// share for a job. task is 0 for a job that is not an array job. The directory is removed when the
// job ends, unless execd_params has KEEP_ACTIVE=true.
func (c *Cell) ActiveDir(job, task int) string {
	spool := c.SpoolDir()
	if c.agent {
		spool = c.Path(AgentSpool)
	}
	return filepath.Join(spool, "active_jobs", fmt.Sprintf("%d.%d", job, max(task, 1)))
}

// Kill sends a signal to a process with the given ID in the cell.
func (c *Cell) Kill(pid int, sig syscall.Signal) error {
	_, err := c.Root("kill", "-"+strconv.Itoa(int(sig)), strconv.Itoa(pid))
	return err
}
