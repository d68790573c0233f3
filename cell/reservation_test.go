package cell

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// reserve runs qrsub with a command line.
func (h *harness) reserve(user, line string) (*Answer, error) {
	h.t.Helper()
	r, err := submit.ParseReservation(submit.Input{Args: fields(line)})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Reserve(h.now, caller(user), r)
}

func TestAdvanceReservations(t *testing.T) {
	h := newHarness(t, small)
	a, err := h.reserve("alice", "-a 202611202210 -d 300 -pe fill 3 -u alice,@friends")
	if err != nil {
		t.Fatal(err)
	}
	h.said(a, "Your advance reservation 1 has been granted")
	for _, c := range []struct{ user, line, want string }{
		{"carol", "-d 100", `denied: "carol" must be manager or in userset "arusers"`},
		{"alice", "-d 100 -pe fill 20", "advance_reservation: no suitable queues"},
		{"alice", "-a 202611202210 -d 300 -pe fill 3", "advance_reservation: no suitable queues"},
		{"alice", "", "missing value for \"end time or duration\" in advance reservation request"},
		{"alice", "-a 202611202210 -e 202611202220 -d 300", "difference between end and start time does not correspond to duration"},
		{"alice", "-a 202611202210 -e 202611202200", "start time is later than end time"},
		{"alice", "-a 202611202100 -d 5", "start time is in the past"},
		{"alice", "-d 5 -l slots=1", `"advance_reservation" denied: use parallel environments instead of requesting slots explicitly`},
		{"alice", "-d 5 -ckpt nosuch", `job rejected: the requested checkpointing environment "nosuch" does not exist`},
		{"alice", "-d 5 -l nosuch=1", `unknown resource "nosuch"`},
	} {
		var refused *DeniedError
		if _, err := h.reserve(c.user, c.line); !errors.As(err, &refused) || eventText(refused.Event) != c.want {
			t.Errorf("%s: qrsub %s: got %v, want %s", c.user, c.line, err, c.want)
		}
	}
	h.sub("alice", "-ar 1 -N a")
	h.sub("bob", "-ar 1 -N b -pe fill 2")
	if _, err := h.try("carol", "-ar 1"); err == nil || errorText(err) != "error: no suitable queues" {
		t.Error(err)
	}
	h.run()
	h.expect("1 qw; 2 qw")
	if got := h.Reservations()[0].State(h.now); got != "w" {
		t.Error(got)
	}
	if at, ok := h.NextEvent(h.now); !ok || at != start+600 {
		t.Errorf("next %d, %v", at-start, ok)
	}
	h.wait(600)
	h.run()
	if got := h.Reservations()[0].State(h.now); got != "r" {
		t.Error(got)
	}
	if got := h.show(); !strings.HasPrefix(got, "1 r all.q@n") || !strings.Contains(got, "; 2 r all.q@n") {
		t.Error(got)
	}
	h.end(1, 1, End{})
	h.sub("alice", "-ar 1 -N late -h")
	h.wait(300)
	actions := h.Tick(h.now).Actions
	if len(actions) != 1 || actions[0].Kind != KillTask {
		t.Errorf("%+v", actions)
	}
	if got := h.Reservations()[0].State(h.now); got != "d" || len(h.Jobs()) != 1 {
		t.Error(got, h.show())
	}
	h.end(2, 1, End{})
	if len(h.Reservations()) != 0 {
		t.Error("the reservation is still there")
	}
	h.idle()
}

func TestBrokenReservations(t *testing.T) {
	h := newHarness(t, small)
	for _, line := range []string{"-d 3600 -q all.q@n1 -he y", "-d 3600 -q all.q@n1", "-a 202611202230 -d 60 -q all.q@n2 -N third"} {
		if _, err := h.reserve("alice", line); err != nil {
			t.Fatal(err)
		}
	}
	states := func() (s string) {
		for _, r := range h.Reservations() {
			s += r.State(h.now)
		}
		return s
	}
	h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"all.q"}, false)
	if states() != "EEW" {
		t.Error(states())
	}
	h.sub("alice", "-ar 1")
	h.run()
	h.expect("1 qw")
	h.ModifyQueues(h.now, caller("root"), EnableQueue, []string{"all.q"}, false)
	if states() != "rrw" {
		t.Error(states())
	}
	h.run()
	h.expect("1 r all.q@n1")
	h.said(h.DeleteReservations(h.now, caller("bob"), DeleteReservationsRequest{References: []string{"1", "9", "x*"}}), "bob - you do not have the necessary privileges to delete the advance_reservation \"1\"\ndenied: advance_reservation \"9\" does not exist\ndenied: advance_reservation \"x*\" does not exist")
	a := h.DeleteReservations(h.now, caller("alice"), DeleteReservationsRequest{References: []string{"1", "thi*"}})
	h.said(a, "alice has registered the advance_reservation 1 for deletion\nalice has deleted advance_reservation 3")
	h.end(1, 1, End{})
	if states() != "r" {
		t.Error(states())
	}
}

