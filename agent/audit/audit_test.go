package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

func opened(t *testing.T, o Options) *Log {
	t.Helper()
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// records are those of a file, each line of which has to be one.
func records(t *testing.T, path string) (list []Record) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r Record
		if err := json.Unmarshal(line, &r); err != nil {
			t.Errorf("%q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

func TestRecordsAreInPrivateFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path, Host: "n1", Daemon: "standalone"})
	uid := uint32(7)
	if err := l.Add(&Record{Caller: Caller{Via: "socket", UID: &uid, User: "alice"}, Command: "qdel", Outcome: Done}, true); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	got := records(t, path)
	if len(got) != 1 || got[0].Version != 1 || got[0].Host != "n1" || got[0].Daemon != "standalone" || got[0].ID == "" || time.Since(got[0].Time) > time.Hour {
		t.Errorf("%+v", got)
	}
}

func TestOpenRefusesFilesOfOthers(t *testing.T) {
	dir := t.TempDir()
	link, fifo, open, twice := filepath.Join(dir, "link"), filepath.Join(dir, "fifo"), filepath.Join(dir, "open"), filepath.Join(dir, "twice")
	if err := errors.Join(os.Symlink("target", link), unix.Mkfifo(fifo, 0o600), os.WriteFile(open, nil, 0o600), os.Chmod(open, 0o622),
		os.WriteFile(twice, nil, 0o600), os.Link(twice, twice+"2"), os.Mkdir(filepath.Join(dir, "theirs"), 0o777), os.Chmod(filepath.Join(dir, "theirs"), 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fifo, open, twice, filepath.Join(dir, "theirs", "audit"), dir, "/dev/full", filepath.Join(dir, "no", "audit")} {
		if l, err := Open(Options{Path: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
			_ = l.Close()
		}
	}
}

// FuzzLines checks that for any names and any command line a record is one line of printable JSON,
// which contains the command line.
func FuzzLines(f *testing.F) {
	for _, s := range []string{"", "a", "x\n{\"v\":1}", "\x1b[2J", "\u202e", "\u009b", "\xff", "\u2028", "\"\\", "\x00\x7f", strings.Repeat("é", 5000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := &Record{
			Caller: Caller{User: s}, Command: s, Args: []string{s, s}, Error: s,
			Objects: []Object{{Kind: "job", Name: s, Change: Changed, Attributes: map[string]Attribute{s: {s, []any{s}}}}},
		}
		line := r.Lines()
		text := strings.TrimSuffix(string(line), "\n")
		if bad := strings.IndexFunc(text, func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == '\u2028' || r == '\u2029'
		}); bad >= 0 || !utf8.ValidString(text) {
			t.Errorf("%q", text)
		}
		var again Record
		if err := json.Unmarshal(line, &again); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if utf8.ValidString(s) && len(s) < mostText && again.Args[0] != s {
			t.Errorf("%q became %q", s, again.Args[0])
		}
	})
}

func TestRecordsOfManyObjectsAreDivided(t *testing.T) {
	r := &Record{ID: "1", Command: "qdel"}
	for i := range 2*mostObjects + 1 {
		r.Objects = append(r.Objects, Object{Kind: "job", Name: fmt.Sprint(i), Change: Removed})
	}
	var names []string
	for line := range bytes.Lines(r.Lines()) {
		var part Record
		if err := json.Unmarshal(line, &part); err != nil {
			t.Fatal(err)
		}
		if part.ID != "1" {
			t.Errorf("part %d is of %q", part.Part, part.ID)
		}
		for _, o := range part.Objects {
			names = append(names, o.Name)
		}
	}
	if len(names) != len(r.Objects) || names[len(names)-1] != fmt.Sprint(2*mostObjects) {
		t.Errorf("%d objects", len(names))
	}
}

// TestRotation checks that the log opens a new file after the old one was moved away, with and
// without a signal.
func TestRotation(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path})
	add := func(command string) {
		if err := l.Add(&Record{Command: command}, false); err != nil {
			t.Error(err)
		}
	}
	add("first")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	add("second")
	if err := os.Rename(path, path+".2"); err != nil {
		t.Fatal(err)
	}
	if err := l.Reopen(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	add("third")
	for name, want := range map[string]string{path + ".1": "first", path + ".2": "second", path: "third"} {
		if got := records(t, name); len(got) != 1 || got[0].Command != want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestRecordAfterIncompleteLine checks that a line that a crash has cut short stays in the file,
// and that the next record begins on a new line.
func TestRecordAfterIncompleteLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	if err := os.WriteFile(path, []byte(`{"v":1,"comm`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := opened(t, Options{Path: path})
	if err := l.Add(&Record{Command: "qdel"}, true); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Split(string(text), "\n"); len(got) != 3 || got[0] != `{"v":1,"comm` || !strings.Contains(got[1], "qdel") {
		t.Errorf("%q", got)
	}
}

// writable waits until the log can be written again.
func writable(t *testing.T, l *Log) {
	t.Helper()
	tick := time.NewTicker(again / 10)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); l.Check() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal(l.Check())
		}
	}
}

