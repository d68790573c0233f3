package agent

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/qconf"
)

// reboot makes a job one of another boot of the host: no process of it is left.
func (w *world) reboot(id job.ID) {
	w.Helper()
	dir, err := w.spool.Open(id)
	if err != nil {
		w.Fatal(err)
	}
	defer dir.Close()
	for _, name := range []string{jobdir.FilePID, jobdir.FileJobPID} {
		if pid, err := dir.ReadNumber(name); err == nil && pid > 1 {
			_ = unix.Kill(pid, unix.SIGKILL)
			for end := time.Now().Add(patience); unix.Kill(pid, 0) == nil && time.Now().Before(end); {
				var status unix.WaitStatus
				_, _ = unix.Wait4(pid, &status, unix.WNOHANG, nil)
			}
		}
	}
	path := filepath.Join(dir.Path(), "launch")
	b, err := os.ReadFile(path)
	if err != nil || !strings.Contains(string(b), launch.BootID()) {
		w.Fatalf("%s has %q, %v", path, b, err)
	}
	if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(b), launch.BootID(), "0f0f0f0f-another-boot")), 0o600); err != nil {
		w.Fatal(err)
	}
}

// TestReboot checks that the agent reports jobs that were running when the host went down, and
// whether they run again.
func TestReboot(t *testing.T) {
	for words, want := range map[string]job.Effect{"-r y": job.Requeued, "-r n": job.Finished} {
		w := newWorld(t)
		s := w.job(1, append(strings.Fields(words), "/bin/sleep", "1000")...)
		w.mustStart(s)
		w.await(s.ID, Running)
		w.stop()
		w.reboot(s.ID)
		w.start()
		if o := w.ended(s.ID); o.Effect != want || o.Reason != "the host was restarted while the job ran" {
			t.Errorf("%s: %+v", words, o)
		}
		w.gone(s.ID)
	}
}

// TestRebootBeforeTheAcknowledgement checks a power failure that loses an acknowledgement. The
// report gets a new number, because a master that has processed it would ignore the old one.
func TestRebootBeforeTheAcknowledgement(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "/bin/true")
	w.mustStart(s)
	former := w.await(s.ID, Ended, Reported).Number
	w.stop()
	w.start()
	if r := w.await(s.ID, Ended, Reported); r.Number != former {
		t.Errorf("after a restart the report has number %d, and had %d", r.Number, former)
	}
	w.stop()
	w.reboot(s.ID)
	w.start()
	if r := w.await(s.ID, Ended, Reported); r.Number <= former {
		t.Errorf("the report has number %d, and had %d", r.Number, former)
	}
	w.ended(s.ID)
	w.gone(s.ID)
}

// TestPowerLossLosesBeginning checks a power loss that loses the files of the supervisor: the job may have run. It runs
// again only if it is rerunnable.
func TestPowerLossLosesBeginning(t *testing.T) {
	for words, want := range map[string]struct {
		effect job.Effect
		failed job.Failed
		reason string
	}{
		"-r y": {job.Requeued, job.FailedBeforeJob, "before the job was known to run"},
		"-r n": {job.Finished, job.FailedNoExitStatus, "it may have run, and it is not rerunnable"},
	} {
		w := newWorld(t)
		s := w.job(1, append(strings.Fields(words), "/bin/sleep", "1000")...)
		w.mustStart(s)
		w.await(s.ID, Running)
		w.stop()
		w.reboot(s.ID)
		for _, name := range []string{jobdir.FilePID, jobdir.FileJobPID} {
			if err := os.Remove(filepath.Join(w.spool.JobPath(s.ID), name)); err != nil {
				t.Fatal(err)
			}
		}
		w.start()
		if o := w.ended(s.ID); o.Effect != want.effect || o.Failed != want.failed || o.Ran || !strings.Contains(o.Reason, want.reason) {
			t.Errorf("%s: %+v, want %+v", words, o, want)
		}
		w.gone(s.ID)
	}
}

// TestOrdersRecordedByPreviousAgent checks that the next agent carries out orders that the previous
// one had recorded but not carried out when it died.
func TestOrdersRecordedByPreviousAgent(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "sh", "-c", "while :; do echo x >>beats; sleep 0.01; done")
	w.mustStart(s)
	w.await(s.ID, Running)
	beats := func() int64 {
		info, err := os.Stat(filepath.Join(s.Request.WorkingDir, "beats"))
		if err != nil {
			return 0
		}
		return info.Size()
	}
	if err := w.agent.Signal(t.Context(), s.ID, Suspend); err != nil {
		t.Fatal(err)
	}
	w.await(s.ID, Suspended)
	note := func(name, text string) {
		t.Helper()
		w.stop()
		dir, err := w.spool.Open(s.ID)
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(dir.WriteFile(name, []byte(text)), dir.Close()); err != nil {
			t.Fatal(err)
		}
		w.start()
	}
	note(fileSuspended, "")
	w.await(s.ID, Running)
	before := beats()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(patience); beats() <= before; <-tick.C {
		if time.Now().After(end) {
			t.Fatal("the job does not go on")
		}
	}
	note(fileSuspended, "suspend_queue\n")
	if r := w.await(s.ID, Suspended); len(r.SuspendedBy) != 1 || r.SuspendedBy[0] != SuspendQueue {
		t.Errorf("suspended by %q", r.SuspendedBy)
	}
	note(fileEnding, `{"by":"terminate"}`)
	if o := w.ended(s.ID); o.Signal == 0 || o.Effect != job.Finished {
		t.Errorf("%+v", o)
	}
	w.gone(s.ID)
}

