package jobdir

import (
	"errors"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/job"
)

// CreateOptions are the options of Spool.Create.
type CreateOptions struct {
	// Hosts is the content of pe_hostfile. The original also writes one for serial jobs, and none
	// for the tasks of a parallel job.
	Hosts []PEHost
	// KeepFormer renames the directory of a previous run to the first free name of "<name>.0" to
	// "<name>.9", instead of refusing the start. It implements KEEP_ACTIVE for a restarted job.
	KeepFormer bool
	// NoSync lets the kernel decide when to write the directory to the disk. If the agent
	// acknowledges a start to a master, the directory must be durable. After a power loss nothing
	// needs the directory of a job that ran in the foreground.
	NoSync bool
	// Record is the first line of the file "start", with its newline; nil for no such file. Records of
	// several lines are refused: Start would take the others for files of the directory.
	Record []byte
	// Files already exist in the directory. They must be on the disk before the config exists.
	Files []File
}

// Create makes the directory of a job with all files that its shepherd needs. If the job already
// has a directory, errors.Is(err, ErrExists) holds.
//
// Create checks the description before it makes anything. It writes the config file last: a
// directory without a config is unfinished, nothing was started from it, and it may be removed at
// any time.
func (s *Spool) Create(d *job.Description, o CreateOptions) (*Dir, error) {
	if _, err := contents(d, o); err != nil {
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

// Begin makes the directory of a job and leaves it unfinished. The caller adds its own files and
// then calls Complete, which writes the config.
func (s *Spool) Begin(id job.ID, o CreateOptions) (*Dir, error) {
	parent, name, err := s.parent(id)
	if err != nil {
		return nil, err
	}
	defer s.release(parent)
	return s.makeDir(parent, name, s.JobPath(id), o)
}

// Complete finishes a directory made by Begin. After an error the directory remains unfinished.
func (s *Spool) Complete(dir *Dir, d *job.Description, o CreateOptions) error {
	files, err := contents(d, o)
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

// contents returns the files of a new directory, in the order in which they are written.
func contents(d *job.Description, o CreateOptions) ([]File, error) {
	if o.Record != nil && !IsRecord(o.Record) {
		return nil, &ValueError{FileStart, "the record", quote(string(o.Record)) + " is not one line"}
	}
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
	if len(o.Hosts) > 0 {
		b, err := FormatPEHosts(o.Hosts)
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

// moveAside renames a directory to the first free of its ten alternative names. It checks for
// existence because rename(2) replaces an empty directory, and RENAME_NOREPLACE (Linux 3.15) does
// not work on every network file system.
func moveAside(parent int, name string) error {
	for i := range 10 {
		to := name + "." + itoa(i)
		var st unix.Stat_t
		err := unix.Fstatat(parent, to, &st, unix.AT_SYMLINK_NOFOLLOW)
		if errors.Is(err, unix.ENOENT) {
			err = unix.Renameat(parent, name, parent, to)
			if errors.Is(err, unix.ENOENT) {
				return nil // another process has removed it
			}
		} else if err == nil {
			continue
		}
		return err
	}
	return ErrExists
}

// fillDir writes the files of a new directory. The config is the last of them.
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

// writeConfig renames the config to its final name when all other files are on the disk.
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

// syncParent writes the directory that contains the job directory to the disk.
func (s *Spool) syncParent(fd int) error {
	if fd == s.active {
		return s.jobs.sync(fd)
	}
	return retry(func() error { return unix.Fsync(fd) })
}

// shared combines the syncs of a directory for all callers that have just created something in it.
// A sync that began earlier does not count.
type shared struct {
	turn sync.Mutex // held by the caller that syncs

	mu   sync.Mutex
	next *flight // for callers that arrive now
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
	if !mine.over { // no other caller of the same flight has synced
		s.mu.Lock()
		s.next = nil
		s.mu.Unlock()
		mine.err, mine.over = retry(func() error { return unix.Fsync(fd) }), true
	}
	return mine.err
}

// syncAll writes files to the disk concurrently: most of the file system's work for one of them
// also serves the others.
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

// together runs the calls concurrently and returns one of their errors.
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
