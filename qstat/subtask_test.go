package qstat

import (
	"testing"
)

// testdata/subtasks was printed by Grid Engine 8.1.9 of jobs that had started processes
// with qrsh -inherit, in environments with control_slaves TRUE.

// io5 returns usage that consists of this IO value, or nil for 0.
func io5(value float64) *Usage {
	if value == 0 {
		return nil
	}
	return &Usage{IO: value}
}

const atQueue = "all.q@cellhost"

func integrated(id int, name, pe string, slots, started int, state string, own, sub float64) Job {
	j := job1(id, name, started)
	j.PE = &PE{Name: pe, Slots: []Range{{slots, slots, 1}}}
	j.Tasks[0].State, j.Tasks[0].GrantedPE, j.Tasks[0].Usage = state, pe, io5(own)
	j.Tasks[0].Grants[0].Slots = slots
	if sub != 0 {
		j.Tasks[0].Subtasks = []Subtask{
			{ID: "2.cellhost", Queue: atQueue, State: subtaskState(state), Usage: io5(sub)},
			{ID: "1.cellhost", Queue: atQueue, State: subtaskState(state), Usage: io5(sub)},
		}
	}
	return j
}

func job1(id int, name string, started int) Job {
	at := int64(1795252923 + started) // 2026-11-21 09:22:03
	return Job{ID: id, Name: name, Owner: "alice", Department: "defaultdepartment", NormalizedUrgency: 0.5, Tasks: []Task{{
		Phase: Running, State: "r", Started: at, Priority: 0.25, NormalizedTickets: 0.5, Usage: io5(0.00002),
		Grants: []Grant{{Queue: atQueue, Slots: 1}},
	}}}
}

func integratedJobs() *Cell {
	load := 6.35
	c := &Cell{Queues: []QueueInstance{{Queue: "all.q", Host: "cellhost", Type: "BIP", Used: 18, Total: 20, Load: &load, Arch: "lx-amd64"}}}
	array := integrated(21, "tarr", "tight", 4, 0, "r", 0.00115, 0.00001)
	array.Tasks = append(array.Tasks, array.Tasks[0])
	array.Tasks[0].IDs, array.Tasks[1].IDs = []Range{{1, 1, 1}}, []Range{{3, 3, 1}}
	first := integrated(22, "first", "tight1", 3, 0, "r", 0.00096, 0.00003)
	loose := integrated(23, "loose", "loose", 2, 0, "r", 0.00002, 0)
	loose.Tasks[0].Usage = &Usage{1.5, 0.00186, 0.00002}
	suspended := integrated(24, "susp", "tight", 4, 1, "s", 0.00115, 0.00003)
	c.Jobs = []Job{job1(20, "plain", 0), array, first, loose, suspended}
	for i, p := range []float64{0.25, 0.75, 0.58333, 0.41667, 0.74995} {
		for k := range c.Jobs[i].Tasks {
			c.Jobs[i].Tasks[k].Priority = p
			c.Jobs[i].Tasks[k].ExtraMaster = c.Jobs[i].Tasks[k].GrantedPE == "tight"
		}
	}
	return c
}

func TestSubtasks(t *testing.T) {
	for name, o := range map[string]Options{
		"qstat-t":        {Subtasks: true},
		"qstat-ext-t":    {Extended: true, Subtasks: true},
		"qstat-f-t":      {Full: true, Subtasks: true},
		"qstat-f-ext-t":  {Full: true, Extended: true, Subtasks: true},
		"qstat-r-t":      {Requests: true, Subtasks: true},
		"qstat-gt":       {EachSlot: true},
		"qstat-ext-gt":   {Extended: true, EachSlot: true},
		"qstat-f-ext-gt": {Full: true, Extended: true, EachSlot: true},
		"qstat-ext":      {Extended: true},
		"qstat-f-ext":    {Full: true, Extended: true},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, read(t, "testdata/subtasks/"+name+".txt"), string(integratedJobs().AppendText(nil, o)))
			if text, ok := recorded(t, "testdata/subtasks/"+name+".xml"); ok {
				same(t, text, string(integratedJobs().AppendXML(nil, o)))
			}
		})
	}
}
