package launch

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/failpoint"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/group"
	"github.com/execd-project/execd/qconf"
)

// ShepherdName is the name of the supervisor's executable. A real execd takes a
// process for a living shepherd only if its name begins with "sge_shep".
const ShepherdName = "sge_shepherd-go"

// FindShepherd returns the path of the shepherd that belongs to an execd executable: it is in the
// same directory. If it is missing, the error names the remedy.
func FindShepherd(execd string) (string, error) {
	dir, err := filepath.Abs(filepath.Dir(execd))
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, ShepherdName)
	if err := unix.Access(path, unix.X_OK); err != nil {
		return "", fmt.Errorf("cannot execute the supervisor of jobs %q: %w; install %s into the directory of execd", path, err, ShepherdName)
	}
	if err := trusted(path); err != nil {
		return "", fmt.Errorf("cannot run the supervisor of jobs as root: %w; make install puts it where only root can write", err)
	}
	return path, nil
}

// trusted refuses a supervisor of root that other users can change, or that is in a directory in
// which other users can create files: execd is in the same directory.
func trusted(shepherd string) error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := supervisors.Check(filepath.Dir(shepherd)); err != nil {
		return err
	}
	return supervisors.Program(shepherd)
}

// supervisors remembers checked supervisors, because each job has to start one.
var supervisors trust.Memory

// ShepherdFor returns the executable that supervises jobs under a configuration (shepherd_cmd of
// sge_conf(5)): usual, unless the configuration names another one. The other one is called like
// usual, and must finally execute usual with the same working directory and descriptors.
func ShepherdFor(c *qconf.Configuration, usual string) (string, error) {
	if c.ShepherdCmd == "" {
		if err := trusted(usual); err != nil {
			return "", fmt.Errorf("cannot start the supervisor of jobs %q: %w", usual, err)
		}
		return usual, nil
	}
	if err := unix.Access(c.ShepherdCmd, unix.X_OK); err != nil {
		return "", fmt.Errorf("cannot execute shepherd_cmd %s: %w", c.ShepherdCmd, err)
	}
	if err := trusted(c.ShepherdCmd); err != nil {
		return "", fmt.Errorf("cannot execute shepherd_cmd as root: %w", err)
	}
	return c.ShepherdCmd, nil
}

// Job is a job that has a directory on this host. Prepare makes one, and Open finds
// one that was made before.
//
// Wait may be called concurrently with all other methods; of these, only one may be called at a
// time.
type Job struct {
	Dir         *jobdir.Dir
	Description *job.Description
	// Binding are the cores that were chosen for the job; it is empty if the job requested none or
	// could not get them. It is empty for an opened job, whose cores are in its description.
	Binding binding.Binding
	// Affinity holds the processors to which the job is restricted: its cores, or the processors of
	// its queue. The supervisor sets the processors; a cpuset may also restrict the memory nodes.
	Affinity binding.Affinity
	// Unbound says why the job is not bound to the requested cores, or not to the processors of its
	// queue; otherwise it is empty.
	Unbound string
	// Notes say which limits of the job the kernel does not enforce, and why.
	Notes []string

	group      *group.Paths // of the control group; nil without. It is not changed
	groupGone  bool         // it was removed
	unswept    error        // why the agent could not find the processes that a killed supervisor has left
	groups     *Groups
	spool      *jobdir.Spool
	tmpdir     jobdir.Tmpdir
	private    jobdir.Tmpdir // the directory of the job's private /tmp; empty without
	scratch    jobdir.Tmpdir // of the file system that limits the TMPDIR; empty without
	own        own           // data for Remove
	writtenOwn []byte        // the content of fileOwn; nil if it is not known
	filter     bool          // see Plan
	terminal   bool
	removed    bool
	strays     []int  // children of this process before the shepherd
	remote     Remote // owns the supervisor; nil if this process does
	record     []byte // with remote: see Record
	found      Stage  // with remote: see Stage

	mu       sync.Mutex
	shepherd *supervisor
	status   syscall.WaitStatus // how it ended
	over     bool               // it has ended, and is not waited for any more
	waiting  chan struct{}      // full while a call of Wait runs
}

