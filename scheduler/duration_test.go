package scheduler_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/diagram"
)

// TestReservedTime checks from when and until when slots are reserved for a job that cannot start,
// while another job runs that started at 900.
func TestReservedTime(t *testing.T) {
	const never = -1
	for _, c := range []struct {
		name        string
		sched       string
		limit       int64 // of what runs, 0 for none
		ask         scheduler.Requests
		from, until int64
	}{
		{name: "limit of what runs", limit: 200, ask: hard("h_rt", "300"), from: 1160, until: 1520},
		{name: "no offset", sched: "params DURATION_OFFSET=0\n", limit: 200, ask: hard("h_rt", "300"), from: 1100, until: 1400},
		{name: "default duration of what runs", sched: "default_duration 500\n", ask: hard("h_rt", "300"), from: 1460, until: 1820},
		{name: "default duration of what waits", sched: "default_duration 500\n", limit: 200, from: 1160, until: 1720},
		{name: "it runs for ever", ask: hard("h_rt", "300"), from: never},
		{name: "what waits runs for ever", limit: 200, from: 1160, until: diagram.Forever},
		{name: "it should be over", sched: "schedule_interval 40\n", limit: 10, ask: hard("h_rt", "300"), from: 1040, until: 1400},
		{name: "the smaller limit", limit: 200, ask: hard("h_rt", "300", "s_rt", "50"), from: 1160, until: 1270},
		{name: "infinite limit", sched: "default_duration 500\n", limit: 200, ask: hard("h_rt", "INFINITY"), from: 1160, until: 1720},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: merged(queueFile("slots 1,[n2=0]\n"), map[string]string{"sched_conf": "job_load_adjustments NONE\nmax_reservation 1\n" + c.sched})}.make(t)
			m := s.Model()
			id, _ := m.Instance("a.q", "n1")
			if err := s.Start(&scheduler.Running{
				Job: serialJob(t, m, 1, &scheduler.Requests{}), Task: 1, Started: 900, PE: scheduler.None, Limit: c.limit,
				Grants: []scheduler.Grant{{Instance: id, Slots: 1}},
			}); err != nil {
				t.Fatal(err)
			}
			j := serialJob(t, m, 2, &c.ask)
			j.Reserve = true
			submit(t, s, j)
			d := s.Run(1000)
			if len(d.Starts) > 0 {
				t.Fatal("it starts")
			}
			switch {
			case c.from == never && len(d.Reservations) > 0:
				t.Errorf("reserved %+v", d.Reservations[0])
			case c.from == never:
			case len(d.Reservations) != 1:
				t.Errorf("%d reservations", len(d.Reservations))
			case d.Reservations[0].At != c.from || d.Reservations[0].Until != c.until:
				t.Errorf("reserved from %d until %d, want %d until %d", d.Reservations[0].At, d.Reservations[0].Until, c.from, c.until)
			}
		})
	}
}

// TestBackfilling starts what is over before a reservation begins, and nothing else.
func TestBackfilling(t *testing.T) {
	s := scene{files: merged(queueFile("slots 2,[n2=0]\n"), map[string]string{"sched_conf": "job_load_adjustments NONE\nmax_reservation 1\nparams DURATION_OFFSET=0\n" +
		"weight_priority 1\nweight_urgency 0\nweight_ticket 0\n"})}.make(t)
	m := s.Model()
	id, _ := m.Instance("a.q", "n1")
	if err := s.Start(&scheduler.Running{
		Job: serialJob(t, m, 1, &scheduler.Requests{}), Task: 1, Started: 900, PE: scheduler.None, Limit: 200,
		Grants: []scheduler.Grant{{Instance: id, Slots: 1}},
	}); err != nil {
		t.Fatal(err)
	}
	big := serialJob(t, m, 2, &scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("h_rt", "50")})
	big.Reserve, big.Priority = true, 100
	long, endless, short := hard("h_rt", "101"), scheduler.Requests{}, hard("h_rt", "100")
	waiting := []*scheduler.Job{big, serialJob(t, m, 3, &long), serialJob(t, m, 4, &endless), serialJob(t, m, 5, &short)}
	for _, j := range waiting {
		submit(t, s, j)
	}
	d := s.Run(1000)
	if got := startsText(d); got != "5.1" {
		t.Errorf("starts %s", got)
	}
	if len(d.Reservations) != 1 || d.Reservations[0].At != 1100 || grantsText(m, d.Reservations[0].PE, d.Reservations[0].Grants) != "fill a.q@n1=2" {
		t.Errorf("reserved %+v", d.Reservations)
	}
	want := []string{`(-l h_rt=101) cannot run in queue "a.q@n1" because it offers only qc:slots=0.000000 due to a reservation`}
	if diff := cmp.Diff(want, texts(d.Reasons(waiting[1]))); diff != "" {
		t.Error(diff)
	}
	// Without the reservation the first of them starts.
	big.Reserve = false
	if got := startsText(s.Run(1000)); got != "3.1" {
		t.Errorf("without a reservation starts %s", got)
	}
}

