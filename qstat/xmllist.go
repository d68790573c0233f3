package qstat

import (
	"math"
	"strconv"
	"strings"
)

// AppendXML appends the output of qstat -xml for the options. Grid Engine does not follow its own
// schema (qstat/qstat.xsd) in every element; AppendXML prints the same as Grid Engine.
func (c *Cell) AppendXML(dst []byte, o Options) []byte {
	s := c.sections(o)
	e := elements{dst: append(append(dst, xmlHeader...), qstatDocument...), indent: 2, zone: o.zone()}
	e.raw("<queue_info>")
	e.indent = 4
	if o.full() {
		for _, q := range s.queues {
			name := q.Name()
			if o.SkipEmpty && q.Used == 0 && len(s.at[name]) == 0 {
				continue
			}
			e.queue(q, name, o)
			e.indent = 6
			s.eachAt(name, func(r *row) { e.job(r, o) })
			delete(s.at, name)
			e.indent = 4
			e.raw("</Queue-List>")
		}
	} else {
		s.eachRunning(func(r *row) { e.job(r, o) })
	}
	e.dst = append(e.dst, "  </queue_info>\n  <job_info>\n"...)
	s.eachIn(Pending, func(r *row) { e.job(r, o) })
	s.eachIn(Finished, func(r *row) { e.job(r, o) })
	if o.full() {
		s.eachLeft(func(r *row) { e.job(r, o) })
	}
	return append(e.dst, "  </job_info>\n</job_info>\n"...)
}

func (e *elements) queue(q *QueueInstance, name string, o Options) {
	e.raw("<Queue-List>")
	e.indent = 6
	e.text("name", name)
	e.text("qtype", q.kind())
	e.int("slots_used", q.Used)
	e.int("slots_resv", q.Reserved)
	e.int("slots_total", q.Total)
	if q.Load != nil {
		e.float("load_avg", *q.Load)
	}
	if q.Arch != "" {
		e.text("arch", q.Arch)
	}
	if q.State != "" {
		e.text("state", q.State)
	}
	if strings.Contains(o.Explain, "a") {
		e.alarms("load-alarm-reason", q.LoadAlarms, loadThreshold)
	}
	if strings.Contains(o.Explain, "A") {
		e.alarms("suspend-alarm-reason", q.SuspendAlarms, suspendThreshold)
	}
	if strings.Contains(o.Explain, "c") {
		e.texts("message", q.Ambiguities)
	}
	if strings.Contains(o.Explain, "E") {
		e.texts("message", q.Errors)
	}
	if o.Resources {
		for _, r := range q.Resources {
			e.begin("resource")
			e.attribute("name", r.Name)
			e.attribute("type", r.Dominance)
			e.dst = appendEscaped(append(e.dst, '>'), r.Value)
			e.end("resource")
		}
	}
}

// alarms are one element with a line each.
func (e *elements) alarms(name string, alarms []Alarm, threshold string) {
	if len(alarms) == 0 {
		return
	}
	e.begin(name)
	e.dst = append(e.dst, '>')
	for i, a := range alarms {
		if i > 0 {
			e.dst = append(e.dst, "\n\t"...)
		}
		text := a.Message
		if text == "" {
			text = "alarm " + a.Dominance + ":" + a.Name + "=" + a.Value + " " + threshold + "=" + a.Threshold
		}
		e.dst = appendEscaped(e.dst, text)
	}
	e.end(name)
}

func (e *elements) job(r *row, o Options) {
	state := "pending"
	switch r.task.Phase {
	case Running:
		state = "running"
	case Finished:
		state = "zombie"
	}
	e.raw(`<job_list state="` + state + `">`)
	e.indent += 2
	j := r.job
	e.int("JB_job_number", j.ID)
	e.float("JAT_prio", r.task.Priority)
	if o.Priorities || o.Extended {
		e.float("JAT_ntix", r.task.NormalizedTickets)
	}
	if o.Priorities {
		e.float("JB_nppri", j.NormalizedPriority)
	}
	if o.Priorities || o.Urgency {
		e.float("JB_nurg", j.NormalizedUrgency)
	}
	if o.Urgency {
		e.urgency("JB_rrcontr", j.Urgency.Resource)
		e.urgency("JB_wtcontr", j.Urgency.Waiting)
		e.urgency("JB_dlcontr", j.Urgency.Deadline)
	}
	if o.Priorities {
		e.int("JB_priority", j.POSIXPriority)
	}
	e.text("JB_name", j.Name)
	e.text("JB_owner", j.Owner)
	if o.Extended {
		e.text("JB_project", j.Project)
		e.text("JB_department", j.Department)
	}
	e.text("state", r.task.State)
	e.times(r, o)
	if o.Extended {
		e.usage(r)
	}
	if !o.full() {
		e.text("queue_name", r.queue)
	}
	if o.eachSlot() {
		e.text("master", r.role)
	}
	slots := r.slots
	if r.role != "" {
		slots = 1
	}
	e.int("slots", slots)
	if len(r.ids) > 0 {
		e.ranges("tasks", r.ids, true)
	}
	if o.Requests {
		e.requests(r)
		if !o.NoBinding {
			e.text("binding", orNone(r.job.Binding))
		}
	}
	e.indent -= 2
	e.raw("</job_list>")
}