// StoreScript writes the script of a job, which all its tasks share, to the spool area. It is not an
// error if the script exists already. Call RemoveScript when the last task has ended.
func StoreScript(spool *jobdir.Spool, o *Assignment, number int) error {
	if o.Request.Binary {
		return nil
	}
	uid, gid := int(o.Owner.UID), int(o.Owner.GID)
	if o.Terminal {
		_, err := spool.WriteScript(number, o.Request.Script, uid, gid)
		return err
	}
	return ReplaceScript(spool, number, o.Request.Script, uid, gid)
}

// ReplaceScript writes the script of a job for a user, and replaces the script of another user.
func ReplaceScript(spool *jobdir.Spool, number int, script []byte, uid, gid int) error {
	_, err := spool.WriteScript(number, script, uid, gid)
	if !errors.Is(err, jobdir.ErrExists) {
		return err
	}
	same, err := spool.HasScript(number, script, uid)
	if same || err != nil {
		return err // of another task, or of this one before a restart
	}
	// An earlier job with the same number has left it.
	if err := spool.RemoveScript(number); err != nil {
		return err
	}
	_, err = spool.WriteScript(number, script, uid, gid)
	return err
}

// RemoveScript undoes StoreScript. It is not an error if the script does not exist.
func RemoveScript(spool *jobdir.Spool, o *Assignment, number int) error {
	if o.Request.Binary {
		return nil
	}
	return spool.RemoveScript(number)
}

// Prepare creates the files of a job, or of one of its tasks, except for the script: its TMPDIR,
// its directory and its control group. After an error nothing of it is left. If the assignment is
// invalid, the error is an *OrderError. If the job already has a directory, errors.Is(err,
// jobdir.ErrExists); a directory that Remove has kept is moved aside.
//
// Without Assignment.Terminal all of it is on the disk when Prepare returns, and
// a process that is killed meanwhile leaves a directory that Open reports as unfinished.
func Prepare(spool *jobdir.Spool, o *Assignment, id job.ID) (*Job, error) {
	return prepare(spool, o, id, false)
}

func prepare(spool *jobdir.Spool, o *Assignment, id job.ID, slave bool) (*Job, error) {
	p, err := o.Plan(id, jobdir.Area(spool.Path()), slave)
	if err != nil {
		return nil, err
	}
	return PreparePlan(spool, o.Groups, p)
}

// PreparePlan prepares a job, as Prepare and PrepareSlave do, from a plan, which another process
// may have made. It completes the description in the plan.
func PreparePlan(spool *jobdir.Spool, groups *Groups, p *Plan) (*Job, error) {
	d := p.Description
	j := &Job{spool: spool, groups: groups, Description: d, terminal: p.Foreground}
	j.own = own{
		boot: BootID(), uid: p.UID, gid: p.GID, users: p.Users,
		ownShell: d.Command.OwnShell, private: d.PrivateTmp, scratch: p.Scratch > 0, slave: p.Slave, devices: p.Devices, groupIDs: p.GroupIDs,
		parent: d.QueueTmpdir, name: jobdir.TmpdirName(d.ID, d.Queue),
	}
	var err error
	if p.Aside {
		if j.own.aside, err = jobdir.AsideName(j.own.name); err != nil {
			return nil, err
		}
	}
	if err := j.begin(p.Foreground); err != nil {
		return nil, err
	}
	if err := j.prepare(p); err != nil {
		return nil, errors.Join(err, j.undo())
	}
	return j, nil
}

// OrderError is why an order describes no job that can run: a path below the home directory of
// an unknown user, a name of two lines. The host has no part in it.
type OrderError struct{ Err error }

func (e *OrderError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *OrderError) Unwrap() error { return e.Err }

// begin makes the unfinished directory of the job, and records the data that is needed to remove
// everything that will be created.
func (j *Job) begin(replace bool) error {
	id := j.Description.ID
	var err error
	if !replace {
		replace, err = isKept(j.spool, id)
		if err != nil {
			return err
		}
	}
	if j.Dir, err = j.spool.Begin(id, jobdir.CreateOptions{KeepFormer: replace}); err != nil {
		return err
	}
	if j.terminal {
		err = j.wait()
	}
	if err == nil {
		err = j.writeOwn()
	}
	if err != nil {
		return errors.Join(err, j.undo())
	}
	failpoint.At("launch-begun")
	return nil
}

