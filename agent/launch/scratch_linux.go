package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/host/scratch"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
)

// planScratch sets how much space the TMPDIR of the job may take, according to its request. The error
// says that this daemon can never limit it as the configuration demands.
func (o *Assignment) planScratch(p *Plan) error {
	how := o.Config.ExecdParams.ScratchLimit
	if how == qconf.ScratchUnlimited {
		return nil
	}
	p.Scratch = o.Complexes.RequestedScratch(o.hardRequests(), o.Slots)
	if p.Scratch == 0 {
		return nil
	}
	p.ScratchLimit = how
	if !o.Privileged && how != qconf.ScratchAuto {
		return fmt.Errorf("%s: only a daemon that runs as root can limit TMPDIR (SCRATCH_LIMIT=%s)", qconf.ScratchName, how)
	}
	return nil
}

// ScratchError says why a host cannot limit the TMPDIR of a job as its configuration demands.
type ScratchError struct {
	Limit qconf.ScratchLimit
	Err   error
}

func (e *ScratchError) Error() string {
	return fmt.Sprintf("cannot limit TMPDIR (SCRATCH_LIMIT=%s): %v", e.Limit, e.Err)
}

// Unwrap returns the cause.
func (e *ScratchError) Unwrap() error { return e.Err }

// scratchMethod returns how the TMPDIR of the job gets its size. With SCRATCH_LIMIT=auto, a host that
// cannot limit it runs the job without a limit, and a note says so.
func (j *Job) scratchMethod(p *Plan) (scratch.Method, error) {
	if p.Scratch == 0 || p.ScratchLimit == qconf.ScratchUnlimited {
		return scratch.None, nil
	}
	wanted := scratch.Method(p.ScratchLimit)
	if p.ScratchLimit == qconf.ScratchAuto {
		wanted = scratch.None
	}
	dir := j.own.parent
	if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		dir = filepath.Dir(dir) // MakeTmpdir makes a missing one
	}
	method, err := scratch.Choose(dir, wanted)
	if err == nil {
		return method, nil
	}
	if p.ScratchLimit != qconf.ScratchAuto {
		return scratch.None, &ScratchError{p.ScratchLimit, err}
	}
	j.Notes = append(j.Notes, "TMPDIR is not limited to the requested "+quantity.FormatMemory(p.Scratch)+" ("+qconf.ScratchName+"): "+err.Error())
	return scratch.None, nil
}

// makeDirectories makes the TMPDIR of the job and the directory of its private /tmp, and limits their
// size.
func (j *Job) makeDirectories(p *Plan) error {
	method, err := j.scratchMethod(p)
	if err != nil {
		return err
	}
	if method == scratch.Image || method == scratch.Tmpfs {
		err = j.makeFileSystem(p, method)
	} else {
		err = j.makeInHost(p, method)
	}
	if err != nil {
		return err
	}
	if j.tmpdir.Path != j.Description.Tmpdir {
		moveTmpdir(j.Description, j.tmpdir.Path)
	}
	if method != scratch.None {
		j.Description.Scratch, j.Description.ScratchLimit = max(p.Scratch, scratch.Least), string(method)
	}
	return nil
}

// makeInHost makes the directories in the file system of the host, perhaps with a quota.
func (j *Job) makeInHost(p *Plan, method scratch.Method) (err error) {
	var limit, join func(fd int) error
	if method == scratch.Quota {
		limit = func(fd int) error { return j.setQuota(fd, p) }
		join = func(fd int) error { return scratch.Join(fd, j.own.project) }
	}
	j.tmpdir, err = j.Dir.MakeLimitedTmpdir(j.own.parent, j.own.name, j.own.aside, j.own.uid, j.own.gid, limit)
	if err == nil && j.Description.PrivateTmp {
		j.private, err = j.Dir.MakePrivateTmp(j.own.parent, j.own.name, join)
	}
	return err
}

// setQuota gives the TMPDIR, which its user cannot access yet, a project ID with a quota. The ID is
// recorded before it has a quota, so that Remove takes the quota away; a crash before that leaves the
// ID to the next directory. A power loss at that moment can lose the record and keep the quota, which
// limits nothing, because no file has the ID; the next job with the ID replaces it.
func (j *Job) setQuota(fd int, p *Plan) (err error) {
	if j.own.project, err = scratch.Claim(fd); err != nil {
		return &ScratchError{p.ScratchLimit, err}
	}
	failpoint.At("launch-project")
	if err := j.writeOwn(); err != nil {
		return err
	}
	if err := scratch.Limit(fd, j.own.project, p.Scratch); err != nil {
		return &ScratchError{p.ScratchLimit, err}
	}
	failpoint.At("launch-quota")
	return nil
}