func (e *elements) times(r *row, o Options) {
	switch {
	case !o.dates():
	case r.task.Phase == Running:
		e.time("JAT_start_time", r.task.Started)
	default:
		e.time("JB_submission_time", r.job.Submitted)
	}
	if o.Urgency && r.job.Deadline != 0 {
		e.time("JB_deadline", r.job.Deadline)
	}
}

func (e *elements) usage(r *row) {
	if u := r.usage; u != nil && r.task.Phase == Running {
		e.float("cpu_usage", math.Trunc(u.CPU)) // so the original has it
		e.float("mem_usage", u.Memory)
		e.float("io_usage", u.IO)
	}
	if r.task.Phase == Finished {
		return
	}
	e.int("tickets", int(r.tickets.Total))
	e.int("JB_override_tickets", r.job.OverrideTickets)
	e.int("JB_jobshare", r.job.JobShare)
	e.int("otickets", int(r.tickets.Override))
	e.int("ftickets", int(r.tickets.Functional))
	e.int("stickets", int(r.tickets.Share))
	e.float("JAT_share", r.task.Share)
}

func (e *elements) requests(r *row) {
	j := r.job
	e.text("full_job_name", j.Name)
	if j.PE != nil {
		e.begin("requested_pe")
		e.attribute("name", j.PE.Name)
		e.dst = appendRanges(append(e.dst, '>'), j.PE.Slots, false)
		e.end("requested_pe")
	}
	if r.task.GrantedPE != "" {
		e.begin("granted_pe")
		e.attribute("name", r.task.GrantedPE)
		e.dst = strconv.AppendInt(append(e.dst, '>'), int64(r.task.slots()), 10)
		e.end("granted_pe")
	}
	for _, q := range j.Hard {
		e.begin("hard_request")
		e.attribute("name", q.Name)
		e.dst = appendFixed(append(e.dst, ` resource_contribution="`...), q.Urgency, 0, 6)
		e.dst = appendEscaped(append(e.dst, `">`...), q.Value)
		e.end("hard_request")
	}
	for _, q := range j.Soft {
		e.begin("soft_request")
		e.attribute("name", q.Name)
		e.dst = appendEscaped(append(e.dst, '>'), q.Value)
		e.end("soft_request")
	}
	e.texts("hard_req_queue", j.HardQueues)
	e.texts("soft_req_queue", j.SoftQueues)
	e.texts("master_hard_req_queue", j.MasterQueues)
	e.texts("predecessor_jobs_req", j.PredecessorsAsked)
	for _, id := range j.Predecessors {
		e.int("predecessor_jobs", id)
	}
	e.texts("ad_predecessor_jobs_req", j.ArrayPredecessorsAsked)
	for _, id := range j.ArrayPredecessors {
		e.int("ad_predecessor_jobs", id)
	}
}

// AppendSummaryXML appends the output of qstat -g c -xml.
func AppendSummaryXML(dst []byte, queues []QueueSummary, o Options) []byte {
	e := elements{dst: append(append(dst, xmlHeader...), qstatDocument...), indent: 2}
	for i := range queues {
		q := &queues[i]
		e.raw("<cluster_queue_summary>")
		e.indent = 4
		e.text("name", q.Name)
		if q.Load != nil {
			e.float("load", *q.Load)
		}
		e.int("used", q.Used)
		e.int("resv", q.Reserved)
		e.int("available", q.Available)
		e.int("total", q.Total)
		e.int("temp_disabled", q.TemporarilyDisabled)
		e.int("manual_intervention", q.ManualIntervention)
		if o.Extended {
			names := [...]string{
				"suspend_manual", "suspend_threshold", "suspend_on_subordinate", "suspend_calendar", "unknown", "load_alarm",
				"disabled_manual", "disabled_calendar", "ambiguous", "orphaned", "error",
			}
			for n, v := range q.States.inOrder() {
				e.int(names[n], v)
			}
		}
		e.indent = 2
		e.raw("</cluster_queue_summary>")
	}
	return append(e.dst, "</job_info>\n"...)
}
