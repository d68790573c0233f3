package command

import (
	"fmt"
	"slices"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/expression"
)

// jobDetails is qstat -j.
func (x *call) jobDetails(l *line, names string) {
	if x.cell.Unexplained() {
		x.cell.Explain(x.now)
	}
	v := view.New(x.cell, x.now)
	o := qstat.DetailOptions{NoBinding: l.has("-ncb"), Zone: x.zone}
	if names == "" {
		x.reasons(l, v)
		return
	}
	jobs, missing := x.named(list(names))
	// Where some of the jobs are there, nothing is said of the others; and it is no failure
	// with -xml (tested).
	switch {
	case len(jobs) > 0:
	case l.has("-xml"):
		x.print(qstat.AppendUnknownJobsXML(nil, missing))
		return
	case len(missing) > 0:
		x.result.Exit = 1
		x.stderr.view(qstat.AppendUnknownJobs(nil, missing))
		x.ended(missing)
		return
	}
	var details []qstat.JobDetail
	for _, j := range jobs {
		details = append(details, v.Detail(j, x.in.By))
	}
	switch {
	case l.has("-json"):
		x.json(&qstat.Document{Details: details})
	case l.has("-xml"):
		x.print(qstat.AppendDetailsXML(nil, details, o))
	default:
		x.print(qstat.AppendDetails(nil, details, o))
	}
}

// ended says of jobs that are not there any more what is known of their end.
func (x *call) ended(names []string) {
	for _, f := range x.cell.Finished() {
		id := number(f.ID())
		if !slices.Contains(names, id) {
			continue
		}
		text := fmt.Sprintf("job %s (%s) has ended at %s", id, f.Name(), time.Unix(f.Left, 0).In(x.zone).Format("01/02/2006 15:04:05"))
		if e := f.Ending; e.Text != "" {
			if f.Request().Array != nil {
				text += ", its task " + number(e.Task)
			}
			text += ": " + e.Text
		}
		if f.Ran {
			text += "; qacct -j " + id + " has its accounting"
		}
		x.warn("%s", text)
	}
}

// reasons is qstat -j without a list.
func (x *call) reasons(l *line, v *view.View) {
	shared, groups := v.Reasons()
	switch {
	case l.has("-json"):
		x.json(&qstat.Document{Reasons: shared, Groups: groups})
	case l.has("-xml"):
		x.print(qstat.AppendReasonsXML(nil, shared, groups))
	default:
		x.print(qstat.AppendReasons(nil, shared, groups))
	}
}

// named are the jobs that numbers, names and expressions mean, each once and by their
// numbers, and what means none.
func (x *call) named(names []string) (jobs []*cell.Job, missing []string) {
	all := x.cell.Jobs()
	called := map[string][]*cell.Job{} // by name and by number
	for _, j := range all {
		called[j.Name()] = append(called[j.Name()], j)
		called[number(j.ID())] = append(called[number(j.ID())], j)
	}
	wanted := map[*cell.Job]bool{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		found := called[name]
		if !expression.PlainPattern(name) {
			pattern := expression.CompilePattern(false, name)
			for _, j := range all {
				if pattern.Match(j.Name()) {
					found = append(found, j)
				}
			}
		}
		for _, j := range found {
			wanted[j] = true
		}
		if seen[name] = len(found) > 0; !seen[name] {
			missing = append(missing, name)
		}
	}
	for _, j := range all {
		if wanted[j] {
			jobs = append(jobs, j)
		}
	}
	slices.SortFunc(jobs, func(a, b *cell.Job) int { return int(a.ID()) - int(b.ID()) })
	return jobs, missing
}
