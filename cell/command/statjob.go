package command

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler/expression"
)

// jobDetails runs qstat -j.
func (x *call) jobDetails(l *line, names string) {
	if x.cell.Unexplained() {
		x.cell.Explain(x.now)
	}
	v := view.New(x.cell, x.now)
	o := qstat.DetailOptions{NoBinding: l.has("-ncb"), Files: x.in.TerminalOut, Zone: x.zone}
	if len(list(names)) == 0 {
		x.reasons(l, v)
		return
	}
	jobs, missing := x.named(list(names))
	// If some of the jobs exist, the others are ignored; with -xml missing jobs are not a failure
	// (tested).
	switch {
	case len(jobs) > 0:
	case l.has("-xml"):
		x.print(qstat.AppendUnknownJobsXML(nil, missing))
		return
	case len(missing) > 0:
		x.missing(l, missing)
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
		o.NoMessages = !v.HasReasons()
		x.print(qstat.AppendDetails(nil, details, o))
	}
}

// missing answers for jobs of -j that are not in the queue. With -s z it prints how jobs finished,
// if the cell still knows them (finished_jobs of sge_conf(5)). Without -s z scripts get Grid
// Engine's message, because they would take any other text for an existing job. At a
// terminal it prints how the job finished.
func (x *call) missing(l *line, names []string) {
	states, _ := l.last("-s")
	zombies, _ := parseJobStates(states)
	ended := x.ended(names)
	if zombies["z"] {
		names = slices.DeleteFunc(names, func(name string) bool { return ended[name] != "" })
	}
	if len(names) > 0 {
		x.result.Exit = 1
		x.stderr.view(qstat.AppendUnknownJobs(nil, names))
	}
	for _, f := range x.cell.Finished() {
		switch text := ended[number(f.ID())]; {
		case text == "":
		case zombies["z"]:
			x.say("%s", text)
		case x.in.Terminal:
			x.warn("%s", text)
		}
	}
}

// ended returns a description of how jobs that left the queue ended, by job number.
func (x *call) ended(names []string) map[string]string {
	texts := map[string]string{}
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
		texts[id] = text
	}
	return texts
}

// reasons runs qstat -j without a list of jobs.
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

// named returns the jobs that match numbers, names and patterns, each once and sorted by number,
// and the words that match none. It searches through all jobs only for words that are not numbers.
func (x *call) named(names []string) (jobs []*cell.Job, missing []string) {
	var byName map[string][]*cell.Job
	wanted := map[*cell.Job]bool{}
	seen := map[string]bool{}
	for _, name := range names {
		if seen[name] {
			continue
		}
		var found []*cell.Job
		if digits := name[:len(name)-len(strings.TrimLeft(name, "0123456789"))]; digits != "" {
			// A word that begins with a digit is a number, whatever follows the digits (tested):
			// names of jobs do not begin with one.
			if id, err := strconv.ParseUint(digits, 10, 32); err == nil && x.cell.Job(uint32(id)) != nil {
				found = []*cell.Job{x.cell.Job(uint32(id))}
			}
		} else {
			if byName == nil {
				byName = map[string][]*cell.Job{}
				for _, j := range x.cell.Jobs() {
					byName[j.Name()] = append(byName[j.Name()], j)
				}
			}
			found = slices.Clone(byName[name])
			if !expression.PlainPattern(name) {
				pattern := expression.CompilePattern(false, name).ForMany()
				for called, those := range byName {
					if pattern.Match(called) {
						found = append(found, those...)
					}
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
	jobs = slices.SortedFunc(maps.Keys(wanted), func(a, b *cell.Job) int { return cmp.Compare(a.ID(), b.ID()) })
	return jobs, missing
}
