package scheduler_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// TestRecordedReasons checks the smallest cases of rules that recordings of the original show. The
// case is the last job.
func TestRecordedReasons(t *testing.T) {
	const planned = "max_reservation 2\ndefault_duration 100\njob_load_adjustments NONE\n"
	quota := func(limit string) map[string]string {
		return map[string]string{"rqs": "{\n name few\n enabled TRUE\n limit " + limit + "\n}\n"}
	}
	pe := func(name, rule string) map[string]string {
		return map[string]string{"pes/" + name: "pe_name " + name + "\nslots 100\nallocation_rule " + rule + "\n"}
	}
	twoQueues := map[string]string{"queues/b.q": "qname b.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\npe_list fill\n"}
	perJob := map[string]string{"complexes": "tok tok INT <= YES JOB 0 0\n"}
	for _, c := range []struct {
		name    string
		files   map[string]string
		before  []scheduler.Requests
		closed  bool // a calendar has closed a.q@n2
		reserve bool
		ask     scheduler.Requests
		want    []string // dropped instances, and then the reasons
	}{
		{
			name:  "a job that never fits, where a calendar has closed a queue instance",
			files: map[string]string{"sched_conf": planned}, closed: true, reserve: true,
			ask: hard("lic", "2"),
			want: []string{
				`queue instance "a.q@n2" dropped because it is disabled`,
				`(-l lic=2) cannot run in queue "a.q@n1" because job requests unknown resource (lic)`,
			},
		},
		{
			name:  "a job that gets a reservation has what a calendar has closed dropped as suspended",
			files: merged(queueFile("slots 1\ncomplex_values lic=2\n"), map[string]string{"sched_conf": planned, "queues/b.q": "qname b.q\nhostlist n1\nslots 9\nload_thresholds NONE\n"}), closed: true, reserve: true,
			before: []scheduler.Requests{{Queues: onN1}},
			ask:    hard("lic", "1"),
			want: []string{
				`queue instance "a.q@n2" dropped because it is disabled`,
				`queue instance "a.q@n1" dropped because it is full`,
				`queue instance "a.q@n2" dropped because it is suspended`,
				`(-l lic=1) cannot run in queue "b.q@n1" because job requests unknown resource (lic)`,
				`(-l lic=1) cannot run in queue "a.q@n1" because it offers only qc:slots=0.000000`,
				`(-l lic=1) cannot run in queue "a.q@n2" because it offers only qc:slots=0.000000`,
			},
		},
		{
			name:  "the first job finds that no queue instance is left, and what it waits for",
			files: merged(queueFile("slots 1\n"), map[string]string{"sched_conf": planned}), reserve: true,
			before: []scheduler.Requests{{Queues: onN1}, {Queues: "a.q@n2"}},
			want: []string{
				`queue instance "a.q@n1" dropped because it is full`,
				`queue instance "a.q@n2" dropped because it is full`,
				`(-l NONE) cannot run in queue "a.q@n1" because it offers only qc:slots=0.000000`,
				`(-l NONE) cannot run in queue "a.q@n2" because it offers only qc:slots=0.000000`,
			},
		},
		{
			name:   "the cluster lacks what the master task needs: the slots that there are",
			files:  merged(perJob, globalFile("complex_values tok=2\n"), pe("fill", "$fill_up")),
			before: []scheduler.Requests{hard("tok", "1")},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "5-9"), Hard: setting("tok", "2")},
			want:   []string{`cannot run in PE "fill" because it only offers 3 slots`},
		},
		{
			name:   "the same, and there are enough slots: the last one is kept for the master task",
			files:  merged(perJob, globalFile("complex_values tok=2\n")),
			before: []scheduler.Requests{hard("tok", "1")},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("tok", "2")},
			want:   []string{`cannot run in PE "fill" because it only offers 1 slots`},
		},
		{
			name:   "the same with two slots on each host",
			files:  merged(perJob, globalFile("complex_values tok=2\n"), queueFile("slots 3\n"), pe("fill", "2")),
			before: []scheduler.Requests{hard("tok", "1")},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "4"), Hard: setting("tok", "2")},
			want:   []string{`cannot run in PE "fill" because it only offers 2 slots`},
		},
		{
			name:   "the same with all slots on one host",
			files:  merged(perJob, globalFile("complex_values tok=2\n"), queueFile("slots 3\n"), pe("fill", "$pe_slots")),
			before: []scheduler.Requests{hard("tok", "1")},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("tok", "2")},
			want:   []string{`cannot run in PE "fill" because it only offers 0 slots`},
		},
		{
			name:   "the same where it will have it later",
			files:  merged(perJob, globalFile("complex_values tok=2\n"), map[string]string{"sched_conf": planned}),
			before: []scheduler.Requests{hard("tok", "1")},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("tok", "2")},
			want:   []string{`cannot run in PE "fill" because it only offers 2147483647 slots`},
		},
		{
			name:  "quotas of a host that has too few slots for the allocation rule",
			files: merged(queueFile("slots 3,[n2=2]\npe_list three\n"), pe("three", "3"), quota("to slots=3"), map[string]string{"sched_conf": planned}),
			ask:   scheduler.Requests{PE: "three", Slots: slotsOf(t, "6")},
			want:  []string{`cannot run in PE "three" because it only offers 3 slots`},
		},
		{
			name: "quotas of the other queues of the host that gave the last slots",
			files: merged(queueFile("slots 1\npe_list fill\nseq_no 1\n"), pe("fill", "$fill_up"), quota("to slots=2"), map[string]string{
				"queues/b.q": "qname b.q\nhostlist n2\nslots 1\nload_thresholds NONE\npe_list fill\nseq_no 2\n",
				"sched_conf": planned,
			}),
			ask:  scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3")},
			want: []string{`cannot run in PE "fill" because it only offers 2 slots`},
		},
		{
			name:  "a host that is ruled out is so for a reservation",
			files: merged(queueFile("slots 1\n"), hostFile("user_lists staff\n"), twoQueues, map[string]string{"sched_conf": planned}), reserve: true,
			before: []scheduler.Requests{
				{Queues: "a.q@n2"},
				{Queues: "b.q@n2"},
				{Queues: "b.q@n2"},
				{Queues: onN1, User: "bob", Group: "users"},
			},
			want: []string{
				`queue instance "a.q@n2" dropped because it is full`,
				`queue instance "b.q@n2" dropped because it is full`,
				`queue instance "a.q@n1" dropped because it is full`,
				`has no permission for host "n1"`,
				`(-l NONE) cannot run in queue "a.q@n2" because it offers only qc:slots=0.000000`,
				`(-l NONE) cannot run in queue "b.q@n2" because it offers only qc:slots=0.000000`,
			},
		},
		{
			name:  "a quota behind a rule for some hosts, though for another user, says nothing about other hosts",
			files: map[string]string{"rqs": "{\n name one\n enabled TRUE\n limit hosts {n2} to slots=0\n}\n{\n name two\n enabled TRUE\n limit users carol to slots=9\n limit users bob hosts n1 to slots=9\n limit users {*} to slots=0\n}\n"},
			want: []string{
				`cannot run because it exceeds limit "alice/////" in rule "two/3"`,
				`cannot run because it exceeds limit "////n2/" in rule "one/1"`,
			},
		},
		{
			name: "quota sets that jobs use are asked last, where the future is planned, too",
			files: map[string]string{
				"sched_conf": planned,
				"rqs":        "{\n name one\n enabled TRUE\n limit hosts {n1,n2} to slots=1\n}\n{\n name two\n enabled TRUE\n limit users alice to slots=1\n}\n",
			},
			before: []scheduler.Requests{{Queues: "a.q@n2"}, {User: "bob", Group: "users", Queues: onN1}},
			want:   []string{`cannot run because it exceeds limit "/////" in rule "two/1"`},
		},
		{
			name:  "a quota behind a rule for some hosts, and none for all, says nothing about the others",
			files: map[string]string{"rqs": "{\n name one\n enabled TRUE\n limit hosts {n2} to slots=0\n}\n{\n name two\n enabled TRUE\n limit users bob hosts n1 to slots=9\n limit users {*} to slots=0\n}\n"},
			want:  []string{`cannot run because it exceeds limit "alice/////" in rule "two/2"`},
		},
		{
			name:   "a quota of several hosts is told on the first of them, and of the others nothing at all",
			files:  merged(queueFile("slots 4\npe_list fill\n"), map[string]string{"hosts/n1": "hostname n1\ncomplex_values lic=0\n", "hosts/n2": "hostname n2\ncomplex_values lic=9\n", "hosts/n3": "hostname n3\n"}, quota("users {*} hosts n1,n2 to slots=1")),
			before: []scheduler.Requests{{Queues: onN1}},
			ask:    scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("lic", "1")},
			want: []string{
				`cannot run because it exceeds limit "alice/////" in rule "few/1"`,
				`cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "an allocation rule that allows no number of slots of a job that gets a reservation: one on each host",
			files: merged(queueFile("slots 2\npe_list fill two\n"), pe("two", "2"), map[string]string{
				"sched_conf": planned,
			}), reserve: true,
			before: []scheduler.Requests{{Queues: onN1}, {Queues: "a.q@n2"}},
			ask:    scheduler.Requests{PE: "[ft]*", Slots: slotsOf(t, "3")},
			want: []string{
				`cannot run in PE "fill" because it only offers 2 slots`,
				`cannot run in PE "two" because it only offers 0 slots`,
				`cannot run in PE "two" because it only offers 2 slots`,
			},
		},
		{
			name: "an allocation rule that allows only larger numbers than the smallest: the same",
			files: merged(queueFile("slots 2\npe_list fill two\n"), pe("two", "2"), map[string]string{
				"sched_conf": planned,
			}), reserve: true,
			before: []scheduler.Requests{{Queues: onN1}, {Queues: "a.q@n2"}},
			ask:    scheduler.Requests{PE: "[ft]*", Slots: slotsOf(t, "3-")},
			want: []string{
				`cannot run in PE "fill" because it only offers 2 slots`,
				`cannot run in PE "two" because it only offers 0 slots`,
				`cannot run in PE "two" because it only offers 2 slots`,
			},
		},
		{
			name:  "what was found on one host counts against the quotas on the next",
			files: merged(queueFile("slots 2\npe_list fill\ncomplex_values lic=9,[n2=lic=0]\n"), quota("to slots=2")),
			ask:   scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3"), Hard: setting("lic", "1")},
			want: []string{
				`cannot run because it exceeds limit "/////" in rule "few/1"`,
				`cannot run in PE "fill" because it only offers 2 slots`,
			},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: c.files, before: c.before}.make(t)
			if c.closed {
				id, _ := s.Model().Instance("a.q", "n2")
				s.SetStatus(id, scheduler.DisabledByCalendar)
				s.SetClosing(id, 900, 2000)
			}
			j := serialJob(t, s.Model(), 1, &c.ask)
			j.Reserve = c.reserve
			submit(t, s, j)
			d := s.Run(950)
			if diff := cmp.Diff(c.want, append(texts(d.Dropped), texts(d.Reasons(j))...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}
