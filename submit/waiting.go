package submit

import (
	"errors"
	"strconv"
	"strings"
)

// Options that concern the time a job is pending, its placement and its accounting. None of them
// has an effect in a run on one host.

// QueueRequest is one reference of -q.
type QueueRequest struct {
	Reference string // wc_queue of sge_types(5): wc_cqueue, wc_cqueue@wc_host, wc_cqueue@@wc_hostgroup
	Soft      bool   // after -soft: preferred, not required
}

// Validation is a level of -w (sge_submit(1)).
type Validation byte

// The levels of validation. With the last two the command does not submit the job.
const (
	ValidateNone   Validation = 0
	ValidateError  Validation = 'e' // refuse a job that can never run
	ValidateWarn   Validation = 'w' // warn about it
	ValidateVerify Validation = 'v' // report whether the job could run on an empty cluster
	ValidatePoke   Validation = 'p' // report whether the job could run on the cluster now
)

// Holds is a set of the holds that users can put on a job (sge_submit(1), -h).
type Holds byte

// The holds. Each of them keeps a job from starting.
const (
	HoldUser Holds = 1 << iota
	HoldOperator
	HoldSystem

	AllHolds = HoldUser | HoldOperator | HoldSystem
)

// String returns the letters of the holds, in the order u o s; "n" for none.
func (h Holds) String() string {
	var b strings.Builder
	for i, letter := range []byte("uos") {
		if h&(1<<i) != 0 {
			b.WriteByte(letter)
		}
	}
	if b.Len() == 0 {
		return "n"
	}
	return b.String()
}

// HoldChange is the change that -h of qalter, qhold or qrls requests.
type HoldChange struct{ Set, Clear Holds }

// ParseHolds reads the value of -h for qalter and qhold: the letters u, o and s set holds, U, O and
// S remove them, n removes all (sge_submit(1)). It refuses a value that does both. Without a letter
// nothing changes (tested).
func ParseHolds(s string) (HoldChange, error) {
	var c HoldChange
	for _, letter := range s {
		i := strings.IndexRune("uosUOS", letter)
		switch {
		case letter == 'n':
			c.Clear |= AllHolds
		case i < 0:
			return HoldChange{}, errors.New(strconv.QuoteRune(letter) + " is not one of u, o, s, n, U, O and S")
		case i < 3:
			c.Set |= 1 << i
		default:
			c.Clear |= 1 << (i - 3)
		}
	}
	if c.Set != 0 && c.Clear != 0 {
		return HoldChange{}, errors.New(strconv.Quote(s) + " puts holds on and takes some off, expected either")
	}
	return c, nil
}

func setUserHold(b *builder, _ setting) error { b.req.Hold = true; return nil }

func setHolds(b *builder, s setting) (err error) {
	b.alteration.Holds, err = ParseHolds(s.value())
	return err
}

func setImmediate(b *builder, s setting) (err error) {
	b.req.Immediate, err = yesNo(s.value())
	return err
}

func setReserve(b *builder, s setting) (err error) {
	b.req.Reserve, err = yesNo(s.value())
	return err
}

func setSync(b *builder, s setting) (err error) {
	switch s.value() { // the letters of Gridware Cluster Scheduler
	case "x":
		b.req.Sync = true
		return nil
	case "r", "l":
		return errors.New(strconv.Quote(s.value()) + " is not supported, expected y, n or x; qstat -s r shows the jobs that run")
	}
	if b.req.Sync, err = yesNo(s.value()); err != nil {
		return errors.New(strconv.Quote(s.value()) + " is not y[es], n[o] or x")
	}
	return nil
}

func setJobShare(b *builder, s setting) (err error) {
	b.req.JobShare, err = digits(s.value(), maxTask)
	return err
}

func setTaskLimit(b *builder, s setting) (err error) {
	b.req.TaskLimit, err = digits(s.value(), maxTask)
	return err
}

func setReservation(b *builder, s setting) (err error) {
	b.req.Reservation, err = digits(s.value(), maxTask)
	return err
}

func setOverride(b *builder, s setting) error {
	n, err := digits(s.value(), maxTask)
	if b.alteration != nil {
		b.alteration.Override = n
	}
	return err
}

func setStart(b *builder, s setting) (err error) {
	b.req.Start, err = ParseDateTime(s.value())
	return err
}

func setDeadline(b *builder, s setting) (err error) {
	b.req.Deadline, err = ParseDateTime(s.value())
	return err
}

// setQueues reads -q and -masterq. The master, which knows the queues, checks the references.
func setQueues(b *builder, s setting) error {
	if err := checkList(b, s); err != nil {
		return err
	}
	for _, item := range splitList(s.value(), ",") {
		if s.option.Name == "-masterq" {
			b.req.MasterQueues = append(b.req.MasterQueues, item)
		} else {
			b.req.Queues = append(b.req.Queues, QueueRequest{Reference: item, Soft: s.soft})
		}
	}
	return nil
}

// setPredecessors reads -hold_jid and -hold_jid_ad. For qalter an empty list removes the
// dependencies (sge_submit(1)).
func setPredecessors(b *builder, s setting) error {
	if err := checkList(b, s); err != nil && b.alteration == nil {
		return err
	}
	to := &b.req.PrecedingJobs
	if s.option.Name == "-hold_jid_ad" {
		to = &b.req.PrecedingTasks
	}
	*to = append(*to, splitList(s.value(), ",")...)
	return nil
}

// setValidation reads -w. With p and v the original does not submit the job. qrsub accepts only e
// and v.
func setValidation(b *builder, s setting) error {
	allowed := "ewnpv"
	if b.reservation != nil {
		allowed = "ev"
	}
	v := s.value()
	if len(v) != 1 || !strings.Contains(allowed, v) {
		return errors.New("expected one of " + strings.Join(strings.Split(allowed, ""), ", "))
	}
	if b.req.Validation = Validation(v[0]); v == "n" {
		b.req.Validation = ValidateNone
	}
	return nil
}
