package scheduler

import (
	"math"
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/diagram"
)

// slotSearch holds what is known about the ways to search a parallel job's range of slots, for
// PE_RANGE_ALG=auto of sched_conf(5): the steps that each way has needed, or would have needed, in hundredths.
// A new search counts 34 %. The zero value knows nothing yet (tested).
type slotSearch struct {
	binary, least, highest int
}

// way returns the way of the next search.
func (s *slotSearch) way(params *qconf.SchedulerParams) qconf.PERangeAlgorithm {
	switch alg := params.PERangeAlg; {
	case alg != "" && alg != qconf.PERangeAuto:
		return alg
	case s.binary <= s.least && s.binary <= s.highest:
		return qconf.PERangeBin
	case s.highest <= s.least:
		return qconf.PERangeHighest
	}
	return qconf.PERangeLeast
}

// learn counts the steps of a search in a list of several numbers. at is the index of the number found, or
// negative if no number was possible.
func (s *slotSearch) learn(way qconf.PERangeAlgorithm, numbers, at int) {
	if numbers < 2 {
		return
	}
	steps := 0
	if way == qconf.PERangeBin {
		for low, high := 0, numbers-1; low <= high; steps++ {
			if middle := (low + high) / 2; middle <= at {
				low = middle + 1
			} else {
				high = middle - 1
			}
		}
	} else { // what Grid Engine takes for the steps of a binary search
		steps = 1
		for left := numbers; steps < left; steps++ {
			left -= steps
		}
		steps--
	}
	at = max(at, 0)
	count := func(known *int, steps int) { *known = *known*66/100 + steps*34 }
	count(&s.binary, steps)
	count(&s.least, at+1)
	count(&s.highest, numbers-at+1)
}

// slotNumbers is the list of the numbers of slots that a job requests in an environment and that the
// allocation rule allows.
type slotNumbers struct {
	category    *Category
	most, every int
}

// upTo returns the length of the list of numbers that are at most n.
func (s *slotNumbers) upTo(n int) int {
	total := 0
	for r := range s.category.requests.Slots.Ranges() {
		if first, last := s.within(r.First, min(r.Last, n)); first <= last {
			total += (last-first)/s.every + 1
		}
	}
	return total
}

// at returns the number with an index.
func (s *slotNumbers) at(index int) int {
	for r := range s.category.requests.Slots.Ranges() {
		first, last := s.within(r.First, r.Last)
		if first > last {
			continue
		}
		n := (last-first)/s.every + 1
		if index < n {
			return first + index*s.every
		}
		index -= n
	}
	return 0
}

// within returns the first allowed number from first on, and the end of the range in the environment.
func (s *slotNumbers) within(first, last int) (int, int) {
	return (first + s.every - 1) / s.every * s.every, min(last, s.most)
}

// useless holds the places that a run does not try again for the jobs of a category with a range of slots in
// an environment, if the category has several jobs (tested).
type useless struct {
	// hosts are those that did not have enough slots for the first number of a search, whatever the other
	// numbers need.
	hosts []bool
	// instances are those that had no slots.
	instances []bool
	// spent are those that had no slots at the end either, see ending; nil for none.
	spent []bool
	first int // number of the last search
	notes int // number of places in hosts and instances
	// careless is set when the search does not count slots at the end any more, see ending.
	careless bool
}

// uselessFor returns the places that are not tried again, nil for a category with one job.
func (r *run) uselessFor(c *Category, pe PEID) *useless {
	if !r.hasSeveral(c) {
		return nil
	}
	s := r.categoryState(c)
	if s.useless == nil {
		s.useless = map[PEID]*useless{}
	}
	if s.useless[pe] == nil {
		s.useless[pe] = &useless{hosts: make([]bool, len(r.model.hosts)), instances: make([]bool, len(r.model.instances))}
	}
	return s.useless[pe]
}

// hasSeveral reports whether more than one job of a category waits or runs.
func (r *run) hasSeveral(c *Category) bool {
	if r.jobsOf == nil {
		r.jobsOf = map[*Category]int{}
		for _, l := range r.pending.list {
			r.jobsOf[l.key.category] += len(l.waiting())
		}
		counted := map[*Job]bool{}
		for _, t := range r.running {
			if j := t.Job; j.line == nil && !counted[j] {
				counted[j] = true
				r.jobsOf[j.Category]++
			}
		}
	}
	return r.jobsOf[c] > 1
}

