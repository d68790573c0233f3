package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// point is a file system to mount.
type point struct{ source, dir, kind, options string }

var mounts = []point{
	{"proc", "/proc", "proc", ""},
	{"sysfs", "/sys", "sysfs", ""},
	{"devpts", "/dev/pts", "devpts", "gid=5,mode=620,ptmxmode=666"},
	{"tmpfs", "/dev/shm", "tmpfs", "mode=1777"},
	{"tmpfs", "/tmp", "tmpfs", "mode=1777"},
	{"tmpfs", "/run", "tmpfs", "mode=755"},
}

func mount(p point) error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return fmt.Errorf("cannot mount %s: %w", p.dir, err)
	}
	// Some of Debian's kernels mount devtmpfs themselves.
	if err := unix.Mount(p.source, p.dir, p.kind, 0, p.options); err != nil && !errors.Is(err, unix.EBUSY) {
		return fmt.Errorf("cannot mount %s: %w", p.dir, err)
	}
	return nil
}

const cgroupDir = "/sys/fs/cgroup"

// mountCgroups mounts the hierarchies as hosts without systemd have them: each
// controller of v1 by itself, and none of v2 enabled below the top.
func mountCgroups(version string) error {
	if version == "v2" {
		return mount(point{"cgroup2", cgroupDir, "cgroup2", "nsdelegate"})
	}
	text, err := os.ReadFile("/proc/cgroups")
	if err != nil {
		return fmt.Errorf("cannot tell which controllers there are: %w", err)
	}
	points := []point{{"cgroup", cgroupDir, "tmpfs", "mode=755"}}
	for line := range strings.Lines(string(text)) {
		// name, hierarchy, number of groups, enabled
		if f := strings.Fields(line); len(f) == 4 && f[3] == "1" {
			points = append(points, point{"cgroup", cgroupDir + "/" + f[0], "cgroup", f[0]})
		}
	}
	if version == "hybrid" {
		points = append(points, point{"cgroup2", cgroupDir + "/unified", "cgroup2", "nsdelegate"})
	}
	for _, p := range points {
		if err := mount(p); err != nil {
			return err
		}
	}
	return nil
}

// hierarchies lists the directories where control groups are mounted.
func hierarchies() ([]string, error) {
	text, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, fmt.Errorf("cannot find control groups: %w", err)
	}
	var dirs []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 2 && (f[2] == "cgroup" || f[2] == "cgroup2") {
			dirs = append(dirs, f[1])
		}
	}
	return dirs, nil
}

// loopbackUp makes 127.0.0.1 work.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("cannot start the loopback interface: %w", err)
	}
	defer unix.Close(fd)
	r, err := unix.NewIfreq("lo")
	if err == nil {
		r.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
		err = unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, r)
	}
	if err != nil {
		return fmt.Errorf("cannot start the loopback interface: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
