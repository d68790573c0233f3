package agent

// given holds the tickets of a job, and the sequence number of the order that set them.
type given struct {
	Tickets float64  `json:"tickets"`
	Turn    Sequence `json:"turn,omitzero"`
}

// SetTickets sets the tickets of jobs. They are stored across restarts, so that a late, overtaken
// order is still recognised.
func (a *Agent) SetTickets(tickets []Tickets) {
	a.trouble("remembering tickets", a.journal.setTickets(func(behind bool) map[string]given {
		return a.takeTickets(tickets, behind)
	}))
	a.pokePriorities()
}

// takeTickets sets the tickets of the jobs in the table, and returns the tickets of all running
// jobs by the keys of their starts. It returns nil if nothing has changed and changed is false.
func (a *Agent) takeTickets(tickets []Tickets, changed bool) map[string]given {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	for _, t := range tickets {
		e := a.table.jobs[t.ID]
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
	all := make(map[string]given, len(a.table.jobs))
	for _, e := range a.table.jobs {
		if e.state.Live() {
			all[e.record.Key] = given{e.record.Tickets, e.tickets}
		}
	}
	return all
}

// readTickets gives the jobs of a previous agent the tickets that they had.
func (a *Agent) readTickets() error {
	all, err := a.journal.tickets()
	if err != nil {
		return err
	}
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	for key, g := range all {
		if e := a.table.keys[key]; e != nil {
			e.record.Tickets, e.tickets = g.Tickets, g.Turn
		}
	}
	return nil
}
