package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// fileTickets has the tickets that running jobs were given last, by the keys of their
// starts: those of their starts stand in their directories.
const fileTickets = "tickets"

// given are the tickets of a job, and the order that they came with.
type given struct {
	Tickets float64 `json:"tickets"`
	Turn    Turn    `json:"turn,omitzero"`
}

// SetTickets gives jobs their tickets. It is remembered over restarts, so that an order
// that comes late stays one that was overtaken.
func (a *Agent) SetTickets(tickets []Tickets) {
	a.trouble("remembering tickets", a.setTickets(tickets))
	a.pokePriorities()
}

// setTickets writes outside mu: a slow disk is to hold up nobody else. The file has the
// newest state last, since nobody else gives tickets meanwhile.
func (a *Agent) setTickets(tickets []Tickets) error {
	a.ticketing.Lock()
	defer a.ticketing.Unlock()
	all := a.takeTickets(tickets, a.ticketsUnkept)
	if all == nil {
		return nil
	}
	err := a.keepTickets(all)
	a.ticketsUnkept = err != nil
	return err
}

// takeTickets gives tickets to the jobs of the table, and returns those of all running
// jobs, by the keys of their starts; nil where nothing has changed, unless changed says
// that something has before.
func (a *Agent) takeTickets(tickets []Tickets, changed bool) map[string]given {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, t := range tickets {
		e := a.table[t.ID]
		if e == nil {
			continue
		}
		former := given{e.record.Tickets, e.tickets}
		if t.Turn.Number > 0 {
			if t.Turn.before(e.tickets) {
				continue // overtaken
			}
			e.tickets = t.Turn
		}
		e.record.Tickets = t.Tickets
		changed = changed || former != given{e.record.Tickets, e.tickets}
	}
	if !changed {
		return nil
	}
	all := make(map[string]given, len(a.table))
	for _, e := range a.table {
		if e.state.Live() {
			all[e.record.Key] = given{e.record.Tickets, e.tickets}
		}
	}
	return all
}

// keepTickets writes down the tickets of running jobs. It is not synced: a master gives
// them again and again. ticketing is held.
func (a *Agent) keepTickets(all map[string]given) error {
	b, err := json.Marshal(all)
	if err != nil {
		return err
	}
	return a.options.Spool.Dir().WriteFile(fileTickets, append(b, '\n'))
}

// readTickets gives the jobs that were found the tickets that they had. mu is held.
func (a *Agent) readTickets() error {
	root := a.options.Spool.Dir()
	b, err := root.ReadFile(fileTickets)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	all := map[string]given{}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	if err != nil {
		return fmt.Errorf("%s/%s: %w", root.Path(), fileTickets, err)
	}
	for key, g := range all {
		if e := a.keys[key]; e != nil {
			e.record.Tickets, e.tickets = g.Tickets, g.Turn
		}
	}
	return nil
}
