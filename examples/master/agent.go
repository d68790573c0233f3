package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/execd-project/execd/agent/api"
)

// agent is the master's view of a host, with the orders that the master has to send to it.
type agent struct {
	host   string // as the configuration spells it
	client *api.Client
	lost   bool                         // its agent does not answer
	taken  uint64                       // number of the last report that was handled
	loads  map[string]map[string]string // the load values that it has reported, by host and name
	orders []agentCall                  // in the order in which they are to be carried out
	busy   bool                         // one of them is on its way
}

// agentCall is a call, and what is done with the answer.
type agentCall struct {
	call func(context.Context) error
	then func(error)
}

// addAgent reads HOST=PATH or HOST=ADDRESS:PORT, and begins to receive the reports of the agent there.
func (m *master) addAgent(text string, tls *api.TLS) error {
	name, where, _ := strings.Cut(text, "=")
	id, ok := m.cell.Model().Host(name)
	if !ok {
		return fmt.Errorf("--agent %s: the configuration has no host %q", text, name)
	}
	a := &agent{host: m.cell.Model().HostName(id), loads: map[string]map[string]string{}}
	// The client repeats unanswered calls until the master ends: every call of a master may be
	// repeated.
	o := api.Options{Epoch: m.epoch, RetryFor: 1000 * time.Hour, PauseMax: time.Second}
	o.Lost = func(err error) { m.do(func() { m.lost(a, err) }) }
	if strings.Contains(where, "/") {
		o.Socket = where
	} else {
		o.Address, o.TLS = where, &api.TLS{CA: tls.CA, Certificate: tls.Certificate, Key: tls.Key, ServerName: name}
	}
	var err error
	if a.client, err = api.Dial(o); err != nil {
		return err
	}
	m.agents[a.host] = a
	go func() {
		err := a.client.Reports(m.ctx, 0, func(r api.Report) error {
			m.do(func() { m.report(a, &r) })
			return nil
		})
		m.do(func() { m.fail(fmt.Errorf("the agent of %s: %w", a.host, err)) })
	}()
	return nil
}

// tell queues a call for an agent. The master makes an agent's calls one at a time, in this order,
// and passes each result to then.
func (m *master) tell(a *agent, call func(context.Context) error, then func(error)) {
	a.orders = append(a.orders, agentCall{call, then})
	m.nextOrder(a)
}

// nextOrder sends the next order. The master does not wait for the answer, which is an
// event like any other.
func (m *master) nextOrder(a *agent) {
	if a.busy || len(a.orders) == 0 {
		return
	}
	o := a.orders[0]
	a.orders, a.busy = a.orders[1:], true
	go func() {
		err := o.call(m.ctx)
		m.do(func() {
			a.busy = false
			o.then(err)
			m.nextOrder(a)
		})
	}()
}

// lost marks an agent as unreachable. The cell starts no more tasks on its host; running tasks go
// on.
func (m *master) lost(a *agent, err error) {
	if a.lost {
		return
	}
	a.lost = true
	m.say("host %s is not reached: %v", a.host, err)
	m.follow(m.cell.HostLost(m.now(), a.host))
}

// report handles one report of an agent.
func (m *master) report(a *agent, r *api.Report) {
	if a.lost {
		a.lost = false
		m.say("host %s is reached again", a.host)
		m.loaded(a, a.host)
		// An agent that was killed may have lost the last acknowledgement.
		if a.taken != 0 {
			m.acknowledge(a, a.taken)
		}
	}
	switch {
	case r.Load != nil:
		m.load(a, r.Load)
	case r.Job != nil:
		m.jobReport(a, r.Job)
	case r.Usage != nil:
		m.usageReport(a, r.Usage)
	}
	a.taken = max(a.taken, r.Number)
}

// load stores load values. Most reports have only the changed values, but the cell needs all values
// of a host.
func (m *master) load(a *agent, l *api.Load) {
	changed := map[string]bool{}
	if l.Full {
		for host := range a.loads {
			changed[host] = true
		}
		clear(a.loads)
	}
	for _, v := range l.Removed {
		delete(a.loads[v.Host], v.Name)
		changed[v.Host] = true
	}
	for _, v := range l.Values {
		if a.loads[v.Host] == nil {
			a.loads[v.Host] = map[string]string{}
		}
		a.loads[v.Host][v.Name] = v.Text
		changed[v.Host] = true
	}
	for host := range changed {
		m.loaded(a, host)
	}
}

// loaded passes the load values of a host to the cell. Load sensors may report hosts that do not belong
// to the cell.
func (m *master) loaded(a *agent, host string) {
	if _, ok := m.cell.Model().Host(host); ok {
		m.follow(m.cell.HostReport(m.now(), host, maps.Clone(a.loads[host])))
	}
}

// final reports whether a start was refused because the request itself is invalid: every agent would
// refuse it at any time.
func final(err error) bool {
	e, ok := errors.AsType[*api.Error](err)
	return ok && (e.Code == api.InvalidArgument || e.Code == api.PermissionDenied)
}
