package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
)

// TestTenUsers runs jobs of ten users at once. No user can change the jobs of another.
func TestTenUsers(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 4)
	out := m.open("out")
	m.write("job.sh", "#!/bin/sh\numask 077\nid -un > "+out+"/$JOB_ID\nsleep 1000\n")
	m.start()
	users := someUsers(t, 10)
	jobs := make([]string, len(users))
	var wait sync.WaitGroup
	for i, u := range users {
		wait.Go(func() {
			r := m.as(u, "qsub", "-terse", "-wd", "/", "-o", "/dev/null", "-j", "y", "job.sh")
			jobs[i] = strings.TrimSpace(r.stdout)
			if r.status != 0 || jobs[i] == "" {
				t.Errorf("qsub: %+v", r)
			}
		})
	}
	wait.Wait()
	m.until("four jobs run", func() bool { return strings.Count(m.root("qstat", "-u", "*", "-s", "r").stdout, "job.sh") == 4 })
	for i, u := range users {
		wait.Go(func() {
			other := jobs[(i+1)%len(jobs)]
			for _, line := range [][]string{
				{"qdel", other},
				{"qalter", "-p", "-5", other},
				{"qhold", other},
				{"qmod", "-sj", other},
				{"qmod", "-cj", other},
				{"qdel", "-f", other},
				{"qmod", "-d", "all.q"},
				{"qconf", "-mattr", "queue", "slots", "1", "all.q"},
				{"qdel", "-u", "*"},
			} {
				if r := m.as(u, line[0], line[1:]...); r.status == 0 && strings.Contains(r.stdout, "deleted") {
					t.Errorf("%s may %q: %+v", u.Username, line, r)
				}
			}
		})
	}
	wait.Wait()
	list := m.root("qstat", "-u", "*")
	for i, id := range jobs {
		if !hasJob(list, id) {
			t.Errorf("job %s of %s is gone:\n%s", id, users[i].Username, list.stdout)
		}
		info, err := os.Stat(filepath.Join(out, id))
		if os.IsNotExist(err) {
			continue // it waits
		}
		if err != nil || int(info.Sys().(*syscall.Stat_t).Uid) != number(t, users[i].Uid) {
			t.Errorf("what job %s writes does not belong to %s (%v)", id, users[i].Username, err)
		}
	}
	if strings.Contains(list.stdout, " s   ") || strings.Contains(list.stdout, "hqw") {
		t.Errorf("somebody's job was suspended or held:\n%s", list.stdout)
	}
	for i, u := range users {
		if r := m.as(u, "qdel", jobs[i]); r.status != 0 {
			t.Errorf("%s may not delete his own job: %+v", u.Username, r)
		}
	}
	m.until("all jobs have left", func() bool { return m.root("qstat", "-u", "*").stdout == "" })
}

// TestOrdinaryUser checks that only its user, who is its manager, can use a daemon without root.
func TestOrdinaryUser(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.own(u)
	m.start()
	if r := m.as(u, "qsub", "-sync", "y", "-b", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "false"); r.status != 1 {
		t.Errorf("%+v", r)
	}
	if r := m.as(u, "qstat"); r.status != 0 || r.stdout != "" {
		t.Errorf("%+v", r)
	}
	if r := m.as(u, "qconf", "-sm"); !strings.Contains(r.stdout, u.Username+"\n") {
		t.Errorf("%+v", r)
	}
	for _, line := range []string{"qconf -aattr queue slots 3 all.q", "qmod -d all.q", "qmod -e all.q", "qconf -am somebody"} {
		f := strings.Fields(line)
		if r := m.as(u, f[0], f[1:]...); r.status != 0 {
			t.Errorf("%s: %+v", line, r)
		}
	}
}

// TestInteractiveNeverRan checks that a user whose session never started learns the reason.
func TestInteractiveNeverRan(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	u := someUsers(t, 1)[0]
	if r := m.as(u, "qrsh", "-wd", "/nowhere", "true"); r.status != 1 || !strings.Contains(r.stderr, "cannot change into working directory /nowhere") {
		t.Errorf("%+v", r)
	}
	if r := m.root("qstat", "-u", "*"); r.stdout != "" {
		t.Errorf("it is there still: %+v", r)
	}
}

// TestInteractiveWaits checks that without a free slot qrsh is refused at once.
func TestInteractiveWaits(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	u := someUsers(t, 1)[0]
	m.as(u, "qsub", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "-shell", "n", "/bin/sleep", "1000")
	m.until("the slot is taken", func() bool { return strings.Contains(m.root("qstat", "-u", "*").stdout, " r ") })
	if r := m.as(u, "qrsh", "true"); r.status != 1 || !strings.Contains(r.stderr, "could not be scheduled") {
		t.Errorf("%+v", r)
	}
}
