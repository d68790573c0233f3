package binding

import "github.com/execd-project/execd/limits/topology"

// Reason is the reason why a host cannot satisfy a request or a config entry.
type Reason int

// The reasons for a refusal.
const (
	// Malformed: the request is invalid on every host.
	Malformed Reason = iota + 1
	// NoSuchCore: the host has no core of the given numbers.
	NoSuchCore
	// TooFewCores: the host does not have that many cores, or not at that distance, even if it is
	// idle.
	TooFewCores
	// CoreInUse: a requested core belongs to another job.
	CoreInUse
	// TooFewFree: the cores that other jobs leave are too few, or not at that distance.
	TooFewFree
	// NotOfQueue: a requested core has a processor that the queue of the job lacks.
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

// RefusedError is the error for a binding that is impossible. The job should then run unbound, as
// in the original.
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
