package cell

import (
	"strconv"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// requestFields is a submit.Request with the field names of records. The compiler checks that no
// field is missing. Unset fields are omitted; an empty list differs from none.
type requestFields struct {
	Help   bool `json:"help,omitzero"`
	DryRun bool `json:"dry_run,omitzero"`
	Terse  bool `json:"terse,omitzero"`

	Command   string            `json:"command,omitzero"`
	Script    []byte            `json:"-"` // has its own record
	FromStdin bool              `json:"from_stdin,omitzero"`
	Args      []string          `json:"args,omitzero"`
	Binary    bool              `json:"binary,omitzero"`
	NoShell   bool              `json:"no_shell,omitzero"`
	Login     bool              `json:"login,omitzero"`
	Shell     []submit.HostPath `json:"shell,omitzero"`

	Name     string `json:"name,omitzero"`
	Account  string `json:"account,omitzero"`
	Project  string `json:"project,omitzero"`
	Priority int    `json:"priority,omitzero"`

	Input      []submit.HostPath `json:"input,omitzero"`
	Output     []submit.HostPath `json:"output,omitzero"`
	Error      []submit.HostPath `json:"error,omitzero"`
	Join       bool              `json:"join,omitzero"`
	WorkingDir string            `json:"working_dir,omitzero"`

	Env     []submit.Variable `json:"env,omitzero"`
	Context []submit.Variable `json:"context,omitzero"`

	Array   *submit.Array           `json:"array,omitzero"`
	PE      *submit.ParallelRequest `json:"pe,omitzero"`
	Binding *submit.Binding         `json:"binding,omitzero"`
	Notify  bool                    `json:"notify,omitzero"`
	Rerun   job.Tristate            `json:"rerun"` // the zero value means no
	PTY     job.Tristate            `json:"pty"`

	Checkpoint         string        `json:"checkpoint,omitzero"`
	CheckpointWhen     string        `json:"checkpoint_when,omitzero"`
	CheckpointInterval time.Duration `json:"checkpoint_interval,omitzero"` // nanoseconds

	Mail        []string        `json:"mail,omitzero"`
	MailOptions job.MailOptions `json:"mail_options,omitzero"`

	Resources []submit.ResourceRequest `json:"resources,omitzero"`

	Queues       []submit.QueueRequest `json:"queues,omitzero"`
	MasterQueues []string              `json:"master_queues,omitzero"`
	Immediate    bool                  `json:"immediate,omitzero"`
	Reserve      bool                  `json:"reserve,omitzero"`
	Validation   submit.Validation     `json:"validation,omitzero"`
	Sync         bool                  `json:"sync,omitzero"`

	Hold           bool            `json:"hold,omitzero"`
	Start          submit.DateTime `json:"start,omitzero"`
	Deadline       submit.DateTime `json:"deadline,omitzero"`
	PrecedingJobs  []string        `json:"preceding_jobs,omitzero"`
	PrecedingTasks []string        `json:"preceding_tasks,omitzero"`
	TaskLimit      int             `json:"task_limit,omitzero"`
	JobShare       int             `json:"job_share,omitzero"`
	Reservation    int             `json:"reservation,omitzero"`

	Noted []submit.Note `json:"noted,omitzero"`
}

// reservationFields is a submit.Reservation with the field names of records.
type reservationFields struct {
	Start     submit.DateTime `json:"start,omitzero"`
	End       submit.DateTime `json:"end,omitzero"`
	Duration  time.Duration   `json:"duration,omitzero"`
	HardError bool            `json:"hard_error,omitzero"`
	Users     []string        `json:"users,omitzero"`

	Name    string `json:"name,omitzero"`
	Account string `json:"account,omitzero"`

	PE           *submit.ParallelRequest  `json:"pe,omitzero"`
	Checkpoint   string                   `json:"checkpoint,omitzero"`
	Resources    []submit.ResourceRequest `json:"resources,omitzero"`
	Queues       []string                 `json:"queues,omitzero"`
	MasterQueues []string                 `json:"master_queues,omitzero"`
	Immediate    bool                     `json:"immediate,omitzero"`
	Validation   submit.Validation        `json:"validation,omitzero"`

	Mail        []string        `json:"mail,omitzero"`
	MailOptions job.MailOptions `json:"mail_options,omitzero"`
	Help        bool            `json:"help,omitzero"`
}

// requestsRecord is a scheduler.Requests with the field names of records. User, group and project
// are those of the job. Only the requests of jobs are frozen, not those of reservations.
type requestsRecord struct {
	Hard         []qconf.Setting `json:"hard,omitzero"`
	Soft         []qconf.Setting `json:"soft,omitzero"`
	Queues       string          `json:"queues,omitzero"`
	SoftQueues   string          `json:"soft_queues,omitzero"`
	MasterQueues string          `json:"master_queues,omitzero"`
	PE           string          `json:"pe,omitzero"`
	Slots        string          `json:"slots,omitzero"`
	Checkpoint   string          `json:"checkpoint,omitzero"`
	Immediate    bool            `json:"immediate,omitzero"`
	Reservation  uint32          `json:"reservation,omitzero"`
	Binding      *bindingRecord  `json:"binding,omitzero"`
}

type bindingRecord struct {
	Instance binding.Instance `json:"instance,omitzero"`
	Strategy binding.Strategy `json:"strategy,omitzero"`
	Amount   int              `json:"amount,omitzero"`
	Slots    bool             `json:"slots,omitzero"`
	Step     int              `json:"step,omitzero"`
	HasStart bool             `json:"has_start,omitzero"`
	Socket   int              `json:"socket,omitzero"`
	Core     int              `json:"core,omitzero"`
	Pairs    []topology.Pair  `json:"pairs,omitzero"`
}

func requestsOfRecord(r *requestsRecord, j *Job) (*scheduler.Requests, error) {
	slots, err := rangesOf(r.Slots)
	if err != nil {
		return nil, err
	}
	q := &scheduler.Requests{
		User: j.Owner(), Group: j.Group, Project: j.Project, Hard: r.Hard, Soft: r.Soft,
		Queues: r.Queues, SoftQueues: r.SoftQueues, MasterQueues: r.MasterQueues, PE: r.PE, Slots: slots,
		Checkpoint: r.Checkpoint, Immediate: r.Immediate, Reservation: r.Reservation,
	}
	if b := r.Binding; b != nil {
		q.Binding = binding.Request{
			Instance: b.Instance, Strategy: b.Strategy, Amount: b.Amount, Slots: b.Slots, Step: b.Step,
			HasStart: b.HasStart, Socket: b.Socket, Core: b.Core, Pairs: b.Pairs,
		}
	}
	return q, nil
}

func recordOfRequests(q *scheduler.Requests) *requestsRecord {
	r := &requestsRecord{
		Hard: q.Hard, Soft: q.Soft, Queues: q.Queues, SoftQueues: q.SoftQueues, MasterQueues: q.MasterQueues,
		PE: q.PE, Slots: rangesRecord(q.Slots), Checkpoint: q.Checkpoint, Immediate: q.Immediate, Reservation: q.Reservation,
	}
	if b := &q.Binding; b.Strategy != binding.None {
		r.Binding = &bindingRecord{
			Instance: b.Instance, Strategy: b.Strategy, Amount: b.Amount, Slots: b.Slots, Step: b.Step,
			HasStart: b.HasStart, Socket: b.Socket, Core: b.Core, Pairs: b.Pairs,
		}
	}
	return r
}

// rangesRecord formats a list of ranges, range by range: "7,9" remains two ranges.
func rangesRecord(l rangelist.List) string {
	var b []byte
	for r := range l.Ranges() {
		if b != nil {
			b = append(b, ',')
		}
		b = strconv.AppendInt(b, int64(r.First), 10)
		if r.Last == r.First {
			continue
		}
		b = strconv.AppendInt(append(b, '-'), int64(r.Last), 10)
		if r.Step != 1 {
			b = strconv.AppendInt(append(b, ':'), int64(r.Step), 10)
		}
	}
	return string(b)
}

// rangesOf reads the format of rangesRecord.
func rangesOf(text string) (rangelist.List, error) {
	if text == "" {
		return rangelist.List{}, nil
	}
	return rangelist.ParseTasks(text)
}
