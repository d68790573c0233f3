package qstat

import "strings"

// States of tasks in the master's own numbers.
const (
	statusIdle         = 0
	statusRunning      = 128
	statusTransferring = 512
)

// tasks appends the tasks that have been started or changed individually.
func (d *detailElements) tasks(j *JobDetail) {
	d.each("JB_ja_tasks", "ulong_sublist", len(j.Details), func(i int) {
		t := &j.Details[i]
		status := statusIdle
		switch {
		case t.Transferring:
			status = statusTransferring
		case t.Running:
			status = statusRunning
		}
		d.int("JAT_status", status)
		d.int("JAT_task_number", t.Task)
		if t.ErrorReason != "" {
			d.each("JAT_message_list", "ulong_sublist", 1, func(int) {
				d.int("QIM_type", 1)
				d.text("QIM_message", t.ErrorReason)
			})
		}
		d.measures("JAT_scaled_usage_list", "scaled", measures(t.Usage, t.IOWait, t.VirtualMemory, t.MaxVirtualMemory))
		d.subtasks(t)
		d.int("JAT_start_time", int(t.Started))
		d.precise("JAT_ntix", t.NormalizedTickets)
	})
}

// measures returns usage with the names of accounting(5).
func measures(u *Usage, wait, memory, most float64) []Measure {
	if u == nil {
		return nil
	}
	return []Measure{{"cpu", u.CPU}, {"mem", u.Memory}, {"io", u.IO}, {"iow", wait}, {"vmem", memory}, {"maxvmem", most}}
}

func (d *detailElements) measures(list, name string, m []Measure) {
	d.each(list, name, len(m), func(i int) {
		d.text("UA_name", m[i].Name)
		d.precise("UA_value", m[i].Value)
	})
}

func (d *detailElements) subtasks(t *TaskDetail) {
	if len(t.Subtasks) == 0 && len(t.PastUsage) == 0 {
		return
	}
	d.open("JAT_task_list")
	if len(t.PastUsage) > 0 {
		d.open("element")
		d.text("PET_id", "past_usage")
		d.int("PET_status", statusIdle)
		d.int("PET_pid", 0)
		d.measures("PET_scaled_usage", "reported_usage", t.PastUsage)
		d.subtaskTimes(0, true)
		d.close("element")
	}
	for i := range t.Subtasks {
		d.open("element")
		d.subtask(&t.Subtasks[i])
		d.close("element")
	}
	d.close("JAT_task_list")
}

func (d *detailElements) subtask(s *Subtask) {
	d.text("PET_id", s.ID)
	d.int("PET_status", statusRunning)
	_, host, _ := strings.Cut(s.Queue, "@")
	d.each("PET_granted_destin_identifier_list", "element", 1, func(int) {
		d.text("JG_qname", s.Queue)
		d.int("JG_qversion", 0)
		d.text("JG_qhostname", host)
		d.int("JG_slots", 0)
		d.text("JG_queue", "")
		d.int("JG_tag_slave_job", 0)
		d.int("JG_task_id_range", 0)
		for _, name := range []string{"JG_ticket", "JG_oticket", "JG_fticket", "JG_sticket", "JG_jcoticket", "JG_jcfticket"} {
			d.precise(name, 0)
		}
	})
	d.int("PET_pid", 0)
	m := measures(s.Usage, s.IOWait, s.VirtualMemory, s.MaxVirtualMemory)
	if m != nil && s.Submitted != 0 {
		m = append([]Measure{{"submission_time", float64(s.Submitted)}}, m...)
	}
	d.measures("PET_usage", "element", m)
	d.measures("PET_scaled_usage", "scaled", m)
	d.subtaskTimes(s.Started, false)
}

func (d *detailElements) subtaskTimes(started int64, ended bool) {
	d.int("PET_submission_time", 0)
	d.int("PET_start_time", int(started))
	d.int("PET_end_time", 0)
	d.truth("PET_do_contact", ended)
}
