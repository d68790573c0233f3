package main_test

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
)

// patience is the longest time that a test waits for an event.
const patience = 3 * time.Minute

// live is a running command, whose output is read line by line.
type live struct {
	t     *testing.T
	cmd   *exec.Cmd
	lines chan string
	seen  strings.Builder
}

// start starts execd run.
func (w *world) start(t *testing.T, args ...string) *live {
	t.Helper()
	return follow(t, w.command(append([]string{"run"}, args...)...))
}

func follow(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	r, out, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out.Close()
	return newLive(t, cmd, r)
}

func newLive(t *testing.T, cmd *exec.Cmd, r io.ReadCloser) *live {
	l := &live{t: t, cmd: cmd, lines: make(chan string, 1000)}
	go func() {
		defer close(l.lines)
		for s := bufio.NewScanner(r); s.Scan(); {
			l.lines <- strings.TrimRight(s.Text(), "\r")
		}
	}()
	t.Cleanup(func() {
		l.abandon()
		r.Close()
	})
	return l
}

// abandon ends the command of a failed test, and its job.
func (l *live) abandon() {
	if l.cmd.ProcessState != nil {
		return
	}
	timer := time.AfterFunc(patience, func() { _ = l.cmd.Process.Kill() })
	defer timer.Stop()
	for range 3 { // end the job, kill it, skip its procedures
		_ = l.cmd.Process.Signal(unix.SIGTERM)
	}
	_ = l.cmd.Wait()
}

// expect waits for a line that matches and returns it.
func (l *live) expect(pattern string) string {
	l.t.Helper()
	re := regexp.MustCompile(pattern)
	deadline := time.After(patience)
	for {
		select {
		case line, ok := <-l.lines:
			if !ok {
				l.t.Fatalf("the output ended without %q; it was:\n%s", pattern, &l.seen)
			}
			l.seen.WriteString(line + "\n")
			if re.MatchString(line) {
				return line
			}
		case <-deadline:
			l.t.Fatalf("%q has not come within %s; the output was:\n%s", pattern, patience, &l.seen)
		}
	}
}

func (l *live) signal(sig os.Signal) {
	l.t.Helper()
	if err := l.cmd.Process.Signal(sig); err != nil {
		l.t.Fatalf("%v; the output was:\n%s", err, &l.seen)
	}
}

// end waits for the end of the command and checks its exit status.
func (l *live) end(status int) {
	l.t.Helper()
	timer := time.AfterFunc(patience, func() { _ = l.cmd.Process.Kill() })
	defer timer.Stop()
	_ = l.cmd.Wait()
	for line := range l.lines {
		l.seen.WriteString(line + "\n")
	}
	if got := l.cmd.ProcessState.ExitCode(); got != status {
		l.t.Errorf("exit status %d (%s), expected %d; the output was:\n%s", got, l.cmd.ProcessState, status, &l.seen)
	}
}

// gone checks that the job has left no files.
func (w *world) gone(t *testing.T) {
	t.Helper()
	if left := w.left(t); len(left) > 0 {
		t.Errorf("left in the spool: %v", left)
	}
}

// outcome reads the file that --json has written.
func (w *world) outcome(t *testing.T, name string, v any) {
	t.Helper()
	b, err := os.ReadFile(w.dir + "/" + name)
	if err == nil {
		err = json.Unmarshal(b, v)
	}
	if err != nil {
		t.Error(err)
	}
}

// outcomeJSON holds the fields of an outcome that tests check.
type outcomeJSON struct {
	JobID      int     `json:"job_id"`
	TaskID     int     `json:"task_id"`
	Failed     int     `json:"failed"`
	ExitStatus int     `json:"exit_status"`
	Signal     int     `json:"signal"`
	Reason     string  `json:"reason"`
	JobDir     string  `json:"job_dir"`
	Wallclock  float64 `json:"wallclock"`
	Usage      struct {
		CPU float64 `json:"cpu"`
	} `json:"usage"`
}

