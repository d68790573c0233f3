package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/submission"
)

// confirming runs a command line of the user with an ID, whose changes of jobs have to be confirmed.
func (w *world) confirming(uid int, amended map[uint32]Confirmation, name string, args ...string) *Result {
	w.t.Helper()
	return Run(w.cell, w.now, &Input{
		Name: name, Args: args, Dir: "/work", Environment: []string{"HOME=/"}, Confirming: true, Amended: amended,
		By: cell.Caller{User: "alice", Group: "users", Host: "node1", Origin: &cell.Origin{UID: uid, GID: 1000, Directory: "/work"}},
	})
}

// pending submits jobs of alice that wait, each with some arguments of 100 kB.
func (w *world) pending(uid, jobs, words int) {
	w.t.Helper()
	args := []string{"-h", "-b", "y", "true"}
	for range words {
		args = append(args, strings.Repeat("x", 100_000))
	}
	for range jobs {
		in := &Input{
			Name: "qsub", Args: args, Dir: "/work",
			By: cell.Caller{User: "alice", Group: "users", Host: "node1", Origin: &cell.Origin{UID: uid, GID: 1000, Directory: "/work"}},
		}
		if r := Run(w.cell, w.now, in); r.Exit != 0 {
			w.t.Fatalf("%+v", r)
		}
	}
}

// confirmed confirms all that a command asks for, as its client does.
func confirmed(t *testing.T, r *Result, name string, args ...string) map[uint32]Confirmation {
	t.Helper()
	list := map[uint32]Confirmation{}
	for i, a := range r.Amend {
		var was submission.Submission
		if err := json.Unmarshal(a.Submission, &was); err != nil {
			t.Fatal(err)
		}
		key := fmt.Sprint("key", i)
		next := Amend(&Input{Name: name, Args: args, Dir: "/work", Environment: []string{"HOME=/"}}, &was)
		list[a.Job] = Confirmation{Key: key, Digest: next.Digest(key)}
	}
	return list
}

// TestAmendmentsAreBounded checks that all users wait neither for jobs that a command names again and again, nor for
// very many or very large ones: the master does nothing else meanwhile.
func TestAmendmentsAreBounded(t *testing.T) {
	const uid = 1000
	w := newWorld(t)
	w.pending(uid, 10, 10)
	again := strings.Repeat("1,", 10_000) + "1"
	r := w.confirming(uid, nil, "qalter", "-A", "x", again)
	if !r.Confirm || len(r.Amend) != 1 || r.Amend[0].Job != 1 {
		t.Fatalf("%d jobs are asked for, expected 1: exit status %d, %.200s", len(r.Amend), r.Exit, r.Stderr)
	}
	// Each digest counts towards the bound: repeated ones would exceed it.
	list := confirmed(t, r, "qalter", "-A", "x", again)
	if r := w.confirming(uid, list, "qalter", "-A", "x", again); r.Exit != 0 || r.Confirm || w.cell.Job(1).Submission != "key0" {
		t.Errorf("exit status %d, %.200s%.200s", r.Exit, r.Stdout, r.Stderr)
	}
	for _, line := range [][]string{{"qalter", "-A", "x", "-u", "alice"}, {"qresub", "1", "2", "3", "4", "5", "6", "7", "8", "9"}} {
		r := w.confirming(uid, nil, line[0], line[1:]...)
		if r.Confirm || len(r.Amend) > 0 || r.Exit == 0 || !strings.Contains(r.Stderr, "at most 4096 jobs with 8388608 bytes") {
			t.Errorf("%q: %d jobs are asked for, exit status %d, %.200s", line, len(r.Amend), r.Exit, r.Stderr)
		}
		// The bound also holds for confirmations that the cell has not asked for.
		claims := map[uint32]Confirmation{}
		for id := range uint32(11) {
			claims[id] = Confirmation{Key: "k", Digest: "x"}
		}
		if r := w.confirming(uid, claims, line[0], line[1:]...); r.Exit == 0 || !strings.Contains(r.Stdout, "command confirmed") {
			t.Errorf("%q: exit status %d, %.200s%.200s", line, r.Exit, r.Stdout, r.Stderr)
		} else if n := strings.Count(r.Stdout, "the job has changed since"); n != 1 {
			t.Errorf("%q: %d digests were computed after the first that is wrong", line, n-1)
		}
	}
	if r := w.confirming(uid, nil, "qresub", "1", "1"); r.Exit == 0 || r.Confirm || !strings.Contains(r.Stderr, "job 1 is named twice") {
		t.Errorf("a job is copied twice: %+v", r)
	}

	w = newWorld(t)
	w.pending(uid, MostAmended+1, 0)
	if r := w.confirming(uid, nil, "qalter", "-A", "x", "-u", "alice"); r.Confirm || r.Exit == 0 || !strings.Contains(r.Stderr, "4097 jobs with") {
		t.Errorf("%d jobs are asked for, exit status %d, %.200s", len(r.Amend), r.Exit, r.Stderr)
	}
}
