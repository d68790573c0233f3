package cell

import (
	"testing"

	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// fataler adds the number of the step to failures.
type fataler struct {
	*testing.T
	step string
}

func (f fataler) Fatalf(format string, args ...any) {
	f.Helper()
	f.T.Fatalf(f.step+": "+format, args...)
}

// TestEachStepIsKept checks that every change of stored state is recorded as unsaved. These steps
// seldom occur among random events; a comparison follows each of them.
func TestEachStepIsKept(t *testing.T) {
	h := newHarnessOf(t, rich.cluster(t))
	h.files = rich
	store := kept{}
	store.take(h.Cell)
	root := caller("root")
	qmod := func(op JobOperation, text string) { h.logged(h.ModifyJobs(h.now, root, op, jobs(h, text), false), nil) }
	qdel := func(text string) { h.logged(h.Delete(h.now, root, DeleteRequest{Jobs: jobs(h, text)}), nil) }
	qmodq := func(op QueueOperation, text string) {
		h.logged(h.ModifyQueues(h.now, root, op, []string{text}, false), nil)
	}
	report := func(host, users string) {
		h.mustLog(h.HostReport(h.now, host, map[string]string{"users": users}))
	}
	for _, step := range []struct {
		name string
		do   func()
	}{
		{"loads", func() { report("n1", "0"); report("n2", "0") }},
		{"jobs that wait for two", func() {
			h.sub("alice", "-h -N a")
			h.sub("alice", "-h -N b")
			h.sub("alice", "-hold_jid a,b")
		}},
		{"one of the two leaves", func() { qdel("1") }},
		{"tasks that wait for two", func() {
			h.sub("alice", "-h -N c -t 1-3")
			h.sub("alice", "-h -N d -t 1-3")
			h.sub("alice", "-hold_jid_ad c,d -t 1-3")
		}},
		{"one of these leaves", func() { qdel("4") }},
		{"all of these", func() { qdel("2 3 5 6") }},
		{"tasks that run", func() { h.sub("bob", "-q all.q -t 1-3 -P p1"); h.run() }},
		{"suspended", func() { qmod(SuspendJob, "7") }},
		{"suspended, again", func() { h.run() }},
		{"unsuspended", func() { qmod(UnsuspendJob, "7") }},
		{"a task fails", func() { h.end(7, 2, End{Failure: JobFailure, Reason: "why"}) }},
		{"and is cleared", func() { qmod(ClearJobError, "7") }},
		{"a task ends", func() { h.end(7, 1, End{Used: tickets.Amounts{5}}) }},
		{"its job is altered", func() { h.alter("root", "-P secret 7"); h.alter("root", "-p -3 7") }},
		{"usage is reported", func() { _ = h.UsageReport(h.now, 7, 3, tickets.Amounts{7}) }},
		{"and cleared", func() { h.mustLog(h.ClearUsage(h.now, root)) }},
		{"a task is held", func() {
			h.logged(h.Hold(h.now, root, jobs(h, "7.3"), nil, submit.HoldChange{Set: submit.HoldUser}), nil)
		}},
		{"requests of what runs", func() { h.alter("root", "-q all.q,low.q 7") }},
		{"a queue is at fault", func() { h.end(7, 3, End{Failure: QueueFailure}) }},
		{"the queues are well again", func() { qmodq(ClearQueueError, "*") }},
		{"a queue is suspended", func() { qmodq(SuspendQueue, "high.q@n2") }},
		{"and disabled", func() { qmodq(DisableQueue, "high.q@n2") }},
		{"and neither", func() { qmodq(UnsuspendQueue, "high.q@n2"); qmodq(EnableQueue, "high.q@n2") }},
		{"a queue with thresholds", func() { qdel("7"); h.sub("carol", "-q low.q@n1"); h.run() }},
		{"is over them", func() { report("n1", "9"); h.wait(60); h.run() }},
		{"and no more", func() { report("n1", "0"); h.wait(60); h.run() }},
		{"deleted", func() { qdel("8"); h.end(8, 1, End{}) }},
		{"rescheduled by hand", func() {
			h.sub("carol", "-q all.q@n1 -r y")
			h.run()
			h.logged(h.ModifyJobs(h.now, root, RescheduleJob, jobs(h, "9"), true), nil)
		}},
		{"its host is clean", func() { h.HostClean(h.now, "n1") }},
		{"and it is gone", func() { qdel("9") }},
		{"a host is lost", func() { h.sub("dave", "-q all.q@n2 -r y"); h.run(); h.mustLog(h.HostLost(h.now, "n2")) }},
		{"and is back", func() { report("n2", "0") }},
		{"and is lost for good", func() { h.mustLog(h.HostLost(h.now, "n2")); h.wait(61); h.Tick(h.now) }},
		{"its task ends elsewhere", func() { report("n2", "0"); h.logged(h.TaskEnded(h.now, 10, 1, 0, End{})) }},
		{"unconfirmed", func() { h.logRun(h.Schedule(h.now)) }},
		{"confirmed", func() { _ = h.TaskStarted(h.now, 10, 1, 1) }},
		{"a reservation", func() { h.logged(h.reserve("alice", "-d 200")) }},
		{"with a job", func() { h.sub("alice", "-ar 1"); h.run() }},
		{"is over", func() { h.wait(300); h.Tick(h.now) }},
		{"and is gone", func() { h.end(11, 1, End{}) }},
		{"a reservation that is refused", func() { h.logged(h.reserve("alice", "-d 200 -pe fill 99")) }},
		{"an immediate job", func() { h.sub("alice", "-now y") }},
		{"is decided", func() { h.run() }},
		{"users go", func() { qdel("10"); h.end(10, 1, End{}); h.wait(3600); h.Tick(h.now) }},
		{"another halftime", func() {
			f := h.files["sched_conf"] + "\nhalflife_decay_list cpu=10"
			h.mustLog(h.Reconfigure(h.now, h.files.with(files{"sched_conf": f}).cluster(t)))
			h.run()
		}},
		{"usage that was known", func() {
			_ = h.SetUserUsage("alice", "p1", tickets.Usage{LongTerm: tickets.Amounts{3}}, start)
			_ = h.SetProjectUsage("p1", tickets.Usage{LongTerm: tickets.Amounts{3}}, start)
		}},
		{"a tree of queues", func() { h.sub("carol", "-q sub.q -l h_rt=60 -t 1-2"); h.now = start + 86400; h.run() }},
		{"its subordinates give way", func() { h.sub("carol", "-q sup.q -p -2"); h.run() }},
		{"and go on", func() { h.end(12, 1, End{}); h.end(14, 1, End{}) }},
		{"some tasks", func() { h.sub("alice", "-h -t 1-9"); qdel("15.2-4") }},
		{"a copy", func() { h.logged(h.Resubmit(h.now, root, jobs(h, "15"), submit.HoldChange{}, nil), nil) }},
	} {
		step.do()
		store.take(h.Cell)
		h.checkKept(fataler{t, step.name}, store)
	}
	h.expect("13.1 r sub.q@n3; 13.2 r sub.q@n3; 15.1,5-9 hqw; 16.1-9 qw")
}
