package cell

import (
	"slices"
	"strings"

	"github.com/execd-project/execd/submit"
)

// target is a job, or some of its tasks, that a command is about.
type target struct {
	job    *Job
	ranges []submit.Array // nil for the whole job
}

// references says how the jobs of a command are found, and what is said of those that are
// not there.
type references struct {
	// everybody is set where names mean the jobs of all users, as in all commands but qdel
	// (tested).
	everybody bool
	missing   string // takes the reference
	noJobs    string // takes the users
}

var (
	forChange   = references{everybody: true, missing: "denied: job %q does not exist", noJobs: "The job * of user(s) %s does not exist"}
	forDeletion = references{missing: "denied: job %q does not exist", noJobs: "There is no job registered for the following users: %s"}
	forQmod     = references{everybody: true, missing: "invalid queue or job %q", noJobs: "invalid queue or job of user(s) %q"}
)

// targets finds the jobs of a command: those of references, or with users, those of the
// references that belong to these ("*" for everybody), or all jobs of these where there
// is no reference. What is not there is denied, line by line.
func (c *Cell) targets(by Caller, how references, jobs []submit.JobRange, users []string, a *Answer) []target {
	owners := users
	switch {
	case len(users) > 0:
	case how.everybody:
		owners = []string{"*"}
	default:
		owners = []string{by.User}
	}
	who := strings.Join(owners, ", ")
	all := len(jobs) == 0 && len(users) > 0
	if all {
		jobs = []submit.JobRange{{Job: "*"}}
	}
	var list []target
	for _, r := range jobs {
		n := len(list)
		for _, owner := range owners {
			for _, j := range c.matchOwned(r.Job, owner, len(users) > 0) {
				list = append(list, target{j, r.Tasks})
			}
		}
		if n < len(list) {
			continue
		}
		switch _, numbered := jobNumber(r.Job); {
		case all:
			a.deny(how.noJobs, who)
		case len(users) > 0 || !how.everybody && !numbered:
			a.deny("The job %s of user(s) %s does not exist", r.Job, who)
		default:
			a.deny(how.missing, r.Job)
		}
	}
	return list
}

// matchOwned are the jobs that a reference means. A number means the job whoever owns it,
// unless only the jobs of some users are meant.
func (c *Cell) matchOwned(reference, owner string, only bool) []*Job {
	if owner == "*" {
		owner = ""
	}
	list := c.matchJobs(reference, owner)
	if only && owner != "" {
		list = slices.DeleteFunc(list, func(j *Job) bool { return j.Owner() != owner })
	}
	return list
}

// mayChange reports whether a user may change a job.
func (c *Cell) mayChange(by Caller, j *Job) bool {
	return by.User == j.Owner() || c.isOperator(by.User)
}
