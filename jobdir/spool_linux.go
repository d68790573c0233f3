package jobdir

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
)

// Directories and files of a spool area, with the original's names. In the original the master
// keeps jobseqnum.
const (
	dirActiveJobs = "active_jobs"
	dirJobScripts = "job_scripts"
	fileSequence  = "jobseqnum"
)

// Spool is an open spool area: the files of all jobs of a host.
//
//		active_jobs/<job>.<task>/   a Dir, mode 0755
//	   job_scripts/<job>           a script, mode 0500, which the owner of the job may execute
//		jobseqnum                   the last job number that was given out
//
// The area belongs to the user who runs the daemon. Several processes may use it at the same time.
type Spool struct {
	path                  string
	dir                   *Dir
	root, active, scripts int    // root is the descriptor of dir
	jobs                  shared // syncs of active
	// fault is called before each step that changes something. Tests return an error or kill the
	// process there.
	fault func(step string) error
}

// OpenSpool opens a spool area, and creates it if it is missing. It refuses an area whose owner is
// not trusted or to which others may write, and an area below a directory that others could
// replace. The path must be absolute, because jobs get it in their environment.
//
// An ordinary user's area is closed to others. Root's area is open, because users must reach their
// scripts.
func OpenSpool(path string) (*Spool, error) {
	mode := uint32(modeDir)
	if unix.Geteuid() != 0 {
		mode = 0o700
	}
	s := &Spool{path: strings.TrimRight(path, "/"), root: -1, active: -1, scripts: -1}
	fd, err := walker{create: mode}.open(path)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	if s.root, err = reopen(fd); err == nil {
		s.dir = &Dir{fd: s.root, path: s.path}
		err = checkDir(s.root, nil)
	}
	if err != nil {
		s.Close()
		return nil, &Error{"use spool directory", path, err}
	}
	for name, fd := range map[string]*int{dirActiveJobs: &s.active, dirJobScripts: &s.scripts} {
		if *fd, err = s.subdirectory(name); err != nil {
			s.Close()
			return nil, &Error{"use spool directory", s.path + "/" + name, err}
		}
	}
	if unix.Geteuid() == 0 {
		err = s.keepOthersOut()
	}
	if err != nil {
		s.Close()
		return nil, &Error{"use spool directory", path, err}
	}
	spreadOut(s.active)
	return s, nil
}

