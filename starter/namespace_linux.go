package starter

import (
	"errors"
	pathpkg "path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/process"
	"github.com/execd-project/execd/quantity"
)

// privatePlaces are the directories of which a job with PrivateTmp has its own. name is that of the
// directory behind it; sharedMemory has none.
var privatePlaces = [...]struct{ path, name string }{
	{"/tmp", "tmp"}, {"/var/tmp", "var_tmp"}, {sharedMemory, ""},
}

const sharedMemory = "/dev/shm"

// privateTmpVariable tells procedures the path of the directory that contains the directories behind
// the job's own /tmp (tmp) and /var/tmp (var_tmp).
const privateTmpVariable = "SGE_PRIVATE_TMP"

// namespaceRecord is a file in that directory. It has a line for each supervisor of the job: under
// which descriptor the mount namespace of the job is open in that process.
const namespaceRecord = "namespace"

// openNamespace opens the mount namespace in which the job has its own /tmp, /var/tmp and /dev/shm.
// All processes of the job's owner share it: the job, its procedures and methods, and its tasks,
// which have supervisors of their own. The namespace ends with the last process that is in it or
// has it open; nothing is mounted outside of it.
func (s *Shepherd) openNamespace() {
	if !s.d.PrivateTmp || s.failed != 0 {
		return
	}
	err := errors.New("the supervisor does not run as root")
	if s.privileged {
		err = asRoot(s.findNamespace)
	}
	if err != nil {
		s.fail(job.FailedInJobChild, "cannot give the job its own /tmp (private_tmp): "+err.Error())
	}
}

// findNamespace joins the namespace that another supervisor of the job has open, or makes it.
func (s *Shepherd) findNamespace() error {
	t, err := s.dir.PrivateTmp()
	if err != nil {
		return err
	}
	behind, err := t.Open()
	if err != nil {
		return err
	}
	defer unix.Close(behind)
	s.trusted.set(privateTmpVariable, t.Path)
	record, err := unix.Openat(behind, namespaceRecord, unix.O_RDWR|unix.O_CREAT|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return &oslite.CallError{Call: "openat", Err: err}
	}
	defer unix.Close(record) // unlocks it
	if err := retry(func() error { return unix.Flock(record, unix.LOCK_EX) }); err != nil {
		return &oslite.CallError{Call: "flock", Err: err}
	}
	fd, others := openRecorded(record)
	if fd < 0 {
		if fd, err = s.makeNamespace(t); err != nil {
			return err
		}
		s.trace("the job has its own /tmp, /var/tmp and /dev/shm; the files are in " + t.Path)
	}
	s.namespace = fd
	return writeRecord(record, fd, others)
}

// recordOf returns the line that identifies a namespace and a process that has it open.
func recordOf(pid, fd int, st *unix.Stat_t) string {
	return itoa(pid) + " " + strconv.FormatUint(process.Start(pid), 10) + " " + itoa(fd) + " " +
		strconv.FormatUint(st.Dev, 10) + " " + strconv.FormatUint(st.Ino, 10) + "\n"
}

// writeRecord adds the line of this process to those of the others.
func writeRecord(record, fd int, others string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return &oslite.CallError{Call: "fstat", Err: err}
	}
	text := others + recordOf(unix.Getpid(), fd, &st)
	if _, err := unix.Pwrite(record, []byte(text), 0); err != nil {
		return &oslite.CallError{Call: "write", Err: err}
	}
	if err := unix.Ftruncate(record, int64(len(text))); err != nil {
		return &oslite.CallError{Call: "ftruncate", Err: err}
	}
	return nil
}

// openRecorded opens the namespace of a record. alive are the lines of the processes that still have
// it open. If there is none, fd is -1.
func openRecorded(record int) (fd int, alive string) {
	fd = -1
	b, err := oslite.ReadAll(record)
	if err != nil {
		return fd, ""
	}
	for line := range strings.Lines(string(b)) {
		another := openLine(line)
		if another < 0 {
			continue
		}
		if alive += line; fd >= 0 {
			unix.Close(another)
			continue
		}
		fd = another
	}
	return fd, alive
}

