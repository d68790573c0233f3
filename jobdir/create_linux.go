package jobdir

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
)

// CreateOptions are the choices of Spool.Create.
type CreateOptions struct {
	// Hosts is the content of pe_hostfile. The original writes one for serial
	// jobs, too, but none for the tasks of a parallel job.
	Hosts []PEHost
	// KeepFormer moves the directory of a previous run of the job aside, to the
	// first free name of "<name>.0" to "<name>.9", instead of refusing the
	// start: KEEP_ACTIVE with a job that was restarted.
	KeepFormer bool
	// NoSync leaves it to the kernel when the directory is on the disk. A
	// start that is acknowledged to somebody must be durable; a job in the
	// foreground has nobody who would remember it after a power loss.
	NoSync bool
	// Record is the first line of the file "start"; nil for none.
	Record []byte
	// Files are in the directory already, and are to be on the disk before the config is
	// there.
	Files []File
}

// Create makes the directory of a job with all that its shepherd needs. The
// job must have none yet: otherwise errors.Is(err, ErrExists).
//
// The description is checked first, before anything is made. The config file
// comes last: a directory without it is unfinished and nothing has been started
// from it, so that it may be removed at any time.
func (s *Spool) Create(d *job.Description, o CreateOptions) (*Dir, error) {
	if _, err := contents(d, o.Hosts); err != nil {
		return nil, err
	}
	dir, err := s.Begin(d.ID, o)
	if err != nil {
		return nil, err
	}
	if err := s.Complete(dir, d, o); err != nil {
		dir.Close()
		_ = s.Remove(d.ID, KeepNone, false)
		return nil, err
	}
	return dir, nil
}

// Begin makes the directory of a job, unfinished: for those who have more to put
// into it, all of which is to be there when Complete writes the config.
func (s *Spool) Begin(id job.ID, o CreateOptions) (*Dir, error) {
	parent, name, err := s.parent(id)
	if err != nil {
		return nil, err
	}
	defer s.release(parent)
	return s.makeDir(parent, name, s.JobPath(id), o)
}

// Complete finishes a directory that Begin has made. After an error it is
// unfinished.
func (s *Spool) Complete(dir *Dir, d *job.Description, o CreateOptions) error {
	files, err := contents(d, o.Hosts)
	if err != nil {
		return err
	}
	parent, _, err := s.parent(d.ID)
	if err != nil {
		return err
	}
	defer s.release(parent)
	return s.fillDir(dir, parent, files, o)
}

// contents returns the files of a new directory, in the order in which they are
// written.
func contents(d *job.Description, hosts []PEHost) ([]File, error) {
	config, err := FormatConfig(d)
	if err != nil {
		return nil, err
	}
	args, err := FormatArguments(d.Command.Args)
	if err != nil {
		return nil, err
	}
	env, err := FormatEnvironment(d.Environment)
	if err != nil {
		return nil, err
	}
	files := []File{{FileEnvironment, env}}
	if len(args) > 0 {
		files = append(files, File{FileArguments, args})
	}
	if len(hosts) > 0 {
		b, err := FormatPEHosts(hosts)
		if err != nil {
			return nil, err
		}
		files = append(files, File{FilePEHosts, b})
	}
	files = append(files, File{FileConfig, config})
	for _, f := range files {
		if len(f.Data) > mostFile {
			return nil, &ValueError{f.Name, "all of it", "it is larger than " + itoa(mostFile>>20) + " MiB"}
		}
	}
	return files, nil
}

func (s *Spool) makeDir(parent int, name, path string, o CreateOptions) (*Dir, error) {
	if err := s.step("mkdir"); err != nil {
		return nil, &Error{"create directory", path, err}
	}
	err := unix.Mkdirat(parent, name, modeDir)
	if errors.Is(err, unix.EEXIST) && o.KeepFormer {
		if err = moveAside(parent, name); err == nil {
			err = unix.Mkdirat(parent, name, modeDir)
		}
	}
	if errors.Is(err, unix.EEXIST) {
		err = ErrExists
	}
	if err != nil {
		return nil, &Error{"create directory", path, err}
	}
	failpoint.At("jobdir-made")
	dir, err := openDirAt(parent, name, path, nil)
	if err == nil {
		if err = dir.Use(func(fd int) error { return unix.Fchmod(fd, modeDir) }); err == nil { // whatever the umask is
			return dir, nil
		}
		dir.Close()
		err = &Error{"change mode of", path, err}
	}
	_ = unix.Unlinkat(parent, name, unix.AT_REMOVEDIR)
	return nil, err
}