// keepOthersOut removes the right to read, and so to lock, the directories of the spool area from
// users other than the owner. An earlier version or an administrator may have created them with
// that right.
func (s *Spool) keepOthersOut() error {
	for _, fd := range []int{s.root, s.active, s.scripts} {
		var st unix.Stat_t
		err := unix.Fstat(fd, &st)
		if err == nil && st.Mode&0o044 != 0 {
			err = unix.Fchmod(fd, st.Mode&0o7777&^0o044)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// spreadOut asks an ext4 file system without a journal to spread the directories that are created
// in this one over the disk (chattr(1), T), since jobs are independent of each other. Otherwise it
// places new files near those just removed. Such a file system does not reuse their inodes for a
// minute, and checks all of them for each new file. This is a hint: if the file system ignores it,
// nothing is lost.
func spreadOut(fd int) {
	if !withoutJournal(fd) {
		return
	}
	const topOfHierarchy = 0x20000 // FS_TOPDIR_FL
	flags, err := unix.IoctlGetInt(fd, unix.FS_IOC_GETFLAGS)
	if err == nil && flags&topOfHierarchy == 0 {
		_ = unix.IoctlSetPointerInt(fd, unix.FS_IOC_SETFLAGS, flags|topOfHierarchy)
	}
}

// withoutJournal reports whether a file is on an ext4 file system that certainly has no journal.
func withoutJournal(fd int) bool {
	var fs unix.Statfs_t
	var st unix.Stat_t
	if retry(func() error { return unix.Fstatfs(fd, &fs) }) != nil || fs.Type != unix.EXT4_SUPER_MAGIC || unix.Fstat(fd, &st) != nil {
		return false
	}
	link := make([]byte, unix.PathMax)
	n, err := unix.Readlink("/sys/dev/block/"+itoa(int(unix.Major(st.Dev)))+":"+itoa(int(unix.Minor(st.Dev))), link)
	if err != nil {
		return false
	}
	name := string(link[:n])
	name = name[strings.LastIndexByte(name, '/')+1:]
	// A journal inside the file system itself always has inode number 8.
	return unix.Access("/proc/fs/ext4/"+name, unix.F_OK) == nil && errors.Is(unix.Access("/proc/fs/jbd2/"+name+"-8", unix.F_OK), unix.ENOENT)
}

func (s *Spool) subdirectory(name string) (int, error) {
	err := unix.Mkdirat(s.root, name, modeDir)
	made := err == nil
	if err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	fd, err := openat(s.root, name, openDirFlags, 0)
	if err != nil {
		return -1, err
	}
	if made {
		err = unix.Fchmod(fd, modeDir) // independent of the umask
	}
	if err == nil {
		err = checkDir(fd, nil)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// Close closes the descriptors of the area.
func (s *Spool) Close() {
	if s.dir != nil {
		_ = s.dir.Close()
		s.root = -1
	}
	for _, fd := range []*int{&s.active, &s.scripts} {
		if *fd >= 0 {
			unix.Close(*fd)
			*fd = -1
		}
	}
}

// Dir returns the directory of the area itself, for files of the daemon. Closing the Spool closes
// it; do not close it separately.
func (s *Spool) Dir() *Dir { return s.dir }

// Path returns the absolute path of the area.
func (s *Spool) Path() string { return s.path }

// JobPath returns the absolute path of a job's directory, SGE_JOB_SPOOL_DIR, whether it exists or
// not.
func (s *Spool) JobPath(id job.ID) string { return s.path + "/" + dirActiveJobs + "/" + DirName(id) }

// ScriptPath returns the absolute path of a job's script.
func (s *Spool) ScriptPath(job int) string { return s.path + "/" + dirJobScripts + "/" + itoa(job) }

// Open opens the directory of a job.
func (s *Spool) Open(id job.ID) (*Dir, error) {
	parent, name, err := s.parent(id)
	if err != nil {
		return nil, err
	}
	defer s.release(parent)
	return openDirAt(parent, name, s.JobPath(id), nil)
}

// parent returns the descriptor of the directory that contains the job's directory, and the name in
// it.
func (s *Spool) parent(id job.ID) (fd int, name string, err error) {
	if id.Job < 1 || id.Task < 0 {
		return -1, "", &Error{"use the directory of job", id.String(), errors.New("the job number must be at least 1, and the task number at least 0")}
	}
	task := itoa(id.Job) + "." + itoa(id.TaskDir())
	if id.PETask == "" {
		return s.active, task, nil
	}
	if !plainName(id.PETask) || !strings.Contains(id.PETask, ".") {
		return -1, "", &Error{"use the directory of job", id.String(), errors.New(quote(id.PETask) + " is not the ID of a task")}
	}
	fd, err = openat(s.active, task, openDirFlags, 0)
	if err != nil {
		return -1, "", &Error{"open directory", s.path + "/" + dirActiveJobs + "/" + task, err}
	}
	return fd, id.PETask, nil
}

func (s *Spool) release(fd int) {
	if fd != s.active {
		unix.Close(fd)
	}
}

// Jobs lists the jobs that have a directory, sorted by number. It omits tasks of parallel jobs (see
// PETasks), directories kept from previous runs, and unknown names.
func (s *Spool) Jobs() ([]job.ID, error) {
	names, err := list(s.active)
	if err != nil {
		return nil, &Error{"read directory", s.path + "/" + dirActiveJobs, err}
	}
	var ids []job.ID
	for _, n := range names {
		j, t, _ := strings.Cut(n, ".")
		id := job.ID{Job: positive(j), Task: positive(t)}
		if id.Job > 0 && id.Task > 0 && DirName(id) == n {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b job.ID) int {
		if a.Job != b.Job {
			return a.Job - b.Job
		}
		return a.Task - b.Task
	})
	return ids, nil
}

// PETasks lists the tasks of a parallel job that have a directory in d.
func (d *Dir) PETasks() ([]string, error) {
	var names []string
	err := d.Use(func(fd int) (err error) {
		names, err = list(fd)
		return err
	})
	if err != nil {
		return nil, &Error{"read directory", d.path, err}
	}
	names = slices.DeleteFunc(names, func(n string) bool {
		number, host, _ := strings.Cut(n, ".")
		if positive(number) == 0 || host == "" {
			return true
		}
		st, err := d.stat(n)
		return err != nil || !isDir(st.Mode)
	})
	slices.Sort(names)
	return names, nil
}

// positive parses a number of at least 1; it returns 0 for any other text.
func positive(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || itoa(n) != s {
		return 0
	}
	return n
}

// list returns the names in a directory. It opens the directory again, to have its own read
// position.
func list(fd int) ([]string, error) {
	fd, err := reopen(fd)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	var names []string
	buf := make([]byte, 8<<10)
	for {
		n, err := readDirent(fd, buf)
		if err != nil || n == 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buf[:n], -1, names)
	}
}

func readDirent(fd int, buf []byte) (n int, err error) {
	err = retry(func() error {
		n, err = unix.ReadDirent(fd, buf)
		return err
	})
	return n, err
}

// step marks a place at which a test may interrupt.
func (s *Spool) step(name string) error {
	failpoint.AtOf("jobdir", name)
	if s.fault == nil {
		return nil
	}
	return s.fault(name)
}
