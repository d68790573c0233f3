package cluster

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/gridengine"
)

// unitOverride runs the service in the network of a cell, with its sge_qmaster.
const unitOverride = "[Service]\nNetworkNamespacePath=%s\n"

// unitDefaults is /etc/default/execd as in docs/gridengine.md.
const unitDefaults = "SGE_ROOT=%s\nSGE_CELL=default\nEXECD_OPTS=\"--master gridengine --host %s\"\n"

// installUnit makes this machine an execution host of a cell, with the service of the package.
func (c *cell) installUnit() {
	c.Helper()
	programs := os.Getenv(testenv.ProgramsEnv)
	unit, err := os.ReadFile("../../packaging/execd.service")
	if err != nil {
		c.Fatal(err)
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.Fatal(err)
	}
	files := map[string]string{
		"/etc/systemd/system/execd.service":             string(unit),
		"/etc/systemd/system/execd.service.d/test.conf": fmt.Sprintf(unitOverride, c.Proc(1)+"/ns/net"),
		"/etc/default/execd":                            fmt.Sprintf(unitDefaults, c.Path("/var/lib/gridengine"), c.Host),
		"/etc/hosts":                                    string(hosts) + "10.77.7.1 " + c.Host + "\n",
	}
	for _, name := range []string{"execd", "sge_shepherd-go"} {
		text, err := os.ReadFile(filepath.Join(programs, name))
		if err != nil {
			c.Fatal(err)
		}
		files["/usr/lib/execd/"+name] = string(text)
	}
	for path, text := range files {
		mode := os.FileMode(0o644)
		if strings.HasPrefix(path, "/usr") {
			mode = 0o755
		}
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode)); err != nil {
			c.Fatal(err)
		}
	}
	if err := os.Symlink("../lib/execd/execd", "/usr/bin/execd"); err != nil {
		c.Fatal(err)
	}
	c.Cleanup(func() {
		if c.Failed() {
			out, _ := exec.Command("journalctl", "-b", "--no-pager", "-u", "execd", "-n", "100").CombinedOutput()
			c.Logf("the journal has\n%s", out)
		}
		_ = exec.Command("systemctl", "stop", "execd", "execd-jobs.scope").Run()
	})
	c.systemctl("daemon-reload")
}

func (c *cell) systemctl(args ...string) string {
	c.Helper()
	out, err := exec.Command("systemctl", args...).CombinedOutput()
	if err != nil {
		c.Fatalf("systemctl %q: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// installGridEngine performs the remaining steps of Debian's packages: a user, and SGE_ROOT.
func installGridEngine(t *testing.T) {
	t.Helper()
	const root = "/var/lib/gridengine"
	for _, dir := range []string{root + "/bin", root + "/lib", root + "/utilbin", root + "/default/common", "/var/spool/gridengine"} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{
		"bin/lx-amd64": testenv.GridEngineDir, "lib/lx-amd64": testenv.GridEngineDir, "utilbin/lx-amd64": testenv.GridEngineDir,
		"util": "/usr/share/gridengine/util",
	} {
		if err := os.Symlink(to, filepath.Join(root, name)); err != nil {
			t.Fatal(err)
		}
	}
	for path, line := range map[string]string{
		"/etc/passwd": "sgeadmin:x:903:903::" + root + ":/bin/sh\n", "/etc/group": "sgeadmin:x:903:\n",
		"/etc/services": "sge_qmaster 6444/tcp\nsge_execd 6445/tcp\n",
	} {
		f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.WriteString(line)
		if err := errors.Join(err, f.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestUnit checks that the service of the package is an execution daemon, and jobs survive its
// restarts.
func TestUnit(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Guest, testenv.Systemd, testenv.GridEngine)
	installGridEngine(t)
	c := &cell{gridengine.Start(t, gridengine.Config{Bare: true, Conf: map[string]string{"load_report_time": "00:00:01"}}), t}
	c.queue("all.q", nil)
	c.installUnit()
	c.systemctl("start", "execd")
	c.until("qhost shows the load of the host", func() bool {
		return strings.Contains(c.root("qhost", "-h", c.Host, "-F", "load_avg"), "hl:load_avg")
	})

	dir := filepath.Join("/tmp", "unit") // outside the cell, as the job is
	if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
		t.Fatal(err)
	}
	job := c.qsub("-wd", "/", "-o", "/dev/null", "-j", "y", c.script("unit.sh",
		"cat /proc/self/cgroup >"+dir+"/new; mv "+dir+"/new "+dir+"/told\nwhile [ ! -e "+dir+"/go ]; do sleep 0.1; done\nexit 7\n"))
	c.until("the job has begun", func() bool { _, err := os.Stat(dir + "/told"); return err == nil })
	if told, err := os.ReadFile(dir + "/told"); err != nil || !strings.Contains(string(told), "/execd-jobs.scope/") {
		t.Errorf("its control groups are %q, %v", told, err)
	}
	c.awaitState(job, "r")

	c.systemctl("restart", "execd")
	before := c.systemctl("show", "--value", "--property=MainPID", "execd")
	pid, err := strconv.Atoi(before)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	c.until("the service is there again", func() bool {
		return c.systemctl("show", "--value", "--property=MainPID", "execd") != before && c.systemctl("show", "--value", "--property=ActiveState", "execd") == "active"
	})
	c.awaitState(job, "r")
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.want(c.ended(job, 0, 1)[0], map[string]string{"failed": "0", "exit_status": "7"})

	// The documented steps to take the host out of service.
	c.root("qconf", "-ke", c.Host)
	c.until("the service has ended", func() bool {
		state, _ := exec.Command("systemctl", "is-active", "execd").Output()
		return strings.TrimSpace(string(state)) == "inactive"
	})
}
