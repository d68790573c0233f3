package message

import "github.com/execd-project/execd/agent/gridengine/cull"

// Delivery is a job for this host: a message with TagJobExecution from qmaster, or with
// TagSlaveAllow. It has one array task. Fields for scheduling only are left out.
type Delivery struct {
	_           struct{}    `cull:"JB"`
	Job         uint32      `cull:"job_number"`
	Name        string      `cull:"job_name"`
	Session     string      `cull:"session"`
	Project     string      `cull:"project"`
	Department  string      `cull:"department"`
	ExecFile    string      `cull:"exec_file"`
	ScriptFile  string      `cull:"script_file"` // path at the submission, or a command
	ScriptSize  uint32      `cull:"script_size"`
	Script      string      `cull:"script_ptr"`
	Submitted   cull.Micros `cull:"submission_time"` // since 1970
	Owner       string      `cull:"owner"`           // login name on this host
	UID         uint32      `cull:"uid"`             // on the submit host
	Group       string      `cull:"group"`
	GID         uint32      `cull:"gid"`
	Account     string      `cull:"account"`
	Cwd         string      `cull:"cwd"`
	Notify      bool        `cull:"notify"`
	Type        uint32      `cull:"type"`     // bits
	Priority    uint32      `cull:"priority"` // PriorityZero and more or less
	Shell       []Path      `cull:"shell_list"`
	Environment []Variable  `cull:"env_list"`
	Context     []Variable  `cull:"context"`
	Args        []Text      `cull:"job_args"`
	Ckpt        *Ckpt       `cull:"checkpoint_object"`
	CkptAttr    uint32      `cull:"checkpoint_attr"` // bits
	CkptName    string      `cull:"checkpoint_name"`
	CkptSeconds uint32      `cull:"checkpoint_interval"`
	Restart     uint32      `cull:"restart"` // 0 for the queue's, 1 yes, 2 no
	Stdout      []Path      `cull:"stdout_path_list"`
	Stderr      []Path      `cull:"stderr_path_list"`
	Stdin       []Path      `cull:"stdin_path_list"`
	MergeStderr bool        `cull:"merge_stderr"`
	Hard        []Resource  `cull:"hard_resource_list"`
	Soft        []Resource  `cull:"soft_resource_list"`
	// Requests are the requests by scope, if the protocol has scopes. DecodeDelivery copies the
	// requests for this host into Hard and Soft.
	Requests    []Requests `cull:"request_set_list"`
	MailOptions uint32     `cull:"mail_options"`
	Mail        []Mail     `cull:"mail_list"`
	PERange     []Range    `cull:"pe_range"`
	Structure   []Range    `cull:"ja_structure"` // -t
	Tasks       []Task     `cull:"ja_tasks"`     // one
	Host        string     `cull:"host"`         // of the submission
	PathAliases []Alias    `cull:"path_aliases"`
	Reservation uint32     `cull:"ar"`
	Certificate string     `cull:"cred"` // of the client of an interactive job, in PEM; security_mode tls
	PTY         uint32     `cull:"pty"`  // 0 no, 1 yes, 2 unset
	Binding     []Binding  `cull:"binding"`
	// SchedulerBinds says that the scheduler chooses the processors of jobs: see GrantedResource.Binding.
	SchedulerBinds bool
	// KeepsTaskID says that $TASK_ID in the job's paths stays as it is, unless it is an array job.
	KeepsTaskID bool
}

// The bits of Delivery.Type.
const (
	TypeImmediate uint32 = 1 << iota
	TypeQsh
	TypeQlogin
	TypeQrsh
	TypeQrshLogin // qrsh without a command
	TypeNoError
	TypeBinary
	TypeArray
	TypeNoShell
)

// PriorityZero is Delivery.Priority of -p 0.
const PriorityZero = 1024

// Variable is a variable of an environment, or of a context.
type Variable struct {
	_     struct{} `cull:"VA"`
	Name  string   `cull:"variable"`
	Value string   `cull:"value"`
}

// Text is one word.
type Text struct {
	_    struct{} `cull:"ST"`
	Text string   `cull:"name"`
}

// Path is a path on a host, or without one on all.
type Path struct {
	_        struct{} `cull:"PN"`
	Path     string   `cull:"path"`
	Host     string   `cull:"host"`
	FileHost string   `cull:"file_host"`
	Staging  bool     `cull:"file_staging"`
}