// TestReservationsOfUsers checks the answers of qrdel -u (observed on Grid Engine 8.1.9).
func TestReservationsOfUsers(t *testing.T) {
	h := newHarness(t, small)
	for i, who := range []string{"alice", "bob", "bob", "alice", "bob"} {
		if _, err := h.reserve(who, "-N mine -a 203001010"+itoa(uint32(i))+"00 -d 100"); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ user, users, references, want string }{
		{"bob", "carol", "", "There is no advance_reservation registered for the following users: carol"},
		{"bob", "*", "", `denied: "bob" must be manager to modify all advance reservations`},
		{"bob", "al*", "mine", `denied: "bob" must be manager to modify all advance reservations`},
		{"alice", "bob", "2", `alice - you do not have the necessary privileges to delete the advance_reservation "2"`},
		{"root", "alice", "2", `denied: advance_reservation "2" does not exist`},
		{"root", "bob", "nosuch", `denied: advance_reservation "nosuch" does not exist`},
		{"alice", "alice bob", "mine", "alice has deleted advance_reservation 1\nalice - you do not have the necessary privileges to delete the advance_reservation \"2\"\n" +
			"alice - you do not have the necessary privileges to delete the advance_reservation \"3\"\nalice has deleted advance_reservation 4\n" +
			"alice - you do not have the necessary privileges to delete the advance_reservation \"5\""},
		{"root", "bob", "3", "root has deleted advance_reservation 3"},
		{"root", "nobody bob", "", "root has deleted advance_reservation 2\nroot has deleted advance_reservation 5"},
		{"root", "*", "", "There is no advance_reservation registered for the following users: *"},
	} {
		r := DeleteReservationsRequest{Users: strings.Fields(c.users), References: strings.Fields(c.references)}
		h.said(h.DeleteReservations(h.now, caller(c.user), r), c.want)
	}
}

// TestForcedDeletionOfReservations checks that with -f the jobs of a reservation and the reservation
// are removed at once.
func TestForcedDeletionOfReservations(t *testing.T) {
	h := newHarness(t, small)
	for range 2 {
		if _, err := h.reserve("alice", "-d 1000 -u alice,bob"); err != nil {
			t.Fatal(err)
		}
	}
	h.sub("alice", "-ar 1")
	h.sub("bob", "-ar 1 -t 1-3")
	h.sub("bob", "-ar 2 -hold_jid 1")
	h.run()
	h.said(h.DeleteReservations(h.now, caller("bob"), DeleteReservationsRequest{References: []string{"1"}, Force: true}),
		`bob - you do not have the necessary privileges to delete the advance_reservation "1"`)
	h.said(h.DeleteReservations(h.now, caller("alice"), DeleteReservationsRequest{References: []string{"1"}, Force: true}), "alice has deleted advance_reservation 1")
	h.run()
	if len(h.Reservations()) != 1 {
		t.Error("the reservation is still there")
	}
	if got := h.show(); !strings.HasPrefix(got, "3 r all.q@n") {
		t.Errorf("what waited for a job of it runs: %s", got)
	}
}

// TestUsersOfReservations checks that the users of -u must have access to the reserved queue
// instances, and may use the reservation (qrsub(1)).
func TestUsersOfReservations(t *testing.T) {
	for _, c := range []struct{ lists, user, line, want string }{
		{"xuser_lists friends", "alice", "-u alice,bob", "advance_reservation: no suitable queues"},
		{"xuser_lists friends", "alice", "-u bob", "advance_reservation: no suitable queues"},
		{"xuser_lists friends", "alice", "-u @friends", "advance_reservation: no suitable queues"},
		{"xuser_lists friends", "alice", "-u carol", ""},
		{"xuser_lists friends", "alice", "-u !bob", ""},
		{"xuser_lists friends", "bob", "", "advance_reservation: no suitable queues"},
		{"user_lists friends", "alice", "-u bob", ""},
		{"user_lists friends", "alice", "-u @friends", ""},
		{"user_lists friends", "alice", "-u alice,bob", "advance_reservation: no suitable queues"},
		{"user_lists friends", "bob", "-u alice", "advance_reservation: no suitable queues"},
		{"user_lists friends", "alice", "-u @nosuch", `Userset "nosuch" does not exist`},
	} {
		h := newHarness(t, small.with(files{"queues/all.q": small["queues/all.q"] + "\n" + c.lists, "queues/int.q": ""}))
		_, err := h.reserve(c.user, "-d 100 "+c.line)
		if got := ""; err != nil && errorText(err) != c.want || err == nil && c.want != got {
			t.Errorf("%s: %s qrsub %s: got %v, want %q", c.lists, c.user, c.line, err, c.want)
		}
	}
	h := newHarness(t, small)
	for i, who := range []string{"-u !bob", "-u carol,bob,!bob"} {
		if _, err := h.reserve("alice", "-d 100 "+who); err != nil {
			t.Fatal(err)
		}
		for user, may := range map[string]bool{"alice": i == 0, "bob": false, "carol": true} {
			if _, err := h.try(user, "-ar "+itoa(uint32(i+1))); (err == nil) != may {
				t.Errorf("%s: %s: %v", who, user, err)
			}
		}
	}
}