// startLargest finds the largest number of slots with which a task of a job can start in an environment. fits tells
// whether the environment and the cluster have the slots of in. As in Grid Engine, the places that are considered
// depend on the order in which numbers are tried: see useless.
func (r *run) startLargest(q *query, pe PEID, in leftInPE, fits bool) (assignment, bool) {
	s := r.slotRange(q.category, pe)
	if s.length == 0 {
		return assignment{}, false
	}
	a, ok := assignment{}, false
	if fits {
		if s.length > 1 {
			if s.useless = r.uselessFor(q.category, pe); s.useless != nil {
				s.useless.first, s.useless.careless = s.first(), false
			}
		}
		a, ok = r.largest(q, pe, in, &s)
	}
	r.learn(&s, a.slots, ok)
	return a, ok
}

// slotRange is a search for a number of slots in a list.
type slotRange struct {
	slotNumbers
	length  int // of the list
	way     qconf.PERangeAlgorithm
	limit   int // larger numbers are known to be impossible
	tried   int // how many numbers were placed
	useless *useless
}

func (r *run) slotRange(c *Category, pe PEID) slotRange {
	object := r.model.pes[pe].object
	s := slotRange{
		slotNumbers: slotNumbers{category: c, most: object.Slots, every: max(object.AllocationRule.PerHost, 1)},
		way:         r.slotSearch.way(&r.model.scheduler.Params),
	}
	s.length = s.upTo(math.MaxInt)
	return s
}

// learn counts the steps of a search that ended with a number of slots, if ok is set.
func (r *run) learn(s *slotRange, slots int, ok bool) {
	at := -1
	if ok {
		at = s.upTo(slots) - 1
	}
	r.slotSearch.learn(s.way, s.length, at)
}

// steps calls try with the numbers in the order of the search. try reports whether a number is possible.
func (s *slotRange) steps(try func(n int) bool) {
	switch s.way {
	case qconf.PERangeLeast:
		for k := 0; k < s.length && try(s.at(k)); {
			k++
		}
	case qconf.PERangeHighest:
		// The length of the list up to the limit is the index of the next larger number.
		for k := min(s.length, s.upTo(s.limit)) - 1; k >= 0 && !try(s.at(k)); {
			k = min(k, s.upTo(s.limit)) - 1
		}
	default:
		for low, high := 0, s.length-1; low <= high; {
			if middle := (low + high) / 2; try(s.at(middle)) {
				low = middle + 1
			} else {
				high = middle - 1
			}
		}
	}
}

// first returns the number that the search tries first.
func (s *slotRange) first() int {
	switch s.way {
	case qconf.PERangeLeast:
		return s.at(0)
	case qconf.PERangeHighest:
		return s.at(s.length - 1)
	}
	return s.at((s.length - 1) / 2)
}

// tryFirst tries the number that a search tries first, and notes the hosts that have too few slots for it. The
// result is a number that the largest possible one does not exceed. n is the number of slots that there are.
func (r *run) tryFirst(q *query, pe PEID, offers []offer, n int, s *slotRange) int {
	first := s.first()
	_, ok := r.tryNumber(q, pe, offers, first, s)
	switch {
	case ok && s.way == qconf.PERangeHighest:
		return first
	case ok:
		return n
	case s.way == qconf.PERangeLeast:
		return 0
	}
	return first - 1
}

// tryNumber places a number of slots, and notes useless places.
func (r *run) tryNumber(q *query, pe PEID, offers []offer, n int, s *slotRange) (assignment, bool) {
	if n > s.limit {
		return assignment{}, false
	}
	s.tried++
	before := s.useless.notes
	a, ok := r.placeNoting(q, pe, n, offers, newNoting(s.useless, n == s.first()))
	// All numbers for which the last host has to offer more than there is take the same slots of the same hosts
	// in the same order, as long as the useless places are the same. The master task may need one slot
	// more, or with a fixed number of slots per host, one host more.
	if enough := max(a.slots, a.most) + s.every; !ok && n > enough && s.useless.notes == before {
		s.limit = enough
	}
	return a, ok
}

