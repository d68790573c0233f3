package cell_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/quota"
)

// shown holds the output of all commands that show a cell.
type shown struct {
	Jobs         []qstat.Job
	Details      []qstat.JobDetail
	Reasons      []qstat.ReasonGroup
	Shared       []qstat.Reason
	Queues       []qstat.QueueInstance
	Hosts        []qstat.Host
	Reservations []qstat.Reservation
	Quotas       []qstat.QuotaRow
	Shares       []qstat.ShareRow
	Schedule     []qstat.ScheduleEntry
	Problems     []string
	Scripts      []string
	Next         int64
}

// TestRestoredIsTheSame checks for any events that a cell restored from the stored records shows the
// same, and that further events have the same effects.
func TestRestoredIsTheSame(t *testing.T) {
	cell.CheckRestored(t, func(c *cell.Cell, now int64) any {
		v := view.New(c, now)
		s := shown{
			Jobs: v.Jobs(), Queues: v.Queues(nil), Hosts: v.Hosts(nil), Reservations: v.Reservations(), Quotas: v.Quotas(quota.Selection{}),
			Shares: v.Shares(), Schedule: v.Schedule(),
		}
		// The order of queue instances of hosts that have not reported differs.
		byText := func(list []qstat.Reason) {
			slices.SortFunc(list, func(a, b qstat.Reason) int { return strings.Compare(a.Text, b.Text) })
		}
		// The numbers of users without running tasks are reused.
		slices.SortFunc(s.Quotas, func(a, b qstat.QuotaRow) int { return strings.Compare(a.Rule+a.Filter, b.Rule+b.Filter) })
		s.Shared, s.Reasons = v.Reasons()
		byText(s.Shared)
		for _, j := range c.Jobs() {
			d := v.Detail(j, cell.Caller{User: j.Owner()})
			byText(d.Reasons)
			s.Details = append(s.Details, d)
			s.Problems = append(s.Problems, j.Problem)
			s.Scripts = append(s.Scripts, string(j.Request().Script))
		}
		s.Next, _ = c.NextEvent(now)
		return s
	})
}
