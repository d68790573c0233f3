package standalone

import (
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/standalone/api"
)

// await has a command wait for a scheduling run.
func (b *batch) await(x *answer) {
	if b.immediates == nil {
		b.immediates = map[uint32]*answer{}
	}
	b.immediates[x.immediate] = x
}

// answerImmediate tells the command that waits for it what became of a job, once that is kept. Where
// it cannot be kept the job is submitted and undecided again, and the command waits for the
// next run; if its submission was not kept before either, it learns why.
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

// immediate is what qsub prints of a job with -now y: of waiting for it to standard error,
// and in the last line to standard output that it was submitted, or its number (tested).
func immediate(a *api.CommandAnswer, i cell.Immediate) {
	for n, line := range i.Texts {
		switch {
		case n < len(i.Texts)-1:
			a.Stderr += api.Text(line + "\n")
		case !a.Terse:
			a.Stdout += api.Text(line + "\n")
		}
	}
}

// awaitAgain has the answers of a previous daemon wait that do not know yet what became of
// their jobs.
func (m *Master) awaitAgain() {
	for _, x := range m.seen.of {
		switch {
		case x.immediate == 0:
		case m.cell.Job(x.immediate) != nil:
			m.batch.await(x)
		default: // somebody has deleted it
			x.result.Exit, x.immediate = 1, 0
			x.finish(nil)
		}
	}
}
