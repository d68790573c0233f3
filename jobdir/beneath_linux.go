package jobdir

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// openBeneath opens the directory name in dir as an O_PATH descriptor. It refuses a link and a
// mount point (EXDEV). It sends no request to a file system in user space (FUSE), which might not
// answer.
func openBeneath(dir int, name string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	how := unix.OpenHow{
		Flags:   flags,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	var fd int
	err := retry(func() (err error) {
		fd, err = unix.Openat2(dir, name, &how)
		return err
	})
	// openat2(2) exists since Linux 5.6. Some system call filters refuse unknown calls with EPERM.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openSameMount(dir, name)
	}
	return fd, err
}

// openSameMount does what openBeneath does, on older kernels.
func openSameMount(dir int, name string) (int, error) {
	if !plainName(name) {
		return -1, unix.EINVAL
	}
	fd, err := openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	there, err := mountID(dir)
	if err == nil {
		var here string
		if here, err = mountID(fd); err == nil && here != there {
			err = unix.EXDEV
		}
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// mountID returns the ID of the mount that a descriptor belongs to (proc(5), Linux 3.15). The
// device number is not sufficient: a bind mount has the device number of its source.
func mountID(fd int) (string, error) {
	info, err := openat(unix.AT_FDCWD, "/proc/self/fdinfo/"+itoa(fd), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", err
	}
	defer unix.Close(info)
	b, err := readAll(info, 200, mostFile)
	if err != nil {
		return "", err
	}
	for line := range strings.SplitSeq(string(b), "\n") {
		if id, ok := strings.CutPrefix(line, "mnt_id:"); ok {
			return strings.TrimSpace(id), nil
		}
	}
	return "", errors.New("no mnt_id in /proc/self/fdinfo")
}