// openLine opens the namespace that a line of a record names, or returns -1 if its process has
// ended. Another process with the same process ID may have any file under that descriptor, so that
// only a namespace is opened.
func openLine(line string) (fd int) {
	fields := strings.Fields(line)
	if len(fields) != 5 {
		return -1
	}
	pid, err1 := strconv.Atoi(fields[0])
	number, err2 := strconv.Atoi(fields[2])
	if err1 != nil || err2 != nil {
		return -1
	}
	path := "/proc/" + itoa(pid) + "/fd/" + itoa(number)
	if target, err := oslite.Readlink(path); err != nil || target != "mnt:["+fields[4]+"]" {
		return -1
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1
	}
	// Read after it was opened, so that it is the process of the descriptor.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || recordOf(pid, number, &st) != line {
		unix.Close(fd)
		return -1
	}
	return fd
}

// makeNamespace makes the namespace and returns a descriptor of it. Only the calling thread enters
// it, and leaves it again.
func (s *Shepherd) makeNamespace(t jobdir.Tmpdir) (fd int, err error) {
	const own = "/proc/thread-self/ns/mnt"
	host, err := unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &oslite.CallError{Call: "open " + own, Err: err}
	}
	defer unix.Close(host)
	cwd, err := unix.Open(".", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, &oslite.CallError{Call: "open", Err: err}
	}
	defer unix.Close(cwd)
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		return -1, errors.New("unshare(CLONE_NEWNS): " + err.Error() + "; the daemon needs CAP_SYS_ADMIN, which containers often lack")
	}
	if err = s.mountPrivate(t); err == nil {
		fd, err = unix.Open(own, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	back := unix.Setns(host, unix.CLONE_NEWNS)
	if back == nil {
		back = unix.Fchdir(cwd)
	}
	if err == nil && back != nil {
		unix.Close(fd)
		err = &oslite.CallError{Call: "setns", Err: back}
	}
	if err != nil {
		return -1, err
	}
	return fd, nil
}

// place is a directory of the host that a job does not see.
type place struct {
	name string // /tmp
	path string // without links
	host int    // O_PATH descriptor
	own  int    // descriptor of the directory behind it; -1 for a tmpfs
}

// kept is something in a place that the job sees nevertheless.
type kept struct {
	place  *place
	name   string // relative to the place
	fd     int    // O_PATH descriptor
	needed bool   // the job cannot run without it
}

// mountPrivate mounts the job's own directories in the namespace of the calling thread.
func (s *Shepherd) mountPrivate(t jobdir.Tmpdir) error {
	// Mounts of the host, such as those of an automounter, still appear in the job. Mounts in the
	// job do not appear on the host.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return &oslite.CallError{Call: "mount(MS_SLAVE)", Err: err}
	}
	// Only descriptors of this namespace can be mounted.
	behind, err := t.Open()
	if err != nil {
		return err
	}
	defer unix.Close(behind)
	places, err := openPlaces(behind)
	defer func() {
		for _, p := range places {
			unix.Close(p.host)
			unix.Close(p.own)
		}
	}()
	if err != nil {
		return err
	}
	list, err := s.openKept(places)
	defer func() {
		for _, k := range list {
			unix.Close(k.fd)
		}
	}()
	if err != nil {
		return err
	}
	for _, p := range places {
		if p.own < 0 {
			err = unix.Mount("tmpfs", descriptorPath(p.host), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, s.sharedMemoryOptions())
		} else {
			err = unix.Mount(descriptorPath(p.own), descriptorPath(p.host), "", unix.MS_BIND, "")
		}
		if err != nil {
			return errors.New("cannot mount " + p.path + ": " + err.Error())
		}
	}
	for _, k := range list {
		err := k.mount()
		if err == nil {
			continue
		}
		err = errors.New("cannot show " + k.place.path + "/" + k.name + " of the host to the job: " + err.Error())
		if k.needed {
			return err
		}
		// Users can cause it: with a path of their own; as the owner of a shared one, which they may
		// make where it is missing; or with a file of an earlier task in the place of it.
		s.trace(err.Error())
	}
	return nil
}

// sharedMemoryOptions returns the mount options of /dev/shm. The kernel counts its contents as
// memory of the job. The size makes a program see "no space left" rather than be killed, and is the
// only limit on a host without control groups.
func (s *Shepherd) sharedMemoryOptions() string {
	options := "mode=1777"
	w := limits.OfJob(s.d)
	if most := min(w.Vmem.Hard, w.RSS.Hard); most != quantity.Infinity && most > 0 {
		options += ",size=" + strconv.FormatUint(most, 10)
	}
	return options
}

func descriptorPath(fd int) string { return "/proc/self/fd/" + itoa(fd) }