// The directories in the file system of a job.
const (
	scratchTmpdir  = "tmpdir"
	scratchPrivate = "private"
)

// makeFileSystem makes a file system for the job, and mounts a directory of it at its TMPDIR. The
// mount point belongs to root, so that the user cannot put another directory in its place.
func (j *Job) makeFileSystem(p *Plan, method scratch.Method) (err error) {
	if j.tmpdir, err = j.Dir.MakeTmpdir(j.own.parent, j.own.name, "", 0, 0); err != nil {
		return err
	}
	if j.scratch, err = j.Dir.MakeScratch(j.own.parent, j.own.name); err != nil {
		return err
	}
	failpoint.At("launch-scratch")
	if err := scratch.Mount(method, j.scratch.Path, p.Scratch); err != nil {
		return &ScratchError{p.ScratchLimit, err}
	}
	failpoint.At("launch-mounted")
	files := scratch.Files(j.scratch.Path)
	tmpdir := filepath.Join(files, scratchTmpdir)
	if err := errors.Join(os.Mkdir(tmpdir, 0o700), os.Chown(tmpdir, j.own.uid, j.own.gid)); err != nil { //nolint:forbidigo // the directory belongs to root alone
		return err
	}
	at, err := j.tmpdir.Open()
	if err != nil {
		return err
	}
	defer unix.Close(at)
	if err := unix.Mount(tmpdir, fmt.Sprintf("/proc/self/fd/%d", at), "", unix.MS_BIND, ""); err != nil {
		return &ScratchError{p.ScratchLimit, os.NewSyscallError("mount(MS_BIND)", err)}
	}
	if !j.Description.PrivateTmp {
		return nil
	}
	private := filepath.Join(files, scratchPrivate)
	if err := os.Mkdir(private, 0o700); err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Stat(private, &st); err != nil {
		return &os.PathError{Op: "stat", Path: private, Err: err}
	}
	j.private = jobdir.Tmpdir{Path: private, Dev: st.Dev, Ino: st.Ino}
	return j.Dir.WritePrivateTmp(j.private)
}

// directories are those of a job outside of its job directory. Paths are empty for none.
type directories struct {
	tmpdir, private, scratch jobdir.Tmpdir
	project                  uint32 // that limits the TMPDIR; 0 for none
}

// recordedDirectories reads the directories of a job from its job directory.
func recordedDirectories(dir *jobdir.Dir, known *own) (d directories, err error) {
	for _, r := range []struct {
		to   *jobdir.Tmpdir
		read func() (jobdir.Tmpdir, error)
	}{{&d.tmpdir, dir.Tmpdir}, {&d.private, dir.PrivateTmp}, {&d.scratch, dir.Scratch}} {
		t, e := r.read()
		if e != nil && !errors.Is(e, fs.ErrNotExist) {
			err = errors.Join(err, e)
		}
		*r.to = t
	}
	if known != nil {
		d.project = known.project
	}
	return d, err
}

// remove removes the directories. After a crash of the host their mounts are gone.
func (d *directories) remove(o jobdir.RemoveOptions) error {
	var errs []error
	if d.scratch.Path != "" {
		errs = append(errs,
			scratch.Unmount(d.tmpdir.Path), scratch.Unmount(scratch.Files(d.scratch.Path)), jobdir.RemovePrivateTmp(d.scratch))
		d.private.Path = "" // was in there
	}
	if d.project != 0 {
		errs = append(errs, d.release())
	}
	if d.tmpdir.Path != "" {
		errs = append(errs, jobdir.RemoveTmpdir(d.tmpdir, o))
	}
	if d.private.Path != "" {
		errs = append(errs, jobdir.RemovePrivateTmp(d.private))
	}
	return errors.Join(errs...)
}

// release removes the quota of the TMPDIR. While the directory exists, no other one gets its project
// ID. If its user has removed or replaced it, the ID may have got another owner.
func (d *directories) release() error {
	fd, err := d.tmpdir.Open()
	if errors.Is(err, unix.ENOENT) || errors.Is(err, jobdir.ErrNotOurs) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	return scratch.Release(fd, d.project)
}

// sweepScratch removes the directory of a file system that a killed process has made and not recorded.
func sweepScratch(known *own) error {
	if !known.scratch {
		return nil
	}
	return jobdir.SweepScratch(known.parent, known.name)
}
