package cell

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/submit"
)

// checkCounted compares the counters of users with the sizes of the stored records.
func (h *harness) checkCounted(r interface{ Fatalf(string, ...any) }, store kept) {
	want, files, counted := map[string]int64{}, map[string]scriptSpace{}, map[ownScript]bool{}
	for key, value := range store {
		prefix, rest, _ := strings.Cut(key, "/")
		size := int64(len(value)) + recordRoom
		switch prefix + "/" {
		case jobPrefix, requestPrefix, scriptPrefix, taskPrefix:
			var id, task uint32
			_, _ = fmt.Sscanf(rest, "%d/%d", &id, &task) // there may be no task
			if j := h.jobs[id]; j != nil {
				want[j.Owner()] += size
				if own := (ownScript{owner: j.Owner()}); j.scriptFile != nil && prefix+"/" == scriptPrefix {
					if own.sum, _ = ScriptOf(key, []byte(value)); !counted[own] {
						want[j.Owner()] += j.scriptFile.size
						a := files[j.Owner()]
						files[j.Owner()] = scriptSpace{a.files + 1, a.bytes + j.scriptFile.size}
					}
					counted[own] = true
				}
			}
		case reservationPrefix:
			var x reservationRecord
			if err := json.Unmarshal([]byte(value), &x); err != nil {
				r.Fatalf("%v", err)
			}
			want[x.Owner] += size
		}
	}
	got := maps.Clone(h.keeping.users)
	if got == nil {
		got = map[string]int64{}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("- is kept, + is counted:\n%s", diff)
	}
	if got := h.keeping.scriptFiles; len(files)+len(got) > 0 && !maps.Equal(files, got) {
		r.Fatalf("%v is stored in files, %v is counted", files, got)
	}
}

// withScript runs qsub with a script of a given size.
func (h *harness) withScript(user string, size int, line string) error {
	h.t.Helper()
	r, err := submit.Parse(submit.Input{
		Args: append(fields(line), "job.sh"), Master: true,
		ReadFile: func(string) ([]byte, error) { return []byte("#!/bin/sh\n" + strings.Repeat("#", size-10)), nil },
	})
	if err != nil {
		h.t.Fatalf("qsub %s: %v", line, err)
	}
	_, err = h.Submit(h.now, caller(user), r)
	return err
}

// bounded returns a cell with limits, and the store of its records.
func bounded(t *testing.T, room Room) (*harness, kept) {
	h, store := newHarness(t, small), kept{}
	store.take(h.Cell)
	h.SetRoom(&room)
	return h, store
}

func refused(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("nothing was refused, expected %q", parts)
		return
	}
	for _, p := range parts {
		if !strings.Contains(errorText(err), p) {
			t.Errorf("%q, expected %q", errorText(err), p)
		}
	}
}

// TestRoomOfAUser checks that the data of a user's jobs is limited, and space that is freed can be
// used again. Other users have their own limits.
func TestRoomOfAUser(t *testing.T) {
	h, store := bounded(t, Room{PerUser: 100 << 10, Free: 1 << 40})
	for range 2 { // before and after it was written
		for h.withScript("alice", 20<<10, "-h") == nil {
			if len(h.jobs) > 4 {
				t.Fatalf("%d jobs", len(h.jobs))
			}
		}
		refused(t, h.withScript("alice", 20<<10, "-h"), "job rejected: the job needs 20.", `of the 100.0K that user "alice" may have there 8`, "are in use")
		store.take(h.Cell)
	}
	if n := len(h.jobs); n != 4 {
		t.Errorf("%d jobs", n)
	}
	if err := h.withScript("bob", 20<<10, "-h"); err != nil {
		t.Error(err)
	}
	h.logged(h.Delete(h.now, caller("alice"), DeleteRequest{Jobs: jobs(h, "1")}), nil)
	store.take(h.Cell)
	if err := h.withScript("alice", 20<<10, "-h"); err != nil {
		t.Error(err)
	}
	store.take(h.Cell)
	h.checkCounted(t, store)
	next := store.restored(t, h.now, h.cluster)
	next.checkCounted(t, store)
	next.SetRoom(h.keeping.room)
	refused(t, next.withScript("alice", 20<<10, "-h"), "job rejected")
}

// TestReserve checks that submissions cannot use the reserve of the file system, even if many arrive
// before the first is written.
func TestReserve(t *testing.T) {
	h, store := bounded(t, Room{Free: 100 << 10, Reserved: 50 << 10})
	for range 2 {
		if err := h.withScript("alice", 20<<10, "-h"); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, h.withScript("bob", 20<<10, "-h"), "job rejected: the job needs 20.", "has 5", "left, of which 50.0K are reserved")
	store.take(h.Cell)
	h.SetRoom(&Room{Free: 58 << 10, Reserved: 50 << 10})
	if err := h.withScript("bob", 5<<10, "-h"); err != nil {
		t.Error(err)
	}
	refused(t, h.withScript("bob", 5<<10, "-h"), "job rejected")
	h.SetRoom(nil)
	if err := h.withScript("bob", 20<<10, "-h"); err != nil {
		t.Error(err)
	}
}

