package cell

import (
	"math"
	"testing"

	"github.com/execd-project/execd/scheduler/tickets"
)

// shared is a cluster with a share tree and a half-life of one hour.
var shared = small.with(files{
	"users/alice": "name alice\nfshare 100\ndefault_project p1",
	"users/bob":   "name bob",
	"sharetree":   "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2,3\nid=1\nname=alice\ntype=0\nshares=50\nchildnodes=NONE\nid=2\nname=p1\ntype=1\nshares=50\nchildnodes=NONE\nid=3\nname=default\ntype=0\nshares=10\nchildnodes=NONE",
	"sched_conf":  small["sched_conf"] + "\nhalftime 1\nweight_tickets_share 10000\nweight_tickets_functional 1000",
	"conf/global": "auto_user_fshare 7\nauto_user_oticket 3\nauto_user_delete_time 3600",
	"hosts/n1":    "hostname n1\nusage_scaling cpu=2.0",
	"hosts/n2":    "hostname n2",
})

func (h *harness) used(user, project string) float64 {
	u := h.policy.Ledger.Users[h.policy.users.indexOf(user)].In(h.policy.projects.indexOf(project))
	if u == nil {
		return 0
	}
	return u.Decayed[tickets.CPU]
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, math.Abs(b)) }

func TestUsage(t *testing.T) {
	h := newHarness(t, shared)
	h.sub("alice", "-q *@n1")
	h.sub("bob", "-q *@n2")
	h.run()
	if h.Job(1).Project != "p1" || h.Job(2).Project != "" {
		t.Errorf("projects %q and %q", h.Job(1).Project, h.Job(2).Project)
	}
	report := func(job uint32, cpu float64) {
		t.Helper()
		if err := h.UsageReport(h.now, job, 1, tickets.Amounts{tickets.CPU: cpu}); err != nil {
			t.Fatal(err)
		}
	}
	report(1, 100)
	report(2, 50)
	if h.used("bob", "") != 0 {
		t.Error("booked before a scheduling run")
	}
	h.run()
	if a, b := h.used("alice", "p1"), h.used("bob", ""); !near(a, 200) || !near(b, 50) {
		t.Errorf("alice %v, bob %v", a, b)
	}
	if p := h.policy.Ledger.Projects[h.policy.projects.indexOf("p1")].Decayed[tickets.CPU]; !near(p, 200) {
		t.Errorf("p1 %v", p)
	}
	h.wait(3600)
	report(2, 40) // an outdated report
	h.run()
	left := math.Pow(1-math.Ln2/60, 60)
	if b := h.used("bob", ""); !near(b, 50*left) {
		t.Errorf("bob %v, want %v", b, 50*left)
	}
	h.end(2, 1, End{Used: tickets.Amounts{tickets.CPU: 80}})
	h.run()
	if b := h.used("bob", ""); !near(b, 50*left+30) {
		t.Errorf("bob %v, want %v", b, 50*left+30)
	}
	// After a change of the half-life, the usage until then decays with the previous one.
	h.wait(3600)
	h.change(shared.with(files{"sched_conf": small["sched_conf"] + "\nhalftime 0"}))
	h.run()
	if b, want := h.used("bob", ""), (50*left+30)*left; !near(b, want) {
		t.Errorf("bob %v, want %v", b, want)
	}
	h.wait(3600)
	h.run()
	if b, want := h.used("bob", ""), (50*left+30)*left; !near(b, want) {
		t.Errorf("bob %v, want %v", b, want)
	}
	if _, err := h.ClearUsage(h.now, caller("bob")); err == nil {
		t.Error("bob has cleared the usage")
	}
	// Long-term usage does not decay, except for that of users in projects.
	longTerm := func(user, project string) float64 {
		if u := h.policy.Ledger.Users[h.policy.users.indexOf(user)].In(h.policy.projects.indexOf(project)); u != nil {
			return u.LongTerm[tickets.CPU]
		}
		return 0
	}
	if !near(longTerm("bob", ""), 80) || !near(longTerm("alice", "p1"), 200) {
		t.Errorf("before: bob %v, alice %v", longTerm("bob", ""), longTerm("alice", "p1"))
	}
	if _, err := h.ClearUsage(h.now, caller("root")); err != nil || h.used("bob", "") != 0 {
		t.Errorf("%v, bob %v", err, h.used("bob", ""))
	}
	p1 := &h.policy.Ledger.Projects[h.policy.projects.indexOf("p1")]
	if !near(longTerm("bob", ""), 80) || longTerm("alice", "p1") != 0 || !near(p1.LongTerm[tickets.CPU], 200) || p1.Decayed[tickets.CPU] != 0 {
		t.Errorf("never decayed: bob %v, alice %v, p1 %+v", longTerm("bob", ""), longTerm("alice", "p1"), p1)
	}
	report(1, 150)
	h.run()
	if a := h.used("alice", "p1"); !near(a, 100) {
		t.Errorf("alice %v", a)
	}
	h.ClearUserUsage(h.now, "alice")
	h.ClearUserUsage(h.now, "nobody")
	if a := h.used("alice", "p1"); a != 0 || !near(p1.Decayed[tickets.CPU], 100) {
		t.Errorf("cleared alone: alice %v, p1 %+v", a, p1)
	}
	if err := h.UsageReport(h.now, 2, 1, tickets.Amounts{}); err == nil {
		t.Error("a usage report for a finished job is accepted")
	}
}

