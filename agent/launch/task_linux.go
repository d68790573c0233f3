package launch

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// taskName is the name of every task of a parallel job.
const taskName = "petask"

// PrepareSlave prepares a parallel job whose master task is on another host (sge_pe(5),
// control_slaves). The job has a directory, a TMPDIR and cores for its tasks, but no process of its
// own: it cannot be launched.
func PrepareSlave(spool *jobdir.Spool, o *Assignment, id job.ID) (*Job, error) {
	if o.Terminal {
		return nil, errors.New("cannot run a part of a job in the foreground")
	}
	return prepare(spool, o, id, true)
}

// PrepareTask prepares a task of a parallel job on this host, as requested by qrsh -inherit: a
// command that is executed without a shell, in the directory dir (if it is empty, in the job's
// directory), with additional environment variables (NAME=value). id is the job's ID with PETask
// set. record is as in Assignment.
//
// The task has its own directory below the job's directory, its own supervisor, additional group ID
// and control group. Each task has the limits, processors and methods of the job, but not its
// procedures. It shares the job's TMPDIR, which stays when the task is removed. It appends to the
// output of the job, or if the job's output path is a directory, to a file petask.oJOB.
func PrepareTask(parent *Job, id job.ID, command []string, dir string, env []string, record []byte) (*Job, error) {
	if parent.remote != nil {
		return parent.remote.PrepareTask(id, command, dir, env, record)
	}
	d, err := parent.describeTask(id, command, dir, env)
	if err != nil {
		return nil, &TaskError{parent.Description.ID, err}
	}
	t := &Job{spool: parent.spool, groups: parent.groups, Description: d, Affinity: parent.affinity()}
	t.own = own{
		boot: BootID(), uid: parent.own.uid, gid: parent.own.gid, users: parent.own.users,
		shared: true, groupIDs: parent.own.groupIDs, devices: parent.own.devices, deny: parent.own.deny,
	}
	t.private = parent.private
	t.filter = parent.filter || len(parent.own.gpus)+len(parent.own.deny) > 0 // after a restart only the record tells
	if err := t.begin(false); err != nil {
		return nil, err
	}
	if t.private.Path != "" {
		if err := t.Dir.WritePrivateTmp(t.private); err != nil {
			return nil, errors.Join(err, t.undo())
		}
	}
	if d.AddGroupID, err = jobGroupIDs.take(t.own.groupIDs, t); err == nil {
		err = t.finish(jobdir.CreateOptions{Record: record})
	}
	if err != nil {
		return nil, errors.Join(err, t.undo())
	}
	return t, nil
}

// TaskError says why a request for a task is invalid. Nothing was created.
type TaskError struct {
	Job job.ID
	Err error
}

func (e *TaskError) Error() string {
	return "cannot start a task of job " + e.Job.String() + ": " + e.Err.Error()
}

// Unwrap returns the cause.
func (e *TaskError) Unwrap() error { return e.Err }

// affinity returns the processors and memory nodes that the job is restricted to.
func (j *Job) affinity() binding.Affinity {
	a := j.Affinity
	if a.CPUs.IsEmpty() {
		// Of a job that was opened the memory nodes are not known.
		if cpus, err := topology.ParseList(j.Description.BindingCPUs); err == nil {
			a.CPUs = cpus
		}
	}
	return a
}

