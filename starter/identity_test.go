package starter

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// shepherdOf returns a shepherd for jobs of alice, who is in several groups.
func shepherdOf(t *testing.T, d job.Description) *Shepherd {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	db := userdb.Database{
		Passwd: write("passwd", "alice:x:2001:2001::/home/alice:/bin/sh\n"),
		Group:  write("group", "alice:x:2001:\nstaff:x:3000:alice\nold:x:90:alice\nothers:x:3001:bob\n"),
		Switch: write("nsswitch.conf", "passwd: files\ngroup: files\n"),
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	jd, err := jobdir.OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = jd.Close() })
	d.Owner, d.MinGID = "alice", 1000
	return &Shepherd{dir: jd, d: &d, db: db}
}

func TestGroupOfTheSubmission(t *testing.T) {
	for name, c := range map[string]struct {
		gid    int
		want   uint32
		groups []uint32
		traced bool
	}{
		"none":                        {0, 2001, []uint32{2001, 3000, 90}, false},
		"the primary group":           {2001, 2001, []uint32{2001, 3000, 90}, false},
		"another of the user's":       {3000, 3000, []uint32{3000, 90}, false},
		"one that is below min_gid":   {90, 2001, []uint32{2001, 3000, 90}, true},
		"one that the user is not in": {3001, 2001, []uint32{2001, 3000, 90}, true},
		"one that nobody knows":       {4711, 2001, []uint32{2001, 3000, 90}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := shepherdOf(t, job.Description{QsubGID: c.gid})
			a, err := s.lookupOwner()
			if err != nil || a.GID != c.want || !slices.Equal(a.groups, c.groups) || a.UID != 2001 || a.Name != "alice" {
				t.Errorf("%+v in %v, %v; want group %d in %v", a.User, a.groups, err, c.want, c.groups)
			}
			b, err := s.dir.ReadFile(jobdir.FileTrace)
			if traced := err == nil && strings.Contains(string(b), "is not used"); traced != c.traced {
				t.Errorf("the trace says %q", b)
			}
		})
	}
	s := shepherdOf(t, job.Description{QsubGID: 3000})
	s.d.Owner = "nobody knows"
	if _, err := s.lookupOwner(); !errors.Is(err, userdb.ErrUnknown) {
		t.Errorf("an unknown owner gives %v", err)
	}
}

func TestAdditionalGroup(t *testing.T) {
	for name, c := range map[string]struct {
		groups int
		skip   bool
		want   int
	}{
		"room for it":                     {3, false, 40000},
		"room for it, and it may be left": {3, true, 40000},
		"the last place":                  {65535, true, 40000},
		"no room":                         {65536, true, 0},
		"no room, and it is demanded":     {65536, false, 40000}, // the kernel then refuses
	} {
		s := &Shepherd{d: &job.Description{AddGroupID: 40000, SkipGroupLimit: c.skip}, owner: account{groups: make([]uint32, c.groups)}}
		if got := s.additionalGroup(); got != c.want {
			t.Errorf("%s: group %d, want %d", name, got, c.want)
		}
	}
}
