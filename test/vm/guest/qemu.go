package guest

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const (
	qemuProgram = "qemu-system-x86_64"
	qemuPackage = "qemu-system-x86"
)

// qemuArgs returns the command line of QEMU, without its name. The console goes to
// descriptor 3, the frames to standard output.
func (m *Machine) qemuArgs(kernel, initramfs string, kvm bool) []string {
	// As an emulated CPU of AMD the guest would see no threads of a core. Emulated
	// page tables of five levels are slower than of four, for nothing.
	accel, cpu := "tcg,thread=multi", "max,la57=off,vendor=GenuineIntel"
	if kvm {
		accel, cpu = "kvm", "max"
	}
	args := []string{
		"-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
		"-machine", "q35", "-accel", accel, "-cpu", cpu,
		"-m", fmt.Sprintf("%dM", m.Memory),
		"-smp", fmt.Sprintf("%d,sockets=%d,cores=%d,threads=%d", m.cpus(), m.Sockets, m.Cores, m.Threads),
	}
	each, cpus := m.Memory/m.Nodes, m.cpus()/m.Nodes
	for n := range m.Nodes {
		size := each
		if n == 0 {
			size += m.Memory % m.Nodes
		}
		args = append(args,
			"-object", fmt.Sprintf("memory-backend-ram,id=m%d,size=%dM", n, size),
			"-numa", fmt.Sprintf("node,nodeid=%d,memdev=m%d,cpus=%d-%d", n, n, n*cpus, n*cpus+cpus-1))
	}
	if m.Disk != "" {
		args = append(args, "-drive", "if=none,id=disk,format=raw,file="+m.Disk, "-device", "nvme,drive=disk,serial=disk")
	}
	return append(args,
		"-chardev", "file,id=console,path=/dev/fd/3", "-serial", "chardev:console", "-serial", "stdio",
		"-kernel", kernel, "-initrd", initramfs, "-append", strings.Join(m.kernelArgs(), " "))
}

func (m *Machine) kernelArgs() []string {
	args := []string{
		"console=ttyS0", "quiet", "loglevel=4",
		"panic=-1", "oops=panic", // with -no-reboot the end, at once
		// An emulator of several processors hangs at times; see boot in test/vm.
		"softlockup_panic=1", "watchdog_thresh=30",
		"psi=1",                                           // Debian's kernel counts pressure only when asked
		"mitigations=off", "nokaslr", "raid=noautodetect", // faster
		"no_timer_check", "tsc=reliable", // the clocks of a busy host look broken
		"rdinit=/init",
	}
	if m.Systemd {
		args = append(args, "systemd.getty_auto=0", "systemd.crash_reboot=1", "systemd.crash_shell=0")
		switch m.Cgroup {
		case V2:
			args = append(args, "systemd.unified_cgroup_hierarchy=1")
		case V1:
			args = append(args, "systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=1")
		case Hybrid:
			args = append(args, "systemd.unified_cgroup_hierarchy=0", "systemd.legacy_systemd_cgroup_controller=0")
		}
	}
	return args
}

// canUseKVM reports whether the CPU's virtualisation can be used. The device alone
// says little: in a container of a virtual machine it can be there, and opened,
// and still no machine can be made.
func canUseKVM() bool {
	f, err := os.OpenFile("/dev/kvm", os.O_RDWR, 0)
	if err != nil {
		return false
	}
	f.Close()
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(info)) {
		if strings.HasPrefix(line, "flags") {
			return strings.Contains(line, " vmx ") || strings.Contains(line, " svm ")
		}
	}
	return false
}

// need finds a program of a Debian package.
func need(program, pkg string) (string, error) {
	path, err := exec.LookPath(program)
	if err != nil {
		return "", fmt.Errorf("cannot find %s: install the Debian package %s", program, pkg)
	}
	return path, nil
}

// Check reports which program or device the host lacks for a guest, with the name of the package.
func Check(systemd bool) error {
	needs := [][2]string{{qemuProgram, qemuPackage}, {"apt-get", "apt"}, {"dpkg-deb", "dpkg"}, {"go", "golang"}}
	if systemd {
		needs = append(needs, [2]string{"mmdebstrap", "mmdebstrap"})
	}
	for _, n := range needs {
		if _, err := need(n[0], n[1]); err != nil {
			return err
		}
	}
	return nil
}
