package launcher

import (
	"bufio"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
)

// serving serves a front of the test until the test ends it.
func (w *world) serving(s *Server) (c *conn, served chan error) {
	w.Helper()
	c, other, err := pair()
	if err != nil {
		w.Fatal(err)
	}
	fd, err := unix.Dup(int(other.Fd()))
	if err != nil {
		w.Fatal(err)
	}
	other.Close()
	if w.conn, err = newConn(fd); err != nil {
		w.Fatal(err)
	}
	served = make(chan error, 1)
	go func() { served <- s.Serve(c) }()
	w.Cleanup(c.close)
	w.Cleanup(w.conn.close)
	return c, served
}

// ends fails the test if the service of a front does not end.
func ends(t *testing.T, s *Server, c *conn, served chan error) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		endService(s, c, served)
	}()
	select {
	case <-done:
	case <-time.After(20 * time.Second):
		t.Fatal("the launcher waits for a captured front")
	}
}

// TestFrontReadsNoAnswers checks that a captured front that reads no answers cannot keep the launcher from ending, and from
// executing itself again after a change of the configuration.
func TestFrontReadsNoAnswers(t *testing.T) {
	w, s := makeWorld(t)
	s.patience = 50 * time.Millisecond
	c, served := w.serving(s)
	raw, err := w.conn.file.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(w.text(kindHello, nil))
	full := false
	for !full { // until the launcher takes no order, because it cannot write more answers
		if err := raw.Control(func(fd uintptr) {
			list := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
			n, err := unix.Poll(list, 1000)
			switch {
			case err != nil:
			case n == 0:
				full = true
			default:
				_ = unix.Sendmsg(int(fd), text, nil, nil, unix.MSG_DONTWAIT)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	ends(t, s, c, served)
}

// TestOrdersOfEndedFront checks that the launcher carries out the orders that a front has sent before its end: the front does not
// wait for the marks that an end was passed on and acknowledged.
func TestOrdersOfEndedFront(t *testing.T) {
	w, s := makeWorld(t)
	c, served := w.serving(s)
	busy, ended := job.ID{Job: 7}, job.ID{Job: 8}
	for _, id := range []job.ID{busy, ended} {
		if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(id), Script: true}, w.script()); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := w.spool.Open(ended)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if err := w.ask(kindNote, &noteBody{ended, &launch.Note{File: "ended", How: launch.NoteWrite, Data: []byte("{}\n")}}); err != nil {
		t.Fatal(err)
	}
	h, err := s.find(busy)
	if err != nil {
		t.Fatal(err)
	}
	h.mu.Lock() // the launcher reads no further order before it has carried out these
	for range mostOrders + 1 {
		if err := w.conn.write([]byte(w.text(kindSignal, &signalBody{busy, launch.SignalUsr1}))); err != nil {
			t.Error(err)
		}
	}
	mark := &launch.Note{File: "ended", How: launch.NoteMark, Mark: "acknowledged", Soon: true}
	if err := w.conn.write([]byte(w.text(kindNote, &noteBody{ended, mark}))); err != nil {
		t.Error(err)
	}
	w.conn.close() // the front is killed
	done := make(chan struct{})
	go func() {
		defer close(done)
		endService(s, c, served)
	}()
	h.mu.Unlock()
	<-done
	if there, err := dir.Exists("acknowledged"); !there || err != nil {
		t.Errorf("the mark that the front has ordered is missing (%v)", err)
	}
}

// TestFrontIgnoresSignal checks that a captured front that ignores SIGTERM cannot keep the launcher from ending.
func TestFrontIgnoresSignal(t *testing.T) {
	w, s := makeWorld(t)
	s.patience = 50 * time.Millisecond
	socket, err := OpenFrontSocket(w.spool, w.owner, func(error) {})
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	r, said, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer said.Close()
	stderr := os.Stderr
	os.Stderr = said // which the front gets
	defer func() { os.Stderr = stderr }()
	signals, done := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		_, err := s.Run(&Front{User: w.owner, Path: "/bin/sh", Args: []string{"-c", "trap '' TERM; echo ready >&2; read x <&3"}}, socket, signals, func(string) {})
		done <- err
	}()
	if line, err := bufio.NewReader(r).ReadString('\n'); line != "ready\n" {
		t.Fatalf("the front says %q (%v)", line, err)
	}
	signals <- unix.SIGTERM
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second):
		t.Error("the launcher still waits for the front")
	}
}
