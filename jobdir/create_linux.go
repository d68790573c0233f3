package jobdir

import (
	"errors"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// CreateOptions are the choices of Spool.Create.
type CreateOptions struct {
	// Hosts is the content of pe_hostfile. The original writes one for serial
	// jobs, too, but none for the tasks of a parallel job.
	Hosts []PEHost
	// KeepFormer moves the directory of a former run of the job aside, to the
	// first free name of "<name>.0" to "<name>.9", instead of refusing the
	// start: KEEP_ACTIVE with a job that was restarted.
	KeepFormer bool
	// NoSync leaves it to the kernel when the directory is on the disk. A
	// start that is acknowledged to somebody must be durable; a job in the
	// foreground has nobody who would remember it after a power loss.
	NoSync bool
}

// Create makes the directory of a job with all that its shepherd needs. The
// job must have none yet: otherwise errors.Is(err, ErrExists).
//
// The description is checked first, before anything is made. The config file
// comes last: a directory without it is unfinished and nothing has been started
// from it, so that it may be removed at any time.
func (s *Spool) Create(d *job.Description, o CreateOptions) (*Dir, error) {
	files, err := contents(d, o.Hosts)
	if err != nil {
		return nil, err
	}
	parent, name, err := s.parent(d.ID)
	if err != nil {
		return nil, err
	}
	defer s.release(parent)
	dir, err := s.makeDir(parent, name, s.JobPath(d.ID), o)
	if err != nil {
		return nil, err
	}
	if err := s.fillDir(dir, parent, files, !o.NoSync); err != nil {
		dir.Close()
		_ = s.removeAt(parent, name)
		return nil, err
	}
	return dir, nil
}

type content struct {
	name string
	data []byte
}

// contents are the files of a new directory, in the order in which they are
// written.
func contents(d *job.Description, hosts []PEHost) ([]content, error) {
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
	files := []content{{FileEnvironment, env}, {FileArguments, args}}
	if len(hosts) > 0 {
		b, err := FormatPEHosts(hosts)
		if err != nil {
			return nil, err
		}
		files = append(files, content{FilePEHosts, b})
	}
	for _, f := range append(files, content{FileConfig, config}) {
		if len(f.data) > mostFile {
			return nil, &ValueError{f.name, "all of it", "it is larger than " + itoa(mostFile>>20) + " MiB"}
		}
	}
	return append(files, content{FileConfig, config}), nil
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
	dir, err := openDirAt(parent, name, path, nil)
	if err == nil {
		if err = unix.Fchmod(dir.fd, modeDir); err == nil { // whatever the umask is
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

func (s *Spool) fillDir(dir *Dir, parent int, files []content, sync bool) error {
	for _, f := range files {
		err := s.step(f.name)
		if err == nil {
			err = dir.write(f.name, f.data, sync)
		}
		if err != nil {
			return &Error{"write", dir.file(f.name), err}
		}
	}
	if err := s.step("sync"); err != nil {
		return &Error{"sync", dir.path, err}
	}
	if !sync {
		return nil
	}
	for _, fd := range []int{dir.fd, parent} {
		if err := retry(func() error { return unix.Fsync(fd) }); err != nil {
			return &Error{"sync", dir.path, err}
		}
	}
	return nil
}
