package cell

import (
	"slices"

	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// target is a job, or some of its tasks, to which a command applies.
type target struct {
	job    *Job
	ranges []submit.Array // nil for the whole job
	name   string         // the name by which it was given, "" for a number
	absent *Event         // set instead of the other fields if there is no such job
}

// references describes how a command finds its jobs, and its events for missing jobs.
type references struct {
	// everybody is set if names match the jobs of all users, as in all commands except qdel
	// (tested).
	everybody bool
	missing   EventKind // if there is no such job
	// early is set if missing jobs are reported before anything is done, as in qmod (tested).
	early  bool
	noJobs EventKind // if the users of -u have no jobs
}

var (
	forChange   = references{everybody: true, missing: NoSuchJob, noJobs: NoSuchJobOfUsers}
	forDeletion = references{missing: NoSuchJob, noJobs: NoJobsOfUsers}
	forQmod     = references{everybody: true, early: true, missing: NoSuchQueueOrJob}
)

// targets finds the jobs of a command: the jobs that match the references and, if users is set,
// belong to these users ("*" for all). Without references it returns all jobs of the users. It adds
// a line for each missing job; the caller reports a target with absent set.
func (c *Cell) targets(by Caller, how references, jobs []submit.JobRange, users []string, a *Answer) []target {
	owners := users
	switch {
	case len(users) > 0:
	case how.everybody:
		owners = []string{"*"}
	default:
		owners = []string{by.User}
	}
	all := len(jobs) == 0 && len(users) > 0
	if all {
		jobs = []submit.JobRange{{Job: "*"}}
	}
	if err := c.bound(jobs, owners); err != nil {
		a.refuse(err)
		return nil
	}
	selections := make([]ownerSelection, len(owners))
	for i, owner := range owners {
		selections[i] = c.selectOwners(owner, len(users) > 0)
	}
	var list []target
	for _, r := range jobs {
		n := len(list)
		for _, selection := range selections {
			for _, j := range c.matchOwned(r.Job, selection) {
				t := target{job: j, ranges: r.Tasks}
				if _, numbered := jobNumber(r.Job); !numbered {
					t.name = r.Job
				}
				list = append(list, t)
			}
			if len(list) > len(c.jobs)+mostRepeated {
				a.deny(Event{Kind: JobsRepeated})
				return nil
			}
		}
		if n < len(list) {
			continue
		}
		absent := Event{Kind: how.missing, Name: r.Job}
		switch _, numbered := jobNumber(r.Job); {
		case all:
			absent = Event{Kind: how.noJobs, Name: r.Job, Names: owners}
		case len(users) > 0 || !how.everybody && !numbered:
			absent = Event{Kind: NoSuchJobOfUsers, Name: r.Job, Names: owners}
		}
		if how.early {
			a.deny(absent)
		} else {
			list = append(list, target{absent: &absent})
		}
	}
	return list
}

// Limits for a command, since all other callers have to wait for it: mostSearches is the number of
// searches through all jobs, mostLookups the number of lookups, and mostRepeated the number of jobs
// that may be named again.
const (
	mostSearches = 256
	mostLookups  = 1 << 20
	mostRepeated = 1 << 14
)

// bound refuses a command that would take too long, because of references combined with owners.
func (c *Cell) bound(jobs []submit.JobRange, owners []string) error {
	searches, with, patterns := 0, 0, 0
	for _, owner := range owners {
		switch {
		case owner == "*" || c.perUser[owner] > 0:
			with++
		case !expression.PlainPattern(owner):
			with++
			patterns++
		}
	}
	for _, r := range jobs {
		if !expression.PlainPattern(r.Job) {
			searches += with
		}
	}
	if len(jobs)*len(owners) > mostLookups {
		return denied(Event{Kind: TooManyLookups, Number: int64(len(jobs)), Used: int64(len(owners))})
	}
	return tooMany(max(searches, patterns))
}

func tooMany(searches int) error {
	if searches > mostSearches {
		return denied(Event{Kind: TooManyPatterns, Number: int64(searches), Limit: mostSearches})
	}
	return nil
}

// ownerSelection selects the jobs of a command by their owners.
type ownerSelection struct {
	everybody bool
	users     []string // with jobs
	explicit  bool     // given by -u: a number then also matches only jobs of these users
}

// selectOwners returns the users with jobs that match a user name, or a pattern of -u.
func (c *Cell) selectOwners(owner string, explicit bool) ownerSelection {
	s := ownerSelection{everybody: owner == "*", explicit: explicit}
	switch {
	case s.everybody:
	case !explicit || expression.PlainPattern(owner):
		if c.perUser[owner] > 0 {
			s.users = []string{owner}
		}
	default:
		pattern := expression.CompilePattern(false, owner)
		for user := range c.perUser {
			if pattern.Match(user) {
				s.users = append(s.users, user)
			}
		}
	}
	return s
}

func (s ownerSelection) has(user string) bool { return s.everybody || slices.Contains(s.users, user) }

// matchOwned returns the jobs that match a reference, a number or a pattern of names, sorted by
// number. Patterns are those of fnmatch(3) and not the expressions of sge_types(5): in 8.1.9 only
// -hold_jid supports expressions, and a job may be named a|b (tested).
func (c *Cell) matchOwned(reference string, owners ownerSelection) []*Job {
	if id, ok := jobNumber(reference); ok {
		if j := c.jobs[id]; j != nil && (!owners.explicit || owners.has(j.Owner())) {
			return []*Job{j}
		}
		return nil
	}
	var ids []uint32
	switch plain := expression.PlainPattern(reference); {
	case plain && owners.everybody:
		ids = c.idsNamed(reference, "")
	case plain:
		for _, user := range owners.users {
			ids = append(ids, c.idsNamed(reference, user)...)
		}
		slices.Sort(ids)
	case owners.everybody || len(owners.users) > 0:
		ids = c.idsMatching(expression.CompilePattern(false, reference).ForMany().Match, owners.has)
	}
	return c.jobsOf(ids)
}

// mayChange reports whether a user may change a job.
func (c *Cell) mayChange(by Caller, j *Job) bool {
	return by.User == j.Owner() || c.isOperator(by.User)
}
