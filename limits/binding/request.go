package binding

import (
	"strconv"

	"github.com/execd-project/execd/limits/topology"
)

// Instance says who binds the job (sge_submit(1), -binding).
type Instance int

// The instances of -binding.
const (
	Set Instance = iota // the agent binds the job; the default
	Env                 // the job binds itself, by SGE_BINDING
	PE                  // the parallel environment binds the job, by the pe_hostfile
)

// String returns the instance in the notation of -binding.
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

// prefix returns the prefix of the instance in the config file.
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

// Strategy is the way in which cores are chosen.
type Strategy int

// The strategies of -binding.
const (
	None Strategy = iota // no binding is requested
	Linear
	Striding
	Explicit
)

// String returns the strategy in the notation of -binding.
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

// Request is one -binding option. The zero value requests no binding.
type Request struct {
	Instance Instance
	Strategy Strategy

	Amount int  // linear, striding: number of cores
	Slots  bool // linear: as many cores as the job has slots on the host; Amount is ignored
	Step   int  // striding: distance between cores; 1 for successive ones

	// HasStart makes Socket and Core the first core; otherwise Choose searches for it.
	HasStart     bool
	Socket, Core int

	Pairs []topology.Pair // explicit: the cores

	// Queue are the processors of the queue (queue_conf(5), processors). A job gets only cores with
	// all their threads among them. Empty allows all cores.
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