// Alias is a line of sge_aliases(5).
type Alias struct {
	_           struct{} `cull:"PA"`
	Origin      string   `cull:"origin"`
	SubmitHost  string   `cull:"submit_host"`
	ExecHost    string   `cull:"exec_host"`
	Translation string   `cull:"translation"`
}

// Mail is a mail address.
type Mail struct {
	_    struct{} `cull:"MR"`
	User string   `cull:"user"`
	Host string   `cull:"host"`
}

// Range is a range of numbers.
type Range struct {
	_    struct{} `cull:"RN"`
	Min  uint32   `cull:"min"`
	Max  uint32   `cull:"max"`
	Step uint32   `cull:"step"`
}

// Resource is a request for a resource.
type Resource struct {
	_          struct{} `cull:"CE"`
	Name       string   `cull:"name"`
	Shortcut   string   `cull:"shortcut"`
	Text       string   `cull:"stringval"`
	Value      float64  `cull:"doubleval"`
	Consumable uint32   `cull:"consumable"` // 0 no, 1 yes, 2 per job
}

// Values of Resource.Consumable for a consumable per slot, and for one per job. Masters of 9.x have others.
const (
	ConsumableYes = 1
	ConsumableJob = 2
)

// Ckpt is a checkpointing environment of checkpoint(5).
type Ckpt struct {
	_           struct{} `cull:"CK"`
	Name        string   `cull:"name"`
	Interface   string   `cull:"interface"`
	Command     string   `cull:"ckpt_command"`
	MigrCommand string   `cull:"migr_command"`
	RestCommand string   `cull:"rest_command"`
	CleanUp     string   `cull:"clean_command"`
	Dir         string   `cull:"ckpt_dir"`
	When        string   `cull:"when"`
	Signal      string   `cull:"signal"`
}

// Binding is a request for cores (-binding of sge_submit(1)).
type Binding struct {
	_            struct{} `cull:"BN"`
	Strategy     string   `cull:"strategy"`
	Type         uint32   `cull:"type"` // 0 set, 1 env, 2 pe
	Amount       uint32   `cull:"parameter_n"`
	SocketOffset uint32   `cull:"parameter_socket_offset"`
	CoreOffset   uint32   `cull:"parameter_core_offset"`
	StepSize     uint32   `cull:"parameter_striding_step_size"`
	Explicit     string   `cull:"parameter_explicit"`
	// Instance has the meaning of Type in 9.1, where the scheduler has chosen the processors:
	// BindingSet and the like. The other fields are zero then.
	Instance uint32 `cull:"instance"`
}

// The values of Binding.Instance.
const (
	BindingSet uint32 = 2
	BindingEnv uint32 = 3
	BindingPE  uint32 = 4
)

// Task is the array task of a Delivery.
type Task struct {
	_           struct{}    `cull:"JAT"`
	Number      uint32      `cull:"task_number"` // 1 for a job that is not an array job
	PEName      string      `cull:"granted_pe"`
	Restarted   uint32      `cull:"job_restarted"`
	Granted     []Grant     `cull:"granted_destin_identifier_list"`
	MasterQueue string      `cull:"master_queue"` // queue instance
	PID         uint32      `cull:"pvm_ckpt_pid"`
	OSJobID     string      `cull:"osjobid"`
	Tickets     float64     `cull:"tix"`
	PE          *PE         `cull:"pe_object"`
	Wallclock   cull.Micros `cull:"wallclock_limit"` // 0 or cull.Unlimited for none
	// Resources are those that the scheduler has granted, of 9.0 and later.
	Resources []GrantedResource `cull:"granted_resources_list"`
}

// GrantedResource is the amount or the elements of a resource that the scheduler has granted on a
// host.
type GrantedResource struct {
	_      struct{}    `cull:"GRU"`
	Type   uint32      `cull:"type"` // GrantedAmount and the like
	Name   string      `cull:"name"`
	Amount float64     `cull:"amount"`
	Map    []GrantedID `cull:"resource_map_list"`
	// Binding are strings as in the load value m_topology, with a small t for each thread to bind
	// to; of 9.1.
	Binding []Text `cull:"binding_inuse"`
	Host    string `cull:"host"`
}

// The values of GrantedResource.Type.
const (
	GrantedAmount  uint32 = 0 // of a consumable
	GrantedMap     uint32 = 2 // ids of a resource map
	GrantedBinding uint32 = 3 // threads of the host
)

// GrantedID is an id of a resource map.
type GrantedID struct {
	_      struct{} `cull:"RESL"`
	ID     string   `cull:"value"`
	Amount uint32   `cull:"amount"` // how often it is granted
}

