package quota

import (
	"fmt"
	"math"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

// Requests gives the hard request of a job for a complex (qsub(1), -l), by the name
// of the complex. A nil one has no requests.
type Requests func(attribute string) (r value.Request, ok bool)

// Demand holds the demand of a job for each limit of the rules that apply to it.
type Demand struct {
	applicable *Applicable
	wants      [][]want // by candidate
}

// want is the demand of a job for a limit.
type want struct {
	kind    kind
	limit   *limit
	counter Counter // without the place
	amount  float64 // consumables: of a slot, or of the job
	request value.Request
}

type kind uint8

const (
	perSlot   kind = iota // a consumable
	perJob                // a consumable that is debited once
	alone                 // EXCL, requested
	beside                // EXCL, not requested
	compare               // not a consumable
	refused               // always
	unforced              // FORCED, and not requested
	unlimited             // no limit at all
)

// Demand adds requests to rules. Jobs with equal requests share the result.
//
// A job implicitly requests a slot for each of its tasks, and the default of each consumable.
// Limits on other resources do not apply to it.
func (a *Applicable) Demand(requests Requests) *Demand {
	d := &Demand{applicable: a, wants: make([][]want, len(a.candidates))}
	for i := range a.candidates {
		c := &a.candidates[i]
		for j := range c.rule.limits {
			w := want{limit: &c.rule.limits[j], counter: Counter((c.counter + uint64(j)) << placeBits)}
			if w.ask(requests, a.consumer.PE != ""); w.kind != unlimited {
				d.wants[i] = append(d.wants[i], w)
			}
		}
	}
	return d
}

// slots is the complex that each task requests implicitly.
const slots = "slots"

func (w *want) ask(requests Requests, parallel bool) {
	l := w.limit
	var requested bool
	if requests != nil {
		w.request, requested = requests(l.attribute)
	}
	switch {
	case requested && l.consumes():
		w.amount = w.request.Value().Number()
	case l.attribute == slots:
		w.amount = 1
	default:
		w.amount = l.byDefault
	}
	switch {
	case !l.consumes() && requested && parallel:
		// Of a parallel job the original compares a value that it never set.
		w.kind = refused
	case !l.consumes() && requested:
		w.kind = compare
	case !l.consumes() && l.forced && !parallel:
		w.kind = unforced
	case !l.consumes():
		w.kind = unlimited
	case l.relop == value.Exclusive && w.amount == 0:
		w.kind = beside
	case l.relop == value.Exclusive:
		w.kind = alone
	case w.amount == 0:
		w.kind = unlimited
	case l.consumable == qconf.ConsumableJob:
		w.kind = perJob
	}
}

// Applicable returns the applicable rules.
func (d *Demand) Applicable() *Applicable { return d.applicable }

// Check reports whether a slot of the job fits at a place in addition to the usage; for a serial
// job that means that it may run there. u may be nil for an empty cluster. If the slot does not
// fit, failure says why: the first exceeded limit in the first such set.
//
// queue and host are indexes of Compilation. Check does not allocate.
func (d *Demand) Check(u *Usage, v Values, queue, host int32) (failure Failure, ok bool) {
	a := d.applicable
	for n := range a.chains {
		i := a.find(u.checked(n), queue, host)
		if i < 0 || len(d.wants[i]) == 0 {
			continue
		}
		place := Counter(a.sets.place(a.candidates[i].rule, queue, host))
		wants := d.wants[i]
		for j := range wants {
			if w := &wants[j]; !w.fits(u.counter(w.counter|place), v, host) {
				return d.failure(i, w, place, v, queue, host), false
			}
		}
	}
	return Failure{}, true
}

// fits reports whether a slot of the job fits in addition to the usage.
func (w *want) fits(used *counter, v Values, host int32) bool {
	switch w.kind {
	case perSlot, perJob:
		return used.amount.Fits(w.limit.number(v, host), 1, w.amount)
	case alone:
		return w.amount <= w.limit.number(v, host) && used.exclusive == 0 && used.shared == 0
	case beside:
		return used.exclusive == 0 || w.limit.number(v, host) == 0
	case compare:
		return w.request.Match(w.limit.relop, w.limit.at(v, host))
	}
	return false
}

// room returns the number of slots that fit in addition to the usage.
func (w *want) room(used *counter, v Values, host int32) int {
	if w.kind != perSlot {
		if w.fits(used, v, host) {
			return Unlimited
		}
		return 0
	}
	return used.amount.Slots(w.limit.number(v, host), w.amount, Unlimited)
}

// Unlimited is the number of slots if no rule limits them.
const Unlimited = math.MaxInt32

// Failure is why a job does not fit at a place.
type Failure struct {
	// Counter is the exhausted counter. It is not set for a limit that is not on a consumable.
	Counter Counter
	// Never means that the job would not fit into an empty cluster either.
	Never bool
	// Everywhere, AllQueues and AllHosts say at which other places the job fails for the same
	// reason: at all places, in all queues of the host, or on all hosts of the queue. There may be
	// further such places.
	Everywhere, AllQueues, AllHosts bool
	// Unforced means that the limited complex must be requested (complex(5), FORCED), and the job
	// does not request it. Grid Engine then also shows a line about forced resources among the reasons for all jobs.
	Unforced bool

	demand    *Demand
	candidate int32
	place     Counter
}

// key returns the counter of a candidate's first limit at a place.
func (d *Demand) key(candidate, queue, host int32) Counter {
	c := &d.applicable.candidates[candidate]
	return Counter(c.counter<<placeBits) | Counter(d.applicable.sets.place(c.rule, queue, host))
}

func (d *Demand) failure(candidate int32, w *want, place Counter, v Values, queue, host int32) Failure {
	f := Failure{Counter: w.counter | place, Unforced: w.kind == unforced, place: place}
	f.Never = !w.fits(&nothing, v, host)
	d.scope(&f, candidate, queue, host)
	return f
}

// spoiled returns the failure of a rule for a job that could not be compared with it.
func (d *Demand) spoiled(candidate int32, key Counter, queue, host int32) Failure {
	f := Failure{Counter: key, place: key & placeMask}
	d.scope(&f, candidate, queue, host)
	return f
}

// scope sets the fields about the other places at which a job fails.
func (d *Demand) scope(f *Failure, candidate, queue, host int32) {
	f.demand, f.candidate = d, candidate
	r := d.applicable.candidates[candidate].rule
	f.AllQueues = r.queues.isAll() && !r.eachQueue
	f.AllHosts = r.hosts.isAll() && !r.eachHost
	f.Everywhere = f.AllQueues && f.AllHosts
	// A rule before it may be for other places.
	for i := d.applicable.chains[r.set][0]; i < candidate; i++ {
		f.Everywhere = false
		before := d.applicable.candidates[i].rule
		f.AllQueues = f.AllQueues && !before.hosts.has(host)
		f.AllHosts = f.AllHosts && !before.queues.has(queue)
	}
}

// Text returns the reason as qstat -j shows it.
func (f *Failure) Text() string {
	if f.demand == nil {
		return ""
	}
	rule, key, _ := f.demand.applicable.sets.Describe(f.Counter)
	return fmt.Sprintf("cannot run because it exceeds limit %q in rule %q", key, rule)
}

// Claim is the amount that a job takes of a limit on a consumable at a place. It is for callers
// that record the future usage by Counter.
type Claim struct {
	Counter Counter
	Limit   float64
	Each    float64 // for each slot, or, with Once, for the job
	// Once means that the job takes the amount once, at the place of its master task.
	Once bool
	// Exclusive claims are on a complex with the relation EXCL: no other claim with Each not 0 may
	// exist at the same time, and if Each is not 0, no other claim at all. With a Limit of 0 such a
	// claim is never granted, and affects no others.
	Exclusive bool

	index, want int32
}

// CheckClaims does what Check does for callers that record the usage themselves: it compares each
// limit with a slot of the job alone, and then calls granted with the claim on it, if there is one.
// The sets are in the order in which u checks them, or if u is nil, in that of the configuration.
func (d *Demand) CheckClaims(u *Usage, v Values, queue, host int32, granted func(*Claim) bool) (failure Failure, ok bool) {
	a := d.applicable
	for n := range a.chains {
		i := a.find(u.checked(n), queue, host)
		if i < 0 {
			continue
		}
		place := Counter(a.sets.place(a.candidates[i].rule, queue, host))
		for j := range d.wants[i] {
			w := &d.wants[i][j]
			fits := w.fits(&nothing, v, host)
			if fits && w.kind <= beside {
				c := w.claim(place, v, host)
				fits = granted(&c)
			}
			if !fits {
				return d.failure(i, w, place, v, queue, host), false
			}
		}
	}
	return Failure{}, true
}

func (w *want) claim(place Counter, v Values, host int32) Claim {
	return Claim{
		Counter: w.counter | place, Limit: w.limit.number(v, host), Each: w.amount,
		Once: w.kind == perJob, Exclusive: w.kind == alone || w.kind == beside,
	}
}

// checked returns the set that u checks as number n, or if u is nil, the set with this number in the configuration.
func (u *Usage) checked(n int) int32 {
	if u == nil {
		return int32(n)
	}
	return u.order[n]
}

// Claims appends the claims of a job at a place to dst: all limits of Check that depend on the
// usage, in the order in which u checks the sets, or if u is nil, in the order of the
// configuration. Only Check covers limits on resources that are not consumables.
func (d *Demand) Claims(dst []Claim, u *Usage, v Values, queue, host int32) []Claim {
	a := d.applicable
	for n := range a.chains {
		i := a.find(u.checked(n), queue, host)
		if i < 0 {
			continue
		}
		place := Counter(a.sets.place(a.candidates[i].rule, queue, host))
		for j := range d.wants[i] {
			w := &d.wants[i][j]
			if w.kind > beside {
				continue
			}
			c := w.claim(place, v, host)
			c.index, c.want = i, int32(j)
			dst = append(dst, c)
		}
	}
	return dst
}

// Failure returns the reason why the job does not fit at the place of a claim, if the claim cannot
// be granted.
func (d *Demand) Failure(c *Claim, v Values, queue, host int32) Failure {
	if int(c.index) >= len(d.wants) || int(c.want) >= len(d.wants[c.index]) {
		return Failure{}
	}
	return d.failure(c.index, &d.wants[c.index][c.want], c.Counter&placeMask, v, queue, host)
}
