package qstat

import (
	"slices"
	"strconv"
	"strings"
	"time"
)

// AppendHostsXML appends the output of qhost -xml.
func (c *Cell) AppendHostsXML(dst []byte, o HostOptions) []byte {
	v := c.hostView(o)
	dst = append(append(dst, xmlHeader...), qhostDocument...)
	for i := range c.Hosts {
		h := &c.Hosts[i]
		dst = append(appendEscaped(append(dst, " <host name='"...), h.Name), "'>\n"...)
		dst = h.appendValues(dst, o)
		if o.Resources {
			for _, r := range h.Resources {
				dst = appendEscaped(append(dst, "   <resourcevalue name='"...), r.Name)
				dst = appendEscaped(append(dst, "' dominance='"...), r.Dominance)
				dst = appendEscaped(append(dst, "'>"...), r.Value)
				dst = append(dst, "</resourcevalue>\n"...)
			}
		}
		for _, q := range v.queues[h.Name] {
			if o.Queues {
				dst = q.appendValues(dst)
			}
			if o.Jobs {
				v.jobs.eachAt(q.Name(), func(r *row) { dst = appendJobValues(dst, r, !o.Queues) })
			}
		}
		dst = append(dst, " </host>\n"...)
	}
	return append(dst, "</qhost>\n"...)
}

func (h *Host) appendValues(dst []byte, o HostOptions) []byte {
	value := func(name, v string) {
		dst = append(append(append(dst, "   <hostvalue name='"...), name...), "'>"...)
		dst = append(appendEscaped(dst, v), "</hostvalue>\n"...)
	}
	arch := h.Arch
	if arch == "" {
		arch = "-"
	}
	value("arch_string", arch)
	value("num_proc", number(h.Processors))
	if !o.NoTopology {
		value("m_socket", number(h.Sockets))
		value("m_core", number(h.Cores))
		value("m_thread", number(h.Threads))
	}
	value("load_avg", h.load())
	for i, s := range h.sizes() {
		value([...]string{"mem_total", "mem_used", "swap_total", "swap_used"}[i], size(s))
	}
	return dst
}

func (q *QueueInstance) appendValues(dst []byte) []byte {
	value := func(name, v string) {
		dst = appendEscaped(append(dst, "   <queuevalue qname='"...), q.Queue)
		dst = append(append(append(dst, "' name='"...), name...), "'>"...)
		dst = append(appendEscaped(dst, v), "</queuevalue>\n"...)
	}
	dst = append(appendEscaped(append(dst, " <queue name='"...), q.Queue), "'>\n"...)
	value("qtype_string", q.kind())
	value("slots_used", strconv.Itoa(q.Used))
	value("slots", strconv.Itoa(q.Total))
	value("slots_resv", strconv.Itoa(q.ReservedMax))
	value("state_string", q.State)
	return append(dst, " </queue>\n"...)
}

// appendJobValues appends a row of qhost -j.
func appendJobValues(dst []byte, r *row, queue bool) []byte {
	id := strconv.Itoa(r.job.ID)
	value := func(name, v string) {
		dst = append(append(append(dst, "   <jobvalue jobid='"...), id...), "' name='"...)
		dst = append(append(dst, name...), "'>"...)
		dst = append(appendEscaped(dst, v), "</jobvalue>\n"...)
	}
	dst = append(append(append(dst, " <job name='"...), id...), "'>\n"...)
	// The quotes are part of the value in the original, and not escaped.
	dst = append(append(append(dst, "   <jobvalue jobid='"...), id...), "' name='priority'>'"...)
	dst = append(appendFixed(dst, r.task.Priority, 0, 6), "'</jobvalue>\n"...)
	value("qinstance_name", r.queue)
	value("job_name", r.job.Name)
	value("job_owner", r.job.Owner)
	value("job_state", r.task.State)
	value("start_time", strconv.FormatInt(r.task.Started, 10))
	if queue {
		value("queue_name", r.queue)
	}
	value("pe_master", r.role)
	if len(r.ids) > 0 {
		value("taskid", string(appendRanges(nil, r.ids, true)))
	}
	return append(dst, " </job>\n"...)
}

// AppendQuotasXML appends the output of qquota -xml.
func AppendQuotasXML(dst []byte, rows []QuotaRow) []byte {
	dst = append(append(dst, xmlHeader...), quotaDocument...)
	attribute := func(name, v string) {
		dst = append(append(append(dst, ' '), name...), "='"...)
		dst = append(appendEscaped(dst, v), '\'')
	}
	for i := range rows {
		r := &rows[i]
		dst = append(dst, " <qquota_rule"...)
		attribute("name", r.Rule)
		dst = append(dst, ">\n"...)
		r.eachFilter(func(kind, name string) {
			dst = append(append(append(dst, "   <"...), kind...), '>')
			dst = append(append(appendEscaped(dst, name), "</"...), kind...)
			dst = append(dst, ">\n"...)
		})
		dst = append(dst, "   <limit"...)
		attribute("resource", r.Resource)
		attribute("limit", r.Limit)
		if r.Used != "" {
			attribute("value", r.Used)
		}
		dst = append(dst, "/>\n </qquota_rule>\n"...)
	}
	return append(dst, "</qquota_result>\n"...)
}