// moveAside gives a directory the first free of its ten other names. rename(2)
// would replace an empty directory: RENAME_NOREPLACE is of Linux 3.15, and not
// every network file system has it.
func moveAside(parent int, name string) error {
	for i := range 10 {
		to := name + "." + itoa(i)
		var st unix.Stat_t
		err := unix.Fstatat(parent, to, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			err = unix.Renameat(parent, name, parent, to)
			if errors.Is(err, unix.ENOENT) {
				return nil // somebody else has removed it
			}
		} else if err == nil {
			continue
		}
		return err
	}
	return ErrExists
}

// fillDir writes the files of a new directory, the last of which is the config.
func (s *Spool) fillDir(dir *Dir, parent int, files []File, o CreateOptions) error {
	last := len(files) - 1
	all := append(slices.Clone(o.Files), files...)
	sealed := !o.NoSync && o.Record != nil && sizeOf(all) <= mostSealed
	steps := make([]File, 0, len(files)+1)
	steps = append(steps, files[:last]...)
	if o.Record != nil {
		start := o.Record
		if sealed {
			start = seal(o.Record, all)
		}
		steps = append(steps, File{FileStart, start})
	}
	for _, f := range steps {
		err := s.step(f.Name)
		if err == nil {
			err = dir.write(f.Name, f.Data, sealed && f.Name == FileStart)
		}
		if err != nil {
			return &Error{"write", dir.file(f.Name), err}
		}
	}
	if err := s.writeConfig(dir, files[last], o, append(slices.Clone(o.Files), steps...), sealed); err != nil {
		_ = dir.Remove(FileConfig)
		return &Error{"write", dir.file(FileConfig), err}
	}
	err := s.step("sync")
	if err == nil && !o.NoSync {
		err = dir.sync()
		if err == nil {
			err = s.syncParent(parent)
		}
	}
	if err != nil {
		_ = dir.Remove(FileConfig)
		return &Error{"sync", dir.path, err}
	}
	return nil
}

// writeConfig gives the config its name when everything else is on the disk.
func (s *Spool) writeConfig(dir *Dir, config File, o CreateOptions, others []File, sealed bool) error {
	if err := s.step(config.Name); err != nil {
		return err
	}
	if err := dir.writeTemp(config.Name, config.Data, false); err != nil {
		return err
	}
	if !o.NoSync && !sealed {
		names := []string{tempOf(config.Name)}
		for _, f := range others {
			names = append(names, f.Name)
		}
		if err := dir.syncAll(names); err != nil {
			return err
		}
	}
	failpoint.At("jobdir-synced")
	return dir.rename(config.Name)
}

func sizeOf(files []File) (sum int) {
	for _, f := range files {
		sum += len(f.Data)
	}
	return sum
}

// syncParent brings the directory to the disk in which that of a job was made.
func (s *Spool) syncParent(fd int) error {
	if fd == s.active {
		return s.jobs.sync(fd)
	}
	return retry(func() error { return unix.Fsync(fd) })
}

// shared is the sync of a directory of which everybody who has just made something in it
// wants it. One that has begun before does not do.
type shared struct {
	turn sync.Mutex // of who syncs

	mu   sync.Mutex
	next *flight // for who comes now
}

type flight struct {
	over bool
	err  error
}

func (s *shared) sync(fd int) error {
	s.mu.Lock()
	if s.next == nil {
		s.next = &flight{}
	}
	mine := s.next
	s.mu.Unlock()

	s.turn.Lock()
	defer s.turn.Unlock()
	if !mine.over { // by somebody else who came before it began
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		mine.err, mine.over = retry(func() error { return unix.Fsync(fd) }), true
	}
	return mine.err
}

// syncAll brings files to the disk, all at the same time: what a file system has
// to write for one of them mostly does for all.
func (d *Dir) syncAll(names []string) error {
	var calls []func() error
	for _, name := range names {
		calls = append(calls, func() error {
			fd, _, err := d.open(name, unix.O_RDONLY, 0)
			if errors.Is(err, unix.ENOENT) {
				return nil
			}
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			return retry(func() error { return unix.Fsync(fd) })
		})
	}
	return together(calls)
}

// together makes calls at the same time, and returns one of their errors.
func together(calls []func() error) error {
	done := make(chan error, len(calls))
	for _, call := range calls {
		go func() { done <- call() }()
	}
	var failed error
	for range calls {
		if err := <-done; failed == nil {
			failed = err
		}
	}
	return failed
}