func TestLargestJob(t *testing.T) {
	h, _ := bounded(t, Room{Free: 1 << 40})
	refused(t, h.withScript("alice", MaxScript+1<<20, "-h"), "job rejected: the script has 33.0M, and at most 32.0M are allowed")
	if err := h.withScript("alice", MaxScript, "-h"); err != nil {
		t.Error(err)
	}
	var words []string
	for i := range MaxRequest >> 16 {
		words = append(words, "-ac", fmt.Sprintf("a%d=%s", i, strings.Repeat("x", 1<<16)))
	}
	large := strings.Join(words, " ")
	_, err := h.try("alice", "-h "+large)
	refused(t, err, "job rejected: environment, arguments and other requests take 16.0M, and at most 16.0M are allowed")
	h.said(h.alter("alice", large+" 2"), "denied: environment, arguments and other requests take 16.0M, and at most 16.0M are allowed")
}

// TestRoomForAlterations checks that qalter can enlarge a job, and that an alteration that makes it
// smaller is never refused.
func TestRoomForAlterations(t *testing.T) {
	h, store := bounded(t, Room{PerUser: 50 << 10, Free: 1 << 40})
	h.sub("alice", "-h -ac a="+strings.Repeat("x", 20<<10))
	for i := range 4 { // one at a time, and several before they are written
		h.said(h.alter("alice", fmt.Sprintf("-ac b%d=%s 1", i, strings.Repeat("x", 5<<10))), "modified context of job 1")
		if i > 1 {
			store.take(h.Cell)
		}
	}
	more := "-ac c=" + strings.Repeat("x", 20<<10) + " 1"
	a := h.alter("alice", more)
	if !a.Denied() || !strings.Contains(eventText(a.Events[0]), `denied: the altered job needs 20.0K in the spool directory, and of the 50.0K that user "alice" may have there 4`) {
		t.Errorf("%s", a.text())
	}
	if a := h.alter("root", more); !a.Denied() { // the job belongs to alice
		t.Errorf("%s", a.text())
	}
	store.take(h.Cell)
	h.SetRoom(&Room{PerUser: 1, Free: 0})
	h.said(h.alter("alice", "-dc b1 1"), "modified context of job 1")
	h.said(h.alter("alice", "-sc a="+strings.Repeat("y", 10<<10)+" 1"), "modified context of job 1")
	store.take(h.Cell)
	h.checkCounted(t, store)
}

// TestRoomForTasks checks that tasks with their own holds have their own records.
func TestRoomForTasks(t *testing.T) {
	h, store := bounded(t, Room{PerUser: 50 << 10, Free: 1 << 40})
	h.sub("alice", "-h -t 1-1000")
	a := h.Hold(h.now, caller("alice"), jobs(h, "1.1-999"), nil, submit.HoldChange{Clear: submit.HoldUser})
	if !a.Denied() || !strings.Contains(eventText(a.Events[0]), "denied: holding tasks by themselves needs 249.8K") {
		t.Errorf("%s", a.text())
	}
	a = h.Hold(h.now, caller("alice"), jobs(h, "1.1-10"), nil, submit.HoldChange{Clear: submit.HoldUser})
	if a.Denied() {
		t.Errorf("%s", a.text())
	}
	store.take(h.Cell)
	h.checkCounted(t, store)
}

func TestRoomForReservations(t *testing.T) {
	h, store := bounded(t, Room{PerUser: 20 << 10, Free: 1 << 40})
	reserve := func(users string) error {
		_, err := h.reserve("alice", "-d 60 -u "+users)
		return err
	}
	if err := reserve("alice"); err != nil {
		t.Error(err)
	}
	if h.Kept("alice") == 0 {
		t.Error("it does not count")
	}
	h.wait(60)
	h.Tick(h.now)
	refused(t, reserve(strings.Repeat("alice,", 4<<10)+"bob"), `advance_reservation rejected: the reservation needs `, `of the 20.0K that user "alice"`)
	store.take(h.Cell)
	h.checkCounted(t, store)
	h.wait(3600)
	h.Tick(h.now)
	store.take(h.Cell)
	h.checkCounted(t, store)
}

// TestLongReasons checks a reason that contains text chosen by the user, such as a path.
func TestLongReasons(t *testing.T) {
	h, store := bounded(t, Room{Free: 1 << 40})
	h.sub("alice", "")
	h.run()
	h.end(1, 1, End{Failure: JobFailure, Reason: strings.Repeat("\u00e4", 1<<20)})
	store.take(h.Cell)
	if n := len(h.jobs[1].tasks[0].Error); n > 5<<10 || n < 4<<10 {
		t.Errorf("%d bytes", n)
	}
	h.checkCounted(t, store)
}
