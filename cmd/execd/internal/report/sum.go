package report

import (
	"strings"
	"time"

	"github.com/execd-project/execd/accounting"
)

// usage is a sum over runs.
type usage struct {
	runs, failed int
	slots, cpu   float64 // seconds
	// measured and requested are memory multiplied by run time, for runs that requested memory.
	measured, requested float64
	started             int
	pending             float64 // seconds, for runs that started
}

func (u *usage) add(v *usage) {
	u.runs += v.runs
	u.failed += v.failed
	u.slots += v.slots
	u.cpu += v.cpu
	u.measured += v.measured
	u.requested += v.requested
	u.started += v.started
	u.pending += v.pending
}

func (u *usage) row(name string) row {
	r := row{Name: name, Runs: u.runs, Failed: u.failed, SlotSeconds: u.slots, CPU: u.cpu}
	part := func(a, b float64) *float64 {
		if b <= 0 {
			return nil
		}
		p := a / b
		return &p
	}
	r.CPUPart, r.MemoryPart, r.Pending = part(u.cpu, u.slots), part(u.measured, u.requested), part(u.pending, float64(u.started))
	return r
}

// sums holds the sums of a report.
type sums struct {
	*request
	groups []string
	by     []map[string]*usage // of each group
	total  usage
	step   int64            // seconds of one element of at
	shift  int64            // seconds by which days begin before those of UTC
	at     map[int64]*usage // by the time of the end in steps; nil if it is not needed
}

const (
	// mostNames is the maximum number of users, projects or queues in memory. A daemon writes no
	// file with more.
	mostNames = 20_000
	// others is the name for the sum of all further names. No user, project or queue can have this
	// name.
	others = "(others)"
	// hour and day are steps of the time in seconds. Periods up to mostHours are added up by hours.
	hour, day = 3600, 86400
	mostHours = 10 * 24
	// mostDays is the maximum number of steps in memory. A file with more has wrong times.
	mostDays = 50_000
	// none is the name of no project (sge_types(1)).
	none = "NONE"
)

func newSums(q *request) *sums {
	s := &sums{request: q, groups: q.by}
	for range s.groups {
		s.by = append(s.by, map[string]*usage{})
	}
	if q.html {
		s.at, s.step = map[int64]*usage{}, hour
		if q.to.IsZero() || q.to.Sub(q.from) > mostHours*time.Hour {
			s.step, s.shift = day, q.shift
		}
	}
	return s
}

// add adds a record if its run ended in the period of the report. Tasks of a parallel job
// (pe_taskid) add only their CPU time.
func (s *sums) add(r *accounting.Record) {
	at := r.End
	if at.IsZero() {
		at = r.Submitted
	}
	if !s.to.IsZero() && (at.Before(s.from) || !at.Before(s.to)) {
		return
	}
	var e accounting.Efficiency
	e.Add(r)
	u := usage{runs: e.Records, failed: e.Failed, slots: e.Granted, cpu: e.CPU}
	if r.PETask == "" {
		if e.Requested > 0 && e.Memory > 0 {
			u.measured, u.requested = float64(e.Memory)*e.Wallclock, float64(e.Requested)*e.Wallclock
		}
		if !r.Start.IsZero() && !r.Submitted.IsZero() {
			u.started, u.pending = 1, max(r.Start.Sub(r.Submitted).Seconds(), 0)
		}
	}
	s.total.add(&u)
	if s.at != nil && !at.IsZero() {
		s.moment((at.Unix() + s.shift) / s.step).add(&u)
	}
	for i, group := range s.groups {
		name := r.Owner
		switch group {
		case "project":
			if name = r.Project; name == "" {
				name = none
			}
		case "queue":
			name = r.Queue
		}
		s.name(i, name).add(&u)
	}
}

// name returns the sum of a user, project or queue.
func (s *sums) name(group int, name string) *usage {
	all := s.by[group]
	u := all[name]
	if u == nil && len(all) >= mostNames {
		name = others
		u = all[name]
	}
	if u == nil {
		u = &usage{}
		all[strings.Clone(name)] = u // a copy, since the name is a part of the line
	}
	return u
}

// moment returns the sum of a step of the time. It returns a sum that no plot shows if there are too
// many steps.
func (s *sums) moment(at int64) *usage {
	u := s.at[at]
	if u == nil {
		if u = (&usage{}); len(s.at) < mostDays {
			s.at[at] = u
		}
	}
	return u
}

// merge adds other sums for the same request.
func (s *sums) merge(other *sums) {
	s.total.add(&other.total)
	for at, u := range other.at {
		s.moment(at).add(u)
	}
	for i := range s.groups {
		for name, u := range other.by[i] {
			s.name(i, name).add(u)
		}
	}
}
