package binding

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/limits/topology"
)

// Choose chooses cores on a host, among those not in use, for a job with the given number of slots
// there (0 counts as 1). It changes nothing: the caller must add the cores of the result to used
// before the next choice. A request for no binding returns the zero Binding. If the request cannot
// be satisfied, the error is a *RefusedError.
func Choose(t topology.Topology, used InUse, r Request, slots int) (Binding, error) {
	c := chooser{pairs: t.Pairs(), top: t, used: used, request: r}
	var cores []topology.Pair
	var err error
	switch r.Strategy {
	case None:
		return Binding{}, nil
	case Linear:
		n := r.Amount
		if r.Slots {
			n = max(slots, 1)
		}
		if r.HasStart {
			cores, err = c.stride(n, 1)
		} else {
			cores, err = c.linear(t, n)
		}
	case Striding:
		cores, err = c.stride(r.Amount, r.Step)
	case Explicit:
		cores, err = c.explicit()
	default:
		err = c.refuse(Malformed, "unknown strategy")
	}
	if err != nil {
		return Binding{}, err
	}
	b := bind(t, r.Instance, cores)
	b.Mems = t.Mems(cores)
	return b, nil
}

type chooser struct {
	pairs   []topology.Pair // all cores of the host, numbered across sockets
	top     topology.Topology
	used    InUse
	request Request
}

// unavailable returns the reason why a core is not available, or 0.
func (c chooser) unavailable(p topology.Pair) Reason {
	core, _ := c.top.Core(p)
	switch {
	case !c.request.Queue.IsEmpty() && !core.CPUs.SubsetOf(c.request.Queue):
		return NotOfQueue
	case c.used.Has(p):
		return CoreInUse
	}
	return 0
}

// tooFew returns the refusal of a search that found too few cores.
func (c chooser) tooFew(detail string) error {
	if !c.request.Queue.IsEmpty() {
		if detail != "" {
			detail += " "
		}
		detail += "among the processors " + c.request.Queue.String() + " of the queue"
	}
	return c.refuse(TooFewFree, detail)
}

func (c chooser) refuse(why Reason, detail string) error {
	return &RefusedError{Request: c.request.String(), Reason: why, Detail: detail}
}

func (c chooser) refuseCore(why Reason, core topology.Pair) error {
	return &RefusedError{Request: c.request.String(), Reason: why, Core: core}
}

// amount returns an error if the host cannot have n cores for the job.
func (c chooser) amount(n int) error {
	if n < 1 {
		return c.refuse(Malformed, strconv.Itoa(n)+" cores")
	}
	if n > len(c.pairs) {
		return c.refuse(TooFewCores, strconv.Itoa(n)+" of "+strconv.Itoa(len(c.pairs)))
	}
	return nil
}

// linear takes cores of the first socket without a core in use. While these are too few, it adds
// cores of the socket with the most free cores; of equal ones it takes the first.
func (c chooser) linear(t topology.Topology, n int) ([]topology.Pair, error) {
	if err := c.amount(n); err != nil {
		return nil, err
	}
	free := make([][]topology.Pair, len(t.Sockets))
	busy := make([]bool, len(t.Sockets))
	total := 0
	for _, p := range c.pairs {
		busy[p.Socket] = busy[p.Socket] || c.used.Has(p)
		if c.unavailable(p) == 0 {
			free[p.Socket] = append(free[p.Socket], p)
			total++
		}
	}
	if n > total {
		return nil, c.tooFew(strconv.Itoa(n) + " of " + strconv.Itoa(total) + " free")
	}
	next := slices.IndexFunc(t.Sockets, func(s topology.Socket) bool { return len(s.Cores) > 0 })
	for i := range t.Sockets {
		if len(free[i]) > 0 && !busy[i] {
			next = i
			break
		}
		if len(free[i]) > len(free[next]) {
			next = i
		}
	}
	var cores []topology.Pair
	for {
		take := min(n-len(cores), len(free[next]))
		cores = append(cores, free[next][:take]...)
		free[next] = nil
		if len(cores) == n {
			return cores, nil
		}
		for i := range free {
			if len(free[i]) > len(free[next]) {
				next = i
			}
		}
	}
}

// stride takes n cores, each step cores after the previous one, counting across sockets. It begins
// at the start core of the request, or at the first core from which all n are free.
func (c chooser) stride(n, step int) ([]topology.Pair, error) {
	if step < 1 {
		return nil, c.refuse(Malformed, "step "+strconv.Itoa(step))
	}
	if err := c.amount(n); err != nil {
		return nil, err
	}
	first := 0
	if c.request.HasStart {
		start := topology.Pair{Socket: c.request.Socket, Core: c.request.Core}
		first = slices.Index(c.pairs, start)
		if first < 0 {
			return nil, c.refuseCore(NoSuchCore, start)
		}
	}
	// The check uses division, since a product may overflow.
	fits := func(from int) bool { return from < len(c.pairs) && n-1 <= (len(c.pairs)-1-from)/step }
	if !fits(first) {
		return nil, c.refuse(TooFewCores, "none of "+strconv.Itoa(len(c.pairs))+" at that distance")
	}
	for from := first; fits(from); from++ {
		var cores []topology.Pair
		for i := range n {
			p := c.pairs[from+i*step]
			why := c.unavailable(p)
			if why == 0 {
				cores = append(cores, p)
				continue
			}
			if c.request.HasStart {
				return nil, c.refuseCore(why, p)
			}
			break
		}
		if len(cores) == n {
			return cores, nil
		}
	}
	return nil, c.tooFew("")
}

// explicit takes exactly the cores of the request, in the given order.
func (c chooser) explicit() ([]topology.Pair, error) {
	if len(c.request.Pairs) == 0 {
		return nil, c.refuse(Malformed, "no cores")
	}
	for i, p := range c.request.Pairs {
		if slices.Contains(c.request.Pairs[:i], p) {
			return nil, c.refuse(Malformed, "core "+p.String()+" twice")
		}
		if !slices.Contains(c.pairs, p) {
			return nil, c.refuseCore(NoSuchCore, p)
		}
		if why := c.unavailable(p); why != 0 {
			return nil, c.refuseCore(why, p)
		}
	}
	return slices.Clone(c.request.Pairs), nil
}
