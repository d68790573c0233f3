package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/api"
	"github.com/execd-project/execd/internal/testenv"
)

// frontUser is the user of fronts.
const frontUser = "backup"

// newFront creates a host whose agent consists of two processes.
func newFront(t testing.TB) *node {
	t.Helper()
	testenv.Require(t, testenv.Root)
	n := newNode(t, "")
	n.args = []string{"--front-user", frontUser}
	return n
}

// front waits for a front other than the one before, and returns its process.
func (n *node) front(ctx context.Context, before int) int {
	n.Helper()
	launcher, _ := n.agent.Process()
	pid := 0
	n.until(ctx, "there is a front", func() bool {
		all, _ := filepath.Glob("/proc/[0-9]*/cmdline")
		for _, path := range all {
			is, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
			text, _ := os.ReadFile(path)
			words := strings.Split(string(text), "\x00")
			// The launcher has the words of its fronts, too, and another name.
			if is != before && is != launcher.Pid && slices.Contains(words, n.spool()) && strings.HasSuffix(words[0], "/execd") {
				pid = is
			}
		}
		return pid > 0
	})
	return pid
}

// until waits until a condition holds.
func (n *node) until(ctx context.Context, what string, is func() bool) {
	n.Helper()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for !is() {
		select {
		case <-again.C:
		case <-ctx.Done():
			n.Fatalf("not in time: %s\n%s", what, n.log())
		}
	}
}

// statusOf returns a line of the status of a process.
func statusOf(t testing.TB, pid int, name string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); key == name {
			return strings.Join(strings.Fields(value), " ")
		}
	}
	return ""
}

// TestFront checks that an agent of two processes runs a job of a master from its start to its report.
// Its front has no rights.
func TestFront(t *testing.T) {
	n := newFront(t)
	out := n.open("out") + "/said"
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s := n.job(1, "id -un\nexit 3\n")
	s.Command = []string{"-S", "/bin/sh", "-wd", "/", "-o", out, "-j", "y", "job.sh"}
	n.mustStart(ctx, s)
	if o := n.ended(ctx, 1); o.ExitStatus != 3 {
		t.Errorf("the job has ended with %+v", o)
	}
	if said := strings.Join(lines(t, out), "|"); said != n.owner.Username {
		t.Errorf("the job has said %q", said)
	}
	front := n.front(ctx, 0)
	if got := statusOf(t, front, "CapEff") + " " + statusOf(t, front, "NoNewPrivs") + " " + statusOf(t, front, "Seccomp"); got != "0000000000000000 1 2" {
		t.Errorf("the front has capabilities, NoNewPrivs and Seccomp %s", got)
	}
	if list := lines(t, filepath.Join(n.spool(), "launcher-audit")); len(list) > 0 {
		t.Errorf("the launcher has refused %q", list)
	}
}

// TestFrontOrLauncherKilled checks that whichever process of an agent is killed while a job runs, the
// job goes on, and its end is reported. It also checks that execd doctor shows both processes.
func TestFrontOrLauncherKilled(t *testing.T) {
	n := newFront(t)
	out := n.open("out")
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for number, which := range []string{"front", "launcher"} {
		number++
		gate, begun := fmt.Sprintf("%s/go%d", out, number), fmt.Sprintf("%s/begun%d", out, number)
		n.mustStart(ctx, n.job(number, fmt.Sprintf("echo >>%s\nwhile ! test -e %s; do sleep 0.1; done\nexit 4\n", begun, gate)))
		n.until(ctx, "the job has begun", func() bool { return len(lines(t, begun)) > 0 })
		front := n.front(ctx, 0)
		if which == "front" {
			if err := syscall.Kill(front, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			n.front(ctx, front)
		} else {
			n.agent.Kill()
			n.start()
		}
		testenv.WriteFile(t, gate, "")
		if o := n.ended(ctx, number); o.ExitStatus != 4 {
			t.Errorf("%s killed: the job has ended with %+v", which, o)
		}
		if times := len(lines(t, begun)); times != 1 {
			t.Errorf("%s killed: the job ran %d times", which, times)
		}
	}
	launcher, _ := n.agent.Process()
	doctor := exec.CommandContext(ctx, filepath.Join(n.bin, "execd"), "doctor")
	doctor.Env = append(os.Environ(), "EXECD_SOCKET="+n.socket)
	text, _ := doctor.CombinedOutput()
	if !strings.Contains(string(text), fmt.Sprintf("launcher: process %d runs as root", launcher.Pid)) || !strings.Contains(string(text), "runs as "+frontUser+", without capabilities") {
		t.Errorf("the doctor says\n%s", text)
	}
}

// TestFrontSession checks that a user can attach to an interactive job of an agent of two processes. The session goes on
// when the launcher is killed, and after the front was killed the client attaches again.
func TestFrontSession(t *testing.T) {
	n := newFront(t)
	n.start()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	n.shell(ctx)
	p := n.sitDown(ctx)
	p.enter("stty -echo; PS1=; WORD=kept; echo size $(stty size)\n")
	p.expect("size 30 100")
	n.agent.Kill()
	p.enter("echo without a launcher: $WORD\n")
	p.expect("without a launcher: kept")
	n.start()
	if err := syscall.Kill(n.front(ctx, 0), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	p.expect("attached again")
	p.enter("echo with another front: $WORD; exit 5\n")
	p.expect("with another front: kept")
	p.leaves(5)
	n.acknowledge(ctx)
}

// ended waits for the end of a job, and acknowledges it.
func (n *node) ended(ctx context.Context, number int) (o api.Outcome) {
	n.Helper()
	err := n.client.Reports(ctx, 0, func(r api.Report) error {
		if r.Job == nil || r.Job.Outcome == nil || r.Job.Job != number {
			return nil
		}
		o = *r.Job.Outcome
		if err := n.client.AcknowledgeJob(ctx, r.Job.ID, r.Number); err != nil {
			return err
		}
		return errEnough
	})
	if !errors.Is(err, errEnough) {
		n.Fatalf("job %d: %v\n%s", number, err, n.log())
	}
	return o
}
