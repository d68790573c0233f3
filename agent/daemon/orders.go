package daemon

import (
	"context"
	"fmt"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/submit"
)

// auditedLink is a link to a master whose orders carry no caller of their own. The audit log gets a
// record before each order is carried out, and another one if it is refused.
type auditedLink struct {
	agent.Link
	log *audit.Log
}

// Run runs the link with commands that the audit log records.
func (l auditedLink) Run(ctx context.Context, c agent.Commands) error {
	return l.Link.Run(ctx, auditedCommands{c, l.log, audit.Caller{Via: l.Name()}})
}

// auditedCommands are the commands of an agent, with audit records for orders.
type auditedCommands struct {
	agent.Commands
	log    *audit.Log
	caller audit.Caller
}

// order carries out the order of a record.
func (a auditedCommands) order(r audit.Record, do func() error) error {
	if err := a.log.Check(); err != nil {
		return &agent.Error{Code: agent.Unavailable, Err: err}
	}
	r.Caller, r.ID, r.Outcome = a.caller, a.log.NewID(), audit.Begun
	_ = a.log.Add(&r, false) // if the log is required, Check refuses the next order
	err := do()
	if err != nil {
		r.Outcome, r.Error, r.Objects = audit.Refused, audit.TextWithoutValues(err.Error()), nil
		_ = a.log.Add(&r, false)
	}
	return err
}

// Start starts a job.
func (a auditedCommands) Start(ctx context.Context, s *agent.Start) (report agent.JobReport, err error) {
	grants := make([]any, len(s.Grants))
	for i, g := range s.Grants {
		grants[i] = fmt.Sprintf("%s@%s %d", g.Queue, g.Host, g.Slots)
	}
	attributes := map[string]audit.Attribute{"owner": {Is: s.Owner}, "grants": {Is: grants}}
	if r := s.Request; r != nil {
		attributes["name"], attributes["command"] = audit.Attribute{Is: r.Name}, audit.Attribute{Is: append([]string{r.Command}, r.Args...)}
		attributes["env"] = audit.Attribute{Is: variableNames(r.Env)}
	}
	err = a.order(audit.Record{Command: "Start", Objects: []audit.Object{{Kind: "job", Name: s.ID.String(), Change: audit.Added, Attributes: attributes}}}, func() error {
		report, err = a.Commands.Start(ctx, s)
		return err
	})
	return report, err
}

func variableNames(list []submit.Variable) []string {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.Name
	}
	return names
}

// StartTask starts a task of a parallel job.
func (a auditedCommands) StartTask(ctx context.Context, s *agent.TaskStart) (report agent.JobReport, err error) {
	err = a.order(audit.Record{Command: "StartTask", Objects: []audit.Object{{
		Kind: "task", Name: s.Job.String() + "." + s.Key, Change: audit.Added,
		Attributes: map[string]audit.Attribute{"owner": {Is: s.Owner}, "command": {Is: audit.WithoutValues(s.Command)}},
	}}}, func() error {
		report, err = a.Commands.StartTask(ctx, s)
		return err
	})
	return report, err
}

// Signal gives an order to a job.
func (a auditedCommands) Signal(ctx context.Context, id job.ID, o agent.Order) error {
	r := audit.Record{Command: "Signal", Args: []string{string(o), id.String()}}
	if j, ok := a.Job(id); ok {
		r.Objects = []audit.Object{{Kind: "job", Name: id.String(), Change: audit.Changed, Attributes: map[string]audit.Attribute{
			"order": {Is: string(o)}, "state": {Was: string(j.State)}, "owner": {Was: j.Owner, Is: j.Owner},
		}}}
	}
	return a.order(r, func() error { return a.Commands.Signal(ctx, id, o) })
}

// SignalQueue gives an order to all jobs of a queue.
func (a auditedCommands) SignalQueue(ctx context.Context, queue string, o agent.Order) error {
	return a.order(audit.Record{Command: "SignalQueue", Args: []string{string(o), queue}}, func() error { return a.Commands.SignalQueue(ctx, queue, o) })
}

// Drain stops the host from accepting jobs, and records the order.
func (a auditedCommands) Drain(ctx context.Context, reason string) error {
	return a.order(a.draining("Drain", reason), func() error { return a.Commands.Drain(ctx, reason) })
}

// Resume lets the host accept jobs again, and records the order.
func (a auditedCommands) Resume(ctx context.Context) error {
	return a.order(a.draining("Resume", ""), func() error { return a.Commands.Resume(ctx) })
}

func (a auditedCommands) draining(command, reason string) audit.Record {
	h := a.Health()
	return audit.Record{Command: command, Objects: []audit.Object{{
		Kind: "host", Name: h.Host, Change: audit.Changed, Attributes: map[string]audit.Attribute{"draining": {Was: h.Draining, Is: reason}},
	}}}
}

// Shutdown ends the agent.
func (a auditedCommands) Shutdown(endJobs bool) {
	_ = a.order(audit.Record{Command: "Shutdown", Args: []string{fmt.Sprintf("end_jobs=%t", endJobs)}}, func() error {
		a.Commands.Shutdown(endJobs)
		return nil
	})
}

// audited returns a link that records its orders, if the daemon has an audit log.
func (d *daemon) audited(l agent.Link) agent.Link {
	if d.audit == nil {
		return l
	}
	return auditedLink{l, d.audit}
}
