package view

import (
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// Reservations returns the advance reservations, by their numbers.
func (v *View) Reservations() []qstat.Reservation {
	var list []qstat.Reservation
	for _, r := range v.cell.Reservations() {
		list = append(list, v.reservation(r))
	}
	return list
}

func (v *View) reservation(r *cell.Reservation) qstat.Reservation {
	q := r.Request
	s := qstat.Reservation{
		ID: int(r.ID), Name: q.Name, Owner: r.Owner, Group: r.Group, Account: q.Account, State: r.State(v.now),
		Submitted: r.Submitted, Start: r.Start, End: r.End, Duration: r.End - r.Start,
		ErrorHandling: q.HardError, MasterQueues: q.MasterQueues, Checkpoint: q.Checkpoint,
		MailOptions: mailLetters(q.MailOptions),
	}
	if s.Account == "" {
		s.Account = submit.DefaultAccount
	}
	for _, l := range q.Resources {
		s.Requests = append(s.Requests, qstat.Request{Name: l.Name, Value: l.Value})
	}
	for _, m := range q.Mail {
		user, host, _ := strings.Cut(m, "@")
		s.MailList = append(s.MailList, qstat.Mail{User: user, Host: host})
	}
	for _, u := range q.Users {
		if rest, excluded := strings.CutPrefix(u, "!"); excluded {
			s.ExcludedUsers = append(s.ExcludedUsers, rest)
		} else {
			s.Users = append(s.Users, u)
		}
	}
	if granted := r.Scheduled(); granted != nil {
		for _, g := range granted.Grants {
			s.Grants = append(s.Grants, qstat.Grant{Queue: v.model.InstanceName(g.Instance), Slots: g.Slots})
			if r.Broken {
				s.Messages = append(s.Messages, v.unusable(g.Instance)...)
			}
		}
		if granted.PE != scheduler.None {
			s.PE = v.model.PEName(granted.PE)
		}
	}
	return s
}

// unusable returns the reasons why jobs of a reservation cannot use a queue instance (qrstat(1),
// -explain). Grid Engine orders them by the time at which they came up.
func (v *View) unusable(id scheduler.InstanceID) []string {
	var reasons []string
	status := v.cell.State().Status(id)
	for _, x := range [...]struct {
		states scheduler.Status
		word   string
	}{
		{scheduler.Unknown, "unknown"},
		{scheduler.Failed, "error"},
		{scheduler.DisabledByUser | scheduler.DisabledByCalendar, "disabled"},
		{scheduler.Suspended, "suspended"},
	} {
		if status&x.states != 0 {
			reasons = append(reasons, "reserved queue "+v.model.InstanceName(id)+" is "+x.word)
		}
	}
	return reasons
}

// mailLetters returns the letters of -m.
func mailLetters(o job.MailOptions) string {
	var letters strings.Builder
	for _, x := range [...]struct {
		bit    job.MailOptions
		letter string
	}{{job.MailAtAbort, "a"}, {job.MailAtBegin, "b"}, {job.MailAtEnd, "e"}, {job.MailAtSuspend, "s"}, {job.MailNever, "n"}} {
		if o&x.bit != 0 {
			letters.WriteString(x.letter)
		}
	}
	return letters.String()
}

// reservedMax returns the most slots of a queue instance that advance reservations have at
// any time from now on.
func (v *View) reservedMax(id scheduler.InstanceID) int {
	most := 0
	all := v.cell.Reservations()
	for _, at := range all {
		// The sum reaches its maximum at the beginning of one of them.
		sum := 0
		for _, r := range all {
			if r.Scheduled() == nil || r.Start > at.Start || at.Start >= r.End {
				continue
			}
			for _, g := range r.Scheduled().Grants {
				if g.Instance == id {
					sum += g.Slots
				}
			}
		}
		most = max(most, sum)
	}
	return most
}