// TestReservationsBesideCalendars checks qrsub's report about queue instances that a calendar
// closes during the reservation, and that each attempt uses a number.
func TestReservationsBesideCalendars(t *testing.T) {
	f := maps.Clone(small)
	f["calendars/shut"] = "calendar_name shut\nyear NONE\nweek mon-sun=off"
	f["queues/b.q"] = "qname b.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\npe_list fill\ncalendar NONE,[n2=shut]"
	h := newHarness(t, f)
	const closed = `queue "b.q@n2" is calendar disabled in selected time frame`
	for _, c := range []struct{ line, want string }{
		{"-d 100", closed + "\nYour advance reservation 1 has been granted"},
		{"-d 100 -q all.q", "Your advance reservation 2 has been granted"},
		{"-d 100 -q b.q@n2", closed + "\nadvance_reservation: no suitable queues"},
		{"-d 100 -q b.q@n2 -w v", closed + "\nverification: no suitable queues"},
		{"-d 100 -pe fill 1 -w v", closed + "\nverification: found possible assignment with 1 slots"},
		{"-d 100 -q all.q", "Your advance reservation 6 has been granted"},
	} {
		a, err := h.reserve("alice", c.line)
		text := ""
		if refused, ok := errors.AsType[*DeniedError](err); ok {
			text = refusalText(refused)
		} else if err == nil {
			text = a.text()
		}
		if text != c.want {
			t.Errorf("%s: %v\ngot  %s\nwant %s", c.line, err, text, c.want)
		}
	}
}

func TestValidation(t *testing.T) {
	h := newHarness(t, small)
	for _, c := range []struct{ line, want string }{
		{"-w e -l osn=aix", "error: no suitable queues"},
		{"-w v -l lic=4 -q all.q@n2", `Job 2 (-l lic=4) cannot run at host "n2" because it offers only hc:lic=3.000000`},
		{"-w p -l osn=x -q all.q@n2", ""},
	} {
		_, err := h.try("alice", c.line)
		var refused *DeniedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		if out := refusalText(refused); !strings.Contains(out, c.want) || len(refused.Report) > 0 && eventText(refused.Event) != "verification: no suitable queues" {
			t.Errorf("%s: got\n%s", c.line, out)
		}
	}
	for line, want := range map[string]string{
		"-w w -l osn=aix": "warning: no suitable queues\nYour job 4 (\"sleep\") has been submitted",
		"-w v -l lic=3":   "verification: found suitable queue(s)",
		"-w p":            "verification: found suitable queue(s)",
	} {
		a, err := newHarnessAt(h, 3).try("alice", line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		h.said(a, want)
	}
	h.expect("")
}

// newHarnessAt returns a new cell that has already used n job numbers.
func newHarnessAt(h *harness, n uint32) *harness {
	other := newHarness(h.t, small)
	other.lastJob = n
	return other
}

// TestJobsThatDoNotFitIntoReservations submits jobs to reservations that can never run them.
func TestJobsThatDoNotFitIntoReservations(t *testing.T) {
	h := newHarness(t, small.with(files{"complexes": small["complexes"] + "\ns_rt s_rt TIME <= YES NO 0:0:0 0"}))
	for _, line := range []string{"-d 600 -l h=n1", "-a 202611202210 -d 600 -l h=n2"} {
		if _, err := h.reserve("alice", line); err != nil {
			t.Fatal(err)
		}
	}
	const tooLong, tooLate = "the job duration is longer than duration of the advance reservation id ", "the job duration exceeds the end time of the advance reservation id "
	for line, want := range map[string]string{
		"-ar 1 -l h_rt=600":                 "",
		"-ar 1 -l h_rt=601":                 tooLong + "1",
		"-ar 1 -l s_rt=601":                 tooLong + "1",
		"-ar 1 -l h_rt=INFINITY -w n":       tooLong + "1",
		"-ar 1 -soft -l h_rt=601":           "",
		"-ar 2 -l h_rt=600":                 "",
		"-ar 2 -a 202611202215 -l h_rt=299": "",
		"-ar 2 -a 202611202215 -l h_rt=301": tooLate + "2",
		"-ar 1 -l osn=lx":                   "error: no suitable queues",
	} {
		if _, err := h.try("alice", line); err == nil && want != "" || err != nil && errorText(err) != want {
			t.Errorf("qsub %s: %v, want %q", line, err, want)
		}
	}
}
