package scratch

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The project IDs that this package gives to directories. A project ID belongs to a file, like its
// group ID; files have 0 unless someone has set another one. Container programs use small ones.
const (
	FirstProject = 1 << 30
	numProjects  = 1 << 16
)

// projectFiles name the projects of the administrator, whose IDs are never used: projid(5) and
// projects(5), with lines of name:id and id:directory.
var projectFiles = []struct {
	path  string
	field int
}{{"/etc/projid", 1}, {"/etc/projects", 0}}

// The system calls and structures of quotactl(2) and ioctl_xfs_fsgetxattr(2), which x/sys lacks.
const (
	fsGetXattr     = 0x801c581f // FS_IOC_FSGETXATTR
	fsSetXattr     = 0x401c5820 // FS_IOC_FSSETXATTR
	projectInherit = 0x200      // FS_XFLAG_PROJINHERIT: what is made in the directory gets its ID

	getQuota    = 0x800007 // Q_GETQUOTA
	setQuota    = 0x800008 // Q_SETQUOTA
	getState    = 0x5805   // Q_XGETQSTAT
	projectType = 2        // PRJQUOTA
	enforced    = 1 << 5   // FS_QUOTA_PDQ_ENFD
	limitBlocks = 1        // QIF_BLIMITS
	quotaBlock  = 1024     // bytes, in which limits are counted
)

type fsxattr struct {
	flags, extsize, extents, project, cowextsize uint32
	_                                            [8]byte
}

type dqblk struct {
	blocksHard, blocksSoft, space, inodesHard, inodesSoft, inodes, blocksTime, inodesTime uint64
	valid                                                                                 uint32
	_                                                                                     uint32
}

// quotaState is struct fs_quota_stat; only the flags count.
type quotaState struct {
	_     uint16
	flags uint16
	_     [252]byte
}

// checkQuota returns why the file system of dir does not enforce project quotas.
func checkQuota(dir string) error {
	switch runtime.GOARCH {
	case "amd64", "arm64":
	default:
		return fmt.Errorf("jobs on %s could change their project ID", runtime.GOARCH) // see package spawn, DenyAttributes
	}
	action := uint32(unix.SECCOMP_RET_ERRNO)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	if errno != 0 {
		return fmt.Errorf("jobs could change their project ID: the kernel has no filters of system calls (seccomp): %w", errno)
	}
	fd, err := unix.Open(dir, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return &os.PathError{Op: "open", Path: dir, Err: err}
	}
	defer unix.Close(fd)
	var state quotaState
	if err := quotactl(fd, getState, 0, unsafe.Pointer(&state)); err != nil || state.flags&enforced == 0 {
		return fmt.Errorf("the file system of %s does not enforce project quotas; mount it with the option prjquota", dir)
	}
	if _, err := attributes(fd); err != nil {
		return fmt.Errorf("cannot read the project ID of %s: %w", dir, err)
	}
	if mayReadQuotas.Load() {
		return nil
	}
	if _, err := projectUsage(fd, FirstProject); err != nil {
		return fmt.Errorf("cannot read project quotas: %w", err)
	}
	mayReadQuotas.Store(true)
	return nil
}

// mayReadQuotas is set when this process has read a project quota. The right to do so does not change.
// Reading the quota of an unused ID makes ext4 enter the ID in its file of quotas.
var mayReadQuotas atomic.Bool