// searchUnlimited does what searchInSteps does from the smallest number on, if no quota limits the largest number
// that there are places for. Then quotas do not limit the numbers between either, and are not compared with them.
func (r *run) searchUnlimited(q *query, pe PEID, offers []offer, n int, atMost func(int) int, s *slotRange) (assignment, bool) {
	if s.way != qconf.PERangeLeast {
		return assignment{}, false
	}
	try := *s // its notes count only if the search succeeds
	try.useless = &useless{
		hosts: slices.Clone(s.useless.hosts), instances: slices.Clone(s.useless.instances),
		first: s.useless.first, notes: s.useless.notes, careless: s.useless.careless,
		spent: slices.Clone(s.useless.spent),
	}
	a, ok := r.tryNumber(q, pe, offers, s.first(), &try)
	if !ok || a.limited {
		return assignment{}, false
	}
	for n = atMost(n); n > 0; n = atMost(min(n-1, max(a.slots, a.most))) {
		if a, ok = r.tryNumber(q, pe, offers, n, &try); ok || a.limited {
			break
		}
	}
	if n == 0 || a.limited {
		return assignment{}, false
	}
	if next := s.upTo(n); next < s.length { // the number with which the search ends may note places
		if _, more := r.tryNumber(q, pe, offers, s.at(next), &try); more {
			return assignment{}, false
		}
	}
	*s.useless, s.tried = *try.useless, try.tried
	return a, true
}

// searchInSteps tries the numbers in the order of the search: with quotas, each number may note instances.
func (r *run) searchInSteps(q *query, pe PEID, offers []offer, s *slotRange) (best assignment, found bool) {
	s.steps(func(n int) bool {
		a, ok := r.tryNumber(q, pe, offers, n, s)
		if ok {
			best, found = a, true
		}
		return ok
	})
	return best, found
}

// sufficesLater reports whether a job with a range of slots would have places for its smallest number after the end of
// everything in the plan, without the hosts that are useless then, too. Otherwise Grid Engine does not look for a
// later time (tested).
func (r *run) sufficesLater(q *query) bool {
	defer r.forgetSorting()
	last := q.in(later | fewest)
	last.span = span{diagram.Forever - 1, 1}
	for _, pe := range r.environments(q.category) {
		u := r.categoryState(q.category).useless[pe]
		in, ok := r.roomIn(&last, pe)
		if !ok {
			continue
		}
		offers, _ := r.offers(&last, pe)
		n := (*noting)(nil)
		if u != nil {
			then := useless{hosts: make([]bool, len(u.hosts)), instances: make([]bool, len(u.instances))}
			r.placeNoting(&last, pe, u.first, offers, newNoting(&then, true))
			for h := range then.hosts {
				then.hosts[h] = then.hosts[h] && u.hosts[h]
			}
			if clear(then.instances); u.spent != nil {
				copy(then.instances, u.spent)
			}
			n = newNoting(&then, false)
		}
		if _, ok := r.placeNoting(&last, pe, in.least, offers, n); ok {
			return true
		}
	}
	return false
}

// noting notes useless places while a parallel job is placed. A nil noting notes and skips nothing.
type noting struct {
	*useless
	first bool // the number of slots is the first one of a search
}

func newNoting(u *useless, first bool) *noting {
	if u == nil {
		return nil
	}
	return &noting{useless: u, first: first}
}

// skips reports whether a host is not tried.
func (n *noting) skips(id HostID) bool { return n != nil && n.hosts[id] }

// skipsInstance reports whether an instance is not tried.
func (n *noting) skipsInstance(id InstanceID) bool { return n != nil && n.instances[id] }

// noteHost notes a host that has too few slots.
func (n *noting) noteHost(id HostID) {
	if n != nil && n.first && !n.hosts[id] {
		n.hosts[id] = true
		n.notes++
	}
}

// noteSpent notes an instance without slots now and at the end.
func (n *noting) noteSpent(id InstanceID) {
	if n.noteInstance(id); n.spent == nil {
		n.spent = make([]bool, len(n.instances))
	}
	n.spent[id] = true
}

// noteInstance notes an instance where a quota leaves no slots.
func (n *noting) noteInstance(id InstanceID) {
	if n != nil && !n.instances[id] {
		n.instances[id] = true
		n.notes++
	}
}
