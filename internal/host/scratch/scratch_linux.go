// Package scratch limits the size of directories of jobs: by a project quota of the file system that
// they are in, or by a file system of their own, in a file or in memory.
//
// It does not know jobs. All of it needs root's rights in the initial user namespace. Its functions
// are safe for concurrent use, also by several processes.
//
// Other projects should not import this package: it may change at any time.
package scratch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Method is a way to limit the size of a directory.
type Method string

// The methods.
const (
	None  Method = ""      // no limit
	Quota Method = "quota" // a project quota of the file system (XFS, ext4)
	Image Method = "image" // an ext4 file system in a file next to the directory
	Tmpfs Method = "tmpfs" // a file system in memory
)

// Least is the smallest limit, in bytes: smaller ones count as this one. Quotas are counted in
// blocks, and a file system needs room for itself.
const Least = 1 << 20

// Choose returns the method for directories in dir: wanted, or if that is None, Quota or else Image.
// The error says why there is none.
func Choose(dir string, wanted Method) (Method, error) {
	if os.Geteuid() != 0 {
		return None, errors.New("only root can limit it")
	}
	var errs []string
	for _, m := range []struct {
		method Method
		check  func(dir string) error
	}{{Quota, checkQuota}, {Image, checkImage}, {Tmpfs, checkMount}} {
		if wanted != m.method && (wanted != None || m.method == Tmpfs) {
			continue
		}
		err := m.check(dir)
		if err == nil {
			return m.method, nil
		}
		errs = append(errs, fmt.Sprintf("%s: %v", m.method, err))
	}
	if len(errs) == 0 {
		return None, fmt.Errorf("%q is not a method, expected quota, image or tmpfs", wanted)
	}
	return None, errors.New(strings.Join(errs, "; "))
}

// checkMount returns why this process cannot mount file systems.
func checkMount(string) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return os.NewSyscallError("capget", err)
	}
	if data[0].Effective&(1<<unix.CAP_SYS_ADMIN) == 0 {
		return errors.New("mounting a file system needs CAP_SYS_ADMIN")
	}
	return nil
}

// checkImage returns why directories in dir cannot have a file system in a file.
func checkImage(dir string) error {
	if err := checkMount(dir); err != nil {
		return err
	}
	if _, err := findMkfs(); err != nil {
		return err
	}
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("no loop devices: %w", err)
	}
	_ = control.Close()
	var info unix.Statfs_t
	if err := unix.Statfs(dir, &info); err != nil {
		return &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	switch info.Type {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return fmt.Errorf("%s is in memory", dir)
	case unix.NFS_SUPER_MAGIC:
		return fmt.Errorf("%s is on another host (NFS)", dir)
	}
	return nil
}

// mkfsPaths are where mkfs.ext4 can be: a daemon may lack /sbin in its PATH.
var mkfsPaths = []string{"/usr/sbin/mkfs.ext4", "/sbin/mkfs.ext4", "/usr/bin/mkfs.ext4"}

// findMkfs returns the path of mkfs.ext4.
func findMkfs() (string, error) {
	for _, path := range mkfsPaths {
		if found, err := exec.LookPath(path); err == nil {
			return found, nil
		}
	}
	return "", errors.New("mkfs.ext4 is missing; install e2fsprogs")
}
