package agent

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestReorderedAndRepeatedOrders sends orders repeatedly and in any order, also from masters that
// were replaced and across restarts of the agent: the result is that of the orders with the highest
// numbers.
func TestReorderedAndRepeatedOrders(t *testing.T) {
	type message struct {
		turn  Sequence
		order Order
	}
	aspects := [][2]Order{{Suspend, Resume}, {SuspendThreshold, ResumeThreshold}, {SuspendQueue, ResumeQueue}}
	w := newWorld(t)
	for seed := range uint64(8) {
		random := rand.New(rand.NewPCG(seed, 1))
		id := w.mustStart(w.job(int(seed)+1, "sleep", "1000")).ID
		w.await(id, Running)
		var messages []message
		var want []Order
		last := map[int]message{}
		for number := range uint64(20) {
			aspect := random.IntN(len(aspects))
			m := message{Sequence{1 + number/10, 1 + number%10}, aspects[aspect][random.IntN(2)]}
			last[aspect] = m
			for range 1 + random.IntN(3) {
				messages = append(messages, m)
			}
		}
		for _, m := range last {
			if resumeOf[m.order] != "" {
				want = append(want, m.order)
			}
		}
		random.Shuffle(len(messages), func(i, j int) { messages[i], messages[j] = messages[j], messages[i] })
		for i, m := range messages {
			if i == len(messages)/2 {
				w.stop()
				w.start()
			}
			err := w.agent.Signal(WithSequence(t.Context(), m.turn), id, m.order)
			if err != nil && (code(err) != FailedPrecondition || !strings.Contains(err.Error(), "was overtaken by order")) {
				t.Errorf("seed %d: %v", seed, err)
			}
		}
		r, _ := w.agent.Job(id)
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(r.SuspendedBy)); !slices.Equal(got, want) {
			t.Errorf("seed %d: suspended by %q, expected %q; %v", seed, got, want, messages)
		}
		if len(want) > 0 {
			w.await(id, Suspended)
		} else {
			w.await(id, Running)
		}
	}
}

// TestSequenceNumbersOfOrders checks that orders without a number always count, that an order that
// ends a job counts whenever it comes, and that repeated signals are delivered once.
func TestSequenceNumbersOfOrders(t *testing.T) {
	w := newWorld(t)
	s := w.job(1, "sh", "-c", `trap 'echo usr1 >>said' USR1; trap 'echo usr2 >>said' USR2; echo ready >>said; while :; do sleep 0.05; done`)
	dir := s.Request.WorkingDir
	id := w.mustStart(s).ID
	said := func(want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		var got []string
		for !slices.Equal(got, want) {
			b, err := os.ReadFile(filepath.Join(dir, "said"))
			if err != nil && !errors.Is(err, os.ErrNotExist) || ctx.Err() != nil {
				t.Fatalf("the job has said %q, expected %q; %v", got, want, err)
			}
			got = strings.Fields(string(b))
		}
	}
	said("ready")
	order := func(epoch, number uint64, o Order, want Code) {
		t.Helper()
		if err := w.agent.Signal(WithSequence(t.Context(), Sequence{epoch, number}), id, o); code(err) != want {
			t.Errorf("order %d of epoch %d: %v, expected %q", number, epoch, err, want)
		}
	}
	order(1, 5, Usr1, "")
	said("ready", "usr1")
	order(1, 5, Usr1, "")
	order(1, 4, Usr1, FailedPrecondition)
	order(1, 2, Usr2, "")
	said("ready", "usr1", "usr2")
	w.stop()
	w.start()
	order(1, 5, Usr1, "")
	order(1, 3, Usr2, "")
	said("ready", "usr1", "usr2", "usr2")

	order(1, 6, Suspend, "")
	w.await(id, Suspended)
	order(0, 0, Resume, "")
	w.await(id, Running)
	order(1, 6, Suspend, "") // has been carried out
	if r, _ := w.agent.Job(id); len(r.SuspendedBy) > 0 {
		t.Errorf("%+v", r)
	}
	order(2, 1, Suspend, "") // of the next master
	w.await(id, Suspended)
	order(1, 1, Terminate, "")
	if o := w.ended(id); o.Signal == 0 {
		t.Errorf("%+v", o)
	}
}

// TestOldTicketsAreIgnored checks that tickets with an older number do not replace newer ones.
func TestOldTicketsAreIgnored(t *testing.T) {
	w := newWorld(t)
	id := w.mustStart(w.job(1, "sleep", "1000")).ID
	for _, c := range []struct {
		turn          Sequence
		tickets, want float64
	}{{Sequence{1, 2}, 20, 20}, {Sequence{1, 1}, 10, 20}, {Sequence{}, 5, 5}, {Sequence{1, 2}, 20, 20}, {Sequence{2, 1}, 7, 7}, {Sequence{1, 9}, 9, 7}} {
		if c.turn.Epoch == 2 {
			w.stop()
			w.start()
		}
		w.agent.SetTickets([]Tickets{{id, c.tickets, c.turn}, {job.ID{Job: 99}, 1, c.turn}})
		w.agent.table.mu.Lock()
		got := w.agent.table.jobs[id].record.Tickets
		w.agent.table.mu.Unlock()
		if got != c.want {
			t.Errorf("%v: %v tickets, expected %v", c.turn, got, c.want)
		}
	}
}