// TestFullDisk checks that records wait until there is space, that none is lost or written in part,
// and that callers that need the log get the error.
func TestFullDisk(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	var mu sync.Mutex
	var told []error
	path := filepath.Join(dir, "audit")
	l := opened(t, Options{Path: path, Required: true, Report: func(err error) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, err)
	}})
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, make([]byte, 40<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	const n = 100
	failed := 0
	for i := range n {
		if l.Add(&Record{Command: fmt.Sprint(i), Error: strings.Repeat("x", 1000)}, false) != nil {
			failed++
		}
	}
	if failed == 0 || l.Check() == nil {
		t.Fatalf("%d of %d failed", failed, n)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=1m"); err != nil {
		t.Fatal(err)
	}
	writable(t, l)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next, cut := 0, 0
	for line := range bytes.Lines(text) {
		var r Record
		if json.Unmarshal(line, &r) != nil {
			cut++
			continue
		}
		if r.Command != fmt.Sprint(next) {
			t.Fatalf("record %s, want %d", r.Command, next)
		}
		next++
	}
	if next != n || cut > 1 {
		t.Errorf("%d records, %d lines were cut", next, cut)
	}
	if failures, lost := l.Counts(); failures == 0 || lost != 0 || l.Err() != nil {
		t.Errorf("%d failures, %d lost, %v", failures, lost, l.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	if len(told) != 2 || !errors.Is(told[0], unix.ENOSPC) || told[1] != nil {
		t.Errorf("%v", told)
	}
}

// TestRefusalsAreCounted checks that a user who is refused repeatedly does not fill the disk.
func TestRefusalsAreCounted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path})
	uid, other := uint32(7), uint32(8)
	at := time.Unix(1000, 0)
	refuse := func(uid uint32) {
		l.Refuse(&Record{Caller: Caller{UID: &uid}, Command: "qdel", Outcome: Refused}, at)
	}
	for range mostRefusals + 5 {
		refuse(uid)
	}
	refuse(other)
	for port := range mostRefusals + 5 { // somebody elsewhere, from another port each time
		l.Refuse(&Record{Caller: Caller{Remote: fmt.Sprintf("192.0.2.1:%d", 1000+port)}, Outcome: Refused}, at)
	}
	at = at.Add(refusalsPeriod)
	refuse(uid)
	got := records(t, path)
	if len(got) != 2*mostRefusals+2 || got[len(got)-1].Omitted != 5 || got[len(got)-2].Omitted != 0 {
		t.Errorf("%d records, the last one %+v", len(got), got[len(got)-1])
	}
}

