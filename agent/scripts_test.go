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

// The agent answers while the disk does not, also if a script is being removed.
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
	if number := <-l.removing; number != 1 {
		t.Errorf("the script of job %d is removed, expected that of job 1", number)
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