// TestMaxReservation checks which tasks get reservations for each max_reservation.
func TestMaxReservation(t *testing.T) {
	for most, want := range []string{"", "2.1", "2.1 2.2", "2.1 2.2 3.1", "2.1 2.2 3.1"} {
		s := scene{
			files:  merged(queueFile("slots 1,[n2=0]\n"), map[string]string{"sched_conf": fmt.Sprintf("max_reservation %d\ndefault_duration 100\n", most)}),
			before: []scheduler.Requests{{}},
		}.make(t)
		for id := range uint32(3) {
			j := serialJob(t, s.Model(), id+2, &scheduler.Requests{})
			j.Reserve = id < 2
			if id == 0 {
				j.Array, j.Tasks = true, tasksOf(t, "1-2")
			}
			submit(t, s, j)
		}
		d := s.Run(1000)
		var got []string
		last := int64(0)
		for _, r := range d.Reservations {
			got = append(got, fmt.Sprintf("%d.%d", r.Job.ID, r.Task))
			if r.At < last {
				t.Errorf("%d.%d has %d, after %d", r.Job.ID, r.Task, r.At, last)
			}
			last = r.Until
		}
		if text := fmt.Sprint(got); text != fmt.Sprintf("[%s]", want) {
			t.Errorf("of %d reservations are made: %s, want %s", most, text, want)
		}
	}
}

// TestJobsThatOutlastCalendarDoNotStart closes a queue by a calendar. If the run plans ahead, a job
// that would not finish before does not start.
func TestJobsThatOutlastCalendarDoNotStart(t *testing.T) {
	for _, c := range []struct {
		name        string
		reserve     int
		from, until int64
		want        string
	}{
		{name: "nothing is planned", from: 1100, until: 1200, want: "1.1 2.1"},
		{name: "long before", reserve: 1, from: 1160, until: 1200, want: "1.1"},
		{name: "too early", reserve: 1, from: 1159, until: 1200},
		{name: "over", reserve: 1, from: 900, until: 1000, want: "1.1 2.1"},
		{name: "for ever", reserve: 1, from: 1160, until: diagram.Forever, want: "1.1"},
		{name: "taken back", reserve: 1, from: 1100, until: 1100, want: "1.1 2.1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: merged(queueFile("slots 2,[n2=0]\n"), map[string]string{"sched_conf": fmt.Sprintf("max_reservation %d\n", c.reserve)})}.make(t)
			m := s.Model()
			id, _ := m.Instance("a.q", "n1")
			s.SetClosing(id, 5, 6)
			s.SetClosing(id, c.from, c.until)
			short, long := hard("h_rt", "100"), hard("h_rt", "1000")
			submit(t, s, serialJob(t, m, 1, &short))
			submit(t, s, serialJob(t, m, 2, &long))
			if got := startsText(s.Run(1000)); got != c.want {
				t.Errorf("starts %q, want %q", got, c.want)
			}
		})
	}
}

