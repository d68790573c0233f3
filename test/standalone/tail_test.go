package standalone

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/terminal"
)

// watched is a command whose output is read while it runs.
type watched struct {
	*machine
	cmd    *exec.Cmd
	stderr bytes.Buffer

	mu     sync.Mutex
	stdout bytes.Buffer
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stdout.Write(p)
}

// text returns the output of the command so far.
func (w *watched) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.stdout.String()
}

func (m *machine) watch(u *user.User, words ...string) *watched {
	m.Helper()
	w := &watched{machine: m, cmd: m.command(context.Background(), u, "../execd", words...)}
	w.cmd.Stdout, w.cmd.Stderr = w, &w.stderr
	if err := w.cmd.Start(); err != nil {
		m.Fatal(err)
	}
	return w
}

// ends waits for the end of the command, and compares its status and output.
func (w *watched) ends(status int, text string) {
	w.Helper()
	var exit *exec.ExitError
	if err := w.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		w.Fatal(err)
	}
	if got := w.cmd.ProcessState.ExitCode(); got != status || w.text() != text {
		w.Errorf("%q: status %d, expected %d\n%q, expected\n%q\n%s", w.cmd.Args, got, status, w.text(), text, &w.stderr)
	}
}

// pipe creates a named pipe on which jobs wait for lines, and returns the function that writes a
// line.
func (m *machine) pipe(path string) (send func(line string)) {
	m.Helper()
	if err := errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666)); err != nil {
		m.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		m.Fatal(err)
	}
	m.Cleanup(func() { f.Close() })
	return func(line string) {
		m.Helper()
		if _, err := fmt.Fprintln(f, line); err != nil {
			m.Fatal(err)
		}
	}
}

