package launch

import (
	"runtime"
	"slices"
	"strings"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/cgroup"
	"github.com/execd-project/execd/qconf"
)

// Plan is all that PreparePlan has to know of a job: what an Assignment and the configuration
// come to, without the texts that they come from. It can be sent to another process.
type Plan struct {
	// Description is that of the job. PreparePlan completes it with what is chosen on this host: the
	// processors, the additional group ID, and another TMPDIR where the name is taken.
	Description *job.Description
	UID, GID    int // of the owner
	Slave       bool
	// Cores are the cores that the job asks for; nil for none.
	Cores *binding.Request
	Hosts []jobdir.PEHost // lines of pe_hostfile
	// Record is the content of the file "start" of the job directory; nil for none.
	Record []byte
	// Processes is how many processes the owner may have where those of the job cannot be counted;
	// 0 for any number.
	Processes int

	Users    []int         // IDs of users that procedures run as
	GroupIDs []qconf.Range // gid_range, for the additional group ID
	Devices  []string      // that the job may open

	GPUs []string // that the job has, by their numbers
	// Deny are devices of other GPUs. FilteredEnv is the environment of a job that the kernel keeps from
	// them, and UnfilteredEnv of one that it does not.
	Deny                       []cgroup.Device
	FilteredEnv, UnfilteredEnv []string

	// Aside says that TMPDIR is made under another name first: without root's rights.
	Aside bool
	// Foreground is Assignment.Terminal.
	Foreground bool
}

// Plan describes a job and all that PreparePlan needs besides. The error is an *OrderError.
func (o *Assignment) Plan(id job.ID, spool jobdir.Area, slave bool) (*Plan, error) {
	d, err := o.Describe(id, spool, "")
	if err != nil {
		return nil, &OrderError{err}
	}
	p := &Plan{
		Description: d, UID: int(o.Owner.UID), GID: int(o.Owner.GID), Slave: slave, Hosts: o.peHosts(), Record: o.Record,
		Processes: int(mostThreads(o.Config.CgroupsParams, max(d.HostSlots, runtime.NumCPU()))),
		Users:     procedureUsers(d, o.Lookup), Devices: o.Devices, Aside: !o.Privileged, Foreground: o.Terminal,
	}
	if o.Request.Binding != nil && o.Config.ExecdParams.EnableBinding {
		r := bindingRequest(o.Request.Binding)
		p.Cores = &r
	}
	if o.Privileged {
		p.GroupIDs = o.Config.GIDRange
	}
	o.planThings(p)
	return p, nil
}

// moveTmpdir has a job use another TMPDIR than the one that it was described with.
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

// hosts returns the lines of pe_hostfile. column replaces what stands for the processors, on all of
// them (sge_submit(1), -binding pe).
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
