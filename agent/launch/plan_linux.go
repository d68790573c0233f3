package launch

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// Plan is the input of PreparePlan: the values that result from an Assignment and the
// configuration. It can be sent to another process.
type Plan struct {
	// Description is the description of the job. PreparePlan adds the values that are chosen on
	// this host: the processors, the additional group ID, and another TMPDIR if the name is taken.
	Description *job.Description `json:",omitzero"`
	UID, GID    int              `json:",omitzero"` // of the owner
	Slave       bool             `json:",omitzero"`
	// Cores are the requested cores; nil for none.
	Cores *binding.Request `json:",omitzero"`
	// GrantedBinding is the GrantedBinding of the Assignment. If it is set, there are no Cores.
	GrantedBinding *GrantedBinding `json:",omitzero"`
	Hosts          []jobdir.PEHost `json:",omitzero"` // lines of pe_hostfile
	// Record is the content of the file "start" of the job directory; nil for none.
	Record []byte `json:",omitzero"`
	// Processes is the maximum number of the owner's processes on hosts that cannot count those of
	// the job; 0 means no limit.
	Processes int `json:",omitzero"`

	Users    []int         `json:",omitzero"` // IDs of users that procedures run as
	GroupIDs []qconf.Range `json:",omitzero"` // gid_range, for the additional group ID
	Devices  []string      `json:",omitzero"` // that the job may open

	GPUs []string `json:",omitzero"` // that the job has, by their numbers
	// Deny are the devices of other GPUs. FilteredEnv is the environment if the kernel denies them
	// to the job, and UnfilteredEnv if it does not.
	Deny                       []cgroup.Device `json:",omitzero"`
	FilteredEnv, UnfilteredEnv []string        `json:",omitzero"`
	// GPUCount is how many GPUs the job gets from those of ChooseGPUs, if its master counts GPUs with the consumable
	// GPUComplex and does not name them; 0 for a job whose GPUs are known. The choice replaces the four fields above once
	// the directory of the job is made.
	GPUCount   int    `json:",omitzero"`
	GPUComplex string `json:",omitzero"`
	inventory  *gpu.Inventory
	among      []string // Assignment.GPUAmong
	filter     bool     // GPUs that appear later are denied to the job, also if it may open all present ones

	// Scratch is the size, in bytes, to which the TMPDIR is limited as ScratchLimit says; 0 for none.
	Scratch      uint64             `json:",omitzero"`
	ScratchLimit qconf.ScratchLimit `json:",omitzero"`

	// Aside says that TMPDIR is made under another name first: without root's rights.
	Aside bool `json:",omitzero"`
	// Foreground is Assignment.Terminal.
	Foreground bool `json:",omitzero"`
}

// Plan describes a job and all that PreparePlan needs besides. The error is an *OrderError.
func (o *Assignment) Plan(id job.ID, spool jobdir.Area, slave bool) (*Plan, error) {
	d, err := o.Describe(id, spool, "")
	if err != nil {
		return nil, &OrderError{err}
	}
	p := &Plan{
		Description: d, UID: int(o.Owner.UID), GID: int(o.Owner.GID), Slave: slave, Hosts: o.peHosts(), Record: o.Record,
		Processes: MostProcesses(o.Config, d.HostSlots),
		Users:     ProcedureUsers(d, o.Lookup), Devices: o.Devices, Aside: !o.Privileged, Foreground: o.Terminal,
	}
	p.GrantedBinding = o.GrantedBinding
	if o.GrantedBinding == nil && o.Request.Binding != nil && o.Config.ExecdParams.EnableBinding {
		r := bindingRequest(o.Request.Binding)
		p.Cores = &r
	}
	if o.Privileged {
		p.GroupIDs = o.Config.GIDRange
	}
	o.planElements(p)
	if err := o.planScratch(p); err != nil {
		return nil, &OrderError{err}
	}
	return p, nil
}

// moveTmpdir changes the TMPDIR in the description of a job.
func moveTmpdir(d *job.Description, path string) {
	old := d.Tmpdir
	d.Tmpdir = path
	for i := range d.Streams {
		if s := &d.Streams[i].Staging; s.TmpPath == old+"/" {
			s.TmpPath = path + "/"
		}
	}
	d.Environment = slices.Clone(d.Environment)
	for i, variable := range d.Environment {
		name, value, _ := strings.Cut(variable, "=")
		switch rest, first := strings.CutPrefix(value, old+":"); {
		case (name == "TMPDIR" || name == "TMP") && value == old:
			d.Environment[i] = name + "=" + path
		case name == "PATH" && first:
			d.Environment[i] = name + "=" + path + ":" + rest
		}
	}
}

// mostOfUser returns the maximum number of processes and threads of the job's user, on hosts that
// cannot count those of the job alone; 0 means no limit.
func (p *Plan) mostOfUser(g *Groups) int {
	if p.Description.AddGroupKill && g.countsThreads() {
		return 0
	}
	return p.Processes
}

// hosts returns the lines of pe_hostfile. column replaces the column of the processors in all lines
// (sge_submit(1), -binding pe).
func (p *Plan) hosts(column string) []jobdir.PEHost {
	if column == "" {
		return p.Hosts
	}
	hosts := slices.Clone(p.Hosts)
	for i := range hosts {
		hosts[i].Processors = column
	}
	return hosts
}