func TestUsageFromBefore(t *testing.T) {
	h := newHarness(t, shared)
	u := tickets.Usage{Decayed: tickets.Amounts{tickets.CPU: 1000}}
	for _, c := range []struct {
		user, project string
		ok            bool
	}{{"alice", "", true}, {"alice", "p1", true}, {"nobody", "", false}, {"alice", "nothing", false}} {
		if err := h.SetUserUsage(c.user, c.project, u, start-3600); (err == nil) != c.ok {
			t.Errorf("%v: %v", c, err)
		}
	}
	if h.SetProjectUsage("p1", u, start-3600) != nil || h.SetProjectUsage("nothing", u, 0) == nil {
		t.Error("projects")
	}
	h.run()
	want := 1000 * math.Pow(1-math.Ln2/60, 60)
	if a, b := h.used("alice", ""), h.used("alice", "p1"); !near(a, want) || !near(b, want) {
		t.Errorf("%v, %v, want %v", a, b, want)
	}
}

// TestAutomaticUsers checks that users without an object get one for as long as they have jobs, and
// for some time after that.
func TestAutomaticUsers(t *testing.T) {
	h := newHarness(t, shared)
	h.sub("carol", "")
	i := h.policy.users.indexOf("carol")
	if i == tickets.None || h.policy.Users[i] != (tickets.Entity{FunctionalShares: 7, OverrideTickets: 3}) {
		t.Fatalf("carol is %d", i)
	}
	if h.Job(1).sched.Leaf == 0 || h.Job(1).sched.User.Index() != i {
		t.Error("carol has no leaf of the share tree")
	}
	h.run()
	h.wait(4000)
	h.Tick(h.now)
	if h.policy.users.indexOf("carol") != i {
		t.Error("carol was deleted while her job runs")
	}
	h.end(1, 1, End{Used: tickets.Amounts{tickets.CPU: 10}})
	h.run()
	h.wait(3599)
	h.change(shared)
	h.run()
	if h.policy.users.indexOf("carol") != i || h.used("carol", "") == 0 {
		t.Error("carol was deleted too early")
	}
	h.wait(2 * 3600)
	h.Tick(h.now)
	if h.policy.users.indexOf("carol") != tickets.None {
		t.Error("carol is still there")
	}
	h.sub("dave", "")
	if h.policy.users.indexOf("dave") != i || h.used("dave", "") != 0 {
		t.Error("dave does not get carol's number, or not without her usage")
	}
	h.wait(100 * 3600)
	h.run()
	if _, waiting := h.NextEvent(h.now); !waiting {
		t.Error("dave is kept for ever")
	}
	h = newHarness(t, shared.with(files{"users/bob": ""}))
	if h.policy.users.indexOf("bob") != tickets.None {
		t.Error("bob has no object")
	}
	// A user who is not in the share tree until an object is created.
	h.sub("bob", "")
	if h.Job(1).sched.Leaf == 0 {
		t.Error("bob has no leaf")
	}
}

func TestUsersAndProjectsThatGo(t *testing.T) {
	h := newHarness(t, shared)
	u := tickets.Usage{Decayed: tickets.Amounts{tickets.CPU: 1000}}
	for _, project := range []string{"", "p1"} {
		if err := h.SetUserUsage("alice", project, u, 0); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.SetProjectUsage("p1", u, 0); err != nil {
		t.Fatal(err)
	}
	noTree := shared.with(files{"sharetree": "", "users/alice": "name alice"})
	h.change(noTree)
	h.change(shared)
	h.run()
	if h.used("alice", "") != 1000 || h.used("alice", "p1") != 1000 {
		t.Error("usage is lost with the tree")
	}
	h.change(noTree.with(files{"projects/p1": ""}))
	h.change(shared)
	h.run()
	if h.used("alice", "") != 1000 || h.used("alice", "p1") != 0 || h.policy.Ledger.Projects[h.policy.projects.indexOf("p1")].Decayed[tickets.CPU] != 0 {
		t.Error("a removed project keeps its usage")
	}
	h.change(noTree.with(files{"users/alice": ""}))
	h.change(shared)
	h.run()
	if h.used("alice", "") != 0 {
		t.Error("a removed user keeps the usage")
	}
}

func TestDepartments(t *testing.T) {
	h := newHarness(t, shared.with(files{
		"usersets/dep1": "name dep1\ntype DEPT\nfshare 40\nentries @staff",
		"usersets/dep2": "name dep2\ntype DEPT\nfshare 10\nentries bob",
	}))
	for user, want := range map[string]string{"alice": "dep1", "bob": "dep2"} {
		if got := h.Department(user, "staff"); got != want {
			t.Errorf("%s is in %s", user, got)
		}
	}
	if got := h.Department("alice", "other"); got != "defaultdepartment" {
		t.Error(got)
	}
}