// TestReservedUntilOpening reserves in a queue that a calendar closes for the time when it
// opens: then the run is not over because no queue can be used now.
func TestReservedUntilOpening(t *testing.T) {
	for _, c := range []struct {
		name    string
		reserve int
		status  scheduler.Status
		until   int64
		want    string
		dropped bool
	}{
		{name: "opens", reserve: 1, status: scheduler.DisabledByCalendar, until: 5000, want: "2 at 5000"},
		{name: "disabled by hand, too", reserve: 1, status: scheduler.DisabledByCalendar | scheduler.DisabledByUser, until: 5000, want: "2 at 5000"},
		{name: "disabled by hand alone", reserve: 1, status: scheduler.DisabledByUser, until: 5000, dropped: true},
		{name: "suspended", reserve: 1, status: scheduler.SuspendedByCalendar, until: 5000, want: "2 at 5000"},
		{name: "suspended, and disabled by hand", reserve: 1, status: scheduler.SuspendedByCalendar | scheduler.DisabledByUser, until: 5000, dropped: true},
		{name: "suspended, and unknown", reserve: 1, status: scheduler.SuspendedByCalendar | scheduler.Unknown, until: 5000, dropped: true},
		{name: "never opens", reserve: 1, status: scheduler.DisabledByCalendar, until: diagram.Forever},
		{name: "nothing is reserved", status: scheduler.DisabledByCalendar, until: 5000, dropped: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := scene{files: merged(queueFile("slots 2\n"), map[string]string{"sched_conf": fmt.Sprintf("max_reservation %d\n", c.reserve)})}.make(t)
			m := s.Model()
			id, _ := m.Instance("a.q", "n1")
			other, _ := m.Instance("a.q", "n2")
			s.SetStatus(other, scheduler.Unknown)
			s.SetStatus(id, c.status)
			s.SetClosing(id, 900, c.until)
			short := hard("h_rt", "100")
			submit(t, s, serialJob(t, m, 1, &short))
			j := serialJob(t, m, 2, &short)
			j.Reserve = true
			submit(t, s, j)
			d := s.Run(1000)
			var got []string
			for _, r := range d.Reservations {
				got = append(got, fmt.Sprintf("%d at %d", r.Job.ID, r.At))
			}
			dropped := slices.ContainsFunc(d.Dropped, func(r scheduler.Reason) bool { return strings.HasPrefix(r.Text(), "All queues dropped") })
			if text := strings.Join(got, ", "); text != c.want || dropped != c.dropped || startsText(d) != "" {
				t.Errorf("reserves %q, starts %q, all are dropped: %t; want %q, nothing and %t", text, startsText(d), dropped, c.want, c.dropped)
			}
		})
	}
}

// TestFindReservation finds places in the future, beside what runs and what is reserved
// already.
func TestFindReservation(t *testing.T) {
	s := scene{
		files:  merged(queueFile("slots 2\n"), hostFile("complex_values lic=3\n"), map[string]string{"sched_conf": "default_duration 100\nparams DURATION_OFFSET=0\n"}),
		before: []scheduler.Requests{{}, {}},
	}.make(t) // which last from 900 to 1000
	m := s.Model()
	find := func(r scheduler.Requests, start, end int64) string {
		t.Helper()
		r.User, r.Group = "alice", "users"
		c, err := m.Category(&r)
		if err != nil {
			t.Fatal(err)
		}
		pe, grants, ok := s.FindReservation(c, start, end, 950)
		if !ok {
			return ""
		}
		return grantsText(m, pe, grants)
	}
	fill := func(slots string) scheduler.Requests {
		return scheduler.Requests{PE: "fill", Slots: slotsOf(t, slots)}
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %q, want %q", what, got, want)
		}
	}
	used := 0
	for i := range m.Instances() {
		used += s.UsedSlots(scheduler.InstanceID(i))
	}
	check("what runs", fmt.Sprint(used), "2")
	check("now", find(fill("3"), 950, 2000), "")
	check("later", find(fill("3"), 1000, 2000), "fill a.q@n1=2 a.q@n2=1")
	check("a range", find(fill("1-4"), 1000, 2000), "fill a.q@n1=2 a.q@n2=1")
	check("a resource", find(hard("lic", "4"), 1000, 2000), "")
	check("a resource on one host", find(hard("lic", "3"), 1000, 2000), " a.q@n1=1")
	c, err := m.Category(&scheduler.Requests{User: "alice", Group: "users", Hard: setting("lic", "2")})
	if err != nil {
		t.Fatal(err)
	}
	n1, _ := m.Instance("a.q", "n1")
	addReservation(t, s, &scheduler.Reservation{ID: 1, Start: 1000, End: 1500, Category: c, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: n1, Slots: 1}}})
	check("beside it", find(hard("lic", "2"), 1000, 2000), "")
	check("less beside it", find(hard("lic", "1"), 1000, 2000), " a.q@n1=1")
	check("after it", find(hard("lic", "2"), 1500, 2000), " a.q@n1=1")
	check("before it", find(hard("lic", "2"), 950, 1000), " a.q@n1=1")
	check("all slots that are left", find(fill("3"), 1499, 1600), "fill a.q@n1=1 a.q@n2=2")
	if got := []int{s.ReservedSlots(n1, 999), s.ReservedSlots(n1, 1000), s.ReservedSlots(n1, 1499), s.ReservedSlots(n1, 1500)}; !slices.Equal(got, []int{0, 1, 1, 0}) {
		t.Errorf("reserved slots %v", got)
	}
}
