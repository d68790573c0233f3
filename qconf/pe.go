package qconf

import (
	"fmt"
	"math"
	"strings"
)

// maxSlots is the largest number of slots (queue_conf(5), sge_pe(5)).
const maxSlots = 9999999

// ParallelEnvironment is an object of sge_pe(5).
type ParallelEnvironment struct {
	Text
	Name           string         // pe_name
	Slots          int            // of all jobs together, 0 to 9999999
	UserLists      []string       // access lists of its users; nil admits all users
	XUserLists     []string       // access lists of users without access
	Start, Stop    string         // start_proc_args and stop_proc_args, "[user@]path args", empty for none
	AllocationRule AllocationRule // how slots are spread over hosts
	ControlSlaves  bool           // tight integration: the agents start the tasks
	JobIsFirstTask bool           // the job script is one of the tasks
	UrgencySlots   UrgencySlots   // the number of slots that a range counts as for the urgency
	AcctSummary    bool           // accounting_summary: one record for all tasks
	QsortArgs      string         // qsort_args, empty for none
}

// AllocationRule is allocation_rule of sge_pe(5): a rule's name with its $, or
// a fixed number of slots on each host.
type AllocationRule struct {
	Name    AllocationName // empty for a fixed number
	PerHost int            // slots on each host, from 1; 0 with a name
}

// AllocationName is the name of an allocation rule.
type AllocationName string

// The named allocation rules of sge_pe(5).
const (
	PESlots    AllocationName = "$pe_slots"    // all slots on one host
	FillUp     AllocationName = "$fill_up"     // all slots of the best host, then those of the next
	RoundRobin AllocationName = "$round_robin" // one slot of each host, again and again
)

// UrgencySlots is urgency_slots of sge_pe(5).
type UrgencySlots struct {
	Name  UrgencyName // empty for a fixed number
	Fixed int         // slots; 0 with a name
}

// UrgencyName is a way to assess a range of slots.
type UrgencyName string

// The ways to assess a range of slots of sge_pe(5).
const (
	UrgencyMin UrgencyName = "min" // the smallest number in the range
	UrgencyMax UrgencyName = "max" // the largest number in the range
	UrgencyAvg UrgencyName = "avg" // the average of all numbers
)

var peTable = table[ParallelEnvironment]{
	object: "parallel environment",
	manual: "sge_pe(5)",
	layout: layout{column: 19},
	rows: []attribute[ParallelEnvironment]{
		{name: "pe_name", required: true, kind: name(func(p *ParallelEnvironment) *string { return &p.Name })},
		row("slots", "0", number(0, maxSlots, func(p *ParallelEnvironment) *int { return &p.Slots })),
		row("user_lists", none, names(func(p *ParallelEnvironment) *[]string { return &p.UserLists })),
		row("xuser_lists", none, names(func(p *ParallelEnvironment) *[]string { return &p.XUserLists })),
		row("start_proc_args", none, userCommand(peVariables, func(p *ParallelEnvironment) *string { return &p.Start })),
		row("stop_proc_args", none, userCommand(peVariables, func(p *ParallelEnvironment) *string { return &p.Stop })),
		row("allocation_rule", string(PESlots), kind[ParallelEnvironment]{read: readAllocationRule}),
		row("control_slaves", "FALSE", boolean(func(p *ParallelEnvironment) *bool { return &p.ControlSlaves })),
		row("job_is_first_task", "TRUE", boolean(func(p *ParallelEnvironment) *bool { return &p.JobIsFirstTask })),
		row("urgency_slots", string(UrgencyMin), kind[ParallelEnvironment]{read: readUrgencySlots}),
		row("accounting_summary", "FALSE", boolean(func(p *ParallelEnvironment) *bool { return &p.AcctSummary })),
		row("qsort_args", none, orNone(anyText(func(p *ParallelEnvironment) *string { return &p.QsortArgs }), func(p *ParallelEnvironment) *string { return &p.QsortArgs })),
		since("9.0", row("ign_sreq_on_mhost", "FALSE", boolean(func(*ParallelEnvironment) *bool { return new(bool) }))),
		since("9.0", row("master_forks_slaves", "FALSE", boolean(func(*ParallelEnvironment) *bool { return new(bool) }))),
		since("9.0", row("daemon_forks_slaves", "FALSE", boolean(func(*ParallelEnvironment) *bool { return new(bool) }))),
	},
}

// ParsePE reads a parallel environment in the notation of sge_pe(5). file is
// only used in errors, which are all *Error, joined.
func ParsePE(file string, data []byte) (*ParallelEnvironment, error) {
	return whole(newPE(peTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (p *ParallelEnvironment) With(attribute, value string) (*ParallelEnvironment, error) {
	return whole(newPE(peTable.with(p.Text, attribute, value)))
}

func newPE(text Text, p ParallelEnvironment, err error) (*ParallelEnvironment, error) {
	p.Text = text
	return &p, err
}

func readAllocationRule(p *ParallelEnvironment, s string) (string, error) {
	p.AllocationRule = AllocationRule{}
	if strings.HasPrefix(s, "$") {
		return keyword(func(p *ParallelEnvironment) *AllocationName { return &p.AllocationRule.Name }, PESlots, FillUp, RoundRobin).read(p, s)
	}
	n, err := parseNumber(s, 1, maxSlots)
	if err != nil {
		return s, fmt.Errorf("%q is not an allocation rule, expected $pe_slots, $fill_up, $round_robin or slots per host from 1 to %d", s, maxSlots)
	}
	p.AllocationRule.PerHost = n
	return fmt.Sprint(n), nil
}

func readUrgencySlots(p *ParallelEnvironment, s string) (string, error) {
	p.UrgencySlots = UrgencySlots{}
	if n, err := parseNumber(s, 0, math.MaxInt32); err == nil {
		p.UrgencySlots.Fixed = n
		return fmt.Sprint(n), nil
	}
	normal, err := keyword(func(p *ParallelEnvironment) *UrgencyName { return &p.UrgencySlots.Name }, UrgencyMin, UrgencyMax, UrgencyAvg).read(p, s)
	if err != nil {
		return s, fmt.Errorf("%q is unknown, expected min, max, avg or a number of slots", s)
	}
	return normal, nil
}