// filterKinds are the kinds of names that a filter has (sge_resource_quota(5)).
var filterKinds = []string{"users", "projects", "pes", "queues", "hosts"}

// eachFilter calls f with the kind and the name of each item of the filter; an x precedes the kind
// of excluded items. The kind becomes the name of an XML element, so a name with blanks must not be
// passed as a kind.
func (r *QuotaRow) eachFilter(f func(kind, name string)) {
	words := strings.Fields(r.Filter)
	for i := 0; i+1 < len(words); i += 2 {
		if !slices.Contains(filterKinds, words[i]) {
			continue
		}
		for item := range strings.SplitSeq(strings.Trim(words[i+1], "{}"), ",") {
			kind := words[i]
			if name, excluded := strings.CutPrefix(item, "!"); excluded {
				kind, item = "x"+kind, name
			}
			f(kind, item)
		}
	}
}

// AppendReservationsXML appends the output of qrstat -xml, with or without -explain; if details is
// true, that of qrstat -ar -xml.
func AppendReservationsXML(dst []byte, all []Reservation, details, explain bool, zone *time.Location) []byte {
	if zone == nil {
		zone = time.UTC
	}
	e := elements{dst: append(append(dst, xmlHeader...), qrstatDocument...), indent: 3, zone: zone}
	for i := range all {
		e.raw("<ar_summary>")
		e.indent = 6
		e.reservation(&all[i], details, explain)
		e.indent = 3
		e.raw("</ar_summary>")
	}
	return append(e.dst, "</qrstat>\n"...)
}

func (e *elements) reservation(r *Reservation, details, explain bool) {
	e.int("id", r.ID)
	if r.Name == "" {
		e.raw("<name/>")
	} else {
		e.text("name", r.Name)
	}
	e.text("owner", r.Owner)
	e.text("state", r.State)
	e.time("start_time", r.Start)
	e.time("end_time", r.End)
	var duration page
	duration.duration(r.Duration)
	e.text("duration", string(duration.text))
	if explain || details {
		e.texts("message", r.Messages)
	}
	if !details {
		return
	}
	e.time("submission_time", r.Submitted)
	e.text("group", r.Group)
	e.text("account", r.Account)
	e.list("resource_list", len(r.Requests), func(i int) {
		e.begin("resource")
		e.attribute("name", r.Requests[i].Name)
		e.attribute("type", r.Requests[i].Value)
	})
	if r.ErrorHandling {
		e.text("error_handling", "true")
	}
	e.list("granted_slots_list", len(r.Grants), func(i int) {
		e.begin("granted_slots ")
		e.attribute("queue_instance", r.Grants[i].Queue)
		e.attribute("slots", strconv.Itoa(r.Grants[i].Slots))
	})
	if r.PE != "" {
		e.raw("<granted_parallel_environment>")
		e.indent += 3
		e.text("parallel_environment", r.PE)
		e.int("slots", r.slots())
		e.indent -= 3
		e.raw("</granted_parallel_environment>")
	}
	if len(r.MasterQueues) > 0 {
		e.text("master_hard_queue_list", strings.Join(r.MasterQueues, ","))
	}
	if r.Checkpoint != "" {
		e.text("checkpoint_name", r.Checkpoint)
	}
	if r.MailOptions != "" {
		e.text("mail_options", r.MailOptions)
	}
	e.list("mail_list", len(r.MailList), func(i int) {
		e.begin("mail ")
		e.attribute("user", r.MailList[i].User)
		e.attribute("host", r.MailList[i].hostName())
	})
	e.users("acl_list", r.Users)
	e.users("xacl_list", r.ExcludedUsers)
}

func (e *elements) users(name string, users []string) {
	e.list(name, len(users), func(i int) {
		e.begin("acl ")
		e.attribute("user", users[i])
	})
}

// list writes an element with n empty elements, which item begins.
func (e *elements) list(name string, n int, item func(i int)) {
	if n == 0 {
		return
	}
	e.raw("<" + name + ">")
	e.indent += 3
	for i := range n {
		item(i)
		e.dst = append(e.dst, "/>\n"...)
	}
	e.indent -= 3
	e.raw("</" + name + ">")
}
