package launcher

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/jobdir"
)

// namesOf lists the names in the directory of submissions.
func namesOf(t *testing.T, spool *jobdir.Spool) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(spool.Path(), dirSubmissions))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// TestBoundSubmissions checks that a submission belongs to one job only, in both forms and after a restart, and that all
// its names are removed.
func TestBoundSubmissions(t *testing.T) {
	testenv.Require(t, testenv.Root)
	spool, err := jobdir.OpenSpool(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer spool.Close()
	s, err := OpenSubmissions(spool)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { s.Close() }()
	digest := (&submission.Submission{}).Digest("a")
	for _, key := range []string{"old", "new", "other"} {
		if err := s.Add(1000, key, digest); err != nil {
			t.Fatal(err)
		}
	}
	// As an earlier version binds entries.
	if err := unix.Symlinkat("7", s.fd(), "1000.old"+suffixBound); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Bind(1000, "new", 7), s.Bind(1000, "new", 7), s.Bind(1000, "old", 7)); err != nil {
		t.Error(err)
	}
	if got, want := namesOf(t, spool), "1000.new 1000.new.7 1000.old 1000.old.job 1000.other"; got != want {
		t.Errorf("the names are %s, expected %s", got, want)
	}
	s.Close()
	if s, err = OpenSubmissions(spool); err != nil {
		t.Fatal(err)
	}
	if s.all != 3 {
		t.Errorf("there are %d submissions, expected 3", s.all)
	}
	for _, key := range []string{"old", "new"} {
		if err := s.Bind(1000, key, 8); !errors.Is(err, errBound) {
			t.Errorf("a second job of %s: %v", key, err)
		}
		if got, err := s.Find(1000, key); err != nil || got != digest || !s.isBound("1000."+key) {
			t.Errorf("submission %s: %q, %v", key, got, err)
		}
	}
	if s.isBound("1000.other") {
		t.Error("a submission without a job is bound")
	}
	var group sync.WaitGroup
	bound := make([]error, 16)
	for i := range bound {
		group.Go(func() { bound[i] = s.Bind(1000, "other", i+1) })
	}
	group.Wait()
	if n := len(slices.DeleteFunc(bound, func(err error) bool { return err != nil })); n != 1 {
		t.Errorf("%d jobs have the same submission", n)
	}
	if err := s.Keep([]string{"new"}, time.Now().Add(2*forgettable)); err != nil {
		t.Error(err)
	}
	if got, want := namesOf(t, spool), "1000.new 1000.new.7"; got != want {
		t.Errorf("the names are %s, expected %s", got, want)
	}
	// An entry was removed just before the launcher ended, and the user claims the key again.
	if err := errors.Join(unix.Unlinkat(s.fd(), "1000.new", 0), s.Add(1000, "new", digest), s.Bind(1000, "new", 7)); err != nil {
		t.Error(err)
	}
	if err := s.Bind(1000, "new", 8); !errors.Is(err, errBound) {
		t.Errorf("a second job of a submission that was claimed again: %v", err)
	}
	if err := s.Keep(nil, time.Now().Add(2*forgettable)); err != nil {
		t.Error(err)
	}
	if err := s.Keep(nil, time.Now()); err != nil {
		t.Error(err)
	}
	if got := namesOf(t, spool); got != "" {
		t.Errorf("the names %s are left", got)
	}
}
