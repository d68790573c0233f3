package agent

import (
	"context"
	"fmt"
)

// Sequence is the place of an order among all that the masters of a cell have given: masters
// that take over from each other have larger and larger epochs, and each counts its orders.
// An order with the zero Sequence has no number: the agent always carries it out.
//
// A repeated order is carried out once. An order that was overtaken by a newer one about the same
// subject is outdated and refused.
type Sequence struct {
	Epoch  uint64 `json:"epoch"`
	Number uint64 `json:"number"`
}

// before reports whether the order t was given before u.
func (t Sequence) before(u Sequence) bool {
	return t.Epoch < u.Epoch || t.Epoch == u.Epoch && t.Number < u.Number
}

// Check compares an order with previous, the last order about the same thing. repeated reports
// whether both are the same order. The error says that a later order has overtaken this one.
func (t Sequence) Check(what string, previous Sequence) (repeated bool, err error) {
	switch {
	case t.Number == 0 || previous.before(t):
		return false, nil
	case t == previous:
		return true, nil
	}
	return false, &Error{FailedPrecondition, fmt.Errorf("%s: order %d of epoch %d was overtaken by order %d of epoch %d",
		what, t.Number, t.Epoch, previous.Number, previous.Epoch)}
}

type sequenceKey struct{}

// WithSequence gives Signal and SignalQueue the sequence number of their order.
func WithSequence(ctx context.Context, t Sequence) context.Context {
	return context.WithValue(ctx, sequenceKey{}, t)
}

func turnOf(ctx context.Context) Sequence {
	t, _ := ctx.Value(sequenceKey{}).(Sequence)
	return t
}

// aspectOf returns the aspect of a job that an order changes: orders about different aspects do not
// overtake each other. Orders that end a job have no sequence, because they cannot be undone.
func aspectOf(o Order) string {
	switch o {
	case Suspend, Resume:
		return "suspend"
	case SuspendThreshold, ResumeThreshold:
		return "suspend_threshold"
	case SuspendQueue, ResumeQueue:
		return "suspend_queue"
	case Usr1, Usr2:
		return string(o)
	}
	return ""
}

// InTurn carries out an order for the whole agent unless it is a repetition or was overtaken. See
// Commands.
func (a *Agent) InTurn(t Sequence, what string, do func() error) error {
	if t.Number == 0 {
		return do()
	}
	a.turning.Lock()
	defer a.turning.Unlock()
	if again, err := t.Check(what, a.journal.lastTurn(what)); again || err != nil {
		return err
	}
	if err := do(); err != nil {
		return err
	}
	// It was carried out; all that can be lost is that it was.
	a.trouble("remembering orders", a.journal.setTurn(what, t))
	return nil
}

// ofMaster is whose epoch the turns have under this name.
const ofMaster = "master"

// SawEpoch refuses a master that has been replaced, and remembers a new one, also over a
// restart. See Commands.
func (a *Agent) SawEpoch(epoch uint64) error {
	largest := a.journal.master()
	switch {
	case epoch == 0 || epoch == largest:
		return nil
	case epoch < largest:
		return replaced(epoch, largest)
	}
	// A host must still carry out orders when nothing can be written any more.
	a.trouble("remembering orders", a.journal.saw(epoch))
	return nil
}

func replaced(epoch, by uint64) error {
	return &Error{FailedPrecondition, fmt.Errorf("epoch %d: a master with epoch %d has taken over", epoch, by)}
}
