package agent

// given are the tickets of a job, and the order that they came with.
type given struct {
	Tickets float64  `json:"tickets"`
	Turn    Sequence `json:"turn,omitzero"`
}

// SetTickets gives jobs their tickets. It is remembered over restarts, so that an order
// that comes late stays one that was overtaken.
func (a *Agent) SetTickets(tickets []Tickets) {
	a.trouble("remembering tickets", a.journal.setTickets(func(behind bool) map[string]given {
		return a.takeTickets(tickets, behind)
	}))
	a.pokePriorities()
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

// readTickets gives the jobs that were found the tickets that they had. mu is held.
func (a *Agent) readTickets() error {
	all, err := a.journal.tickets()
	if err != nil {
		return err
	}
	for key, g := range all {
		if e := a.keys[key]; e != nil {
			e.record.Tickets, e.tickets = g.Tickets, g.Turn
		}
	}
	return nil
}
