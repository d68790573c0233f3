package agent

import (
	"testing"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// slowScripts is a launcher whose disk does not answer when a script is removed.
type slowScripts struct {
	launch.Launcher
	removing chan int      // the job whose script is being removed
	answer   chan struct{} // closed when the disk answers
}

func (l *slowScripts) RemoveScript(number int) error {
	l.removing <- number
	<-l.answer
	return l.Launcher.RemoveScript(number)
}

// TestAnswersWhileAScriptIsRemoved checks that the agent answers while the disk hangs during the
// removal of a script.
func TestAnswersWhileAScriptIsRemoved(t *testing.T) {
	l := &slowScripts{removing: make(chan int), answer: make(chan struct{})}
	w := newWorld(t, func(o *Options) {
		l.Launcher = launch.Local{Spool: o.Spool, Shepherd: o.Shepherd}
		o.Launcher, o.Own = l, o.Spool.Dir()
	})
	s := w.job(1, "/bin/true")
	w.mustStart(s)
	w.ended(s.ID)
	if err := w.agent.Acknowledge(t.Context(), w.agent.Jobs()[0].Number); err != nil {
		t.Fatal(err)
	}
	select {
	case number := <-l.removing:
		if number != 1 {
			t.Errorf("the script of job %d is removed, expected that of job 1", number)
		}
	case <-time.After(patience):
		t.Fatal("the script is not removed")
	}
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		w.agent.Health()
		w.agent.Job(job.ID{Job: 1})
	}()
	select {
	case <-answered:
	case <-time.After(patience):
		t.Error("the agent does not answer while a script is being removed")
	}
	close(l.answer)
	<-answered
	w.gone(s.ID)
}

// TestScriptOfTasksThatEndTogether checks that the last one of several tasks that are removed at the
// same time removes the script.
func TestScriptOfTasksThatEndTogether(t *testing.T) {
	w := newWorld(t)
	table := w.agent.table
	first, second := newEntry(job.ID{Job: 1, Task: 1}, Record{}), newEntry(job.ID{Job: 1, Task: 2}, Record{})
	other := newEntry(job.ID{Job: 2}, Record{})
	table.mu.Lock()
	for _, e := range []*entry{first, second, other} {
		table.jobs[e.id] = e
	}
	table.mu.Unlock()
	if !table.releaseScript(first) {
		t.Error("the second task has no script any more")
	}
	if table.releaseScript(second) {
		t.Error("the script of both tasks stays")
	}
	table.mu.Lock()
	defer table.mu.Unlock()
	clear(table.jobs)
}
