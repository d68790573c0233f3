package standalone

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/execd-project/execd/agent/audit"
	"github.com/execd-project/execd/internal/testenv"
)

// audited returns the records of the audit log of a machine.
func (m *machine) audited() (list []audit.Record) {
	m.Helper()
	text, err := os.ReadFile(filepath.Join(m.dir, "spool", "audit"))
	if err != nil {
		m.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var r audit.Record
		if err := json.Unmarshal(line, &r); err != nil {
			m.Fatalf("%q: %v", line, err)
		}
		list = append(list, r)
	}
	return list
}

// count returns the number of records of a command with an outcome.
func count(list []audit.Record, command string, outcome audit.Outcome) (n int) {
	for _, r := range list {
		if r.Command == command && r.Outcome == outcome {
			n++
		}
	}
	return n
}

// TestAudit checks the log of a daemon of root as an administrator finds it: commands of users, edited
// files and orders of root. No user can read it, or write into it.
func TestAudit(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 1)
	m.args = []string{"--manager", "daemon"}
	m.start()
	users := someUsers(t, 2)
	u := users[0]
	m.as(u, "qstat") // it has begun
	path := filepath.Join(m.dir, "spool", "audit")
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v", info, err)
	}
	// What somebody types cannot look like a record, and does nothing to a terminal.
	forged := "x\n{\"v\":1,\"command\":\"forged\"}\u202e\u009b2J\x1b[2J"
	m.as(u, "qsub", "-h", "-wd", "/", "-v", "TOKEN=secret", "-b", "y", "-N", "a", "true", forged)
	m.as(u, "qdel", forged)
	m.as(users[1], "qconf", "-mattr", "queue", "slots", "7", "all.q")
	m.as(u, "qconf", "-mattr", "queue", "slots", "8", "all.q")
	list := m.audited()
	if len(list) != 4 || count(list, "forged", "") != 0 {
		t.Fatalf("%d records: %+v", len(list), list)
	}
	if r := list[0]; r.Command != "qsub" || r.Outcome != audit.Done || r.Caller.User != u.Username || fmt.Sprint(*r.Caller.UID) != u.Uid || r.Caller.PID == 0 ||
		!slices.Contains(r.Args, forged) || len(r.Objects) == 0 || r.Objects[0].Name != "1" {
		t.Errorf("%+v", r)
	}
	if r := list[2]; r.Caller.User != users[1].Username || r.Outcome != audit.Begun || r.Objects[0].Attributes["slots"] != (audit.Attribute{Was: "1", Is: "7"}) {
		t.Errorf("%+v", r)
	}
	if list[1].Outcome != audit.Refused || list[3].Outcome != audit.Refused {
		t.Errorf("%+v, %+v", list[1], list[3])
	}
	text, err := os.ReadFile(path)
	if err != nil || bytes.Contains(text, []byte("secret")) || bytes.ContainsAny(text, "\x1b\u202e\u009b") {
		t.Errorf("%q, %v", text, err)
	}
	// A file that somebody edits.
	queue := filepath.Join(m.dir, "conf", "queues", "all.q")
	now, err := os.ReadFile(queue)
	if err != nil {
		t.Fatal(err)
	}
	testenv.WriteFile(t, queue, regexp.MustCompile(`(?m)^priority .*$`).ReplaceAllString(string(now), "priority 5"))
	m.until("the file has a record", func() bool { return count(m.audited(), "reload", audit.Done) == 1 })
	list = m.audited()
	if r := list[len(list)-1]; r.Caller.Via != "file" || len(r.Objects) != 1 || r.Objects[0].Kind != "queues" || r.Objects[0].Attributes["priority"].Is != "5" {
		t.Errorf("%+v", r)
	}
	testenv.WriteFile(t, queue, "nonsense\n")
	daemon, _ := m.daemon.Process()
	if err := daemon.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	m.until("the refused file has a record", func() bool { return count(m.audited(), "reload", audit.Refused) > 0 })
	testenv.WriteFile(t, queue, string(now))
	m.until("the file as it was has a record", func() bool { return count(m.audited(), "reload", audit.Done) == 2 })
	// What root orders of the agent in it.
	for _, command := range []string{"drain", "resume"} {
		if out, err := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), command, "--socket", m.socket()).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	list = m.audited()
	if count(list, "Drain", audit.Begun) != 1 || count(list, "Resume", audit.Begun) != 1 || list[len(list)-1].Caller.User != "root" {
		t.Errorf("%+v", list[len(list)-2:])
	}
	// Somebody who moves it away gets a new one.
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	m.as(u, "qdel", "1")
	if list := m.audited(); len(list) != 1 || list[0].Command != "qdel" || list[0].Objects[0].Change != audit.Removed {
		t.Errorf("%+v", list)
	}
}

// TestAuditOfKilledDaemon checks that a daemon that is killed between the commit of a change and its
// record, or before the commit, leaves no change without a record, and none with two.
func TestAuditOfKilledDaemon(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 1)
	bin := t.TempDir()
	if err := testenv.Build(bin, "failpoint"); err != nil {
		t.Fatal(err)
	}
	testenv.LetIn(t, bin)
	usual := m.bin
	u := someUsers(t, 1)[0]
	jobs := 0
	for _, place := range []string{"standalone-commit", "standalone-committed"} {
		for n := 3; n <= 5; n++ { // the first commits are of the daemon itself
			m.bin = bin
			t.Setenv("EXECD_FAILPOINT", fmt.Sprintf("%s:%d", place, n))
			m.start()
			m.bin = usual
			t.Setenv("EXECD_FAILPOINT", "")
			answered := make(chan result, 1)
			_, gone := m.daemon.Process()
			stop := make(chan struct{})
			go func() {
				defer close(answered)
				for {
					select {
					case <-stop:
						return
					default:
					}
					answered <- m.as(u, "qsub", "-h", "-wd", "/", "-b", "y", "true")
				}
			}()
			again := gone
			for over := false; !over; {
				select {
				case <-again:
					again = nil
					close(stop)
					m.start() // clients ask it again
				case r, ok := <-answered:
					if over = !ok; ok && r.status == 0 {
						jobs++
					} else if ok {
						t.Errorf("%+v", r)
					}
				}
			}
			if r := m.root("qstat", "-u", "*"); strings.Count(r.stdout, " hqw ") != jobs {
				t.Errorf("%s:%d: %d jobs were submitted:\n%s", place, n, jobs, r.stdout)
			}
			list := m.audited()
			ids := map[string]bool{}
			for _, r := range list {
				if ids[r.ID] {
					t.Errorf("%s:%d: %s is there twice", place, n, r.ID)
				}
				ids[r.ID] = true
			}
			if got := count(list, "qsub", audit.Done); got != jobs {
				t.Errorf("%s:%d: %d records of %d jobs", place, n, got, jobs)
			}
			m.daemon.Kill()
		}
	}
	m.start()
}
