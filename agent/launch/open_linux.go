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

// Stage is how far a job has come, as its directory says.
type Stage int

// The stages.
const (
	// Prepared is a job that is complete and was never launched: Launch, or Remove.
	Prepared Stage = iota + 1
	// Supervised is a job whose supervisor lives: Wait.
	Supervised
	// Over is a job whose supervisor is gone: Collect, Remove. A job of a time
	// before the host was started again is always over, also if it was not launched
	// as far as the directory says: what its supervisor wrote may have been lost
	// with the power. Job.Rebooted tells it.
	Over
	// Slave is a job without a supervisor, for tasks that are started in it
	// (PrepareSlave).
	Slave
	// Kept is a directory that Remove was to keep: there is no job any more.
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

// ErrForeground is returned by Open for a job that somebody runs in the foreground:
// it is for Sweep.
var ErrForeground = errors.New("the job is run in the foreground")

// ErrKept is returned by a Launcher for a directory in which there is no job any more: see Kept.
var ErrKept = errors.New("the directory is kept, and there is no job in it")

// pidPatience bounds the time in which Open waits for the supervisor of a job to
// write down its process number. It does so within milliseconds on a host that has
// any time for it; Wait goes on waiting.
const pidPatience = 2 * time.Second

// Open returns a job that Prepare, PrepareTask or PrepareSlave has made, perhaps in
// another process that is no more, and how far it has come. It can do all that one
// from Prepare can. groups makes the control groups of jobs, and lookup finds a user
// where the directory does not say whose it is; both may be nil.
//
// errors.Is(err, jobdir.ErrIncomplete) is for a directory that was never finished,
// or was about to be removed: Discard removes what there is.
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

// restore makes the files of a job again that was accepted before the host was restarted:
// of all that Prepare has made only the file "start" is certain to have outlived a power loss.
// Without that, or with one that does not have them, all of it was brought to the disk.
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

// load reads what the directory says of the job. A stage but 0 is one that needs no
// closer look.
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
		return 0, &jobdir.Error{Op: "use directory", Path: j.Dir.Path(), Err: fmt.Errorf("it is that of job %s", d.ID)}
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

// ownOf finds out what a directory does not say that was made by others.
func ownOf(d *job.Description, lookup func(name string) (*userdb.User, error)) (*own, error) {
	if lookup == nil {
		lookup = userdb.System().User
	}
	owner, err := lookup(d.Owner)
	if err != nil {
		return nil, err
	}
	return &own{
		uid: int(owner.UID), gid: int(owner.GID), users: procedureUsers(d, lookup), shared: d.ID.PETask != "",
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

// stage finds out about the supervisor.
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

// Discard removes what there is of a job whose directory was never finished, or
// was about to be removed. One that is complete, or gone, is left as it is.
// groups may be nil.
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
	t, err := dir.Tmpdir()
	if err == nil {
		err = jobdir.RemoveTmpdir(t, known.removeOptions())
		if known.aside != "" && errors.Is(err, jobdir.ErrNotOurs) {
			err = nil // it has not got its name, which is another one's
		}
		return errors.Join(err, discardAside(known))
	}
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case os.Geteuid() != 0:
		// It would be the user's own, as the one of another job that has the name.
		return discardAside(known)
	}
	return jobdir.SweepTmpdir(known.parent, known.name, jobdir.RemoveOptions{})
}

func discardAside(known *own) error {
	if known.aside == "" {
		return nil
	}
	return jobdir.RemoveAside(known.parent, known.aside, known.removeOptions())
}
