package scheduler

import "slices"

// explainReserving finds the reasons of a serial job that gets a reservation. Unlike the reasons of other
// jobs, they include those against full instances, in the places that these have in the order: a reason
// against a host rules out what comes after it (tested).
func (r *run) explainReserving(h *head) {
	c := h.job.Category
	// If nothing is left at all, there are no reasons about single places, except for the job that
	// has found it out (tested).
	if !r.explaining || r.order.count == 0 && r.finder != h.job || c.Parallel() || c.requests.Reservation != 0 {
		return
	}
	info, q := r.categoryState(c), new(r.ask(h.job, later))
	if info.reservingSaid || !r.globally(q) {
		return
	}
	info.reservingSaid = true
	q.trace = newTrace(r.model)
	for id := range r.candidates(q) {
		r.tryInstance(q, id)
	}
	info.reasons = slices.Concat(q.trace.quotasOnce(), info.unbookable)
}

// explainReservingParallel finds the reasons that Grid Engine adds while it looks for a later start
// of a parallel job, which it finds in an environment at a time. Up to that environment they are the
// reasons at the last time, which it tries first. It tries further environments at the time found.
func (r *run) explainReservingParallel(q query, last int64, found PEID) {
	info := r.categoryState(q.category)
	if !r.explaining || r.order.count == 0 && r.finder != q.job || info.reservingSaid { // see explainReserving
		return
	}
	info.reservingSaid = true
	at := q.start
	q.start = last
	if r.comesLater(&q) {
		q.mode |= withFull
	}
	q.trace = newTrace(r.model)
	for _, pe := range r.environments(q.category) {
		r.tryPE(&q, pe)
		if pe == found {
			q.start = at
		}
	}
	info.reasons = append(info.reasons, q.trace.reasons...)
}
