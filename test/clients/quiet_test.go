package clients

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// TestNothingOnStandardError runs the commands that clients call. AiiDA and others treat any text
// on standard error as a failure.
func TestNothingOnStandardError(t *testing.T) {
	s := newSite(t, 4)
	quiet := func(line string) string {
		t.Helper()
		words := strings.Fields(line)
		r := s.run(words[0], words[1:]...)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("%s: status %d, standard error %q", line, r.status, r.stderr)
		}
		return r.stdout
	}
	job := func(options string) string {
		t.Helper()
		id, _, _ := strings.Cut(strings.TrimSpace(quiet("qsub -terse -cwd -o /dev/null -j y -b y "+options)), ".")
		return id
	}
	ended := job("-sync y true")
	failed := s.run("qsub", "-terse", "-sync", "y", "-cwd", "-o", "/dev/null", "-j", "y", "-b", "y", "false")
	failedID := strings.TrimSpace(failed.stdout)
	runs := job("sleep 1000")
	waits := job("-h -t 1-3 -l slots=2 -N waits sleep 1000")
	s.until("the job runs", func() bool { return strings.Contains(quiet("qstat -s r"), " r ") })
	for line := range strings.Lines(`qstat
qstat -f
qstat -f -u *
qstat -xml
qstat -ext -urg -xml -u *
qstat -u nosuch
qstat -u nosuch -xml
qstat -g d -xml
qstat -g c
qstat -g t
qstat -r
qstat -F
qstat -F slots -xml
qstat -s p
qstat -s rs
qstat -s z
qstat -q all.q
qstat -pri
qstat -t
qstat -json
qstat -j RUNS
qstat -j RUNS -xml
qstat -j WAITS
qstat -j WAITS -json
qstat -j
qstat -s z -j ENDED
qstat -explain E
qhost
qhost -q
qhost -j
qhost -F
qhost -xml -q -j
qselect
qselect -q all.q
qquota
qacct
qacct -j ENDED
qacct -j FAILED
qacct -o -d 1
qconf -sconf
qconf -sconf global
qconf -ssconf
qconf -sql
qconf -sq all.q
qconf -spl
qconf -sp smp
qconf -sel
qconf -se global
qconf -sc
qconf -shgrpl
qconf -shgrp @allhosts
qconf -ss
qconf -sm
qconf -sul
qalter -p -1 WAITS
qalter -N other WAITS
qalter -l slots=1 WAITS
qhold WAITS
qrls WAITS
qmod -sj RUNS
qmod -usj RUNS
qrls -h u WAITS
qdel RUNS
qdel WAITS
`) {
		line = strings.NewReplacer("RUNS", runs, "WAITS", waits, "ENDED", ended, "FAILED", failedID).Replace(strings.TrimSpace(line))
		quiet(line)
	}
}

// TestQstatWaitsForTheDaemon runs qstat while no daemon can answer: qstat waits, and lists the jobs
// once a daemon answers. Empty output would mean that all jobs have finished.
func TestQstatWaitsForTheDaemon(t *testing.T) {
	s := newSite(t, 1)
	id := strings.TrimSpace(s.must(s.run("qsub", "-terse", "-b", "y", "-cwd", "-o", "/dev/null", "-j", "y", "sleep", "1000")))
	asked := func() <-chan result {
		answer := make(chan result, 1)
		go func() { answer <- s.run("qstat") }()
		return answer
	}
	answered := func(how string, answer <-chan result) {
		t.Helper()
		if r := <-answer; r.status != 0 || r.stderr != "" || !strings.Contains(r.stdout, " "+id+" ") {
			t.Errorf("%s: %+v", how, r)
		}
	}
	unanswered := func(how string, answer <-chan result) {
		t.Helper()
		select {
		case r := <-answer:
			t.Fatalf("%s: %+v", how, r)
		case <-time.After(time.Second): // the longer the test waits, the more it can detect
		}
	}
	if err := unix.Kill(s.daemon.Pid(), unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	answer := asked()
	unanswered("the daemon is stopped", answer)
	if err := unix.Kill(s.daemon.Pid(), unix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	answered("the daemon goes on", answer)

	s.daemon.Kill()
	answer = asked()
	unanswered("the daemon is killed", answer)
	s.start()
	answered("the daemon is started again", answer)
}

// TestSoakQstatFailsWithoutADaemon runs qstat while no daemon can start, since another process
// holds its store: qstat fails after some time.
func TestSoakQstatFailsWithoutADaemon(t *testing.T) {
	testenv.Soak(t)
	s := newSite(t, 1)
	s.must(s.run("qsub", "-h", "-b", "y", "-cwd", "true"))
	s.daemon.Kill()
	store, err := os.OpenFile(filepath.Join(s.dir, "spool", "cell.db"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(store.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, "execd"), "standalone", "--one-process", "--host", "node1", "--spool", filepath.Join(s.dir, "spool"), "--socket", s.socket())
	said := make(chan []byte, 1)
	go func() {
		out, _ := cmd.CombinedOutput()
		said <- out
	}()
	for _, name := range []string{"qstat", "qsub"} {
		if r := s.input("true\n", name); r.status == 0 || r.stdout != "" || r.stderr == "" {
			t.Errorf("%s: %+v", name, r)
		}
	}
	if out := <-said; !strings.Contains(string(out), "has it open") {
		t.Errorf("the daemon: %s", out)
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
}
