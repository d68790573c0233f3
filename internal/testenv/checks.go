package testenv

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
)

// GridEngineDir is Debian's directory of the real programs; the programs in the PATH are shell
// wrappers around them.
const GridEngineDir = "/usr/lib/gridengine"

func checkRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("the tests run as uid %d", uid)
	}
	// Root of a user namespace or a container may lack rights of a real root. That can only be
	// found by trying, because seccomp filters are not visible as capabilities.
	cmd := exec.Command("true")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWNET,
	}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("cannot make namespaces: %w", err)
	}
	return nil
}

func checkPython() error {
	_, err := exec.LookPath("python3")
	return err
}

func checkDRMAA() error {
	if _, err := exec.LookPath("cc"); err != nil {
		return fmt.Errorf("install gcc and libc6-dev: %w", err)
	}
	for _, path := range []string{"/usr/bin/python3", "/usr/lib/python3/dist-packages/drmaa"} {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("install python3-drmaa: %w", err)
		}
	}
	return nil
}

// checkProgram returns a check for a program of a Debian package.
func checkProgram(name, pkg string) func() error {
	return func() error {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("install %s: %w", pkg, err)
		}
		return nil
	}
}

func checkChromium() error {
	for _, name := range []string{"chromium", "npm"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("install chromium and npm: %w", err)
		}
	}
	return nil
}

func checkLoop() error {
	for _, name := range []string{"mkfs.ext4", "mount", "truncate"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("install e2fsprogs, mount and coreutils: %w", err)
		}
	}
	// Containers have the device nodes of others, or none.
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return control.Close()
}

func checkPackages() error {
	dir := os.Getenv(PackagesEnv)
	if dir == "" {
		return fmt.Errorf("%s does not say where make package has put them", PackagesEnv)
	}
	for _, pattern := range []string{"*.deb", "*.rpm"} {
		if found, err := filepath.Glob(filepath.Join(dir, pattern)); err != nil || len(found) == 0 {
			return fmt.Errorf("there is no %s in %q", pattern, dir)
		}
	}
	for _, name := range []string{"dpkg", "dpkg-deb", "rpm", "systemd-analyze", "gpg", "ar"} {
		if _, err := exec.LookPath(name); err != nil {
			return err
		}
	}
	return nil
}

func checkNetwork() error {
	for _, name := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("install iproute2 and util-linux: %w", err)
		}
	}
	return nil
}

func checkCurl() error {
	for _, tool := range []string{"curl", "openssl"} {
		if _, err := exec.LookPath(tool); err != nil {
			return err
		}
	}
	return nil
}

// SchemaDir is the directory of gridengine-common with the schemas of the output of qstat and
// others.
const SchemaDir = "/usr/share/gridengine/util/resources/schemas"

func checkXML() error {
	if _, err := exec.LookPath("xmllint"); err != nil {
		return fmt.Errorf("install libxml2-utils: %w", err)
	}
	if _, err := os.Stat(SchemaDir); err != nil {
		return fmt.Errorf("install gridengine-common: %w", err)
	}
	return nil
}

func checkGridEngine() error {
	for _, name := range []string{
		"sge_qmaster", "sge_execd", "sge_shepherd", "spoolinit", "spooldefaults", // gridengine-master, -exec
		"qsub", "qconf", "qstat", "qacct", "qdel", "qmod", // gridengine-client
	} {
		if _, err := os.Stat(filepath.Join(GridEngineDir, name)); err != nil {
			return fmt.Errorf("install gridengine-master, gridengine-exec and gridengine-client: %w", err)
		}
	}
	for _, tool := range []string{"bash", "ip", "nsenter", "setpriv", "mount"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("install bash, iproute2, util-linux and mount: %w", err)
		}
	}
	return nil
}

// checkOCS looks for what a cell needs of an installation of Open Cluster Scheduler, and for the user
// that Debian's packages have made.
func checkOCS() error {
	root := os.Getenv(OCSEnv)
	if root == "" {
		return errors.New("set " + OCSEnv + " to the SGE_ROOT of an installation of Open Cluster Scheduler")
	}
	for _, name := range []string{
		"bin/lx-amd64/sge_qmaster", "bin/lx-amd64/sge_shepherd", "bin/lx-amd64/qsub", "bin/lx-amd64/qconf", "bin/lx-amd64/qstat", "bin/lx-amd64/qmod",
		"utilbin/lx-amd64/spoolinit", "utilbin/lx-amd64/spooldefaults", "util/resources/centry", "util/resources/usersets",
	} {
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			return fmt.Errorf("%s=%s is no whole installation of Open Cluster Scheduler: %w", OCSEnv, root, err)
		}
	}
	if _, err := user.Lookup("sgeadmin"); err != nil {
		return fmt.Errorf("install gridengine-common, which makes the user sgeadmin: %w", err)
	}
	return nil
}

// checkCgroup tries every mounted hierarchy, because which one can be written
// depends on the container around us and not on the kernel. An ordinary user can
// write at most the group that it is in.
func checkCgroup() error { return checkGroupWith("") }

func checkFreezer() error {
	unified, v1 := checkGroupWith("cgroup.freeze"), checkGroupWith("freezer.state")
	if unified == nil || v1 == nil {
		return nil
	}
	return unified
}

// checkGroupWith tries to make a group that has a file; empty for any group.
func checkGroupWith(file string) error {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return err
	}
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	var errs []error
	for line := range strings.Lines(string(mounts)) {
		before, after, found := strings.Cut(line, " - ")
		fields := strings.Fields(before)
		if !found || len(fields) < 5 || !strings.HasPrefix(after, "cgroup") {
			continue
		}
		dirs := []string{fields[4]}
		for group := range strings.Lines(string(groups)) {
			// id:controllers:path
			if parts := strings.SplitN(strings.TrimSpace(group), ":", 3); len(parts) == 3 && parts[2] != "/" {
				dirs = append(dirs, filepath.Join(fields[4], parts[2]))
			}
		}
		for _, top := range dirs {
			dir, err := os.MkdirTemp(top, "execd-testenv-")
			if err == nil {
				_, err = os.Stat(filepath.Join(dir, file))
				if err = errors.Join(err, os.Remove(dir)); err == nil {
					return nil
				}
			}
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return errors.New("no cgroup hierarchy is mounted")
	}
	// The others have failed for much the same reason, and each test that skips would list them.
	return fmt.Errorf("no cgroup hierarchy of %d can be written: %w", len(errs), errs[0])
}

func checkPids() error {
	dir, err := os.MkdirTemp(PidsHierarchy, "execd-testenv-")
	if err != nil {
		return err
	}
	return os.Remove(dir)
}

func checkVM() error {
	for _, program := range [][2]string{
		{"qemu-system-x86_64", "qemu-system-x86"}, {"mmdebstrap", "mmdebstrap"}, {"mkfs.ext4", "e2fsprogs"}, {"mkfs.xfs", "xfsprogs"},
	} {
		if _, err := exec.LookPath(program[0]); err != nil {
			return fmt.Errorf("install %s: %w", program[1], err)
		}
	}
	return nil
}

func checkGetent() error {
	_, err := os.Stat("/usr/bin/getent")
	return err
}

func checkGuest() error {
	if os.Getenv(GuestEnv) == "" {
		return errors.New("this is not a virtual machine of test/vm")
	}
	return nil
}

func checkSystemd() error {
	// The same test as sd_booted(3).
	_, err := os.Stat("/run/systemd/system")
	return err
}