// openPlaces opens the directories that are hidden from the job, and those behind them. It leaves
// out directories that this host does not have. If /var/tmp is a link to /tmp or to a directory in it,
// the job's own /tmp has that directory.
func openPlaces(behind int) ([]place, error) {
	var list []place
	for _, at := range privatePlaces {
		host, err := unix.Open(at.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		path, err := oslite.Readlink(descriptorPath(host))
		outer := slices.IndexFunc(list, func(p place) bool { return within(path, p.path) })
		if err == nil && outer >= 0 {
			err = makeInside(list[outer].own, path[len(list[outer].path):])
			unix.Close(host)
			if err != nil {
				return list, errors.New("cannot make " + path + " in the job's own " + list[outer].path + ": " + err.Error())
			}
			continue
		}
		if err != nil {
			unix.Close(host)
			continue
		}
		own := -1
		if at.path != sharedMemory {
			if own, err = makeOwn(behind, at.name); err != nil {
				unix.Close(host)
				return list, errors.New("cannot make the directory behind " + at.path + ": " + err.Error())
			}
		}
		list = append(list, place{at.path, path, host, own})
	}
	return list, nil
}

// makeInside makes a directory like /tmp below the directory own, under a relative path, which may be
// empty. An earlier task of the job may have put links there.
func makeInside(own int, path string) error {
	at, err := unix.Dup(own)
	for name := range strings.SplitSeq(path, "/") {
		if name == "" || err != nil {
			continue
		}
		var next int
		next, err = makeOwn(at, name)
		unix.Close(at)
		at = next
	}
	if err == nil {
		unix.Close(at)
	}
	return err
}

// makeOwn makes the directory behind a place, like any /tmp: it belongs to root, and everybody may
// create files in it. Only root can reach it from outside.
func makeOwn(behind int, name string) (int, error) {
	if err := unix.Mkdirat(behind, name, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return -1, err
	}
	fd, err := unix.Openat(behind, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		if err = unix.Fchmod(fd, 0o777|unix.S_ISVTX); err != nil {
			unix.Close(fd)
		}
	}
	return fd, err
}

// openKept opens what the job sees of the places: what the administrator shares, and what it needs
// to run: its TMPDIR, home and working directory, the spool area, and the programs and files of
// execd. What does not exist is left out. It follows no links: users could make them.
func (s *Shepherd) openKept(places []place) (list []kept, err error) {
	// A user can mount a file system at a directory of its own, whose server might not answer. Nothing
	// is looked up in another one than that of above.
	add := func(needed bool, above, last uint64, paths ...string) {
		for _, path := range paths {
			if k, ok := openIn(places, path, above, last); ok {
				k.needed = needed
				list = append(list, k)
			}
		}
	}
	// Without openat2(2) everything would be left out, also the TMPDIR.
	root, err := openat2(unix.AT_FDCWD, "/", 0)
	if err != nil {
		return nil, errors.New("openat2: " + err.Error() + "; it needs Linux 5.6")
	}
	unix.Close(root)
	const same = beneath | unix.RESOLVE_NO_XDEV
	add(false, same, beneath, strings.Split(s.d.PrivateTmpShare, ":")...)
	add(true, beneath, beneath, parent(s.dir.Path()), s.trusted.get("SGE_ROOT"), s.trusted.get("SGE_BINARY_PATH"))
	if !s.d.Command.Binary {
		add(true, beneath, beneath, parent(s.d.Command.File))
	}
	// Only root can have mounted something above the TMPDIR.
	tmpdir := s.d.Tmpdir
	if s.tmpdir != nil {
		tmpdir = s.tmpdir.Path
	}
	add(false, beneath, beneath, tmpdir)
	// With the rights of the user: root could reach directories that the user cannot.
	err = s.asOwner(func() { add(false, same, same, s.d.Cwd, s.owner.Home) })
	if err != nil {
		s.trace(err.Error())
	}
	return outermost(list), nil
}

// outermost leaves out what is in another one of the list, and visible with that.
func outermost(list []kept) []kept {
	var outer []kept
	for i, k := range list {
		inside := false
		for n, o := range list {
			inside = inside || o.place == k.place && within(k.name, o.name) && (k.name != o.name || n < i)
		}
		if inside {
			unix.Close(k.fd)
			continue
		}
		outer = append(outer, k)
	}
	return outer
}

// asOwner calls f with the owner's rights on files. The thread has root's.
func (s *Shepherd) asOwner(f func()) error {
	groups, err := unix.Getgroups()
	if err != nil {
		return &oslite.CallError{Call: "getgroups", Err: err}
	}
	owners := make([]int, len(s.owner.groups))
	for i, g := range s.owner.groups {
		owners[i] = int(g)
	}
	if err := unix.Setgroups(owners); err != nil { // of this thread alone
		return &oslite.CallError{Call: "setgroups", Err: err}
	}
	_ = unix.Setfsgid(int(s.owner.GID))
	_ = unix.Setfsuid(int(s.owner.UID))
	if now, err := unix.SetfsuidRetUid(-1); err == nil && now == int(s.owner.UID) {
		f()
	}
	_ = unix.Setfsuid(0)
	_ = unix.Setfsgid(0)
	if err := unix.Setgroups(groups); err != nil {
		return &oslite.CallError{Call: "setgroups", Err: err}
	}
	return nil
}

func parent(path string) string { return path[:max(strings.LastIndexByte(path, '/'), 0)] }

// within reports whether a relative path is that of a directory, or of something in it.
func within(name, dir string) bool {
	rest, ok := strings.CutPrefix(name, dir)
	return ok && (rest == "" || rest[0] == '/')
}

// beneath makes openat2(2) stay in a directory, and follow no links.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS

func openat2(dir int, name string, resolve uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: resolve} // with O_NOFOLLOW the last name could be a link
	err = retry(func() (err error) {
		fd, err = unix.Openat2(dir, name, &how)
		return err
	})
	return fd, err
}

