package standalone

import (
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/standalone/api"
)

// await delays the answer to a command until a scheduling run.
func (b *batch) await(x *answer) {
	if b.immediates == nil {
		b.immediates = map[uint32]*answer{}
	}
	b.immediates[x.immediate] = x
}

// answerImmediate answers the command that waits for the scheduler's decision about a job, after
// the decision has been committed. If the commit fails, the job is undecided again, and the command
// waits for the next run; if the submission itself was not committed either, the command gets the
// error.
func (m *Master) answerImmediate(i cell.Immediate) {
	x := m.batch.immediates[i.Job]
	if x == nil {
		return
	}
	delete(m.batch.immediates, i.Job)
	judged := *x.result
	x.judged = &judged
	switch {
	case judged.Interactive && !i.Started:
		judged.Stderr += api.Text(command.Unscheduled(judged.Command))
	case !judged.Interactive:
		immediate(&judged, i)
	}
	if !i.Started {
		judged.Exit = 1
	}
	m.batch.answered = append(m.batch.answered, x)
	m.batch.answers = append(m.batch.answers, func(err error) {
		switch {
		case err == nil:
			x.result, x.immediate = x.judged, 0
		case x.durable:
			x.judged = nil
			m.batch.await(x)
			return
		}
		x.finish(err)
	})
}

// immediate adds the output of qsub for a job with -now y: the messages about waiting on standard
// error, and on standard output the line about the submission, or with -terse the job number
// (tested).
func immediate(a *api.CommandAnswer, i cell.Immediate) {
	stderr, stdout := command.ImmediateText(i)
	a.Stderr += api.Text(stderr)
	if !a.Terse {
		a.Stdout += api.Text(stdout)
	}
}

// awaitAgain makes the undecided answers of a previous daemon wait for the decision about their
// jobs.
func (m *Master) awaitAgain() {
	for _, x := range m.seen.of {
		switch {
		case x.immediate == 0:
		case m.cell.Job(x.immediate) != nil:
			m.batch.await(x)
		default: // the job was deleted
			x.result.Exit, x.immediate = 1, 0
			x.finish(nil)
		}
	}
}
