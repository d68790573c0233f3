package standalone

import (
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// TestRefusedStart gives a job of another master the number that the cell will give to alice's job.
// The agent refuses alice's job until the other one has been removed. Meanwhile alice can read the
// reason, the log has it once, and other jobs run.
func TestRefusedStart(t *testing.T) {
	testenv.Require(t, testenv.Root)
	alice := someUsers(t, 1)[0]
	m := newMachine(t, 4)
	m.start()
	client, err := api.Dial(api.Options{Socket: m.socket(), RetryFor: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	first := api.Start{
		Job: 1, Key: "of another master", Owner: alice.Username, Directory: "/",
		Grants:  []api.Grant{{Queue: "all.q", Host: hostName, Slots: 1}},
		Command: []string{"-b", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "/bin/sleep", "600"},
	}
	m.until("the agent takes jobs", func() bool { // not before it knows the load of the host
		_, err := client.Start(t.Context(), first)
		return err == nil
	})
	m.until("the job of the other master runs", func() bool { // the reason names its state, and is logged again when that changes
		j, err := client.Job(t.Context(), api.ID{Job: 1})
		return err == nil && j.State == api.Running
	})
	if r := m.as(alice, "qsub", "-b", "y", "-N", "hers", "-wd", "/", "-o", "/dev/null", "-j", "y", "/bin/true"); r.status != 0 || !strings.Contains(r.stdout, "Your job 1 ") {
		t.Fatalf("qsub: %+v", r)
	}
	said := func() bool {
		text := m.as(alice, "qstat", "-j", "1").stdout
		return strings.Contains(text, "waiting for:") && strings.Contains(text, "host "+hostName+" to take it") &&
			strings.Contains(text, "job 1 exists from another start")
	}
	m.until("qstat -j says why the job does not start", said)
	if r := m.as(alice, "qsub", "-sync", "y", "-b", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "/bin/true"); r.status != 0 {
		t.Errorf("another job does not run: %+v\n%s\n%s", r, m.root("qstat").stdout, m.root("qstat", "-j", "1,2").stdout)
	}
	if n := strings.Count(strings.Join(lines(t, m.dir+"/log"), "\n"), "exists from another start"); n > 2 {
		t.Errorf("the log has the reason %d times, want once of the agent and once of the master:\n%s", n, strings.Join(lines(t, m.dir+"/log"), "\n"))
	}
	if err := client.Signal(t.Context(), api.ID{Job: 1}, api.Kill); err != nil {
		t.Fatal(err)
	}
	m.until("the job of the other master has ended", func() bool {
		j, err := client.Job(t.Context(), api.ID{Job: 1})
		return err == nil && j.Outcome != nil
	})
	j, err := client.Job(t.Context(), api.ID{Job: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := client.AcknowledgeJob(t.Context(), api.ID{Job: 1}, j.Number); err != nil {
		t.Fatal(err)
	}
	m.until("the job starts when the other one has gone", func() bool { return m.root("qstat").stdout == "" })
}
