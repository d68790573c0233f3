package scratch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	loopControl = "/dev/loop-control"
	imageName   = "image"
	filesName   = "files"
)

// mkfsPatience limits the run of mkfs.ext4, which writes little even for large images.
const mkfsPatience = time.Minute

// Files returns where Mount mounts the file system of a directory.
func Files(dir string) string { return filepath.Join(dir, filesName) }

// Mount makes a file system of this size, in bytes, in an empty directory that only root can enter,
// and mounts it at Files(dir): an image, whose space is allocated at once, so that a job cannot run
// out of it because others have filled the disk, or a tmpfs. After an error, call Unmount and remove
// the directory.
func Mount(method Method, dir string, bytes uint64) error {
	bytes = max(bytes, Least)
	at := Files(dir)
	if err := os.Mkdir(at, 0o700); err != nil {
		return err
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV
	if method == Tmpfs {
		err := unix.Mount("execd", at, "tmpfs", flags, "mode=0700,size="+strconv.FormatUint(bytes, 10))
		return os.NewSyscallError("mount tmpfs", err)
	}
	image := filepath.Join(dir, imageName)
	file, err := makeImage(image, bytes)
	if err != nil {
		return err
	}
	defer file.Close()
	loop, err := attach(file)
	if err != nil {
		return fmt.Errorf("cannot attach %s to a loop device: %w", image, err)
	}
	defer loop.Close() // the device is free when neither this nor a mount uses it
	if err := unix.Mount(loop.Name(), at, "ext4", flags, ""); err != nil {
		return os.NewSyscallError("mount "+loop.Name(), err)
	}
	// It belongs to root, and is for fsck(8), which does not run here.
	return os.Remove(filepath.Join(at, "lost+found"))
}

// makeImage makes a file with an ext4 file system.
func makeImage(path string, bytes uint64) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Fallocate(int(file.Fd()), 0, 0, int64(bytes)); err != nil {
		_ = file.Close()
		return nil, &os.PathError{Op: "allocate " + strconv.FormatUint(bytes, 10) + " bytes for", Path: path, Err: err}
	}
	if err := mkfs(path); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// mkfs makes a file system that only has to last as long as a job: it needs no journal, and nothing
// is reserved for root. Discarding would give the allocated space back.
func mkfs(path string) error {
	program, err := findMkfs()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), mkfsPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-m", "0", "-O", "^has_journal",
		"-E", "nodiscard,lazy_itable_init=1", path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// mostDevices limits how often attach looks for a free device: other processes look, too.
const mostDevices = 100

// attach attaches a file to a free loop device. The device is detached as soon as nothing uses it.
func attach(file *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range mostDevices {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("ioctl LOOP_CTL_GET_FREE", err)
		}
		device, err := os.OpenFile("/dev/loop"+strconv.Itoa(n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = configure(device, file)
		if err == nil {
			return device, nil
		}
		_ = device.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, err
		}
	}
	return nil, unix.EBUSY
}

// configure attaches a file to a loop device.
func configure(device, file *os.File) error {
	info := unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}
	copy(info.File_name[:len(info.File_name)-1], file.Name())
	err := unix.IoctlLoopConfigure(int(device.Fd()), &unix.LoopConfig{Fd: uint32(file.Fd()), Info: info})
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTTY) { // before Linux 5.8
		if err = unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_FD, int(file.Fd())); err == nil {
			err = unix.IoctlLoopSetStatus64(int(device.Fd()), &info)
		}
	}
	return os.NewSyscallError("ioctl LOOP_CONFIGURE", err)
}

// Unmount unmounts what is mounted at a path, which only root can have chosen. It is no error if
// nothing is. Processes that still use it keep the file system until they end.
func Unmount(path string) error {
	err := unix.Unmount(path, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	if err == nil || errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) {
		return nil
	}
	return &os.PathError{Op: "unmount", Path: path, Err: err}
}
