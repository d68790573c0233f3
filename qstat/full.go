package qstat

import (
	"cmp"
	"strconv"
	"strings"
)

// The rules between queue instances and around the titles of jobs without one. -ext
// makes them longer, the other options do not.
const (
	fullRule          = 81
	fullExtendedRule  = 108
	titleRule         = 76
	titleExtendedRule = 110
)

// queues adds the output of qstat -f (qstat(1), Full Format).
func (l *lister) queues(s *sections) {
	rule := fullRule + max(l.width-defaultQueueWidth, 0)
	if l.Extended {
		rule += fullExtendedRule
	}
	for _, q := range s.queues {
		name := q.Name()
		if l.SkipEmpty && q.Used == 0 && len(s.at[name]) == 0 {
			continue
		}
		if !l.headed {
			l.left("queuename", l.width)
			l.put(" qtype resv/used/tot. ")
			l.clipped(cmp.Or(l.LoadName, "load_avg"), 8)
			l.put(" arch          states\n")
			l.headed = true
		}
		l.rule('-', rule)
		l.end()
		l.instance(q, name)
		s.eachAt(name, l.row)
		delete(s.at, name)
	}
	l.titled(func(f func(*row)) { s.eachIn(Pending, f) },
		" - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS\n")
	l.titled(func(f func(*row)) { s.eachIn(Finished, f) },
		" --  FINISHED JOBS  -  FINISHED JOBS  -  FINISHED JOBS  -  FINISHED JOBS  --  \n")
	l.titled(s.eachLeft, "  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -\n")
}

// titled adds rows below a title; nothing without any.
func (l *lister) titled(each func(f func(*row)), title label) {
	rule := titleRule
	if l.Extended {
		rule += titleExtendedRule
	}
	titled := false
	each(func(r *row) {
		if !titled {
			l.end()
			l.rule('#', rule)
			l.end()
			l.put(title)
			l.rule('#', rule)
			l.end()
			titled = true
		}
		l.row(r)
	})
}

func (l *lister) instance(q *QueueInstance, name string) {
	l.clipped(name, l.width)
	l.space()
	l.left(q.kind(), 5)
	l.space()
	l.slots(q, q.Reserved)
	l.space()
	load := "-NA-"
	if q.Load != nil {
		load = strconv.FormatFloat(*q.Load, 'f', 2, 64)
	}
	l.clipped(load, 8) // (tested)
	l.space()
	l.left(cmp.Or(q.Arch, "-NA-"), 13)
	l.space()
	l.line(q.State)
	if strings.Contains(l.Explain, "a") {
		l.alarms(q.LoadAlarms, loadThreshold)
	}
	if strings.Contains(l.Explain, "A") {
		l.alarms(q.SuspendAlarms, suspendThreshold)
	}
	if strings.Contains(l.Explain, "c") {
		l.messages(q.Ambiguities)
	}
	if strings.Contains(l.Explain, "E") {
		l.messages(q.Errors)
	}
	if l.Resources {
		for _, r := range q.Resources {
			l.put("\t")
			l.resource(r)
			l.end()
		}
	}
}

// kind returns the type of the queue instance.
func (q *QueueInstance) kind() string {
	if q.Type == "" {
		return "N"
	}
	return q.Type
}

// slots adds reserved/used/total, cut to the width of the column.
func (p *page) slots(q *QueueInstance, reserved int) {
	const width = 14
	var buf [64]byte
	text := append(strconv.AppendInt(buf[:0], int64(reserved), 10), '/')
	text = append(strconv.AppendInt(text, int64(q.Used), 10), '/')
	text = strconv.AppendInt(text, int64(q.Total), 10)
	begin := len(p.text)
	p.text = append(p.text, text[:min(len(text), width)]...)
	p.fill(begin, width)
}

// resource adds DOMINANCE:NAME=VALUE.
func (p *page) resource(r Resource) {
	p.value(r.Dominance)
	p.put(":")
	p.value(r.Name)
	p.put("=")
	p.value(r.Value)
}

// The kinds of thresholds, as alarms name them.
const (
	loadThreshold    = "load-threshold"
	suspendThreshold = "suspend-threshold"
)

// alarm adds why a threshold is violated.
func (p *page) alarm(a Alarm, threshold label) {
	if a.Message != "" {
		p.value(a.Message)
		return
	}
	p.put("alarm ")
	p.resource(a.Resource)
	p.space()
	p.put(threshold)
	p.put("=")
	p.value(a.Threshold)
}

func (p *page) alarms(alarms []Alarm, threshold label) {
	for _, a := range alarms {
		p.put("\t")
		p.alarm(a, threshold)
		p.end()
	}
}

func (p *page) messages(messages []string) {
	for _, m := range messages {
		p.put("\t")
		p.line(m)
	}
}