const plainQueue = "qname q\nshell /bin/sh\nshell_start_mode unix_behavior\n"

// obstinate is a job that ignores all signals that can be ignored, and prints a line for SIGUSR2.
const obstinate = `#!/bin/sh
trap 'echo notified' USR2
trap '' TERM INT HUP
echo started
while :; do sleep 0.01; done
`

func TestRequestToEnd(t *testing.T) {
	t.Run("Ctrl-C ends a job as qdel does", func(t *testing.T) {
		for name, sig := range map[string]os.Signal{"INT": unix.SIGINT, "TERM": unix.SIGTERM, "HUP": unix.SIGHUP, "QUIT": unix.SIGQUIT} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := inWorld(t, asUser)
				l := w.start(t, "-cwd", "--json", "out", w.write(t, "job", obstinate))
				l.expect("^started$")
				l.signal(sig)
				l.expect(`^execd: job 1 \(job\) was ended on request, by signal KILL, after `)
				l.end(137)
				w.gone(t)
				var o outcomeJSON
				if w.outcome(t, "out", &o); o.Signal != 9 || o.ExitStatus != 137 || o.Failed != 100 || o.Reason != "was ended on request, by signal KILL" {
					t.Errorf("outcome %+v", o)
				}
			})
		}
	})
	t.Run("a job with -notify hears of it before", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		l := w.start(t, "-cwd", "-notify", "--json", "out", w.write(t, "job", "#!/bin/sh\ntrap 'exit 5' USR2\necho started\nwhile :; do sleep 0.01; done\n"))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		l.expect("^execd: the job is notified and has 1m0s to end; another Ctrl-C ends it at once$")
		l.expect(`^execd: job 1 \(job\) ended with exit status 5, after .*; ended after a request to end$`)
		l.end(5)
		var o outcomeJSON
		if w.outcome(t, "out", &o); o.ExitStatus != 5 || o.Failed != 0 || o.Signal != 0 {
			t.Errorf("outcome %+v", o)
		}
	})
	t.Run("the second Ctrl-C ends it at once, and the epilog still runs", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		epilog := w.write(t, "epilog", "#!/bin/sh\necho epilog $SGE_JOBEXIT_STAT\n")
		w.write(t, "conf/queues/q", plainQueue+"epilog "+epilog+"\n")
		l := w.start(t, "-cwd", "-notify", "--conf", "conf", "--json", "out", w.write(t, "job", obstinate))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		l.expect("^notified$")
		l.signal(unix.SIGINT)
		l.expect("^epilog 137$")
		l.expect(`^execd: job 1 \(job\) was ended on request, by signal KILL, after `)
		l.end(137)
		w.gone(t)
	})
	t.Run("a terminate_method that does not end the job does not hold the second one up", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.write(t, "conf/queues/q", plainQueue+"terminate_method SIGUSR2\n")
		l := w.start(t, "-cwd", "--conf", "conf", w.write(t, "job", obstinate))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		l.expect("^execd: the job is ended by its terminate_method, SIGUSR2; another Ctrl-C ends it at once$")
		l.expect("^notified$")
		l.signal(unix.SIGINT)
		l.end(137)
		w.gone(t)
	})
	t.Run("during the prolog the job is not started", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.hangingProlog(t)
		l := w.start(t, "-cwd", "--conf", "conf", "--json", "out", w.write(t, "job", obstinate))
		l.expect("^prolog$")
		l.signal(unix.SIGINT)
		l.expect("^execd: waiting for the procedures of the site; another Ctrl-C ends them$")
		w.traced(t, 1, "asked to end the job") // the trace has the line before the job ends
		w.feed(t, "go")
		l.expect(`^execd: job 1 \(job\) was ended on request before it began`)
		l.end(125)
		w.gone(t)
		if strings.Contains(l.seen.String(), "started\n") {
			t.Errorf("the job ran:\n%s", &l.seen)
		}
	})
	t.Run("a prolog that hangs is ended by the second one", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.hangingProlog(t)
		l := w.start(t, "-cwd", "--conf", "conf", w.write(t, "job", obstinate))
		l.expect("^prolog$")
		l.signal(unix.SIGINT)
		l.expect("^execd: waiting for the procedures")
		l.signal(unix.SIGINT)
		l.expect("^execd: ending the procedures of the site, too$")
		l.expect(`^execd: job 1 \(job\) was ended on request before it began`)
		l.end(125)
		w.gone(t)
	})
	t.Run("an epilog that hangs is ended by the third one, with all it has started", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		epilog := w.write(t, "epilog", "#!/bin/sh\nsetsid sleep 1000 &\necho epilog $!\nwait\n")
		w.write(t, "conf/queues/q", plainQueue+"epilog "+epilog+"\n")
		l := w.start(t, "-cwd", "--conf", "conf", "--json", "out", w.write(t, "job", obstinate))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		pid := strings.TrimPrefix(l.expect("^epilog [0-9]+$"), "epilog ")
		l.signal(unix.SIGINT)
		l.end(137)
		w.gone(t)
		if _, err := os.Stat("/proc/" + pid); err == nil {
			t.Errorf("process %s of the epilog is still there", pid)
		}
		var o outcomeJSON
		if w.outcome(t, "out", &o); o.Signal != 9 || o.ExitStatus != 137 {
			t.Errorf("outcome %+v", o)
		}
	})
	t.Run("of an array job the rest is not started", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		l := w.start(t, "-cwd", "-t", "1-3", "--json", "out", w.write(t, "job", obstinate))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		l.expect(`^execd: job 1.1 \(job\) was ended on request, by signal KILL, after `)
		l.expect(`^execd: job 1 \(job\): 0 of 3 tasks ended with exit status 0; others: 1; 2 were not started$`)
		l.end(137)
		w.gone(t)
		var o []outcomeJSON
		if w.outcome(t, "out", &o); len(o) != 1 || o[0].TaskID != 1 || o[0].Signal != 9 {
			t.Errorf("outcome %+v", o)
		}
	})
	t.Run("nohup keeps a hangup away from the job", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		job := w.write(t, "job", "#!/bin/sh\necho started\nread x < fifo\nexit 4\n")
		fifo(t, w, "fifo")
		cmd := exec.Command("sh", "-c", `trap '' HUP; exec "$0" run -cwd "$1"`, w.exe, job)
		cmd.Dir, cmd.Env = w.dir, w.env
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		l := follow(t, cmd)
		l.expect("^started$")
		l.signal(unix.SIGHUP)
		l.signal(unix.SIGTSTP) // taken after it
		l.expect("^execd: not suspended")
		w.feed(t, "fifo")
		l.end(4)
	})
	t.Run("as root", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asRoot)
		l := w.start(t, "--as", "alice", "-cwd", w.write(t, "job", obstinate))
		l.expect("^started$")
		l.signal(unix.SIGINT)
		l.expect(`was ended on request, by signal KILL`)
		l.end(137)
		w.gone(t)
	})
}

