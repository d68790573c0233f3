package launch

import (
	"context"
	"errors"
	"io/fs"
	"syscall"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// Remote is a process with the rights of root that carries out the operations of a Job of another
// process. Its methods correspond to the methods of Job with the same names.
type Remote interface {
	Launch(id job.ID) (pid int, err error)
	Wait(ctx context.Context, id job.ID) (syscall.WaitStatus, error)
	Signal(id job.ID, s Signal) error
	Collect(id job.ID) (*job.Outcome, error)
	Remove(id job.ID, keep bool) error
	Note(id job.ID, n *Note) error
	// PrepareTask is the function PrepareTask; id.PETask is the name of the task.
	PrepareTask(id job.ID, command []string, dir string, env []string, record []byte) (*Job, error)
	// Terminal is ConnectTerminal.
	Terminal(ctx context.Context, id job.ID) (fd int, err error)
}

// Signal is an order to the supervisor of a job.
type Signal string

// The signals.
const (
	SignalTerminate Signal = "terminate"
	SignalKill      Signal = "kill"
	SignalSuspend   Signal = "suspend"
	SignalResume    Signal = "resume"
	SignalMigrate   Signal = "migrate"
	SignalUsr1      Signal = "usr1"
	SignalUsr2      Signal = "usr2"
)

// Send passes an order to the supervisor of the job.
func (j *Job) Send(s Signal) error {
	switch s {
	case SignalKill:
		if !j.Kill() {
			return ErrNotRunning
		}
		return nil
	case SignalSuspend:
		return j.Suspend()
	case SignalResume:
		return j.Resume()
	case SignalMigrate:
		return j.Migrate()
	case SignalUsr1:
		return j.Notify(syscall.SIGUSR1)
	case SignalUsr2:
		return j.Notify(syscall.SIGUSR2)
	}
	return j.Terminate()
}

// Note is a change of a file of the agent's in a job directory.
type Note struct {
	File string
	How  NoteKind
	Data []byte // for NoteWrite and NoteDurably
	Mark string // for NoteMark: the second name
	// Soon says that the sender does not wait until the note is written.
	Soon bool
}

// NoteKind is the operation on a file.
type NoteKind string

// The kinds of notes: methods of jobdir.Dir.
const (
	NoteWrite   NoteKind = "write"   // WriteFile
	NoteDurably NoteKind = "durably" // WriteDurably
	NoteMark    NoteKind = "mark"    // Mark
	NoteRemove  NoteKind = "remove"  // Remove
)

// Apply changes the file in a directory.
func (n *Note) Apply(d *jobdir.Dir) error {
	switch n.How {
	case NoteWrite:
		return d.WriteFile(n.File, n.Data)
	case NoteDurably:
		return d.WriteDurably(n.File, n.Data)
	case NoteMark:
		if n.Soon {
			return markAnyway(d, n.File, n.Mark)
		}
		return d.Mark(n.File, n.Mark)
	}
	return d.Remove(n.File)
}

// markAnyway makes a mark, as a separate file if the file system has no hard links, or if the marked file is missing.
func markAnyway(d Files, name, mark string) error {
	if d.Mark(name, mark) == nil {
		return nil
	}
	return d.WriteFile(mark, nil)
}

// Mark makes a mark for the agent in the job directory: see jobdir.Dir.Mark. If the file system has no hard links, or if the
// marked file is missing for lack of space, it makes a separate file.
func (j *Job) Mark(name, mark string) error { return markAnyway(j.Files(), name, mark) }

// MarkSoon does what Mark does. If another process makes the mark, MarkSoon does not wait for that: the mark is made even if
// this process is killed then, but it may be lost if both processes are.
func (j *Job) MarkSoon(name, mark string) error {
	if j.remote == nil {
		return j.Mark(name, mark)
	}
	return j.remote.Note(j.Description.ID, &Note{File: name, How: NoteMark, Mark: mark, Soon: true})
}

// Files changes the agent's files in a job directory. A *jobdir.Dir is one.
type Files interface {
	WriteFile(name string, data []byte) error
	WriteDurably(name string, data []byte) error
	Mark(name, mark string) error
	Remove(name string) error
}

// Files returns the writer for the agent's files in the job directory. Dir is for reading only.
func (j *Job) Files() Files {
	if j.remote != nil {
		return remoteFiles{j.remote, j.Description.ID}
	}
	return j.Dir
}

type remoteFiles struct {
	remote Remote
	id     job.ID
}

func (f remoteFiles) WriteFile(name string, data []byte) error {
	return f.remote.Note(f.id, &Note{File: name, How: NoteWrite, Data: data})
}

func (f remoteFiles) WriteDurably(name string, data []byte) error {
	return f.remote.Note(f.id, &Note{File: name, How: NoteDurably, Data: data})
}

func (f remoteFiles) Mark(name, mark string) error {
	return f.remote.Note(f.id, &Note{File: name, How: NoteMark, Mark: mark})
}

func (f remoteFiles) Remove(name string) error {
	return f.remote.Note(f.id, &Note{File: name, How: NoteRemove})
}

// State holds the data of a job of another process that is not in its description.
type State struct {
	Stage   Stage
	Boot    string
	PID     int // of the supervisor; 0 while it is not known
	Slave   bool
	Unbound string
	Notes   []string
	Record  []byte // content of the file "start"; nil for none
	GPUs    []string
}

// State returns the state that another process needs for NewRemote.
func (j *Job) State(stage Stage) (State, error) {
	record, err := j.Record()
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	s := j.StateWithout(stage)
	s.Record = record
	return s, err
}

// StateWithout returns the state without the record, for a process that has it.
func (j *Job) StateWithout(stage Stage) State {
	return State{Stage: stage, Boot: j.own.boot, PID: j.PID(), Slave: j.own.slave, Unbound: j.Unbound, Notes: j.Notes, GPUs: j.own.gpus}
}

// Record returns the value that Assignment.Record had when the job was prepared. For a job without
// one, the error satisfies errors.Is(err, fs.ErrNotExist).
func (j *Job) Record() ([]byte, error) {
	if j.remote == nil {
		record, _, err := j.Dir.Start()
		return record, err
	}
	if j.record == nil {
		return nil, fs.ErrNotExist
	}
	return j.record, nil
}

// NewRemote returns a job that another process has prepared or opened. dir is its directory, for
// reading.
func NewRemote(r Remote, dir *jobdir.Dir, d *job.Description, s State) *Job {
	j := &Job{
		Dir: dir, Description: d, Unbound: s.Unbound, Notes: s.Notes, remote: r, over: s.Stage == Over, record: s.Record, found: s.Stage,
		own: own{boot: s.Boot, slave: s.Slave, gpus: s.GPUs},
	}
	if s.PID > 0 {
		j.shepherd = &supervisor{pid: s.PID}
	}
	return j
}

// Stage returns the stage of a job of another process at the time when it was prepared or opened.
func (j *Job) Stage() Stage { return j.found }

// launchRemotely does what Launch does if another process owns the supervisor.
func (j *Job) launchRemotely() error {
	pid, err := j.remote.Launch(j.Description.ID)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.shepherd = &supervisor{pid: pid}
	j.mu.Unlock()
	return nil
}

// waitRemotely does what Wait does if another process owns the supervisor.
func (j *Job) waitRemotely(ctx context.Context) (syscall.WaitStatus, error) {
	j.mu.Lock()
	over, status := j.over, j.status
	j.mu.Unlock()
	if over {
		return status, nil
	}
	status, err := j.remote.Wait(ctx, j.Description.ID)
	if err == nil {
		j.mu.Lock()
		j.over, j.status = true, status
		j.mu.Unlock()
	}
	return status, err
}

// collectRemotely does what Collect does if another process ends the remaining processes.
func (j *Job) collectRemotely(status syscall.WaitStatus) *job.Outcome {
	o, err := j.remote.Collect(j.Description.ID)
	if err == nil {
		return o
	}
	// The directory tells the same, except for the remains of a killed supervisor.
	return Collect(j.Dir, j.Description, status)
}
