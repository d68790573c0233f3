package view

import (
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/tickets"
)

// Shares returns the nodes of the share tree as sge_share_mon(1) shows them, depth first:
// nil without a tree.
func (v *View) Shares() []qstat.ShareRow {
	e := v.cell.Entitled()
	if e.Tree == nil {
		return nil
	}
	users, projects := v.cell.Users(), v.cell.Projects()
	name := func(list []string, i int32) string {
		if i == tickets.None {
			return ""
		}
		return list[i]
	}
	var rows []qstat.ShareRow
	for _, r := range e.Tree.Monitor(&tickets.Monitoring{
		Ledger: e.Ledger, Weights: v.model.UsageWeights(), Compensation: v.cell.Cluster().Scheduler().CompensationFactor, Names: users,
		Allowed: func(user, project int32) bool { return v.cell.MayUseProject(users[user], projects[project]) },
		Tasks:   v.tasksByLeaf(),
	}) {
		rows = append(rows, qstat.ShareRow{
			Now: v.now, UsageTime: r.UsageTime, Node: r.Path, User: name(users, r.User), Project: name(projects, r.Project),
			Shares: int(r.Shares), Jobs: r.Tasks, Level: r.Level, Total: r.Total, LongTarget: r.LongTarget, ShortTarget: r.ShortTarget,
			Actual: r.ActualShare, Usage: r.Usage, Decayed: usage(&r.Own.Decayed), LongTerm: usage(&r.Own.LongTerm),
		})
	}
	return rows
}

// tasksByLeaf counts the tasks that run or may start, by their leaf of the share tree.
func (v *View) tasksByLeaf() map[tickets.Ref]int {
	tasks := map[tickets.Ref]int{}
	for _, j := range v.cell.Jobs() {
		n := j.Scheduled().Tasks.Len()
		for _, t := range j.Tasks() {
			if t.Running() != nil {
				n++
			}
		}
		if leaf := j.Scheduled().Leaf; leaf != 0 {
			tasks[leaf] += n
		}
	}
	return tasks
}

func usage(a *tickets.Amounts) qstat.Usage {
	return qstat.Usage{CPU: a[tickets.CPU], Memory: a[tickets.Mem], IO: a[tickets.IO]}
}