// hangingProlog configures a prolog that waits until a process writes to a pipe.
func (w *world) hangingProlog(t *testing.T) {
	t.Helper()
	prolog := w.write(t, "prolog", "#!/bin/sh\necho prolog\nread x < "+w.dir+"/go\n")
	w.write(t, "conf/queues/q", plainQueue+"prolog "+prolog+"\n")
	fifo(t, w, "go")
}

func fifo(t *testing.T, w *world, name string) {
	t.Helper()
	if err := unix.Mkfifo(w.dir+"/"+name, 0o666); err != nil {
		t.Fatal(err)
	}
	w.own(t, w.dir+"/"+name)
}

// feed writes a line into a pipe for its current or next reader.
func (w *world) feed(t *testing.T, name string) {
	t.Helper()
	// Opening the pipe for writing alone would wait for a reader.
	f, err := os.OpenFile(w.dir+"/"+name, os.O_RDWR, 0)
	if err == nil {
		t.Cleanup(func() { _ = f.Close() }) // the kernel discards the content when the last process closes the pipe
		_, err = f.WriteString("\n")
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKilledRunLeavesJobToSupervisor kills execd run while its job runs. The supervisor follows the
// job to its end, and the next execd run reports it and cleans up.
func TestKilledRunLeavesJobToSupervisor(t *testing.T) {
	for name, m := range map[string]mode{"user": asUser, "root": asRoot} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := inWorld(t, m)
			fifo(t, w, "go")
			fifo(t, w, "end")
			epilog := w.write(t, "epilog", "#!/bin/sh\n[ $JOB_ID != 1 ] || echo $SGE_JOBEXIT_STAT $TMPDIR > "+w.dir+"/end\n")
			w.write(t, "conf/queues/q", plainQueue+"epilog "+epilog+"\n")
			job := w.write(t, "job", "#!/bin/sh\n#$ -N alone\necho started > end\nread x < go\nexit 4\n")
			args := []string{"-cwd", "--conf", "conf", "-o", "out", "-e", "out", job}
			if m == asRoot {
				args = append([]string{"--as", "alice"}, args...)
			}
			l := w.start(t, args...)
			end := func() string {
				b, err := os.ReadFile(w.dir + "/end")
				if err != nil {
					t.Fatal(err)
				}
				return string(b)
			}
			if got := end(); got != "started\n" {
				t.Fatalf("job says %q", got)
			}
			l.signal(unix.SIGKILL)
			_ = l.cmd.Wait()
			if r := w.run(t, append(args[:len(args)-1:len(args)-1], "-b", "y", "true")...); r.status != 0 || strings.Contains(r.stderr, "cleaned up") {
				t.Errorf("while the job runs: exit status %d, %s", r.status, r.stderr)
			}
			w.feed(t, "go")
			status, tmpdir, _ := strings.Cut(strings.TrimSpace(end()), " ")
			if status != "4" {
				t.Errorf("the epilog has seen exit status %s", status)
			}
			w.shepherdGone(t, 1)
			if _, err := os.Stat(tmpdir); err != nil {
				t.Errorf("who removed the TMPDIR? %v", err)
			}
			r := w.run(t, append(args[:len(args)-1:len(args)-1], "-b", "y", "true")...)
			if !strings.Contains(r.stderr, "execd: cleaned up behind an execd run that was killed: job 1 (alone) ended with exit status 4, after ") {
				t.Errorf("exit status %d, %s", r.status, r.stderr)
			}
			w.gone(t)
			if _, err := os.Stat(tmpdir); err == nil {
				t.Errorf("%s is still there", tmpdir)
			}
			if r := w.run(t, append(args[:len(args)-1:len(args)-1], "-b", "y", "true")...); strings.Contains(r.stderr, "cleaned up") {
				t.Errorf("once more: %s", r.stderr)
			}
		})
	}
}

// traced waits until the trace of a job has a text.
func (w *world) traced(t *testing.T, id int, text string) {
	t.Helper()
	path := w.spool + "/active_jobs/" + strconv.Itoa(id) + ".1/trace"
	for end := time.Now().Add(time.Minute); ; {
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), text) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s does not say %q", path, text)
		}
		time.Sleep(time.Millisecond) //nolint:forbidigo // between two looks; the text and the deadline decide
	}
}

// shepherdGone waits for the end of the shepherd of a job.
func (w *world) shepherdGone(t *testing.T, id int) {
	t.Helper()
	b, err := os.ReadFile(w.spool + "/active_jobs/" + strconv.Itoa(id) + ".1/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	if !testenv.Ended(fd, patience) {
		t.Fatal("the shepherd is still there")
	}
}