// Grant is a queue instance with the slots that a job has there.
type Grant struct {
	_          struct{} `cull:"JG"`
	Queue      string   `cull:"qname"` // queue instance
	Host       string   `cull:"qhostname"`
	Slots      uint32   `cull:"slots"`
	Settings   *Queue   `cull:"queue"`
	SlaveJob   uint32   `cull:"tag_slave_job"`
	Processors string   `cull:"processors"`
}

// Queue are the settings of a queue instance, as texts of queue_conf(5).
type Queue struct {
	_               struct{} `cull:"QU"`
	Host            string   `cull:"qhostname"`
	Name            string   `cull:"qname"`
	FullName        string   `cull:"full_name"`
	Slots           uint32   `cull:"job_slots"`
	Priority        string   `cull:"priority"`
	Tmpdir          string   `cull:"tmpdir"`
	ShellStartMode  string   `cull:"shell_start_mode"`
	Shell           string   `cull:"shell"`
	Prolog          string   `cull:"prolog"`
	Epilog          string   `cull:"epilog"`
	StarterMethod   string   `cull:"starter_method"`
	SuspendMethod   string   `cull:"suspend_method"`
	ResumeMethod    string   `cull:"resume_method"`
	TerminateMethod string   `cull:"terminate_method"`
	Processors      string   `cull:"processors"`
	MinCPUInterval  string   `cull:"min_cpu_interval"`
	Notify          string   `cull:"notify"`
	SoftRT          string   `cull:"s_rt"`
	HardRT          string   `cull:"h_rt"`
	SoftCPU         string   `cull:"s_cpu"`
	HardCPU         string   `cull:"h_cpu"`
	SoftFsize       string   `cull:"s_fsize"`
	HardFsize       string   `cull:"h_fsize"`
	SoftData        string   `cull:"s_data"`
	HardData        string   `cull:"h_data"`
	SoftStack       string   `cull:"s_stack"`
	HardStack       string   `cull:"h_stack"`
	SoftCore        string   `cull:"s_core"`
	HardCore        string   `cull:"h_core"`
	SoftRSS         string   `cull:"s_rss"`
	HardRSS         string   `cull:"h_rss"`
	SoftVmem        string   `cull:"s_vmem"`
	HardVmem        string   `cull:"h_vmem"`
}

// PE is a parallel environment of sge_pe(5).
type PE struct {
	_              struct{} `cull:"PE"`
	Name           string   `cull:"name"`
	Slots          uint32   `cull:"slots"`
	Start          string   `cull:"start_proc_args"`
	Stop           string   `cull:"stop_proc_args"`
	AllocationRule string   `cull:"allocation_rule"`
	ControlSlaves  bool     `cull:"control_slaves"`
	JobIsFirstTask bool     `cull:"job_is_first_task"`
	Summary        bool     `cull:"accounting_summary"`
	QsortArgs      string   `cull:"qsort_args"`
	// MasterForksSlaves says that the job script starts all tasks on its host by itself, and
	// DaemonForksSlaves that one task on each host starts the others there; of 9.0 and later.
	MasterForksSlaves bool `cull:"master_forks_slaves"`
	DaemonForksSlaves bool `cull:"daemon_forks_slaves"`
}

// Requests are the requests of a job for all of it, for its master task, or for its slave tasks.
type Requests struct {
	_     struct{}   `cull:"JRS"`
	Scope uint32     `cull:"scope"` // ScopeGlobal and the like
	Hard  []Resource `cull:"hard_resource_list"`
	Soft  []Resource `cull:"soft_resource_list"`
}

// The values of Requests.Scope (-scope of sge_submit(1) of 9.0 and later).
const (
	ScopeGlobal uint32 = iota
	ScopeMaster
	ScopeSlave
)

// DecodeDelivery reads a job; slave says that its master task is on another host.
func (c *Codec) DecodeDelivery(payload []byte, slave bool) (*Delivery, error) {
	j := &Delivery{}
	if err := c.decodeElement(payload, "job", j); err != nil {
		return j, err
	}
	j.SchedulerBinds, j.KeepsTaskID = c.binds, c.keepsTaskID
	for _, r := range j.Requests {
		if r.Scope == ScopeGlobal || slave == (r.Scope == ScopeSlave) {
			j.Hard, j.Soft = append(j.Hard, r.Hard...), append(j.Soft, r.Soft...)
		}
	}
	return j, nil
}

// EncodeDelivery packs a job.
func (c *Codec) EncodeDelivery(j *Delivery) []byte { return c.encodeElement(j) }
