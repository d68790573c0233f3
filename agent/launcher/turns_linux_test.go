package launcher

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
)

// TestSlowRemovals checks that the launcher carries out other orders while it removes the directories of many jobs: a user
// decides how many files there are, and could prevent other users' jobs from starting.
func TestSlowRemovals(t *testing.T) {
	w, s := makeWorld(t)
	w.serve(s)
	id := job.ID{Job: 7}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(id), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	h, err := s.find(id)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock() // the removal takes long
	const many = mostOrders + mostEnds + 1
	for range many {
		if err := w.conn.write([]byte(w.text(kindRemove, &removeBody{ID: id}))); err != nil {
			t.Error(err)
		}
	}
	if err := w.conn.file.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Error(err)
	}
	err2 := w.conn.write([]byte(w.text(kindHello, nil)))
	text, fds, err := w.conn.read(make([]byte, mostMessage+1))
	closeAll(fds)
	if err != nil || len(text) == 0 || err2 != nil {
		t.Errorf("another order has no answer: %v, %v", err, err2)
	}
	h.mu.Unlock()
	removed := 0
	for range many {
		if w.next().Error == nil {
			removed++
		}
	}
	if removed != 1 {
		t.Errorf("%d orders have removed the job", removed)
	}
	w.nothingIsHere()
}

// TestEndTurns checks that some owners whose jobs do not end leave turns to others, and that all turns are given back.
func TestEndTurns(t *testing.T) {
	e := endTurns{all: make(chan struct{}, mostEnds)}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var done []func()
	for owner := range mostEnds / mostEndsEach {
		for range mostEndsEach {
			d, ok := e.turn(t.Context(), strconv.Itoa(owner))
			if !ok {
				t.Fatal("there is no turn")
			}
			done = append(done, d)
		}
		if _, ok := e.turn(over, strconv.Itoa(owner)); ok {
			t.Error("an owner has another turn")
		}
	}
	if _, ok := e.turn(over, "another"); ok {
		t.Error("there are more turns than mostEnds")
	}
	for _, d := range done {
		d()
	}
	if len(e.all) > 0 || len(e.owners.turns) > 0 {
		t.Errorf("left are %d turns, and those of %v", len(e.all), e.owners.turns)
	}
}

// TestOwners checks that the jobs of one owner do not take the turns of another one.
func TestOwners(t *testing.T) {
	var o owners
	over, cancel := context.WithCancel(t.Context())
	cancel()
	var done []func()
	for range mostEndsEach {
		d, ok := o.take(t.Context(), "alice")
		if !ok {
			t.Fatal("there is no turn")
		}
		done = append(done, d)
	}
	if _, ok := o.take(over, "alice"); ok {
		t.Error("an owner has another turn")
	}
	if d, ok := o.take(t.Context(), "bob"); ok {
		d()
	} else {
		t.Error("another owner has no turn")
	}
	waiting := make(chan bool)
	go func() {
		d, ok := o.take(t.Context(), "alice")
		if ok {
			d()
		}
		waiting <- ok
	}()
	for _, d := range done {
		d()
	}
	if !<-waiting || len(o.turns) > 0 {
		t.Errorf("left are the turns %v", o.turns)
	}
}