// quotactl calls quotactl_fd(2), or quotactl(2) before Linux 5.14, for the file system of fd.
func quotactl(fd, command int, id uint32, data unsafe.Pointer) error {
	c := uintptr(uint32(command)<<8 | projectType)
	_, _, errno := unix.Syscall6(unix.SYS_QUOTACTL_FD, uintptr(fd), c, uintptr(id), uintptr(data), 0, 0)
	if errno == unix.ENOSYS {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		device, err := unix.BytePtrFromString(fmt.Sprintf("/dev/block/%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev)))
		if err != nil {
			return err
		}
		_, _, errno = unix.Syscall6(unix.SYS_QUOTACTL, c, uintptr(unsafe.Pointer(device)), uintptr(id), uintptr(data), 0, 0)
	}
	if errno != 0 {
		return os.NewSyscallError("quotactl", errno)
	}
	return nil
}

func attributes(fd int) (a fsxattr, err error) {
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsGetXattr, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return a, os.NewSyscallError("ioctl FS_IOC_FSGETXATTR", errno)
	}
	return a, nil
}

// projectUsage returns the number of files that have a project ID.
func projectUsage(fd int, id uint32) (inodes uint64, err error) {
	var q dqblk
	err = quotactl(fd, getQuota, id, unsafe.Pointer(&q))
	if errors.Is(err, unix.ENOENT) { // XFS, for an ID that was never used
		return 0, nil
	}
	return q.inodes, err
}

// next is where Claim begins to look for a free ID: not always at the first one, so that those of
// moved files (see Claim) are not tried again and again.
var next = struct {
	sync.Mutex
	at uint32
}{at: rand.Uint32N(numProjects)}

// mostTries limits how many IDs Claim tries.
const mostTries = 1000

// ErrNoProject is returned if no free project ID was found: users can give the IDs to their files.
var ErrNoProject = errors.New("no free project ID")

// Claim gives an empty directory, open as fd, a project ID that no other file of its file system has,
// and no project of the administrator. What is made in the directory gets the same ID.
//
// The file system itself is the record of the IDs that are in use: an ID is free if no file has it.
// So an ID is used again only when the directory and everything that was ever moved out of it are
// gone, also after a crash, and several daemons can share a file system. Two that claim the same ID
// at the same time both see two files with it, and try other ones.
func Claim(fd int) (id uint32, err error) {
	taken, err := administrators()
	if err != nil {
		return 0, err
	}
	for range mostTries {
		next.Lock()
		next.at = (next.at + 1) % numProjects
		id = FirstProject + next.at
		next.Unlock()
		if taken[id] {
			continue
		}
		switch n, err := projectUsage(fd, id); {
		case err != nil:
			return 0, err
		case n > 0:
			continue
		}
		if err := Join(fd, id); err != nil {
			return 0, err
		}
		n, err := projectUsage(fd, id)
		if n == 1 && err == nil {
			return id, nil
		}
		if err := errors.Join(err, setProject(fd, 0, false)); err != nil {
			return 0, err
		}
	}
	return 0, fmt.Errorf("%w: tried %d from %d", ErrNoProject, mostTries, FirstProject)
}

// Join gives a directory the project ID of another one.
func Join(fd int, id uint32) error { return setProject(fd, id, true) }

func setProject(fd int, id uint32, inherit bool) error {
	a, err := attributes(fd)
	if err != nil {
		return err
	}
	a.project = id
	a.flags &^= projectInherit
	if inherit {
		a.flags |= projectInherit
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), fsSetXattr, uintptr(unsafe.Pointer(&a)))
	if errno != 0 {
		return os.NewSyscallError("ioctl FS_IOC_FSSETXATTR", errno)
	}
	return nil
}

// Limit limits the space, in bytes, of all files with the project ID in the file system of fd. It
// replaces a limit that an earlier directory with this ID has left.
func Limit(fd int, id uint32, bytes uint64) error {
	q := dqblk{blocksHard: max(bytes, Least) / quotaBlock, valid: limitBlocks}
	return quotactl(fd, setQuota, id, unsafe.Pointer(&q))
}

// Release removes the limit of a project ID before its directory, open as fd, is removed. It does
// nothing if the directory has another ID: then the ID may be that of another job.
func Release(fd int, id uint32) error {
	a, err := attributes(fd)
	if err != nil || a.project != id {
		return err
	}
	q := dqblk{valid: limitBlocks}
	return quotactl(fd, setQuota, id, unsafe.Pointer(&q))
}

// administrators returns the project IDs that the administrator uses.
func administrators() (map[uint32]bool, error) {
	ids := map[uint32]bool{}
	for _, f := range projectFiles {
		file, err := os.Open(f.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		lines := bufio.NewScanner(file)
		for lines.Scan() {
			line, _, _ := strings.Cut(lines.Text(), "#")
			fields := strings.Split(line, ":")
			if len(fields) <= f.field {
				continue
			}
			if id, err := strconv.ParseUint(strings.TrimSpace(fields[f.field]), 10, 32); err == nil {
				ids[uint32(id)] = true
			}
		}
		err = errors.Join(lines.Err(), file.Close())
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", f.path, err)
		}
	}
	return ids, nil
}