// describeTask makes the description of a task from that of its job.
func (j *Job) describeTask(id job.ID, command []string, dir string, env []string) (*job.Description, error) {
	of := j.Description
	switch {
	case j.terminal || of.ID.PETask != "":
		return nil, errors.New("only jobs of an agent have tasks")
	case of.PE == nil:
		return nil, errors.New("it is not a parallel job")
	case id.Job != of.ID.Job || id.Task != of.ID.Task || id.PETask == "":
		return nil, fmt.Errorf("%s is not a task of this job", id)
	case len(command) == 0 || command[0] == "":
		return nil, errors.New("there is no command")
	case dir != "" && !strings.HasPrefix(dir, "/"):
		return nil, fmt.Errorf("working directory %q is not an absolute path", dir)
	}
	d := *of
	d.ID, d.Name, d.AddGroupID = id, taskName, 0
	d.Command = job.Command{
		File: command[0], Args: slices.Clone(command[1:]), Binary: true, NoShell: true,
		Shell: of.Command.Shell, StartMode: of.Command.StartMode,
	}
	if dir != "" {
		d.Cwd = dir
	}
	d.Prolog, d.Epilog, d.StarterMethod, d.Ckpt, d.PTY = "", "", "", nil, job.No
	pe := *of.PE
	pe.Start, pe.Stop = "", ""
	d.PE = &pe
	for i := range d.Streams {
		d.Streams[i].Inherit = false
	}
	d.Streams[0].Path = ""
	var err error
	d.Environment, err = taskEnvironment(j.environment(), env, j.spool.JobPath(id), elementsIn(of.Trusted))
	if err == nil {
		err = jobdir.Check(&d)
	}
	return &d, err
}

// environment returns the current environment of the job: the site's procedures may have edited it.
func (j *Job) environment() []string {
	b, err := j.Dir.ReadFile(jobdir.FileEnvironment)
	if err != nil {
		return j.Description.Environment
	}
	vars, _ := jobdir.ParseEditedEnvironment(b, job.DaemonGridEngine)
	return vars
}

// granted are the variables with the resources of a job, which a task cannot change.
var granted = []string{
	"ARC", "ENVIRONMENT", "HOME", "HOSTNAME", "JOB_ID", "JOB_SCRIPT", "LOGNAME", "NHOSTS", "NQUEUES", "NSLOTS", "PE",
	"QUEUE", "REQNAME", "REQUEST", "RESTARTED", "SGE_ACCOUNT", "SGE_ARCH", "SGE_BINARY_PATH", "SGE_BINDING", "SGE_CELL",
	"SGE_ROOT", "SGE_TASK_FIRST", "SGE_TASK_ID", "SGE_TASK_LAST", "SGE_TASK_STEPSIZE", "SHELL", "TMP", "TMPDIR", "USER",
}

// taskEnvironment returns the environment of the job with the variables sent for the task, and
// without PE_HOSTFILE, which is for the master task. elements are the variables with the job's
// resources on this host: the ones that were sent belong to another host.
func taskEnvironment(ofJob, sent []string, directory string, elements []string) ([]string, error) {
	fixed := map[string]string{"JOB_NAME": taskName, "SGE_JOB_SPOOL_DIR": directory}
	for _, name := range slices.Concat(granted, elements) {
		fixed[name] = ""
	}
	var list []string
	at := map[string]int{}
	set := func(variable string) {
		name, _, _ := strings.Cut(variable, "=")
		if i, ok := at[name]; ok {
			list[i] = variable
			return
		}
		at[name] = len(list)
		list = append(list, variable)
	}
	for _, v := range ofJob {
		if name, _, _ := strings.Cut(v, "="); name != "PE_HOSTFILE" && fixed[name] == "" {
			set(v)
		}
	}
	for _, v := range sent {
		name, _, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("%q is not a variable of the form NAME=value", v)
		}
		if _, ours := fixed[name]; !ours && name != "PE_HOSTFILE" {
			set(v)
		}
	}
	for _, name := range []string{"JOB_NAME", "SGE_JOB_SPOOL_DIR"} {
		set(name + "=" + fixed[name])
	}
	return list, nil
}

// removeTasks removes the remaining tasks of the job.
func (j *Job) removeTasks(keep bool) error {
	if j.Description.ID.PETask != "" {
		return nil
	}
	names, err := j.Dir.PETasks()
	if err != nil {
		return err
	}
	for _, name := range names {
		id := j.Description.ID
		id.PETask = name
		if err := removeTask(j, id, keep); err != nil {
			return err
		}
	}
	return nil
}

func removeTask(j *Job, id job.ID, keep bool) error {
	t, stage, err := Open(j.spool, j.groups, nil, id)
	if errors.Is(err, jobdir.ErrIncomplete) {
		return Discard(j.spool, j.groups, id)
	}
	if err != nil {
		return err
	}
	if stage == Kept {
		return t.Close()
	}
	return errors.Join(t.Remove(keep), t.Close())
}
