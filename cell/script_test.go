package cell

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// separateKept holds the stored records of a cell, and the texts in files.
type separateKept struct {
	kept
	texts map[string]string
	given int
}

func (b *separateKept) take(c *Cell) {
	for _, x := range c.Changes() {
		if x.Value == nil {
			delete(b.kept, x.Key)
			continue
		}
		b.kept[x.Key] = string(x.Value)
		if x.Script != nil {
			b.given++
			sum, _ := ScriptOf(x.Key, x.Value)
			b.texts[sum] = string(x.Script)
		}
	}
}

func separateHarness(t *testing.T, k kept) *harness {
	t.Helper()
	c, problems := Restore(start, small.cluster(t), Options{Managers: []string{"admin"}, SeparateScripts: true}, k.all)
	for _, err := range problems {
		t.Error(err)
	}
	h := &harness{Cell: c, t: t, now: start}
	h.report()
	return h
}

// TestSeparateScripts checks that large scripts are returned in addition to their records, once for each
// submission, and are then no longer in the cell. Copies of a job have the same script. A text counts
// once for a user.
func TestSeparateScripts(t *testing.T) {
	b := &separateKept{kept: kept{}, texts: map[string]string{}}
	h := separateHarness(t, b.kept)
	h.SetRoom(&Room{PerUser: 100 << 10, Free: 1 << 40})
	for _, user := range []string{"alice", "alice", "alice", "alice", "bob"} { // 40 KiB each
		if err := h.withScript(user, 40<<10, "-h"); err != nil {
			t.Fatal(err)
		}
	}
	if err := h.withScript("alice", 100, "-h"); err != nil {
		t.Fatal(err)
	}
	refused(t, h.withScript("alice", 60<<10, "-h"), "the job needs 60.")
	h.logged(h.Resubmit(h.now, caller("alice"), jobs(h, "1"), submit.HoldChange{}, nil), nil)
	b.take(h.Cell)
	h.logged(h.Resubmit(h.now, caller("alice"), jobs(h, "1"), submit.HoldChange{}, nil), nil)
	b.take(h.Cell)
	check := func(h *harness) {
		t.Helper()
		h.checkCounted(t, b.kept)
		for _, j := range h.Jobs() {
			sum, is := j.SeparateScript()
			switch text := j.Request().Script; {
			case len(text) == 100 && !is:
			case text != nil || !is || len(b.texts[sum]) != 40<<10 || ScriptSum([]byte(b.texts[sum])) != sum:
				t.Errorf("job %d: %d bytes, %q, %v", j.ID(), len(text), sum, is)
			}
		}
	}
	if len(b.texts) != 1 || b.given != 6 {
		t.Errorf("%d texts, given out %d times", len(b.texts), b.given)
	}
	check(h)
	next := separateHarness(t, b.kept)
	check(next)
	next.SetRoom(&Room{PerUser: 100 << 10, Free: 1 << 40})
	refused(t, next.withScript("alice", 60<<10, "-h"), "the job needs 60.")
	next.logged(next.Delete(next.now, caller("admin"), DeleteRequest{Users: []string{"alice"}}), nil)
	b.take(next.Cell)
	check(next)
	if err := next.withScript("alice", 60<<10, "-h"); err != nil {
		t.Error(err)
	}
}

// TestScriptsAreMoved checks that scripts that an older version stored in records are moved to
// files.
func TestScriptsAreMoved(t *testing.T) {
	old, k := newHarness(t, small), kept{}
	for _, size := range []int{40 << 10, 40 << 10, 100, 50 << 10} {
		if err := old.withScript("alice", size, "-h"); err != nil {
			t.Fatal(err)
		}
	}
	k.take(old.Cell)
	b := &separateKept{kept: k, texts: map[string]string{}}
	h := separateHarness(t, b.kept)
	h.checkCounted(t, b.kept)
	b.take(h.Cell)
	for _, want := range []int{2, 1, 0} {
		if n := h.MoveScripts(60 << 10); n != want {
			t.Errorf("%d are moved, expected %d", n, want)
		}
		b.take(h.Cell)
		h.checkCounted(t, b.kept)
	}
	if len(b.texts) != 2 || b.given != 3 {
		t.Errorf("%d texts, given out %d times", len(b.texts), b.given)
	}
	for key, value := range b.kept {
		if len(value) > separateFrom && strings.HasPrefix(key, scriptPrefix) {
			t.Errorf("%s has %d bytes", key, len(value))
		}
	}
	for _, j := range separateHarness(t, b.kept).Jobs() {
		if sum, is := j.SeparateScript(); len(j.Request().Script) != 100 && (!is || b.texts[sum] == "") {
			t.Errorf("job %d has lost its script", j.ID())
		}
	}
}

