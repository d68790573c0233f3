package agent

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// tight returns a configuration with a parallel environment whose tasks the agent starts.
func tight(t testing.TB, first string) func(*Options) {
	t.Helper()
	c := load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds NONE\npe_list mpi\n",
		"pes/mpi":      "pe_name mpi\nslots 100\nallocation_rule $round_robin\ncontrol_slaves TRUE\njob_is_first_task " + first + "\n",
	})
	return func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "tight", nil }
	}
}

func (w *world) parallel(id, slots int, words ...string) *Start {
	w.Helper()
	s := w.job(id, append([]string{"-pe", "mpi", "1-10"}, words...)...)
	s.PE = "mpi"
	s.Grants[0].Slots = slots
	return s
}

func (w *world) task(s *Start, key string, command ...string) (JobReport, error) {
	return w.agent.StartTask(w.Context(), &TaskStart{Job: s.ID, Key: key, Owner: s.Owner, Command: command})
}

func TestTasks(t *testing.T) {
	w := newWorld(t, tight(t, "FALSE"))
	s := w.parallel(1, 2, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	short, err := w.task(s, "a", "/bin/sh", "-c", "exit 4")
	if err != nil {
		t.Fatal(err)
	}
	if short.ID.PETask != "1."+host || short.StartKey() != "a" || short.Key == "a" {
		t.Errorf("the first task is %+v with key %q", short.ID, short.StartKey())
	}
	if again, err := w.task(s, "a", "/bin/sh", "-c", "exit 4"); err != nil || again.ID != short.ID {
		t.Errorf("the same task again: %+v, %v", again, err)
	}
	if o := w.ended(short.ID); o.ExitStatus != 4 {
		t.Errorf("the task ended with %+v", o)
	}
	var long []JobReport
	for _, key := range []string{"b", "c"} {
		r, err := w.task(s, key, "/bin/sleep", "1000")
		if err != nil {
			t.Fatal(err)
		}
		w.await(r.ID, Running)
		long = append(long, r)
	}
	if _, err := w.task(s, "d", "/bin/true"); codeOf(err) != ResourceExhausted {
		t.Errorf("a task more than there are slots: %v", err)
	}
	for _, key := range []string{"e", "b"} { // a new one, and one that is here
		stranger := &TaskStart{Job: s.ID, Key: key, Owner: "root", Command: []string{"/bin/true"}}
		if r, err := w.agent.StartTask(t.Context(), stranger); codeOf(err) != PermissionDenied {
			t.Errorf("a task of somebody else: %+v, %v", r, err)
		}
	}
	// A restarted agent knows them, and does not give a number twice.
	w.stop()
	w.start(tight(t, "FALSE"))
	for _, r := range long {
		w.await(r.ID, Running)
	}
	if err := w.agent.Signal(t.Context(), long[0].ID, Kill); err != nil {
		t.Fatal(err)
	}
	w.ended(long[0].ID)
	r, err := w.task(s, "f", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	if r.ID.PETask != "4."+host {
		t.Errorf("the next task after a restart is %+v", r.ID)
	}
	w.await(r.ID, Running)
	// With the job its tasks end, and are reported before it.
	if err := w.agent.Signal(t.Context(), s.ID, Terminate); err != nil {
		t.Fatal(err)
	}
	end := w.await(s.ID, Ended, Reported)
	for _, id := range []job.ID{long[1].ID, r.ID} {
		if task := w.await(id, Ended, Reported); task.Number >= end.Number || task.Outcome.Signal == 0 {
			t.Errorf("task %+v\njob %+v", task, end)
		}
	}
}

// TestTasksOfForkingEnvironments checks that a parallel job whose processes are started by another
// program has fewer tasks than slots (sge_pe(5) of Open Cluster Scheduler), also after a restart of
// the agent.
func TestTasksOfForkingEnvironments(t *testing.T) {
	w := newWorld(t, tight(t, "FALSE"))
	inMaster := w.parallel(1, 4, "/bin/sleep", "1000")
	inMaster.MasterForksSlaves = true
	inDaemon := w.parallel(2, 4, "/bin/sleep", "1000")
	inDaemon.DaemonForksSlaves = true
	slave := w.parallel(3, 4, "/bin/true")
	slave.Slave, slave.MasterForksSlaves, slave.DaemonForksSlaves = true, true, true
	slave.Grants = append([]Grant{{Queue: "all.q", Host: "elsewhere", Slots: 3}}, slave.Grants...)
	for _, s := range []*Start{inMaster, inDaemon, slave} {
		w.mustStart(s)
		w.await(s.ID, Running)
	}
	if _, err := w.task(inMaster, "a", "/bin/true"); codeOf(err) != FailedPrecondition || !strings.Contains(err.Error(), "master_forks_slaves") {
		t.Errorf("a task where the job starts them by itself: %v", err)
	}
	for _, s := range []*Start{inDaemon, slave} {
		task, err := w.task(s, "a", "/bin/sleep", "1000")
		if err != nil {
			t.Fatal(err)
		}
		w.await(task.ID, Running)
	}
	w.stop()
	w.start(tight(t, "FALSE"))
	for _, s := range []*Start{inDaemon, slave} {
		w.await(s.ID, Running)
		if _, err := w.task(s, "b", "/bin/true"); codeOf(err) != ResourceExhausted || !strings.Contains(err.Error(), "daemon_forks_slaves") {
			t.Errorf("a second task of job %s: %v", s.ID, err)
		}
	}
	for _, s := range []*Start{inMaster, inDaemon, slave} {
		if err := w.agent.Signal(t.Context(), s.ID, Terminate); err != nil {
			t.Fatal(err)
		}
		w.ended(s.ID)
	}
}

func TestSlaveJob(t *testing.T) {
	w := newWorld(t, tight(t, "TRUE"))
	s := w.parallel(2, 1, "/bin/true")
	s.Slave = true
	s.Grants = append([]Grant{{Queue: "all.q", Host: "elsewhere", Slots: 3}}, s.Grants...)
	w.mustStart(s)
	w.await(s.ID, Running)
	task, err := w.task(s, "a", "/bin/sleep", "1000")
	if err != nil {
		t.Fatal(err)
	}
	w.await(task.ID, Running)
	w.stop()
	w.start(tight(t, "TRUE"))
	w.await(s.ID, Running)
	w.await(task.ID, Running)
	if err := w.agent.Signal(t.Context(), s.ID, Terminate); err != nil {
		t.Fatal(err)
	}
	if o := w.ended(s.ID); o.Failed != job.FailedNone || o.ExitStatus != 0 {
		t.Errorf("outcome %+v", o)
	}
	w.ended(task.ID) // nothing of a job goes before its tasks are known to have ended
	w.gone(s.ID)
}

// TestTaskNumbersOutliveTheAgent checks that the number of a task that the master has forgotten is
// not used again: the end of the new task would be taken for that of the old one.
func TestTaskNumbersOutliveTheAgent(t *testing.T) {
	w := newWorld(t, tight(t, "FALSE"))
	s := w.parallel(3, 2, "/bin/sleep", "1000")
	w.mustStart(s)
	w.await(s.ID, Running)
	first, err := w.task(s, "a", "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	w.ended(first.ID)
	w.until("the task is forgotten", func() bool { _, there := w.agent.Job(first.ID); return !there })
	w.stop()
	w.start(tight(t, "FALSE"))
	w.await(s.ID, Running)
	second, err := w.task(s, "b", "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	if second.ID.PETask != "2."+host {
		t.Errorf("the next task after a restart is %+v", second.ID)
	}
	w.ended(second.ID)
}

// TestTaskIsNotStartedAgain checks that the agent, and the next one, recognise a repeated start of
// a finished task. In another run of the job the same start is a new task.
func TestTaskIsNotStartedAgain(t *testing.T) {
	w := newWorld(t, tight(t, "FALSE"))
	s := w.parallel(4, 2, "/bin/sleep", "1000")
	s.Key = "first run"
	w.mustStart(s)
	w.await(s.ID, Running)
	first, err := w.task(s, "a", "/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	w.ended(first.ID)
	w.gone(first.ID)
	for range 2 {
		if r, err := w.task(s, "a", "/bin/true"); err != nil || r.State != Acknowledged || r.StartKey() != "a" || r.ID != s.ID {
			t.Errorf("the same task again: %+v, %v", r, err)
		}
		stranger := &TaskStart{Job: s.ID, Key: "a", Owner: "root", Command: []string{"/bin/true"}}
		if _, err := w.agent.StartTask(t.Context(), stranger); codeOf(err) != PermissionDenied {
			t.Errorf("the task of somebody else: %v", err)
		}
		w.stop()
		w.start(tight(t, "FALSE"))
		w.await(s.ID, Running)
	}
	if err := w.agent.Signal(t.Context(), s.ID, Kill); err != nil {
		t.Fatal(err)
	}
	w.ended(s.ID)
	w.gone(s.ID)
	s.Key = "second run"
	w.mustStart(s)
	w.await(s.ID, Running)
	if r, err := w.task(s, "a", "/bin/true"); err != nil || r.ID.PETask != "1."+host {
		t.Errorf("the task of the second run: %+v, %v", r, err)
	}
}

// TestTaskThatComesLate checks that a task that is being prepared when its job is suspended or
// ended is suspended or ended, too.
func TestTaskThatComesLate(t *testing.T) {
	for order, want := range map[Order][]State{Suspend: {Suspended}, Terminate: {Ended, Reported}} {
		t.Run(string(order), func(t *testing.T) {
			w := newWorld(t, tight(t, "FALSE"))
			s := w.parallel(1, 2, "/bin/sleep", "1000")
			w.mustStart(s)
			w.await(s.ID, Running)
			for range cap(w.agent.preparing) { // nothing is made meanwhile
				w.agent.preparing <- struct{}{}
			}
			type answer struct {
				task JobReport
				err  error
			}
			answers := make(chan answer)
			go func() {
				r, err := w.task(s, "a", "/bin/sleep", "1000")
				answers <- answer{r, err}
			}()
			w.until("the task is received", func() bool { return len(w.agent.table.list()) == 2 })
			if err := w.agent.Signal(t.Context(), s.ID, order); err != nil {
				t.Fatal(err)
			}
			for range cap(w.agent.preparing) {
				<-w.agent.preparing
			}
			a := <-answers
			if a.err != nil {
				t.Fatal(a.err)
			}
			r := w.await(a.task.ID, want...)
			if order == Suspend {
				return
			}
			if r.Outcome.Ran {
				t.Errorf("the task has run: %+v", r.Outcome)
			}
			if _, err := w.task(s, "b", "/bin/true"); codeOf(err) != FailedPrecondition && codeOf(err) != NotFound {
				t.Errorf("a task of a job that is being ended: %v", err)
			}
		})
	}
}
