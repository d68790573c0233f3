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

// appendQueues appends what qstat -f prints (qstat(1), Full Format).
func (l *lister) appendQueues(dst []byte, s *sections) []byte {
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
			dst = append(appendLeft(dst, "queuename", l.width), " qtype resv/used/tot. "...)
			dst = appendClipped(dst, cmp.Or(l.LoadName, "load_avg"), 8)
			dst = append(dst, " arch          states\n"...)
			l.headed = true
		}
		dst = append(appendRepeated(dst, '-', rule), '\n')
		dst = l.appendQueue(dst, q, name)
		s.eachAt(name, func(r *row) { dst = l.appendRow(dst, r) })
		delete(s.at, name)
	}
	dst = l.appendTitled(dst, func(f func(*row)) { s.eachIn(Pending, f) },
		" - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS - PENDING JOBS\n")
	dst = l.appendTitled(dst, func(f func(*row)) { s.eachIn(Finished, f) },
		" --  FINISHED JOBS  -  FINISHED JOBS  -  FINISHED JOBS  -  FINISHED JOBS  --  \n")
	return l.appendTitled(dst, s.eachLeft, "  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -\n")
}

// appendTitled appends rows below a title; nothing without any.
func (l *lister) appendTitled(dst []byte, each func(f func(*row)), title string) []byte {
	rule := titleRule
	if l.Extended {
		rule += titleExtendedRule
	}
	titled := false
	each(func(r *row) {
		if !titled {
			dst = appendRepeated(append(dst, '\n'), '#', rule)
			dst = append(append(dst, '\n'), title...)
			dst = append(appendRepeated(dst, '#', rule), '\n')
			titled = true
		}
		dst = l.appendRow(dst, r)
	})
	return dst
}

func (l *lister) appendQueue(dst []byte, q *QueueInstance, name string) []byte {
	dst = append(appendClipped(dst, name, l.width), ' ')
	dst = append(appendLeft(dst, q.kind(), 5), ' ')
	dst = append(q.appendSlots(dst, q.Reserved), ' ')
	begin := len(dst)
	if q.Load == nil {
		dst = append(dst, "-NA-"...)
	} else {
		dst = appendFixed(dst, *q.Load, 0, 2)
		dst = dst[:min(len(dst), begin+8)] // (tested)
	}
	dst = append(appendBlanks(dst, 8-(len(dst)-begin)), ' ')
	arch := q.Arch
	if arch == "" {
		arch = "-NA-"
	}
	dst = append(appendLeft(dst, arch, 13), ' ')
	dst = append(append(dst, q.State...), '\n')
	if strings.Contains(l.Explain, "a") {
		dst = appendAlarms(dst, q.LoadAlarms, loadThreshold)
	}
	if strings.Contains(l.Explain, "A") {
		dst = appendAlarms(dst, q.SuspendAlarms, suspendThreshold)
	}
	if strings.Contains(l.Explain, "c") {
		dst = appendMessages(dst, q.Ambiguities)
	}
	if strings.Contains(l.Explain, "E") {
		dst = appendMessages(dst, q.Errors)
	}
	if l.Resources {
		for _, r := range q.Resources {
			dst = append(r.append(append(dst, '\t')), '\n')
		}
	}
	return dst
}

// kind is the type of the queue instance.
func (q *QueueInstance) kind() string {
	if q.Type == "" {
		return "N"
	}
	return q.Type
}

// appendSlots appends reserved/used/total, cut where it is longer than its column.
func (q *QueueInstance) appendSlots(dst []byte, reserved int) []byte {
	const width = 14
	begin := len(dst)
	dst = append(strconv.AppendInt(dst, int64(reserved), 10), '/')
	dst = append(strconv.AppendInt(dst, int64(q.Used), 10), '/')
	dst = strconv.AppendInt(dst, int64(q.Total), 10)
	return appendBlanks(dst[:min(len(dst), begin+width)], width-(len(dst)-begin))
}

// append appends DOMINANCE:NAME=VALUE.
func (r Resource) append(dst []byte) []byte {
	dst = append(append(dst, r.Dominance...), ':')
	dst = append(append(dst, r.Name...), '=')
	return append(dst, r.Value...)
}

// The kinds of thresholds, as alarms name them.
const (
	loadThreshold    = "load-threshold"
	suspendThreshold = "suspend-threshold"
)

func (a Alarm) append(dst []byte, threshold string) []byte {
	if a.Message != "" {
		return append(dst, a.Message...)
	}
	dst = append(a.Resource.append(append(dst, "alarm "...)), ' ')
	return append(append(append(dst, threshold...), '='), a.Threshold...)
}

func appendAlarms(dst []byte, alarms []Alarm, threshold string) []byte {
	for _, a := range alarms {
		dst = append(a.append(append(dst, '\t'), threshold), '\n')
	}
	return dst
}

func appendMessages(dst []byte, messages []string) []byte {
	for _, m := range messages {
		dst = append(append(append(dst, '\t'), m...), '\n')
	}
	return dst
}
