package cell

import (
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// validate applies -w (qsub(1)). It reports whether to submit the job. -ar implies -w e.
func (c *Cell) validate(now int64, j *Job, a *Answer) (bool, error) {
	level := j.asked.Validation
	if level == submit.ValidateNone {
		if j.asked.Reservation == 0 {
			return true, nil
		}
		level = submit.ValidateError
	}
	how := scheduler.EmptyCluster
	if level == submit.ValidatePoke {
		how = scheduler.AsItIs
	}
	j.sched.Tasks = j.Waiting
	reasons, ok := c.state.Verify(&j.sched, how, now)
	switch {
	case level == submit.ValidateError && !ok:
		return false, denied(Event{Kind: NoSuitableQueues, Validation: level})
	case level == submit.ValidateWarn && !ok:
		a.say(Event{Kind: NoSuitableQueues, Validation: level})
	case level == submit.ValidateVerify || level == submit.ValidatePoke:
		if ok {
			a.say(Event{Kind: QueuesFound})
			return false, nil
		}
		err := denied(Event{Kind: NoSuitableQueues, Validation: level})
		for i := range reasons {
			err.Report = append(err.Report, Event{Kind: JobCannotStart, Job: j.ID(), Reason: &reasons[i]})
		}
		return false, err
	}
	return true, nil
}

// validateAltered applies -w of qalter, which concerns pending jobs. It reports whether to alter
// the job.
func (c *Cell) validateAltered(now int64, j *Job, level submit.Validation, a *Answer) bool {
	if level == submit.ValidateNone {
		return true
	}
	// Jobs that depend on other jobs or on a start time are validated, too (tested).
	if j.sched.Tasks.IsEmpty() && j.Holds == 0 && !j.Waiting.IsEmpty() {
		j.sched.Tasks = j.Waiting
		defer func() { j.sched.Tasks = rangelist.List{} }()
	}
	if j.sched.Tasks.IsEmpty() {
		a.say(Event{Kind: NotPending})
		return level == submit.ValidateError || level == submit.ValidateWarn
	}
	how := scheduler.EmptyCluster
	if level == submit.ValidatePoke {
		how = scheduler.AsItIs
	}
	reasons, ok := c.state.Verify(&j.sched, how, now)
	switch {
	case level == submit.ValidateError && !ok:
		a.deny(Event{Kind: NoSuitableQueues, Validation: level})
		return false
	case level == submit.ValidateWarn && !ok:
		a.deny(Event{Kind: NoSuitableQueues, Validation: level}) // although it is altered (tested)
	case level == submit.ValidateVerify || level == submit.ValidatePoke:
		if ok {
			a.say(Event{Kind: QueuesFound})
			return false
		}
		for i := range reasons {
			a.say(Event{Kind: JobCannotStart, Job: j.ID(), Reason: &reasons[i]})
		}
		a.deny(Event{Kind: NoSuitableQueues, Validation: level})
		return false
	}
	return true
}