// TestShortRecords checks that only the user who fills the log gets short records.
func TestShortRecords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path})
	at := time.Unix(1000, 0)
	add := func(uid uint32) {
		value := strings.Repeat("x", 4000)
		r := &Record{
			Time: at, Caller: Caller{UID: &uid}, Command: "qalter", Args: []string{"-ac", "a=" + value},
			Objects: []Object{{Kind: "job", Name: "1", Change: Changed, Attributes: map[string]Attribute{"context": {value, value}}}},
		}
		if err := l.Add(r, false); err != nil {
			t.Fatal(err)
		}
	}
	const n = 5000
	for range n {
		add(7)
	}
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if most := int64(mostBytes + n*500); before.Size() > most {
		t.Errorf("%d bytes, want at most %d", before.Size(), most)
	}
	got := records(t, path)
	if last := got[len(got)-1]; len(got) != n || len(last.Objects) != 1 || last.Objects[0].Name != "1" || last.Objects[0].Attributes["context"].Is == nil {
		t.Errorf("%d records, the last one %+v", len(got), last)
	}
	for _, uid := range []uint32{8, 0} {
		add(uid)
	}
	at = at.Add(refusalsPeriod)
	add(7)
	for _, r := range records(t, path)[n:] {
		if len(r.Args) != 2 {
			t.Errorf("a short record: %+v", r)
		}
	}
}

// TestJournal checks that an entry has the record in fields, and a text for people.
func TestJournal(t *testing.T) {
	type sent struct {
		message string
		fields  map[string]string
	}
	entries := make(chan sent, 10)
	l := opened(t, Options{Path: filepath.Join(t.TempDir(), "audit")})
	l.journal = newJournal(func(message string, fields map[string]string) error {
		entries <- sent{message, fields}
		return nil
	})
	uid := uint32(7)
	r := &Record{Caller: Caller{UID: &uid, User: "alice\x1b"}, Command: "qdel", Outcome: Done, Objects: []Object{{Kind: "job", Name: "12", Change: Removed}}}
	if err := l.Add(r, false); err != nil {
		t.Fatal(err)
	}
	got := <-entries
	if got.message != `alice\x1b: qdel done, job 12 removed` || got.fields["EXECD_AUDIT_UID"] != "7" || got.fields["EXECD_AUDIT_COMMAND"] != "qdel" {
		t.Errorf("%+v", got)
	}
}

func TestCompare(t *testing.T) {
	was := Text([]byte("qname all.q\nslots 4\nhostlist a \\\n b\npriority=3\n"))
	is := Text([]byte("qname all.q\nslots 8\nhostlist a b\nnew x\n"))
	o, ok := Compare("queue", "all.q", was, is)
	if !ok || o.Change != Changed || len(o.Attributes) != 3 || o.Attributes["slots"] != (Attribute{"4", "8"}) ||
		o.Attributes["new"] != (Attribute{Is: "x"}) || o.Attributes["priority"] != (Attribute{Was: "3"}) {
		t.Errorf("%+v", o)
	}
	if _, ok := Compare("queue", "all.q", was, was); ok {
		t.Error("nothing has changed")
	}
	if o, ok := Compare("queue", "b.q", nil, is); !ok || o.Change != Added || len(o.Attributes) != 4 {
		t.Errorf("%+v", o)
	}
	if o, ok := Compare("queue", "b.q", is, nil); !ok || o.Change != Removed {
		t.Errorf("%+v", o)
	}
}

func TestNoLog(t *testing.T) {
	var l *Log
	l.Refuse(&Record{}, time.Now())
	if _, err := l.Write([]byte("x")); err != nil || l.Add(&Record{}, true) != nil || l.Check() != nil || l.Close() != nil || l.Reopen() != nil {
		t.Error("a log that is off complains")
	}
}

// small mounts a file system with little room at a directory, and returns what gives it more.
func small(t *testing.T, dir string) (grow func()) {
	t.Helper()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return func() {
		if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
			t.Fatal(err)
		}
	}
}