// openIn opens a path in one of the places: the directories above its last name with one way to
// resolve names, and the last name with another one.
func openIn(places []place, path string, above, last uint64) (kept, bool) {
	path = pathpkg.Clean(path) // its names become mount points
	for i := range places {
		p := &places[i]
		for _, prefix := range []string{p.path, p.name} {
			name, ok := strings.CutPrefix(path, prefix+"/")
			if !ok {
				continue
			}
			dir, base := p.host, name
			if up := parent(name); up != "" {
				var err error
				if dir, err = openat2(p.host, up, above); err != nil {
					continue
				}
				base = name[len(up)+1:]
			}
			fd, err := openat2(dir, base, last)
			if dir != p.host {
				unix.Close(dir)
			}
			if err == nil {
				return kept{place: p, name: name, fd: fd}, true
			}
		}
	}
	return kept{}, false
}

// mount makes it visible under its name in the job's own directory.
func (k *kept) mount() error {
	// The server of a user's file system might not answer: its root has a type without asking it.
	var st unix.Statx_t
	if err := unix.Statx(k.fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_TYPE, &st); err != nil {
		return &oslite.CallError{Call: "statx", Err: err}
	}
	at, err := unix.Open(k.place.path, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(at) }()
	names := strings.Split(k.name, "/")
	for i, name := range names {
		directory := i < len(names)-1 || st.Mode&unix.S_IFMT == unix.S_IFDIR
		next, err := openPoint(at, name, directory)
		if err != nil {
			return err
		}
		unix.Close(at)
		at = next
	}
	return unix.Mount(descriptorPath(k.fd), descriptorPath(at), "", unix.MS_BIND|unix.MS_REC, "")
}

// openPoint opens a mount point, or a directory on the way to it, and makes it if it is missing. It
// refuses links: earlier tasks of the job may have made them.
func openPoint(dir int, name string, directory bool) (int, error) {
	if !directory {
		fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
		if err == nil {
			unix.Close(fd)
		} else if !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		return unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	}
	made := unix.Mkdirat(dir, name, 0o700)
	if made != nil && !errors.Is(made, unix.EEXIST) {
		return -1, made
	}
	fd, err := unix.Openat(dir, name, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil && made == nil {
		err = unix.Chmod(descriptorPath(fd), 0o755) // whatever the umask is
		if err != nil {
			unix.Close(fd)
		}
	}
	return fd, err
}

// retry calls f again as long as a signal interrupts it.
func retry(f func() error) error {
	for {
		if err := f(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

// enter moves the child into the namespace of the job, if it has one. This takes root's rights.
func (s *Shepherd) enter(p *spawn.Program) bool {
	if s.namespace == 0 {
		return false
	}
	p.Setns(s.namespace)
	return true
}

// hidden returns a remark about a file that a step did not find in the job's own /tmp.
func (s *Shepherd) hidden(f *spawn.StartError) string {
	if s.namespace == 0 || !errors.Is(f.Errno, unix.ENOENT) || f.Stage != spawn.StageExec && f.Stage != spawn.StageChdir {
		return ""
	}
	for _, p := range privatePlaces {
		if within(f.What, p.path) {
			return "; the job has its own " + p.path + " (private_tmp), which does not contain the files of the host"
		}
	}
	return ""
}