// TestTicketsSurviveRestart checks that the next agent knows the tickets of jobs, and the number of
// the order that brought them. The tickets of an earlier job with the same ID do not count for the
// next one.
func TestTicketsSurviveRestart(t *testing.T) {
	w := newWorld(t)
	first, second := w.job(1, "sleep", "1000"), w.job(2, "sleep", "1000")
	second.Tickets = 3
	for _, s := range []*Start{first, second} {
		w.mustStart(s)
		w.await(s.ID, Running)
	}
	check := func(id job.ID, want float64) {
		t.Helper()
		w.agent.table.mu.Lock()
		defer w.agent.table.mu.Unlock()
		if e := w.agent.table.jobs[id]; e.record.Tickets != want {
			t.Errorf("job %s has %v tickets, expected %v", id, e.record.Tickets, want)
		}
	}
	set := func(tickets ...Tickets) { w.agent.SetTickets(tickets) }
	restart := func() {
		w.stop()
		w.start()
	}
	set(Tickets{first.ID, 100, Sequence{2, 8}})
	restart()
	check(first.ID, 100)
	check(second.ID, 3)
	set(Tickets{first.ID, 50, Sequence{2, 7}}, Tickets{second.ID, 60, Sequence{2, 7}})
	check(first.ID, 100)
	check(second.ID, 60)
	restart()
	check(first.ID, 100)
	check(second.ID, 60)
	set(Tickets{first.ID, 40, Sequence{2, 9}})
	check(first.ID, 40)

	// What could not be written down is, with the next order, also if that changes nothing.
	file := filepath.Join(w.spool.Dir().Path(), fileTickets)
	if err := errors.Join(os.Remove(file), os.Mkdir(file, 0o755)); err != nil {
		t.Fatal(err)
	}
	set(Tickets{first.ID, 30, Sequence{2, 10}})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	set(Tickets{first.ID, 30, Sequence{2, 10}})
	restart()
	check(first.ID, 30)

	if err := w.agent.Signal(t.Context(), first.ID, Kill); err != nil {
		t.Fatal(err)
	}
	w.ended(first.ID)
	w.until("the job is gone", func() bool { _, there := w.agent.Job(first.ID); return !there })
	first.Key, first.Tickets = "again", 1
	w.mustStart(first)
	restart()
	check(first.ID, 1)
	w.stop()
	if err := w.spool.Dir().WriteFile(fileTickets, []byte("not all of i")); err != nil {
		t.Fatal(err)
	}
	w.start()
	check(second.ID, 3) // of its start
}

// TestAgentOrdersAreCarriedOutOnce checks that orders for the whole agent are carried out once,
// even if the next agent gets them, too.
func TestAgentOrdersAreCarriedOutOnce(t *testing.T) {
	w := newWorld(t)
	done := []string{}
	do := func(epoch, number uint64, what string, want Code, fails bool) {
		t.Helper()
		err := w.agent.InTurn(Sequence{epoch, number}, what, func() error {
			if fails {
				return &Error{Internal, errors.New("it fails")}
			}
			done = append(done, fmt.Sprint(epoch, ".", number, what))
			return nil
		})
		if code(err) != want {
			t.Errorf("%s %d of epoch %d: %v, expected %q", what, number, epoch, err, want)
		}
	}
	do(1, 3, "drain", Internal, true)
	do(1, 3, "drain", "", false) // once more, since it was not carried out
	do(1, 3, "drain", "", false)
	do(1, 2, "drain", FailedPrecondition, false)
	do(1, 2, "configure", "", false)
	do(0, 0, "drain", "", false)
	w.stop()
	w.start()
	do(1, 3, "drain", "", false)
	do(1, 1, "configure", FailedPrecondition, false)
	do(2, 1, "drain", "", false)
	do(1, 4, "drain", FailedPrecondition, false)
	if want := []string{"1.3drain", "1.2configure", "0.0drain", "2.1drain"}; !slices.Equal(done, want) {
		t.Errorf("%q, expected %q", done, want)
	}
}

// TestEveryOrderRaisesEpoch checks that the next agent knows from any order that a new master has
// taken over. Masters without epochs are not affected until a master with an epoch has started a
// job.
func TestEveryOrderRaisesEpoch(t *testing.T) {
	w := newWorld(t)
	if err := errors.Join(w.agent.SawEpoch(7), w.agent.SawEpoch(0), w.agent.SawEpoch(7)); err != nil {
		t.Fatal(err)
	}
	w.stop()
	w.start()
	if err := w.agent.SawEpoch(6); code(err) != FailedPrecondition {
		t.Error(err)
	}
	if h := w.agent.Health(); h.Epoch != 7 {
		t.Errorf("%+v", h)
	}
	start := func(number int, epoch uint64, want Code) {
		t.Helper()
		s := w.job(number, "true")
		s.Epoch = epoch
		r, err := w.agent.Start(t.Context(), s)
		if code(err) != want {
			t.Errorf("a start of epoch %d: %v, expected %q", epoch, err, want)
		}
		if err == nil {
			w.ended(r.ID)
		}
	}
	start(1, 6, FailedPrecondition)
	start(2, 0, "")
	start(3, 7, "")
	start(4, 0, FailedPrecondition)
	if err := w.agent.SawEpoch(6); code(err) != FailedPrecondition {
		t.Error(err)
	}
}
