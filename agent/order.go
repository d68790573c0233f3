package agent

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/qconf"
)

func marshal(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return append(b, '\n'), err
}

func (a *Agent) area() jobdir.Area { return a.launcher.Area() }

// here are the grants of a start that are on this host.
func (a *Agent) here(grants []Grant) []Grant {
	var list []Grant
	for _, g := range grants {
		if qconf.SameHost(g.Host, a.options.Host) {
			list = append(list, g)
		}
	}
	return list
}

// recordOf returns the stored record of a start. The caller holds the lock of the table.
func (a *Agent) recordOf(s *Start) (Record, error) {
	here := a.here(s.Grants)
	if len(here) == 0 {
		return Record{}, fmt.Errorf("job %s was granted no queue instance of this host, %s", s.ID, a.options.Host)
	}
	r := Record{
		ID: s.ID, Key: s.Key, Epoch: s.Epoch, Received: a.clock.Now(),
		Owner: s.Owner, Group: s.Group, Department: s.Department, Name: s.Request.Name,
		Queue: here[0].Queue, PE: s.PE, Grants: s.Grants, Slave: s.Slave, Tickets: s.Tickets,
		Priority: s.Request.Priority, Reservation: s.Reservation,
		Rerunnable: s.Request.Rerun == job.Yes,
	}
	for _, g := range here {
		r.Slots += g.Slots
	}
	cluster := a.Cluster()
	order, err := a.orderFrom(s, cluster)
	if err != nil {
		return Record{}, err
	}
	r.Category = accounting.Category(cluster, s.Owner, s.Group, s.Request.Project, s.Request)
	if s.Request.Rerun == job.Default {
		r.Rerunnable = order.Queue.Rerun
	}
	if order.PE != nil {
		r.Control, r.MasterIsTask = order.PE.ControlSlaves, order.PE.JobIsFirstTask
		r.MasterForksSlaves, r.DaemonForksSlaves = s.MasterForksSlaves, s.DaemonForksSlaves
	}
	if s.Interactive != nil {
		r.Rerunnable = false
	}
	r.Simulated = simulated(s, order.Config)
	switch order.Config.ExecdParams.KeepActive {
	case qconf.KeepAll:
		r.Keep = jobdir.KeepAll
	case qconf.KeepFailed:
		r.Keep = jobdir.KeepFailed
	}
	return r, nil
}

// assignment converts a start for package launch.
func (a *Agent) assignment(s *Start) (*launch.Assignment, error) {
	cluster, groups := a.settings.current()
	o, err := a.orderFrom(s, cluster)
	if err != nil {
		return nil, err
	}
	if o.Owner, err = a.users(s.Owner); err != nil {
		return nil, err
	}
	o.Privileged = a.launcher.Privileged()
	if !o.Privileged && !mayRunAs(os.Getuid(), o.Owner) {
		return nil, fmt.Errorf("job %s belongs to user %s: %w", s.ID, s.Owner, errOwner)
	}
	if s.Order == nil && o.Privileged {
		if o.SubmitGID, err = a.submitGroup(s, o.Config); err != nil {
			return nil, err
		}
	}
	if o.Interactive = s.Interactive; o.Interactive != nil && o.Interactive.Login {
		r := *o.Request
		r.Binary = true // there is no script
		o.Request = &r
	}
	o.Groups, o.Lookup, o.Host, o.GPUs = groups, a.users, a.options.Host, a.gpusFor(cluster)
	if err := o.CheckElements(); err != nil {
		return nil, &Error{FailedPrecondition, err}
	}
	if !s.Slave { // the procedures run where the master task is
		err = a.permit(o)
	}
	return o, err
}

// permit refuses, before anything of the job runs, a job with a procedure that this host does not
// run as the procedure's user. The job is not at fault.
func (a *Agent) permit(o *launch.Assignment) error {
	if a.options.Permit == nil {
		return nil
	}
	commands := map[string]string{"prolog": o.Config.PrologFor(o.Queue), "epilog": o.Config.EpilogFor(o.Queue)}
	if o.PE != nil {
		commands["start_proc_args"], commands["stop_proc_args"] = o.PE.Start, o.PE.Stop
	}
	for _, attribute := range slices.Sorted(maps.Keys(commands)) {
		user, _ := job.Procedure(commands[attribute])
		if user == "" || user == o.Owner.Name {
			continue
		}
		if err := a.options.Permit(user, commands[attribute]); err != nil {
			return notPermitted(fmt.Errorf("%s: %w", attribute, err))
		}
	}
	if _, err := a.shepherd(o.Config); err != nil {
		return notPermitted(err)
	}
	return nil
}

// notPermitted adds the code to an error of Options.Permit. If the host could not check, for
// example for lack of descriptors, the error is not a decision, and the start may be repeated.
func notPermitted(err error) error {
	if isExhausted(err) {
		return &Error{ResourceExhausted, err}
	}
	return &Error{PermissionDenied, err}
}

// shepherd returns the executable that supervises jobs under a configuration.
func (a *Agent) shepherd(c *qconf.Configuration) (string, error) {
	if c.ShepherdCmd != "" && a.options.Permit != nil && a.launcher.Privileged() {
		if err := a.options.Permit("root", c.ShepherdCmd); err != nil {
			return "", fmt.Errorf("shepherd_cmd: %w", err)
		}
	}
	return a.launcher.Supervisor(c)
}

// orderFrom looks up the names of a start in the configuration.
func (a *Agent) orderFrom(s *Start, c *qconf.Cluster) (*launch.Assignment, error) {
	if s.Order != nil {
		o := *s.Order
		return &o, nil
	}
	here := a.here(s.Grants)
	if len(here) == 0 {
		return nil, fmt.Errorf("job %s was granted no queue instance of host %s", s.ID, a.options.Host)
	}
	queue, err := c.Instance(here[0].Queue, a.options.Host)
	if err != nil {
		return nil, err
	}
	o := &launch.Assignment{
		Request: s.Request, Host: a.options.Host, Queue: queue, Config: c.Config(a.options.Host), Complexes: c.Complexes(),
		Submitted: s.Submitted, SubmitEnv: s.SubmitEnv, SubmitDir: s.SubmitDir, Submission: s.Submission, Restarted: s.Restarted, CheckpointPID: s.CheckpointPID,
		SGERoot: a.options.SGERoot, SGECell: a.options.SGECell,
		BinaryPath: a.binaryPath(), Arch: job.Arch(runtime.GOARCH),
	}
	o.BookMemory(c)
	if o.Submitted.IsZero() {
		o.Submitted = a.clock.Now()
	}
	for _, g := range here {
		o.Slots += g.Slots
		for name, ids := range g.Names {
			if o.Elements == nil {
				o.Elements = map[string][]string{}
			}
			o.Elements[name] = append(o.Elements[name], ids...)
		}
	}
	for _, g := range s.Grants {
		o.TotalSlots += g.Slots
		o.Hosts = append(o.Hosts, jobdir.PEHost{Host: g.Host, Slots: g.Slots, Queue: g.Queue + "@" + g.Host})
	}
	if s.PE != "" {
		if o.PE, err = c.PE(s.PE); err != nil {
			return nil, err
		}
	} else if o.TotalSlots != 1 {
		return nil, fmt.Errorf("job %s was granted %d slots and no parallel environment", s.ID, o.TotalSlots)
	}
	if o.Ckpt, err = launch.Checkpoint(c, queue, s.Request.Checkpoint); err != nil {
		return nil, err
	}
	return o, nil
}