// TestTail follows a job that is pending, is requeued, and fails, over a restart of the daemon.
func TestTail(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	dir := m.open("tmp")
	send := m.pipe(filepath.Join(dir, "gate"))
	m.write("tmp/job.sh", "#!/bin/sh\nprintf '\\033[2J \\377 begin\\n'\nwhile read word <gate; do case $word in end) exit 7;; esac; echo $word; done\n")
	if r := m.as(u, "qsub", "-h", "-r", "y", "-wd", dir, "-j", "y", dir+"/job.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	if r := m.as(u, "../execd", "tail", "1"); r.status != 1 || !strings.Contains(r.stderr, "no such file") {
		t.Errorf("the output of a pending job: %+v", r)
	}
	w := m.watch(u, "tail", "-f", "1")
	shows := func(text string) {
		t.Helper()
		m.until(fmt.Sprintf("execd tail prints %q", text), func() bool { return strings.Contains(w.text(), text) })
	}
	if r := m.as(u, "qrls", "1"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	const begin = "\\x1b[2J \\xff begin\n"
	shows(begin)
	send("one")
	shows(begin + "one\n")
	m.daemon.Kill()
	m.start()
	send("two")
	shows("one\ntwo\n")
	if r := m.as(u, "qmod", "-rj", "1"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	shows("two\n" + begin)
	if r := m.as(u, "../execd", "tail", "-n", "1", "1"); r.status != 0 || r.stdout != begin {
		t.Errorf("the last line: %+v", r)
	}
	send("three")
	shows("three\n")
	send("end")
	all := begin + "one\ntwo\n" + begin + "three\n"
	w.ends(7, all)
	if !strings.Contains(w.stderr.String(), "Job 1 exited with status 7") {
		t.Errorf("standard error: %s", &w.stderr)
	}
	m.watch(u, "tail", "--follow", "1").ends(7, all)
	m.watch(u, "tail", "--raw", "--lines=2", "1").ends(0, "\x1b[2J \xff begin\nthree\n")
	m.watch(u, "tail", "2").ends(1, "")
	m.watch(u, "tail", "1.1").ends(1, "")
	m.watch(u, "tail", "1.x").ends(2, "")
	m.watch(u, "tail", "--stderr", "1").ends(1, "")

	// A log of 100 GB: only its end is read. Nor does the command wait for a pipe.
	log := filepath.Join(dir, "job.sh.o1")
	if err := os.Truncate(log, 100<<30); err == nil {
		f, err := os.OpenFile(log, os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("\nthe end\n"); err != nil {
			t.Fatal(err)
		}
		f.Close()
		m.watch(u, "tail", "-n", "1", "1").ends(0, "the end\n")
	}
	if err := errors.Join(os.Remove(log), os.Symlink("gate", log)); err != nil {
		t.Fatal(err)
	}
	m.watch(u, "tail", "1").ends(1, "")
}

// TestTailAtAStoppedTerminal interrupts execd tail while its terminal accepts no data.
func TestTailAtAStoppedTerminal(t *testing.T) {
	m := newMachine(t, 1)
	u := someUsers(t, 1)[0]
	m.start()
	dir := m.open("tmp")
	send := m.pipe(filepath.Join(dir, "gate"))
	m.write("tmp/job.sh", "#!/bin/sh\necho begins\nread word <gate\necho continues\nread word <gate\n")
	if r := m.as(u, "qsub", "-wd", dir, "-j", "y", "-o", dir+"/out", dir+"/job.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	cmd := m.command(context.Background(), u, "../execd", "tail", "-f", "1")
	s := terminal.Start(t, cmd, 24, 80)
	s.See("begins")
	s.Stop()
	send("go on")
	// The process is in write(2) when its state says so; the kernel names the place n_tty_write or another one.
	m.until("execd tail waits for the terminal", func() bool { return writes(t, cmd.Process.Pid) })
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if status := s.Status(); status != 130 {
		t.Errorf("status %d, want 130", status)
	}
	send("end")
}

// writes reports whether a thread of a process is in write(2) (proc_pid_syscall(5)).
func writes(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/syscall", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range threads {
		text, _ := os.ReadFile(name) // the thread may have ended
		if number, _, _ := strings.Cut(string(text), " "); number == fmt.Sprint(unix.SYS_WRITE) {
			return true
		}
	}
	return false
}

// TestTailOfPipe follows an array job of which one task puts a pipe in the place of its output.
func TestTailOfPipe(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	dir := m.open("tmp")
	send := m.pipe(filepath.Join(dir, "gate"))
	m.write("tmp/job.sh", "#!/bin/sh\necho task $SGE_TASK_ID\n[ $SGE_TASK_ID = 1 ] && rm job.sh.o1.1 && mkfifo job.sh.o1.1\nread word <gate\n")
	if r := m.as(u, "qsub", "-wd", dir, "-j", "y", "-t", "1-2", dir+"/job.sh"); r.status != 0 {
		t.Fatalf("%+v", r)
	}
	m.until("there is a pipe", func() bool {
		info, err := os.Stat(dir + "/job.sh.o1.1")
		return err == nil && info.Mode()&os.ModeNamedPipe != 0
	})
	w := m.watch(u, "tail", "-f", "1")
	m.until("the output of task 2 is shown", func() bool { return strings.Contains(w.text(), "task 2\n") })
	send("go on")
	send("go on")
	w.ends(1, "==> task 2 <==\ntask 2\n")
	if text := w.stderr.String(); strings.Count(text, "the output of task 1 is not shown: ") != 1 {
		t.Errorf("standard error: %s", text)
	}
}

// TestTailOfArray follows all tasks of an array job, one task, and tasks that share a file.
func TestTailOfArray(t *testing.T) {
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.start()
	dir := m.open("tmp")
	send := m.pipe(filepath.Join(dir, "gate"))
	m.write("tmp/job.sh", "#!/bin/sh\necho task $SGE_TASK_ID\nread word <gate\nexit $SGE_TASK_ID\n")
	submit := func(words ...string) {
		t.Helper()
		if r := m.as(u, "qsub", append([]string{"-h", "-wd", dir, "-j", "y", "-t", "1-3", "-tc", "1"}, append(words, dir+"/job.sh")...)...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
	}
	submit()
	submit("-o", dir+"/shared")
	for job, want := range map[string]string{
		"1": "==> task 1 <==\ntask 1\n\n==> task 2 <==\ntask 2\n\n==> task 3 <==\ntask 3\n",
		"2": "task 1\ntask 2\ntask 3\n",
	} {
		all, one := m.watch(u, "tail", "-f", job), m.watch(u, "tail", "-f", job+".2")
		if r := m.as(u, "qrls", job); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		for _, text := range []string{"task 1\n", "task 2\n", "task 3\n"} {
			m.until("a task runs", func() bool { return strings.Contains(all.text(), text) })
			send("go on")
		}
		all.ends(1, want)
		if job == "1" {
			one.ends(2, "task 2\n")
			m.watch(u, "tail", "-f", "1.3").ends(3, "task 3\n")
		} else if err := one.cmd.Wait(); err == nil || one.cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("a task of job 2: %v", err)
		}
		m.watch(u, "tail", job).ends(0, want)
	}
}
