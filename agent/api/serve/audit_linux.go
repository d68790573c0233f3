package serve

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/job"
)

// The log records orders of masters before the agent carries them out: if the agent is killed in between,
// it may not get the order again. A second record follows if the order was refused or failed. The log
// records orders of ordinary users after they were carried out, because such users can cause any number
// of refusals.

// caller describes a peer for the audit log before its user has been identified.
func (c *call) caller() audit.Caller {
	on, _ := c.r.Context().Value(peerKey{}).(*connection)
	switch {
	case on == nil || on.peerConn == nil:
		return audit.Caller{Via: "unknown"}
	case c.r.TLS != nil:
		return audit.Caller{Via: "tls", Remote: c.r.RemoteAddr}
	case on.token != nil:
		return audit.Caller{Via: "loopback", Remote: c.r.RemoteAddr}
	}
	uid := on.uid
	a := audit.Caller{Via: "socket", UID: &uid, PID: on.pid}
	if on.via != "" {
		a = audit.Caller{Via: on.via, UID: &uid, Remote: c.r.RemoteAddr}
	}
	if uid == 0 {
		a.User = "root"
	}
	return a
}

// identified adds the identity of a peer.
func (p *peer) identified(a *audit.Caller) {
	if p.user != "" {
		a.User = p.user
	}
	a.Certificate, a.Token = p.master, p.token
}

// audit records a call that is about to be carried out. It returns an error if the configuration
// requires the log and it cannot be written.
func (c *call) audit(ctx context.Context, q any) (context.Context, *api.Error) {
	log := c.server.options.Audit
	if c.record == nil || log == nil {
		return ctx, nil
	}
	if err := log.Check(); err != nil {
		return ctx, refuse(api.Unavailable, "%v", err)
	}
	c.record.ID = log.NewID()
	c.describe(q)
	if c.peer.manager {
		begun := *c.record
		begun.Outcome = audit.Begun
		if err := log.Add(&begun, false); err != nil && log.Check() != nil {
			return ctx, refuse(api.Unavailable, "cannot change anything without a record in the audit log: %v", err)
		}
	}
	return audit.WithCall(ctx, c.record.ID, c.record.Caller), nil
}

// audited records the result of a call.
func (c *call) audited(err *api.Error) {
	log := c.server.options.Audit
	if c.record == nil || log == nil {
		return
	}
	switch {
	case err == nil && c.record.Error != "": // some starts of a batch
		c.record.Outcome, c.record.Objects = audit.Refused, nil
		_ = log.Add(c.record, false)
		return
	case err == nil && !c.peer.manager:
		c.record.Outcome = audit.Done
		_ = log.Add(c.record, false)
		return
	case err == nil:
		return
	}
	c.record.Outcome, c.record.Error = audit.Refused, string(err.Code)+": "+audit.TextWithoutValues(err.Message)
	c.record.Objects = nil
	switch err.Code {
	case api.Internal, api.Unavailable, api.Canceled, api.DeadlineExceeded:
		c.record.Outcome = audit.Failed
	}
	log.Refuse(c.record, time.Now())
}

// notStarted notes which starts of a batch were refused.
func (c *call) notStarted(q *api.BatchRequest, results []api.StartResult) {
	if c.record == nil {
		return
	}
	var list []string
	for i, r := range results {
		if r.Error != nil {
			s := &q.Starts[i]
			list = append(list, "job "+idText(s.Job, s.Task, "")+": "+string(r.Error.Code)+": "+audit.TextWithoutValues(r.Error.Message))
		}
	}
	c.record.Error = strings.Join(list, "\n")
}

// describe adds the arguments and objects of a message to the record.
func (c *call) describe(q any) {
	r := c.record
	change := func(kind, name, change string, attributes map[string]audit.Attribute) {
		r.Objects = append(r.Objects, audit.Object{Kind: kind, Name: name, Change: change, Attributes: attributes})
	}
	is := func(v any) audit.Attribute { return audit.Attribute{Is: v} }
	switch q := q.(type) {
	case *api.Start:
		change("job", idText(q.Job, q.Task, ""), audit.Added, startAttributes(q))
	case *api.BatchRequest:
		for i := range q.Starts {
			s := &q.Starts[i]
			change("job", idText(s.Job, s.Task, ""), audit.Added, startAttributes(s))
		}
	case *api.TaskStart:
		change("task", idText(q.Job, q.Task, q.Key), audit.Added, map[string]audit.Attribute{
			"owner": is(q.Owner), "command": is(audit.WithoutValues(q.Command)), "environment": is(variableNames(q.Environment)),
		})
	case *api.JobRequest: // Attach
		r.Args = []string{idText(q.Job, q.Task, q.PETask)}
	case *api.SignalRequest:
		r.Args = []string{string(q.Order), idText(q.Job, q.Task, q.PETask)}
		for _, j := range c.server.jobsOf(job.ID{Job: q.Job, Task: q.Task, PETask: q.PETask}) {
			change("job", j.ID.String(), audit.Changed, map[string]audit.Attribute{
				"order": is(string(q.Order)), "state": {Was: string(j.State)}, "suspended_by": {Was: orderTexts(j.SuspendedBy)}, "owner": {Was: j.Owner, Is: j.Owner},
			})
		}
	case *api.SignalQueueRequest:
		r.Args = []string{string(q.Order), q.Queue}
		change("queue", q.Queue, audit.Changed, map[string]audit.Attribute{"order": is(string(q.Order))})
	case *api.ConfigureRequest:
		r.Args = slices.Sorted(maps.Keys(q.Files))
	case *api.DrainRequest:
		change("host", c.server.commands.Health().Host, audit.Changed, map[string]audit.Attribute{
			"draining": {Was: c.server.commands.Health().Draining, Is: q.Reason},
		})
	case *api.Empty: // Resume
		change("host", c.server.commands.Health().Host, audit.Changed, map[string]audit.Attribute{
			"draining": {Was: c.server.commands.Health().Draining, Is: ""},
		})
	case *api.ShutdownRequest:
		r.Args = []string{"end_jobs=" + strconv.FormatBool(q.EndJobs)}
	}
}

func startAttributes(s *api.Start) map[string]audit.Attribute {
	is := func(v any) audit.Attribute { return audit.Attribute{Is: v} }
	grants := make([]any, len(s.Grants))
	for i, g := range s.Grants {
		grants[i] = fmt.Sprintf("%s@%s %d", g.Queue, g.Host, g.Slots)
	}
	a := map[string]audit.Attribute{
		"owner": is(s.Owner), "grants": is(grants), "command": is(audit.WithoutValues(s.Command)),
		"environment": is(variableNames(s.Environment)),
	}
	for name, text := range map[string]string{"key": s.Key, "pe": s.PE, "directory": s.Directory} {
		if text != "" {
			a[name] = is(text)
		}
	}
	if n := len(s.Script) + len(s.ScriptBase64); n > 0 {
		a["script"] = is(strconv.Itoa(n) + " bytes")
	}
	if s.Restarted != 0 {
		a["restarted"] = is(float64(s.Restarted))
	}
	return a
}

// variableNames returns the names of variables.
func variableNames(environment map[string]string) []string {
	return slices.Sorted(maps.Keys(environment))
}

func orderTexts(list []agent.Order) []string {
	texts := make([]string, len(list))
	for i, o := range list {
		texts[i] = string(o)
	}
	return texts
}

// idText returns a job in the form that people write.
func idText(number, task int, of string) string {
	text := strconv.Itoa(number)
	if task != 0 {
		text += "." + strconv.Itoa(task)
	}
	if of != "" {
		text += "." + of
	}
	return text
}
