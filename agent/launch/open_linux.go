package launch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/group"
)

// Stage is the stage of a job according to its directory.
type Stage int

// The stages.
const (
	// Prepared is a job that is complete and was never launched: Launch, or Remove.
	Prepared Stage = iota + 1
	// Supervised is a job whose supervisor lives: Wait.
	Supervised
	// Over is a job whose supervisor has ended: call Collect and Remove. A job from before a reboot
	// of the host is always over, even if it was not launched according to the directory, because a
	// power loss may have removed the files of its supervisor. Job.Rebooted reports this case.
	Over
	// Slave is a job without a supervisor, for tasks that are started in it
	// (PrepareSlave).
	Slave
	// Kept is a directory that Remove has kept: the job no longer exists.
	Kept
)

// String returns the name of the stage.
func (s Stage) String() string {
	names := [...]string{Prepared: "prepared", Supervised: "supervised", Over: "over", Slave: "slave", Kept: "kept"}
	if s > 0 && int(s) < len(names) {
		return names[s]
	}
	return fmt.Sprintf("Stage(%d)", int(s))
}

// ErrForeground is returned by Open for a foreground job, which Sweep handles.
var ErrForeground = errors.New("the job runs in the foreground")

// ErrKept is returned by a Launcher for a kept directory without a job: see Kept.
var ErrKept = errors.New("the directory is kept for inspection and has no job")

// pidPatience is the time for which Open waits for the supervisor of a job to write its process ID.
// Unless the host is overloaded, that takes milliseconds; Wait continues to wait.
const pidPatience = 2 * time.Second

// Open returns a job that Prepare, PrepareTask or PrepareSlave has made, perhaps in an earlier
// process, and its stage. The job supports the same methods as one from Prepare. groups makes the
// control groups of jobs, and lookup finds the owner if the directory does not name a user ID; both
// may be nil.
//
// errors.Is(err, jobdir.ErrIncomplete) means that the directory was never finished, or was being
// removed: call Discard.
func Open(spool *jobdir.Spool, groups *Groups, lookup func(name string) (*userdb.User, error), id job.ID) (*Job, Stage, error) {
	dir, err := spool.Open(id)
	if err != nil {
		return nil, 0, err
	}
	j := &Job{Dir: dir, spool: spool, groups: groups}
	var stage Stage
	if err = restore(dir); err == nil {
		stage, err = j.load(lookup, id)
	}
	if err == nil && stage == 0 {
		stage, err = j.stage()
	}
	if err != nil {
		_ = j.Close()
		return nil, 0, err
	}
	return j, stage, nil
}

// restore creates the files again of a job that was accepted before the host was restarted: of the
// files of Prepare, only "start" is certain to survive a power loss. Without this file, or if it
// does not contain the others, all files had been synced.
func restore(dir *jobdir.Dir) error {
	_, files, err := dir.Start()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	i := slices.IndexFunc(files, func(f jobdir.File) bool { return f.Name == fileOwn })
	if err != nil || i < 0 {
		return err
	}
	known, err := parseOwn(dir.Path()+"/"+jobdir.FileStart, files[i].Data)
	if err != nil || known.boot == "" || known.boot == BootID() {
		return err
	}
	if kept, err := dir.Exists(fileKept); kept || err != nil {
		return err
	}
	return dir.Restore(files)
}

