package command

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
)

// summaries returns the rows of qstat -g c for queue instances, by the names of the queues
// (tested).
func summaries(v *view.View, queues []qstat.QueueInstance) []qstat.QueueSummary {
	var list []qstat.QueueSummary
	index := map[string]int{}
	type load struct{ sum, slots float64 }
	loads := map[string]*load{}
	for _, q := range qstat.SortedQueues(queues) {
		i, ok := index[q.Queue]
		if !ok {
			i = len(list)
			index[q.Queue] = i
			list = append(list, qstat.QueueSummary{Name: q.Queue})
			loads[q.Queue] = &load{}
		}
		s := &list[i]
		s.Used += q.Used
		s.Reserved += q.Reserved
		s.Total += q.Total
		free := q.Total - q.Used
		manual, temporary := strings.ContainsAny(q.State, "cdsuE"), strings.ContainsAny(q.State, "aoACDS")
		switch {
		case manual:
			s.ManualIntervention += q.Total
		case temporary:
			s.TemporarilyDisabled += q.Total
		default:
			s.Available += max(free, 0)
		}
		countStates(&s.States, q)
		if np, ok := v.Load(q.Host, "np_load_avg"); ok {
			l := loads[q.Queue]
			l.sum += np * float64(q.Total)
			l.slots += float64(q.Total)
		}
	}
	slices.SortFunc(list, func(a, b qstat.QueueSummary) int { return strings.Compare(a.Name, b.Name) })
	for i := range list {
		if l := loads[list[i].Name]; l.slots > 0 {
			average := l.sum / l.slots
			list[i].Load = &average
		}
	}
	return list
}

func countStates(s *qstat.SummaryStates, q *qstat.QueueInstance) {
	for _, c := range [...]struct {
		letter string
		n      *int
	}{
		{"s", &s.SuspendedManually},
		{"A", &s.SuspendAlarm},
		{"S", &s.SuspendedBySubordinate},
		{"C", &s.SuspendedByCalendar},
		{"u", &s.Unknown},
		{"a", &s.LoadAlarm},
		{"d", &s.DisabledManually},
		{"D", &s.DisabledByCalendar},
		{"c", &s.Ambiguous},
		{"o", &s.Orphaned},
		{"E", &s.Error},
	} {
		if strings.Contains(q.State, c.letter) {
			*c.n += q.Total
		}
	}
}
