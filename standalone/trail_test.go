package standalone

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/command"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/standalone/api"
)

// TestAuditOnAFullFileSystem checks that each commit has its record when there is room again, however
// many records had to wait, in the order of the commands.
func TestAuditOnAFullFileSystem(t *testing.T) {
	testenv.Require(t, testenv.Root)
	a := newAuditedMaster(t)
	if err := a.host.Audit.Close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=64k,mode=755"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	path := filepath.Join(dir, "audit")
	var err error
	if a.host.Audit, err = audit.Open(audit.Options{Path: path}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.host.Audit.Close() })
	root := uint32(0)
	n := 0
	submit := func(times int) {
		for range times {
			n++
			args := []string{"-h", "-b", "y", "-N", fmt.Sprintf("job%d", n), "true", strings.Repeat("x", 4000), strings.Repeat("y", 4000), strings.Repeat("z", 4000)}
			x, _ := a.seen.enter(newAnswer(fmt.Sprint(n), time.Now()))
			in := &command.Input{Name: "qsub", Args: args, By: cell.Caller{User: "alice", Host: "node1"}, Dir: "/"}
			a.command(&api.CommandRequest{Name: "qsub", Args: api.Texts(args)}, in, x, audit.Caller{Via: "socket", UID: &root})
			if n%20 != 0 {
				continue
			}
			if err := a.commit(); err != nil {
				t.Fatal(err)
			}
		}
	}
	submit(400) // of about 30 KB each, 12 MB in all
	if a.trail.unwritten == 0 {
		t.Fatal("the log has taken it all")
	}
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(10 * time.Minute); a.trail.unwritten > 0; <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("%d bytes still wait: %v", a.trail.unwritten, a.host.Audit.Err())
		}
		if err := a.commit(); err != nil {
			t.Fatal(err)
		}
	}
	submit(20)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	next, cut := 1, 0
	for line := range bytes.Lines(text) {
		var r audit.Record
		if json.Unmarshal(line, &r) != nil {
			cut++ // by the full file system: the whole line follows
			continue
		}
		if want := fmt.Sprintf("job%d", next); len(r.Args) < 5 || r.Args[4] != want {
			t.Fatalf("record %d is of %q, want %s", next, r.Args, want)
		}
		next++
	}
	if next != n+1 || cut > 1 {
		t.Errorf("%d records, %d lines were cut, want %d", next-1, cut, n)
	}
	a.endTrail()
	for key := range a.store.All(auditPrefix) {
		t.Errorf("%s is kept after the end", key)
	}
}

// TestAuditTrailIsBounded checks that the store keeps a limited number of records while the file
// cannot be written, remembers over a restart how many are missing, and reports it once.
func TestAuditTrailIsBounded(t *testing.T) {
	a := newAuditedMaster(t)
	// Something else in its place.
	if err := errors.Join(os.Remove(a.path), os.Mkdir(a.path, 0o700)); err != nil {
		t.Fatal(err)
	}
	_ = a.host.Audit.Add(&audit.Record{Command: "x"}, false)
	a.trail.unwritten = mostUnwritten // as if there were that much
	for range 3 {
		a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true")
	}
	if value, err := a.read(keyLost); err != nil || string(value) != "3" || a.trail.lost != 3 {
		t.Fatalf("%q are lost, %d, %v", value, a.trail.lost, err)
	}
	for key := range a.store.All(auditPrefix) {
		t.Errorf("%s is kept", key)
	}
	a.trail = trail{}
	if err := a.restoreTrail(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(a.path); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); a.host.Audit.Err() != nil; <-tick.C {
		if time.Now().After(end) {
			t.Fatal(a.host.Audit.Err())
		}
		_ = a.host.Audit.Sync()
	}
	a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true")
	list := recordsOf(t, a.path)
	if len(list) != 3 || list[1].Command != "gap" || list[1].Error != "3 records were lost while this file could not be written" {
		t.Errorf("%+v", list)
	}
	if value, err := a.read(keyLost); err != nil || value != nil || a.trail.lost != 0 {
		t.Errorf("%q are still lost, %d, %v", value, a.trail.lost, err)
	}
	_ = a.host.Audit.Sync()
	a.types("alice", "", nil, "qsub", "-h", "-b", "y", "true")
	if list := recordsOf(t, a.path); len(list) != 4 {
		t.Errorf("%+v", list)
	}
}
