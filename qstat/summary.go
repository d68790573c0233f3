package qstat

import "github.com/execd-project/execd/internal/printable"

// QueueSummary is a cluster queue in the view of qstat -g c: numbers of slots.
type QueueSummary struct {
	Name string `json:"name"`
	// Load is the average normalized load of the hosts, weighted by slots; nil if no host reports
	// it.
	Load      *float64 `json:"load,omitempty"`
	Used      int      `json:"used"`
	Reserved  int      `json:"reserved"` // by advance reservations
	Available int      `json:"available"`
	Total     int      `json:"total"`
	// TemporarilyDisabled is the number of slots in one of the states aoACDS and not in cdsuE.
	TemporarilyDisabled int `json:"temporarilyDisabled"`
	// ManualIntervention are slots in one of the states cdsuE.
	ManualIntervention int `json:"manualIntervention"`
	// States are the numbers by state, shown with -ext.
	States SummaryStates `json:"states"`
}

// SummaryStates are numbers of slots by the state of their queue instance.
type SummaryStates struct {
	SuspendedManually      int `json:"suspendedManually"`      // s
	SuspendAlarm           int `json:"suspendAlarm"`           // A
	SuspendedBySubordinate int `json:"suspendedBySubordinate"` // S
	SuspendedByCalendar    int `json:"suspendedByCalendar"`    // C
	Unknown                int `json:"unknown"`                // u
	LoadAlarm              int `json:"loadAlarm"`              // a
	DisabledManually       int `json:"disabledManually"`       // d
	DisabledByCalendar     int `json:"disabledByCalendar"`     // D
	Ambiguous              int `json:"ambiguous"`              // c
	Orphaned               int `json:"orphaned"`               // o
	Error                  int `json:"error"`                  // E
}

// inOrder returns the numbers in the order of their columns.
func (s *SummaryStates) inOrder() [11]int {
	return [...]int{
		s.SuspendedManually, s.SuspendAlarm, s.SuspendedBySubordinate, s.SuspendedByCalendar, s.Unknown, s.LoadAlarm,
		s.DisabledManually, s.DisabledByCalendar, s.Ambiguous, s.Orphaned, s.Error,
	}
}

// AppendSummary appends the output of qstat -g c. It is empty without queues. It uses the options
// Extended and QueueWidth.
func AppendSummary(dst []byte, queues []QueueSummary, o Options) []byte {
	width := o.queueWidth(func() int {
		n := 0
		for i := range queues {
			n = max(n, len(printable.String(queues[i].Name)))
		}
		return n
	})
	const narrow = 36 // the rule grows with wider names only
	rule := 80 + max(width-narrow, 0)
	p := page{dst}
	p.clipped("CLUSTER QUEUE", width)
	p.put("  CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE  ")
	if o.Extended {
		p.put("    s     A     S     C     u     a     d     D     c     o     E")
		rule += 66
	}
	p.end()
	p.rule('-', rule)
	p.end()
	for i := range queues {
		q := &queues[i]
		p.column(q.Name, width)
		if q.Load == nil {
			p.put("   -NA- ")
		} else {
			p.fixed(*q.Load, 7, 2)
			p.space()
		}
		for _, n := range [...]int{q.Used, q.Reserved, q.Available, q.Total, q.TemporarilyDisabled, q.ManualIntervention} {
			p.int(n, 6)
			p.space()
		}
		if o.Extended {
			for _, n := range q.States.inOrder() {
				p.int(n, 5)
				p.space()
			}
		}
		p.end()
	}
	return p.text
}
