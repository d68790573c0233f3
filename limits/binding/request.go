package binding

import (
	"strconv"

	"github.com/execd-project/execd/limits/topology"
)

// Instance says who does the binding (sge_submit(1), -binding).
type Instance int

// The instances of -binding.
const (
	Set Instance = iota // we bind the job; the default
	Env                 // the job does, by SGE_BINDING
	PE                  // the parallel environment does, by the pe_hostfile
)

// String returns the instance as -binding has it.
func (i Instance) String() string {
	switch i {
	case Env:
		return "env"
	case PE:
		return "pe"
	default:
		return "set"
	}
}

// prefix returns the instance as the config file has it.
func (i Instance) prefix() string {
	switch i {
	case Env:
		return "env_"
	case PE:
		return "pe_"
	default:
		return ""
	}
}

// Strategy is how cores are chosen.
type Strategy int

// The strategies of -binding.
const (
	None Strategy = iota // no binding is asked for
	Linear
	Striding
	Explicit
)

// String returns the strategy as -binding has it.
func (s Strategy) String() string {
	switch s {
	case Linear:
		return "linear"
	case Striding:
		return "striding"
	case Explicit:
		return "explicit"
	default:
		return "none"
	}
}

// Request is one -binding option. The zero value asks for nothing.
type Request struct {
	Instance Instance
	Strategy Strategy

	Amount int  // linear, striding: number of cores
	Slots  bool // linear: as many cores as the job has slots on the host; Amount does not count
	Step   int  // striding: distance between cores; 1 for successive ones

	// HasStart makes Socket and Core the first core; otherwise it is searched.
	HasStart     bool
	Socket, Core int

	Pairs []topology.Pair // explicit: the cores

	// Queue are the processors of the queue (queue_conf(5), processors): only
	// cores all threads of which are among them can be had. Empty for all.
	Queue topology.CPUSet
}

// String returns the request in the notation of -binding.
func (r Request) String() string {
	s := r.Instance.String() + " " + r.Strategy.String()
	switch r.Strategy {
	case Linear:
		if r.Slots {
			s += ":slots"
		} else {
			s += ":" + strconv.Itoa(r.Amount)
		}
	case Striding:
		s += ":" + strconv.Itoa(r.Amount) + ":" + strconv.Itoa(r.Step)
	case Explicit:
		return s + ":" + topology.FormatPairs(r.Pairs)
	}
	if r.HasStart && r.Strategy != None {
		s += ":" + topology.Pair{Socket: r.Socket, Core: r.Core}.String()
	}
	return s
}
