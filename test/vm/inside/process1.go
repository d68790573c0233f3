package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/vm/plan"
)

const (
	hostname = "guest"
	systemd  = "/lib/systemd/systemd"
)

// beProcess1 runs as process 1 of a guest. It returns only if there is a problem.
func beProcess1(p *plan.Plan) error {
	// First, since without it there is no line by which to tell the host.
	if err := mount(point{"dev", "/dev", "devtmpfs", "mode=755"}); err != nil {
		return err
	}
	// The kernel lets everybody write into the root of an initramfs that is a tmpfs. No host does.
	if err := os.Chmod("/", 0o755); err != nil {
		return err
	}
	if p.Systemd {
		return becomeSystemd(p)
	}
	for _, m := range mounts {
		if err := mount(m); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"fd": "", "stdin": "/0", "stdout": "/1", "stderr": "/2"} {
		if err := os.Symlink("/proc/self/fd"+target, "/dev/"+name); err != nil {
			return fmt.Errorf("cannot make the usual links: %w", err)
		}
	}
	err := errors.Join(
		unix.Sethostname([]byte(hostname)),
		loopbackUp(),
		addUsers(),
		loadModules(p.Modules),
		addSwap(p.Swap),
		mountCgroups(p.Cgroup),
	)
	if err != nil {
		return err
	}
	// A session of its own, and another process: process 1 has to reap whatever
	// loses its parent, and would take away the children of an exec.Cmd.
	steps := exec.Command(plan.Inside, "steps")
	steps.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	steps.Stdout, steps.Stderr = os.Stdout, os.Stderr
	if err := steps.Start(); err != nil {
		return fmt.Errorf("cannot start the steps: %w", err)
	}
	for {
		pid, err := syscall.Wait4(-1, nil, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("cannot wait for processes: %w", err)
		case pid == steps.Process.Pid:
			return errors.New("what runs the steps has ended")
		}
	}
}

// serviceUnit runs the steps. Were it of the type oneshot, the system would be
// "starting" and never "running" as long as the steps run.
const serviceUnit = `[Unit]
Description=Steps of test/vm
After=multi-user.target

[Service]
Type=exec
ExecStart=` + plan.Inside + ` steps
StandardOutput=tty
StandardError=tty
TTYPath=` + plan.Console + `
TasksMax=infinity
# Should it be killed nobody would end the guest.
ExecStopPost=/bin/systemctl --force --force reboot
`

// masked are units that have nothing to do in a guest and cost seconds, or would
// empty folders in which files for the steps are.
var masked = strings.Fields(`
	dev-hugepages.mount dev-mqueue.mount sys-kernel-config.mount
	sys-kernel-debug.mount sys-kernel-tracing.mount getty.target ldconfig.service modprobe@.service
	proc-sys-fs-binfmt_misc.automount systemd-ask-password-console.path
	systemd-ask-password-wall.path systemd-binfmt.service
	systemd-boot-system-token.service systemd-firstboot.service
	systemd-hwdb-update.service systemd-journal-catalog-update.service
	systemd-machine-id-commit.service systemd-modules-load.service
	systemd-pstore.service systemd-random-seed.service
	systemd-remount-fs.service systemd-sysusers.service
	systemd-tmpfiles-clean.timer systemd-update-done.service
	systemd-update-utmp-runlevel.service systemd-update-utmp.service
	apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer
	e2scrub_all.timer e2scrub_reap.service fstrim.timer`)

// becomeSystemd prepares a Debian that was never booted, and executes its systemd.
func becomeSystemd(p *plan.Plan) error {
	const units = "/etc/systemd/system/"
	files := map[string]string{
		units + "execd-vm.service":                   serviceUnit,
		"/etc/hostname":                              hostname + "\n",
		"/etc/hosts":                                 "127.0.0.1 localhost " + hostname + "\n",
		"/etc/machine-id":                            "65786563642d746573742d766d2d3031\n",
		"/etc/tmpfiles.d/tmp.conf":                   "q /tmp 1777 root root -\nq /var/tmp 1777 root root -\n",
		"/etc/systemd/journald.conf.d/volatile.conf": "[Journal]\nStorage=volatile\n",
	}
	links := map[string]string{
		units + "default.target":                           "/lib/systemd/system/multi-user.target",
		units + "multi-user.target.wants/execd-vm.service": "../execd-vm.service",
	}
	for _, unit := range masked {
		links[units+unit] = "/dev/null"
	}
	if err := errors.Join(writeAll(files), linkAll(links), addUsers(), loadModules(p.Modules)); err != nil {
		return err
	}
	// Swap needs a device, and so devtmpfs, but nothing else.
	if err := addSwap(p.Swap); err != nil {
		return err
	}
	return fmt.Errorf("cannot execute %s: %w", systemd, unix.Exec(systemd, []string{systemd}, []string{"PATH=" + systemPath}))
}
