package golden

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"github.com/execd-project/execd/scheduler/priority"
)

// Weights translates sched_conf(5).
func (s *Step) Weights() *priority.Weights {
	return &priority.Weights{
		Priority: s.Conf.Number("weight_priority"), Urgency: s.Conf.Number("weight_urgency"), Ticket: s.Conf.Number("weight_ticket"),
		WaitingTime: s.Conf.Number("weight_waiting_time"), Deadline: s.Conf.Number("weight_deadline"),
		ReportPJobTickets: s.Conf["report_pjob_tickets"] == "TRUE",
	}
}

// AssumedSlots translates the parallel environment of a job.
func (c *Case) AssumedSlots(j *Job) int {
	if j.PE == "" {
		return priority.AssumedSlots(priority.Min, 0, 0, nil)
	}
	pe := c.PEs[Find(c.PEs, j.PE)]
	rule, fixed := priority.Fixed, int(pe.Number("urgency_slots"))
	if i := strings.Index("minmaxavg", pe["urgency_slots"]); i >= 0 {
		rule = []priority.Rule{priority.Min, priority.Max, priority.Avg}[i/3]
	}
	ranges := make([]priority.Slots, 0, len(j.Slots))
	for _, r := range j.Slots {
		s := priority.Slots{Min: r[0], Max: r[1]}
		if s.Max == 0 {
			s.Max = priority.Unbounded
		}
		ranges = append(ranges, s)
	}
	return priority.AssumedSlots(rule, fixed, int(pe.Number("slots")), ranges)
}

// Resources returns the resource contribution of a job; NaN where a request is not
// understood.
func (c *Case) Resources(j *Job) float64 {
	requests := []priority.Request{{Urgency: priority.SlotsUrgency, Amount: 1}}
	for _, r := range j.Requests {
		for _, x := range c.Complexes {
			if r[0] != x.Name && r[0] != x.Shortcut {
				continue
			}
			request := priority.Request{Urgency: x.Urgency, Text: x.Text}
			if !x.Text {
				var err error
				if request.Amount, err = Number(r[1]); err != nil {
					return math.NaN()
				}
			}
			requests = append(requests, request)
		}
	}
	return priority.ResourceContribution(requests, c.AssumedSlots(j))
}

// Order returns the indexes of jobs in the order of dispatch: by priority, submission time, job ID,
// task ID.
func Order(jobs []priority.Job, priorities []priority.Priority) []int {
	order := make([]int, len(jobs))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		a, b := &jobs[i], &jobs[j]
		return cmp.Or(cmp.Compare(priorities[j].Priority, priorities[i].Priority),
			cmp.Compare(a.Submitted, b.Submitted), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Task, b.Task))
	})
	return order
}
