package tickets

import (
	"cmp"
	"math"
	"slices"
)

// UsageType is a kind of usage (sched_conf(5), usage_weight_list).
type UsageType int

// The recorded kinds of usage.
const (
	CPU          UsageType = iota // seconds of processor time
	Mem                           // memory by processor time, in GB seconds
	IO                            // data transferred, in GB
	FinishedJobs                  // tasks that have ended

	usageTypes
)

// Amounts are usages by their type.
type Amounts [usageTypes]float64

// UsageWeights is usage_weight_list of sched_conf(5). Others is the sum of the
// weights of names that no usage has: they have no effect but on the sum of the
// weights, which the usage is divided by.
type UsageWeights struct {
	Weights Amounts
	Others  float64
}

// combine makes one number of the usages.
func (w *UsageWeights) combine(a *Amounts) float64 {
	sum := w.Others
	for _, v := range w.Weights {
		sum += v
	}
	if sum <= 0 {
		return 0
	}
	var usage float64
	for i, v := range a {
		usage += v * (w.Weights[i] / sum)
	}
	return usage
}

// Usage is the past usage of a user or a project.
type Usage struct {
	Decayed  Amounts // the usage that counts in the share tree
	LongTerm Amounts // all of it, never decayed
}

func (u *Usage) add(a *Amounts) {
	for i, v := range a {
		u.Decayed[i] += v
		u.LongTerm[i] += v
	}
}

// UserUsage is the past usage of a user, without a project and in each project, and the time until
// which it has been decayed.
type UserUsage struct {
	Usage
	ByProject []ProjectUsage // sorted by Project
	// Stamp is until when all of it is decayed, in seconds since 1970; 0 is never.
	Stamp int64
}

// ProjectUsage is the past usage of a user in a project.
type ProjectUsage struct {
	Project int32
	Usage
}

// In returns the user's usage in a project, or without a project for None; nil if there is none
// yet.
func (u *UserUsage) In(project int32) *Usage {
	if project == None {
		return &u.Usage
	}
	if i, found := u.find(project); found {
		return &u.ByProject[i].Usage
	}
	return nil
}

func (u *UserUsage) find(project int32) (int, bool) {
	return slices.BinarySearchFunc(u.ByProject, project, func(p ProjectUsage, project int32) int {
		return cmp.Compare(p.Project, project)
	})
}

// StampedUsage is the past usage of a project, and the time until which it has been decayed.
type StampedUsage struct {
	Usage
	Stamp int64
}

// Clear removes the user's usage, except for the long-term usage without decay; in projects it
// removes that, too (tested).
func (u *UserUsage) Clear(now int64) {
	*u = UserUsage{Usage: Usage{LongTerm: u.LongTerm}, Stamp: now}
}

// Clear removes the project's usage, except for the long-term usage without decay.
func (u *StampedUsage) Clear(now int64) {
	*u = StampedUsage{Usage: Usage{LongTerm: u.LongTerm}, Stamp: now}
}

// Ledger is the past usage of all users and projects. It belongs to them and not to the share tree:
// a node that is added, or removed and added again, has the usage of its user or project. The
// caller must clear the entry of a user or project that is removed.
type Ledger struct {
	Users    []UserUsage
	Projects []StampedUsage
}

// Book adds the usage of a task since the last booking: used minus booked, if that is not negative.
// Without a project it counts for the user, and with one for the user in that project and for the
// project. Usages of tasks that have just ended include a finished job.
//
// Call Decay first, because booked usage decays from then on.
func (l *Ledger) Book(user, project int32, used, booked *Amounts) {
	var more Amounts
	for i := range more {
		more[i] = max(0, used[i]-booked[i])
	}
	if project != None {
		l.Projects[project].add(&more)
	}
	if user == None {
		return
	}
	u := &l.Users[user]
	if project == None {
		u.add(&more)
		return
	}
	i, found := u.find(project)
	if !found {
		u.ByProject = slices.Insert(u.ByProject, i, ProjectUsage{Project: project})
	}
	u.ByProject[i].add(&more)
}

// HalfLife is an element of halflife_decay_list of sched_conf(5): -1 minutes for a kind of usage
// that counts only for running jobs, and 0 for one that does not decay.
type HalfLife struct {
	Type    UsageType
	Minutes float64
}

// Decay holds the parameters of the decay of usage (sched_conf(5), halftime and
// halflife_decay_list).
type Decay struct {
	perMinute Amounts // the factor that remains of a usage after a minute
}

// NewDecay returns the decay for a halftime in hours, 0 for none, with the exceptions of
// halflife_decay_list. Without exceptions finished jobs do not count; with some,
// they do, unless the list says otherwise.
//
// The factor per minute is 1 - ln 2/minutes, as in Grid Engine, and not a power of two: after a
// halftime of an hour, 49.8 % are left. Half-lives of less than ln 2 minutes leave nothing.
func NewDecay(halftime float64, exceptions []HalfLife) *Decay {
	d := &Decay{}
	for i := range d.perMinute {
		d.perMinute[i] = perMinute(halftime * 60)
	}
	if len(exceptions) == 0 {
		d.perMinute[FinishedJobs] = 0
	}
	for _, e := range exceptions {
		d.perMinute[e.Type] = perMinute(e.Minutes)
	}
	return d
}

func perMinute(minutes float64) float64 {
	switch {
	case minutes < 0:
		return 0
	case minutes == 0:
		return 1
	}
	return max(0, 1-math.Ln2/minutes)
}

// Decay decays the usage of each user and project from its stamp until now (Unix seconds). Usage
// without a stamp starts to decay now. Before the halftime changes, call Decay once with the old
// one.
func (l *Ledger) Decay(d *Decay, now int64) {
	for i := range l.Users {
		u := &l.Users[i]
		if factor, ok := d.since(&u.Stamp, now); ok {
			u.Decayed.scale(&factor)
			for j := range u.ByProject {
				u.ByProject[j].Decayed.scale(&factor)
			}
		}
	}
	for i := range l.Projects {
		p := &l.Projects[i]
		if factor, ok := d.since(&p.Stamp, now); ok {
			p.Decayed.scale(&factor)
		}
	}
}

func (a *Amounts) scale(factor *Amounts) {
	for i := range a {
		a[i] *= factor[i]
	}
}

// since returns the factor by which usage has decayed since a stamp, and moves the stamp to now.
// After the clock was set back it leaves the stamp unchanged, so that no time counts twice.
func (d *Decay) since(stamp *int64, now int64) (factor Amounts, ok bool) {
	if *stamp == 0 {
		*stamp = now
		return factor, false
	}
	if now <= *stamp {
		return factor, false
	}
	minutes := float64(now-*stamp) / 60
	for i, left := range d.perMinute {
		factor[i] = math.Pow(left, minutes)
	}
	*stamp = now
	return factor, true
}