// undo removes everything that Prepare has created.
func (j *Job) undo() error {
	err := j.Remove(false)
	return errors.Join(err, j.Dir.Close())
}

func (j *Job) prepare(p *Plan) error {
	if err := j.makeDirectories(p); err != nil {
		return err
	}
	failpoint.At("launch-tmpdir")
	var err error
	j.Description.UserProcesses = p.mostOfUser(j.groups)
	if !j.own.slave {
		if j.Description.AddGroupID, err = jobGroupIDs.take(j.own.groupIDs, j); err != nil {
			return err
		}
	}
	return j.complete(p)
}

// complete chooses processors and GPUs for the job and records them in its directory before another
// job can choose.
func (j *Job) complete(p *Plan) error {
	d := j.Description
	if p.Cores != nil || p.GPUCount > 0 {
		unlock, err := j.spool.LockJobs()
		if err != nil {
			return err
		}
		defer unlock()
	}
	b := p.chooseProcessors(j.spool)
	j.Binding, j.Affinity, j.Unbound = b.cores, b.affinity, b.why
	d.Binding, d.BindingCPUs = b.cores.Config(), b.cores.CPUs.String()
	if text := b.cores.Environment(); text != "" {
		// After variables of the user with the same name, because the last one counts.
		d.Environment = append(d.Environment, "SGE_BINDING="+text)
		d.Trusted = append(d.Trusted, "SGE_BINDING")
	}
	sayTrusted(d, b.variables...)
	if err := p.chooseGPUs(j.spool, b.affinity.CPUs); err != nil {
		return err
	}
	j.giveGPUs(p)
	return j.finish(jobdir.CreateOptions{
		Hosts:  p.hosts(b.cores.HostfileColumn()),
		NoSync: p.Foreground,
		Record: p.Record,
	})
}

// finish makes the control group, if the job will have processes, and completes the directory.
func (j *Job) finish(o jobdir.CreateOptions) error {
	if !j.own.slave {
		if err := j.makeGroup(j.own.devices); err != nil {
			return err
		}
	}
	failpoint.At("launch-group")
	j.own.unbound, j.own.notes = j.Unbound, j.Notes
	if err := j.writeOwn(); err != nil {
		return err
	}
	failpoint.At("launch-own")
	o.Files = []jobdir.File{{Name: fileOwn, Data: j.writtenOwn}}
	if j.tmpdir.Path != "" {
		o.Files = append(o.Files, jobdir.File{Name: jobdir.FileTmpdir, Data: j.tmpdir.Format()})
	}
	if j.private.Path != "" {
		o.Files = append(o.Files, jobdir.File{Name: jobdir.FilePrivateTmp, Data: j.private.Format()})
	}
	if j.scratch.Path != "" {
		o.Files = append(o.Files, jobdir.File{Name: jobdir.FileScratch, Data: j.scratch.Format()})
	}
	return j.spool.Complete(j.Dir, j.Description, o)
}

// peHosts returns the lines of pe_hostfile.
func (o *Assignment) peHosts() []jobdir.PEHost {
	hosts, own := slices.Clone(o.Hosts), o.Queue.Queue+"@"+o.Host
	if len(hosts) == 0 {
		hosts = []jobdir.PEHost{{Host: o.Host, Slots: o.Slots, Queue: own}}
	}
	for i := range hosts {
		if hosts[i].Queue == own && hosts[i].Processors == "" {
			hosts[i].Processors = o.Queue.Processors
		}
	}
	return hosts
}

// BootID identifies the time since the last start of this host. It is empty if the kernel does not
// provide it.
func BootID() string { return bootID() }

var bootID = sync.OnceValue(func() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
})

// Group returns the control group of the job; nil without. It is not changed.
func (j *Job) Group() *group.Paths { return j.group }

// Rebooted reports whether the host was started again since the job was prepared.
func (j *Job) Rebooted() bool { return j.own.boot != "" && j.own.boot != BootID() }
