package agent

import (
	"errors"
	"fmt"
	"maps"

	"github.com/execd-project/execd/agent/admission"
	"github.com/execd-project/execd/qconf"
)

// booking returns the booking of a start on this host. Requests that the booking does not need are
// left out, so that it can be stored.
func (a *Agent) booking(s *Start) *admission.Booking {
	request := *s.Request
	request.Script, request.Env, request.Context, request.Args = nil, nil, nil, nil
	b := &admission.Booking{
		ID: s.ID, Owner: s.Owner, Group: s.Group, Request: &request, PE: s.PE, Slave: s.Slave, Started: a.clock.Now(),
	}
	for _, g := range s.Grants {
		if qconf.SameHost(g.Host, a.options.Host) {
			b.Grants = append(b.Grants, admission.Grant{Queue: g.Queue, Slots: g.Slots, Names: maps.Clone(g.Names)})
		} else {
			b.Elsewhere += g.Slots
		}
	}
	return b
}

// admit checks whether a start fits; with take it also books the job. It does not check a start
// that brings its own settings: that is up to its master. The caller holds the lock of the table.
func (a *Agent) admit(s *Start, b *admission.Booking, take bool) error {
	if s.Order != nil {
		return nil
	}
	ask := a.table.book.Admit
	if take {
		ask = a.table.book.Take
	}
	err := ask(b, a.clock.Now())
	if _, ok := errors.AsType[*admission.RefusedError](err); ok {
		return &Error{FailedPrecondition, fmt.Errorf("job %s does not fit on host %s: %w", s.ID, a.options.Host, err)}
	}
	if err != nil {
		return &Error{InvalidArgument, err}
	}
	return nil
}

// hold books a job that was found after a restart. The caller holds the lock of
// the table.
func (a *Agent) hold(e *entry) {
	if e.record.Booking == nil {
		return
	}
	if err := a.table.book.Start(e.record.Booking); err != nil {
		a.log.Warn("the configuration does not have what a job holds", "job", e.id.String(), "error", err)
	}
}

// setLoad uses the last reported load values for admission, because a master decides by the same
// values. The caller holds the lock of the table.
func (a *Agent) setLoad() {
	values := a.load.ofHost(a.options.Host)
	problems := a.table.book.SetLoad(values)
	problems = append(problems, a.table.book.SetTopology(values["m_topology"], "")...)
	for _, p := range problems {
		a.log.Debug("a load value is ignored", "error", p)
	}
}