// TestFilesOfAUser checks that scripts in files use no memory, but each text counts as a file. The
// number of files per user is limited, also after a restart, and until the last job with a text has
// left.
func TestFilesOfAUser(t *testing.T) {
	b := &separateKept{kept: kept{}, texts: map[string]string{}}
	h := separateHarness(t, b.kept)
	room := &Room{MemoryPerUser: 30 << 10, FilesPerUser: 3, Free: 1 << 40, FreeFiles: 1 << 40}
	h.SetRoom(room)
	const size = 20 << 10
	for i := range 6 { // each text twice
		if err := h.withScript("alice", size+i/2, "-h"); err != nil {
			t.Fatal(err)
		}
	}
	const tooMany = `job rejected: the script of the job needs a file in the spool directory, and of the 3 that user "alice" may have there 3 are in use`
	refused(t, h.withScript("alice", size+9, "-h"), tooMany)
	if err := h.withScript("bob", size+9, "-h"); err != nil {
		t.Error(err)
	}
	b.take(h.Cell)
	h.checkCounted(t, b.kept)
	next := separateHarness(t, b.kept)
	next.SetRoom(room)
	next.checkCounted(t, b.kept)
	refused(t, next.withScript("alice", size+9, "-h"), tooMany)
	next.logged(next.Delete(next.now, caller("alice"), DeleteRequest{Jobs: jobs(next, "1")}), nil)
	b.take(next.Cell)
	refused(t, next.withScript("alice", size+9, "-h"), tooMany)
	next.logged(next.Delete(next.now, caller("alice"), DeleteRequest{Jobs: jobs(next, "2")}), nil)
	b.take(next.Cell)
	if err := next.withScript("alice", size+9, "-h"); err != nil {
		t.Error(err)
	}
	b.take(next.Cell)
	next.checkCounted(t, b.kept)

	next.SetRoom(&Room{Free: 1 << 40, FreeFiles: 10, ReservedFiles: 10})
	refused(t, next.withScript("carol", size, "-h"), "job rejected: the script of the job needs a file, and the file system of the spool directory has 10 files (inodes) left, of which 10 are reserved")
	if err := next.withScript("carol", 100, "-h"); err != nil {
		t.Error(err)
	}
}

// TestMemoryOfAUser checks that records are in memory, including scripts in records.
func TestMemoryOfAUser(t *testing.T) {
	b := &separateKept{kept: kept{}, texts: map[string]string{}}
	h := separateHarness(t, b.kept)
	h.SetRoom(&Room{MemoryPerUser: 50 << 10, Free: 1 << 40})
	if err := h.withScript("alice", 100<<10, "-h"); err != nil { // stored in a file
		t.Error(err)
	}
	large := "-h -ac a=" + strings.Repeat("x", 20<<10)
	for range 2 {
		h.sub("alice", large)
	}
	_, err := h.try("alice", large)
	refused(t, err, "job rejected: the job needs 20.", `in the memory of the daemon, and of the 50.0K that user "alice" may have there 4`)
	refused(t, h.withScript("alice", 8000, "-h -ac a="+strings.Repeat("x", 2<<10)), "in the memory of the daemon")
	a := h.alter("alice", "-ac b="+strings.Repeat("x", 10<<10)+" 2")
	if !a.Denied() || !strings.Contains(eventText(a.Events[0]), "in the memory of the daemon") {
		t.Errorf("%s", a.text())
	}
	h.sub("bob", large)
	b.take(h.Cell)
	h.checkCounted(t, b.kept)
}
