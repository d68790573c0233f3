package view

import (
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/quota"
)

// View is a cell at a time.
type View struct {
	cell      *cell.Cell
	model     *scheduler.Model
	now       int64 // seconds since 1970
	decisions *scheduler.Decisions
	seen      *scheduler.Observation // nil until it is needed
	started   map[taskKey]*scheduler.Start
	// departments caches the departments of pairs of user and group.
	departments map[account]string
}

// account is a user and the primary group.
type account struct{ user, group string }

// department returns the department of a user, which is looked up once for all jobs.
func (v *View) department(user, group string) string {
	a := account{user, group}
	d, ok := v.departments[a]
	if !ok {
		if v.departments == nil {
			v.departments = map[account]string{}
		}
		d = v.cell.Department(user, group)
		v.departments[a] = d
	}
	return d
}

type taskKey struct{ job, task uint32 }

// New looks at a cell at a time, in seconds since 1970. It is good until the cell
// changes.
func New(c *cell.Cell, now int64) *View {
	v := &View{cell: c, model: c.Model(), now: now, decisions: c.Decisions()}
	if v.decisions != nil {
		v.started = make(map[taskKey]*scheduler.Start, len(v.decisions.Starts))
		for i := range v.decisions.Starts {
			s := &v.decisions.Starts[i]
			v.started[taskKey{s.Job.ID, s.Task}] = s
		}
	}
	return v
}

func (v *View) observe() *scheduler.Observation {
	if v.seen == nil {
		v.seen = v.cell.State().Observe(v.now)
	}
	return v.seen
}

// Quotas returns the rows of qquota(1).
func (v *View) Quotas(s quota.Selection) []qstat.QuotaRow {
	var rows []qstat.QuotaRow
	for _, r := range v.cell.State().Quotas(s, v.now) {
		rows = append(rows, qstat.QuotaRow{Rule: r.Rule, Resource: r.Attribute, Used: r.Used, Limit: r.Limit, Filter: r.Filter})
	}
	return rows
}

// Schedule returns the entries that the last scheduling run adds to the file schedule
// (sge_schedule(5)).
func (v *View) Schedule() []qstat.ScheduleEntry {
	if v.decisions == nil {
		return nil
	}
	var entries []qstat.ScheduleEntry
	for _, l := range v.decisions.Schedule() {
		entries = append(entries, qstat.ScheduleEntry{
			Job: int(l.Job), Task: int(l.Task), Reason: l.State, Start: l.Start, Duration: l.Duration,
			Level: string(l.Level), Object: l.Object, Resource: l.Resource, Amount: l.Amount,
		})
	}
	return entries
}
