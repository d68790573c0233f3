package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestShareCollections(t *testing.T) {
	once := Collections{Count: 1}
	for line, want := range map[string]Collections{
		"":                        {Count: -1, Interval: 15, Mode: "w", Delimiter: "\n", Again: []string{"--"}},
		"-c 3 -i 2 -h /a":         {Count: 3, Interval: 2, Mode: "w", Delimiter: "\n", Again: []string{"-c", "3", "-i", "2", "--", "/a"}},
		"-xhc3 -o f -m a -r |":    {Count: 3, Interval: 15, File: "f", Mode: "a", Delimiter: "|", Again: []string{"-x", "-c", "3", "-o", "f", "-m", "a", "-r", "|", "--"}},
		"-i 0":                    {Count: -1, Interval: 1, Mode: "w", Delimiter: "\n", Again: []string{"-i", "0", "--"}},
		"-c x":                    once,
		"-i 99999999999999999999": once,
		"-z":                      once,
		"-help":                   once,
		"-json":                   once,
	} {
		if diff := cmp.Diff(want, ShareCollections(strings.Fields(line))); diff != "" {
			t.Errorf("%q: (-want +got)\n%s", line, diff)
		}
	}
}

func TestLetters(t *testing.T) {
	for line, want := range map[string]string{
		"-hx":      "-h -x",
		"-c1":      "-c 1",
		"-xc 1 n":  "-x -c 1 n",
		"-c":       "-c",
		"-hzx":     "-h -zx",
		"-f":       "-f",
		"-help":    "-help",
		"-json -n": "-json -n",
		"-- -hx":   "-- -hx",
		"-h - -x":  "-h - -x",
	} {
		if got := letters(shareMonitor.options, strings.Fields(line)); !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q: %q, want %q", line, got, want)
		}
	}
}

// TestTargetShares checks that users with tasks get their shares of the tree, and the shares of
// users without tasks.
func TestTargetShares(t *testing.T) {
	tree := `id=0
name=Root
type=0
shares=1
childnodes=1,2,3
id=1
name=alice
type=0
shares=30
childnodes=NONE
id=2
name=bob
type=0
shares=10
childnodes=NONE
id=3
name=carol
type=0
shares=60
childnodes=NONE
`
	w := newWorld(t, "sharetree", tree, "users/alice", "name alice\n", "users/bob", "name bob\n", "users/carol", "name carol\n", "sched_conf", "weight_tickets_share 10000\n")
	for _, l := range [][2]string{{"alice", "qsub -t 1-2 job.sh"}, {"bob", "qsub -t 1-9 job.sh"}, {"carol", "qsub -h job.sh"}} {
		if r := w.line(l[0], l[1]); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
	}
	w.schedule()
	want := "/\t11\t1.000000\t1.000000\t\n/alice\t2\t0.750000\t0.750000\t\n/bob\t9\t0.250000\t0.250000\t\n/carol\t0\t0.000000\t0.000000\t\n"
	if got := w.line("root", "sge_share_mon -f node_name,job_count,long_target_share,short_target_share").Stdout; strings.ReplaceAll(got, "\n\n", "\n") != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// TestShareMonitorOfProjects checks that the users of a project are below the default node of the
// project.
func TestShareMonitorOfProjects(t *testing.T) {
	tree := "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=p\ntype=1\nshares=1\nchildnodes=2\nid=2\nname=default\ntype=0\nshares=1\nchildnodes=NONE\n"
	for lists, want := range map[string]string{
		"acl NONE\nxacl NONE\n":   "alice bob carol",
		"acl staff\nxacl NONE\n":  "alice bob",
		"acl NONE\nxacl night\n":  "alice carol",
		"acl staff\nxacl night\n": "alice",
	} {
		w := newWorld(t, "sharetree", tree, "users/alice", "name alice\n", "users/bob", "name bob\n", "users/carol", "name carol\n",
			"projects/p", "name p\n"+lists, "usersets/staff", "name staff\ntype ACL\nentries alice,bob\n", "usersets/night", "name night\ntype ACL\nentries bob\n")
		names := strings.Fields(w.line("root", "sge_share_mon -f user_name").Stdout)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s, want %s", lists, got, want)
		}
	}
}