// TestLoadOfThisHost checks that load values of this host count for admission, and those of other
// hosts do not.
func TestLoadOfThisHost(t *testing.T) {
	c := load(t, map[string]string{
		"queues/all.q": "qname all.q\nhostlist node1\nslots 100\nshell /bin/sh\nload_thresholds np_load_avg=1.75\n",
	})
	w := newWorld(t, func(o *Options) {
		o.Configuration = func() (*qconf.Cluster, string, error) { return c, "1", nil }
	})
	report := func(host, text string) {
		w.agent.takeLoad(loadsensor.Report{Time: time.Now(), Values: []loadsensor.Value{{Key: loadsensor.Key{Host: host, Name: "np_load_avg"}, Text: text}}})
	}
	report(host, "0.1")
	report("node2", "9")
	if err := w.agent.Admit(t.Context(), w.job(1, "/bin/true")); err != nil {
		t.Errorf("with another host that is busy: %v", err)
	}
	report(host, "9")
	if err := w.agent.Admit(t.Context(), w.job(1, "/bin/true")); codeOf(err) != FailedPrecondition {
		t.Errorf("with this one: %v", err)
	}
	report("node2", "0.1")
	if err := w.agent.Admit(t.Context(), w.job(1, "/bin/true")); codeOf(err) != FailedPrecondition {
		t.Errorf("and another that is not: %v", err)
	}
}

// TestLoadReports checks that a master gets the load values that have changed since its last call,
// or all of them on request; a value that disappeared and came back is included.
func TestLoadReports(t *testing.T) {
	w := newWorld(t)
	value := func(name, text string) loadsensor.Value {
		return loadsensor.Value{Key: loadsensor.Key{Host: host, Name: name}, Text: text}
	}
	take := func(r loadsensor.Report) {
		r.Time = time.Now()
		w.agent.takeLoad(r)
	}
	known := map[string]string{}
	var after uint64
	ask := func(full bool, values ...string) {
		t.Helper()
		b, err := w.agent.Reports(t.Context(), after)
		if err != nil || b.Load == nil {
			t.Fatalf("%+v, %v", b, err)
		}
		if after = b.Number; b.Load.Full != full {
			t.Errorf("the report is full: %v", b.Load.Full)
		}
		if b.Load.Full {
			clear(known)
		}
		var names []string
		for _, k := range b.Load.Removed {
			delete(known, k.Name)
		}
		for _, v := range b.Load.Values {
			known[v.Name] = v.Text
			names = append(names, v.Name)
			if slices.Contains(b.Load.Removed, v.Key) {
				t.Errorf("%s is there, and is not", v.Name)
			}
		}
		if got := strings.Join(names, " "); got != strings.Join(values, " ") {
			t.Errorf("the report has %q, expected %q", got, values)
		}
	}
	is := func(want ...string) {
		t.Helper()
		var got []string
		for _, name := range sortedKeys(known) {
			got = append(got, name+"="+known[name])
		}
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%q is known, expected %q", got, want)
		}
	}
	take(loadsensor.Report{Full: true, Values: []loadsensor.Value{value("a", "1"), value("b", "1")}})
	ask(true, "a", "b")
	take(loadsensor.Report{Values: []loadsensor.Value{value("a", "2")}, Removed: []loadsensor.Key{value("b", "").Key}})
	ask(false, "a")
	is("a=2")
	take(loadsensor.Report{Values: []loadsensor.Value{value("b", "2")}})
	take(loadsensor.Report{Removed: []loadsensor.Key{value("b", "").Key}})
	take(loadsensor.Report{Values: []loadsensor.Value{value("b", "3")}})
	take(loadsensor.Report{Values: []loadsensor.Value{value("c", "1")}})
	ask(false, "b", "c")
	is("a=2", "b=3", "c=1")
	// A collector that begins again has other values.
	take(loadsensor.Report{Full: true, Values: []loadsensor.Value{value("c", "1"), value("d", "1")}})
	ask(false, "c", "d")
	is("c=1", "d=1")
	w.agent.FullReport()
	ask(true, "c", "d")
	is("c=1", "d=1")
	take(loadsensor.Report{Values: []loadsensor.Value{value("d", "2")}})
	ask(false, "d")
	is("c=1", "d=2")
}

// TestAcknowledgeOfUnsentReport acknowledges a report that was not made.
func TestAcknowledgeOfUnsentReport(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "/bin/sleep", "1000")
	w.mustStart(s)
	r := w.await(s.ID, Running)
	if err := w.agent.Acknowledge(t.Context(), r.Number+1000); codeOf(err) != InvalidArgument {
		t.Errorf("%v", err)
	}
	if _, err := w.agent.Reports(t.Context(), r.Number+1000); codeOf(err) != InvalidArgument {
		t.Errorf("%v", err)
	}
	// A report of a job that runs is no end.
	for _, err := range []error{w.agent.Acknowledge(t.Context(), r.Number), w.agent.AcknowledgeJob(t.Context(), s.ID, r.Number)} {
		if err != nil {
			t.Error(err)
		}
	}
	w.agent.table.mu.Lock()
	e := w.agent.table.jobs[s.ID]
	acked := e == nil || e.acked
	w.agent.table.mu.Unlock()
	if acked {
		t.Error("a job that runs counts as acknowledged")
	}
}
