package binding

import "github.com/execd-project/execd/limits/topology"

// Reason says why a request or a config entry cannot be done on a host.
type Reason int

// The reasons.
const (
	// Malformed: the request makes no sense on any host.
	Malformed Reason = iota + 1
	// NoSuchCore: the host has no core of the given numbers.
	NoSuchCore
	// TooFewCores: the host does not have that many cores, or not at that
	// distance, even when nothing runs.
	TooFewCores
	// CoreInUse: a core that must be used is another job's.
	CoreInUse
	// TooFewFree: other jobs leave too few cores, or none at that distance.
	TooFewFree
	// NotOfQueue: a core that must be used has a processor that the queue of
	// the job does not have.
	NotOfQueue
	// OtherHost: the config entry was written for another topology.
	OtherHost
)

// String returns the reason in words.
func (r Reason) String() string {
	switch r {
	case Malformed:
		return "the request makes no sense"
	case NoSuchCore:
		return "the host has no such core"
	case TooFewCores:
		return "the host has too few cores"
	case CoreInUse:
		return "a core is in use by another job"
	case TooFewFree:
		return "too few cores are free"
	case NotOfQueue:
		return "a core is not among the processors of the queue"
	case OtherHost:
		return "the host has another topology"
	default:
		return "no reason"
	}
}

// RefusedError is the error of a binding that cannot be done. The original then
// runs the job unbound, and so should we.
type RefusedError struct {
	Request string // the request or config entry
	Reason  Reason
	Core    topology.Pair // for NoSuchCore, CoreInUse and NotOfQueue
	Detail  string        // numbers, for people
}

// Error describes the requested binding and the reason why it is impossible.
func (e *RefusedError) Error() string {
	s := "cannot bind to cores " + e.Request + ": " + e.Reason.String()
	if e.Reason == NoSuchCore || e.Reason == CoreInUse || e.Reason == NotOfQueue {
		s += ": " + e.Core.String()
	}
	if e.Detail != "" {
		s += ": " + e.Detail
	}
	return s
}
