package launcher

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// TestForgedScripts checks that two simultaneous orders for the same job number cannot give a job the script of
// another one: both scripts have the same file.
func TestForgedScripts(t *testing.T) {
	w := newWorld(t)
	for number := 1; number <= 10; number++ {
		for task, text := range []string{"true\n", "rm -rf ~\n"} {
			message := w.text(kindPrepare, &prepareBody{Plan: w.plan(job.ID{Job: number, Task: task + 1}), Script: true})
			fd, err := memory("script", []byte(text))
			if err == nil {
				err = w.conn.write([]byte(message), fd)
				unix.Close(fd)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		prepared := 0
		for range 2 {
			b, fds, err := w.conn.read(make([]byte, mostMessage+1))
			closeAll(fds)
			a := &answer{}
			if err == nil {
				err = decodeAnswer(b, a)
			}
			if err != nil {
				t.Fatal(err)
			}
			if a.Error == nil {
				prepared++
			}
		}
		if prepared != 1 {
			t.Fatalf("job %d: %d tasks with different scripts were prepared", number, prepared)
		}
	}
	if n := len(w.audits()); n != 10 {
		t.Errorf("the audit log has %d records", n)
	}
}

// TestUseOfScripts checks that an order about a script waits for orders about another script of the same number.
func TestUseOfScripts(t *testing.T) {
	s := &Server{}
	first, again, other := s.useScript(7, "a"), s.useScript(7, "a"), s.useScript(8, "b")
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.useScript(7, "b")()
	}()
	first()
	other()
	s.mu.Lock()
	select {
	case <-done:
		t.Error("two scripts of one number are in use")
	default:
	}
	s.mu.Unlock()
	again()
	<-done
	if len(s.scripts) > 0 {
		t.Errorf("in use are %v", s.scripts)
	}
}

// TestForgedDiscard checks that the directory of a job that is being prepared remains, with all files on which its
// supervisor will rely.
func TestForgedDiscard(t *testing.T) {
	w, s := makeWorld(t)
	w.serve(s)
	if err := w.ask(kindHello, empty{}); err != nil { // the launcher serves
		t.Fatal(err)
	}
	id := job.ID{Job: 7}
	h, err := s.enter(id)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := w.spool.Begin(id, jobdir.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	dir.Close()
	if err := w.ask(kindDiscard, &ofJob{id}); err == nil || err.Code != "exists" {
		t.Errorf("%+v, expected that the job is here", err)
	}
	s.drop(id)
	h.mu.Unlock()
	for _, want := range []int{1, 0} {
		if jobs, err := w.spool.Jobs(); err != nil || len(jobs) != want {
			t.Errorf("there are jobs %v (%v), expected %d", jobs, err, want)
		}
		if err := w.ask(kindDiscard, &ofJob{id}); err != nil {
			t.Error(err)
		}
	}
}