// load reads the job from its directory. A stage other than 0 is final and needs no further checks.
func (j *Job) load(lookup func(name string) (*userdb.User, error), id job.ID) (Stage, error) {
	if waiting, err := j.Dir.Exists(fileWaiting); err != nil || waiting {
		return 0, errors.Join(err, &jobdir.Error{Op: "use directory", Path: j.Dir.Path(), Err: ErrForeground})
	}
	var err error
	if j.Description, err = j.Dir.Description(); err != nil {
		return 0, err
	}
	d := j.Description
	if d.ID.Job != id.Job || d.ID.TaskDir() != id.TaskDir() || d.ID.PETask != id.PETask {
		return 0, &jobdir.Error{Op: "use directory", Path: j.Dir.Path(), Err: fmt.Errorf("it belongs to job %s", d.ID)}
	}
	known, err := readOwn(j.Dir)
	if err != nil {
		return 0, err
	}
	if known == nil {
		if known, err = ownOf(d, lookup); err != nil {
			return 0, err
		}
	}
	j.own = *known
	d.Command.OwnShell = j.own.ownShell
	j.Unbound, j.Notes = j.own.unbound, j.own.notes
	if j.tmpdir, err = j.Dir.Tmpdir(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if j.private, err = j.Dir.PrivateTmp(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if j.scratch, err = j.Dir.Scratch(); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if j.group, err = recordedGroup(j.Dir); err != nil {
		return 0, err
	}
	switch kept, err := j.Dir.Exists(fileKept); {
	case err != nil:
		return 0, err
	case kept:
		return Kept, nil
	}
	jobGroupIDs.keep(j)
	if j.own.slave {
		return Slave, nil
	}
	return 0, nil
}

// ownOf derives the data that is missing in a directory made by another program.
func ownOf(d *job.Description, lookup func(name string) (*userdb.User, error)) (*own, error) {
	if lookup == nil {
		lookup = userdb.System().User
	}
	owner, err := lookup(d.Owner)
	if err != nil {
		return nil, err
	}
	return &own{
		uid: int(owner.UID), gid: int(owner.GID), users: ProcedureUsers(d, lookup), shared: d.ID.PETask != "",
	}, nil
}

// recordedGroup returns the control group that a directory names; nil for none.
func recordedGroup(dir *jobdir.Dir) (*group.Paths, error) {
	text, err := dir.ReadFile(jobdir.FileCgroup)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // none
	}
	if err != nil {
		return nil, err
	}
	paths, err := group.Parse(string(text))
	if err != nil {
		return nil, fmt.Errorf("cannot use the control group of job directory %q: %w", dir.Path(), err)
	}
	return paths, nil
}

// stage finds out whether the job has a supervisor, and whether that is running.
func (j *Job) stage() (Stage, error) {
	deadline := time.Now().Add(pidPatience)
	for wait := time.Millisecond; ; wait = min(2*wait, 50*time.Millisecond) {
		lock, err := j.lock(0)
		if err == nil {
			defer lock.Close()
			begun, err := hasBegun(j.Dir)
			switch {
			case err != nil:
				return 0, err
			case begun, j.Rebooted():
				j.mu.Lock()
				j.over = true
				j.mu.Unlock()
				return Over, nil
			}
			return Prepared, nil
		}
		if !errors.Is(err, ErrSupervised) {
			return 0, err
		}
		if j.findShepherd() {
			return Supervised, nil
		}
		if time.Now().After(deadline) {
			j.mu.Lock()
			j.shepherd = &supervisor{} // see Wait
			j.mu.Unlock()
			return Supervised, nil
		}
		time.Sleep(wait)
	}
}

// findShepherd looks for the supervisor under the number that it has written down.
// The lock is taken, so that it lives.
func (j *Job) findShepherd() bool {
	pid, err := j.Dir.ReadNumber(jobdir.FilePID)
	if err != nil {
		return false
	}
	s, ok := findSupervisor(pid)
	if !ok {
		return false
	}
	s.child = isChild(pid)
	j.mu.Lock()
	j.shepherd = s
	j.mu.Unlock()
	return true
}

// Discard removes the remains of a job whose directory was never finished, or was being removed. It
// does nothing if the directory is complete or does not exist. groups may be nil.
func Discard(spool *jobdir.Spool, groups *Groups, id job.ID) error {
	dir, err := spool.Open(id)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	if complete, err := dir.Exists(jobdir.FileConfig); complete || err != nil {
		return err
	}
	if err := errors.Join(removeRecordedGroup(dir), groups.remove(id)); err != nil {
		return err
	}
	return errors.Join(discardTmpdir(dir), spool.Remove(id, jobdir.KeepNone, false))
}

// discardTmpdir removes the TMPDIR of a job that was never finished.
func discardTmpdir(dir *jobdir.Dir) error {
	known, err := readOwn(dir)
	if known == nil || err != nil || known.shared {
		return err
	}
	d, err := recordedDirectories(dir, known)
	if err != nil {
		return err
	}
	if d.scratch.Path == "" {
		err = errors.Join(discardPrivateTmp(dir, known), sweepScratch(known))
		if err != nil {
			return err
		}
		d.private.Path = "" // removed
	}
	if d.tmpdir.Path != "" {
		err = d.remove(known.removeOptions())
		if known.aside != "" && errors.Is(err, jobdir.ErrNotOurs) {
			err = nil // it does not have its final name, which belongs to another directory
		}
		return errors.Join(err, discardAside(known))
	}
	if os.Geteuid() != 0 {
		// The TMPDIR would belong to the user, as the one of another job with the same name.
		return discardAside(known)
	}
	return jobdir.SweepTmpdir(known.parent, known.name, jobdir.RemoveOptions{})
}

// discardPrivateTmp removes the directory of the private /tmp of a job that was never finished.
func discardPrivateTmp(dir *jobdir.Dir, known *own) error {
	t, err := dir.PrivateTmp()
	switch {
	case err == nil:
		return jobdir.RemovePrivateTmp(t)
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case !known.private:
		return nil
	}
	return jobdir.SweepPrivateTmp(known.parent, known.name)
}

func discardAside(known *own) error {
	if known.aside == "" {
		return nil
	}
	return jobdir.RemoveAside(known.parent, known.aside, known.removeOptions())
}