// TestSyncedIsWritten checks that the records that Synced counts are in the file, also if more records
// waited than there is room for, and that one record counts the lost ones.
func TestSyncedIsWritten(t *testing.T) {
	testenv.Require(t, testenv.Root)
	dir := t.TempDir()
	grow := small(t, dir)
	path := filepath.Join(dir, "audit")
	l := opened(t, Options{Path: path, Required: true})
	line := func(i int) []byte {
		return []byte(fmt.Sprintf(`{"command":"%d","error":"%s"}`, i, strings.Repeat("x", 16<<10)) + "\n")
	}
	taken := map[uint64]int{}
	refused := 0
	const n = 3 * mostPending / (16 << 10)
	for i := range n {
		switch number, err := l.Write(line(i)); {
		case number != 0:
			taken[number] = i
		case !errors.Is(err, ErrNoRoom):
			t.Fatalf("the lines were not taken: %v", err)
		default:
			refused++
		}
	}
	if refused == 0 || len(taken)+refused != n {
		t.Fatalf("%d were taken and %d refused", len(taken), refused)
	}
	for range 3 {
		if err := l.Add(&Record{Command: "lost", Error: strings.Repeat("x", 20<<10), Args: []string{strings.Repeat("y", 20<<10)}}, true); err == nil {
			t.Error("a record is on a disk that is full")
		}
	}
	if l.Synced() >= uint64(len(taken)) {
		t.Errorf("%d records are synced on a full disk", l.Synced())
	}
	grow()
	writable(t, l)
	if err := l.Sync(); err != nil {
		t.Fatal(err)
	}
	there := map[string]int{}
	var gaps []string
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	cut := 0
	for line := range bytes.Lines(text) {
		var r Record
		if json.Unmarshal(line, &r) != nil {
			cut++ // by the full disk: the whole line follows
			continue
		}
		if there[r.Command]++; r.Command == "gap" {
			gaps = append(gaps, r.Error)
		}
	}
	if cut > 1 {
		t.Errorf("%d lines are cut", cut)
	}
	_, lost := l.Counts()
	if added := 3 - int(lost); l.Synced() != uint64(len(taken)+added) || there["lost"] != added {
		t.Errorf("%d records are synced, want %d and %d", l.Synced(), len(taken), added)
	}
	for number, i := range taken {
		if number <= l.Synced() && there[fmt.Sprint(i)] != 1 {
			t.Errorf("record %d is synced, and is there %d times", number, there[fmt.Sprint(i)])
		}
	}
	if lost == 0 || len(gaps) != 1 || gaps[0] != fmt.Sprintf("%d records were lost while this file could not be written", lost) {
		t.Errorf("%d are lost, and the file says %q", lost, gaps)
	}
}

// TestRotatedRecordsAreKnown checks that a daemon finds the written records in a file that was
// rotated, if the previous daemon was killed before it recorded that they are written.
func TestRotatedRecordsAreKnown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path})
	lines := []byte("{\"v\":1}\n")
	if _, err := l.Write(lines); err != nil || !l.Has(lines) {
		t.Fatal(err)
	}
	if err := os.Rename(path, path+"-20261123"); err != nil {
		t.Fatal(err)
	}
	if !l.Has(lines) {
		t.Error("the lines are not found in the file that was moved away")
	}
	if l.Has([]byte("{\"v\":2}\n")) {
		t.Error("others are found")
	}
}

// TestLongRecord checks that every record can be written to the file, however long it is.
func TestLongRecord(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	l := opened(t, Options{Path: path})
	long := append(bytes.Repeat([]byte("x"), 2*mostPending), '\n')
	if number, err := l.Write(long); number != 1 || err != nil {
		t.Fatal(number, err)
	}
	if info, err := os.Stat(path); err != nil || info.Size() != int64(len(long)) {
		t.Errorf("%v, %v", info.Size(), err)
	}
}

// TestWaitingRecordsAreWritten checks that records are written without any other call when there is
// room again, also if the log has just been written and waits to be synced.
func TestWaitingRecordsAreWritten(t *testing.T) {
	testenv.Require(t, testenv.Root)
	for name, before := range map[string]string{"first record": "", "after another record": "x\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			grow := small(t, dir)
			l := opened(t, Options{Path: filepath.Join(dir, "audit")})
			if _, err := l.Write([]byte(before)); err != nil {
				t.Fatal(err)
			}
			// The sync of the first record falls into the pause after the second one's failure.
			<-time.After(again / 4)
			number, err := l.Write(append(bytes.Repeat([]byte("x"), 128<<10), '\n'))
			if number == 0 || err == nil {
				t.Fatal(number, err)
			}
			grow()
			tick := time.NewTicker(50 * time.Millisecond)
			defer tick.Stop()
			for end := time.Now().Add(time.Minute); l.Synced() != number; <-tick.C {
				if time.Now().After(end) {
					t.Fatalf("nothing is written: %v", l.Err())
				}
			}
		})
	}
}
