package shepherd

import (
	"bufio"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/job"
)

// await polls until a condition holds for which there is no event.
func await(t *testing.T, what string, condition func() bool) {
	t.Helper()
	end := time.Now().Add(deadline)
	for pause := time.Millisecond; !condition(); pause = min(2*pause, 20*time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("waited in vain: " + what)
		}
		time.Sleep(pause) //nolint:forbidigo // between two looks; the condition and the deadline decide
	}
}

// fifo is a meeting point: the job writes lines to it, the test waits for them.
type fifo struct {
	j    *testJob
	path string
	f    *os.File
	r    *bufio.Reader
}

func (j *testJob) fifo(name string) *fifo {
	j.t.Helper()
	path := j.top + "/" + name
	j.check(errors.Join(unix.Mkfifo(path, 0o666), os.Chmod(path, 0o666)))
	// Also for writing, so that neither side waits for the other to open it, and a later writer
	// gets no error because of a missing reader.
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	j.check(err)
	j.t.Cleanup(func() { _ = f.Close() })
	j.fifos[name] = &fifo{j, path, f, bufio.NewReader(f)}
	return j.fifos[name]
}

// line waits for the next line.
func (f *fifo) line() string {
	f.j.t.Helper()
	f.j.check(f.f.SetReadDeadline(time.Now().Add(deadline)))
	s, err := f.r.ReadString('\n')
	if err != nil {
		f.j.t.Fatalf("no line in %s: %v", filepath.Base(f.path), err)
	}
	return strings.TrimSuffix(s, "\n")
}

// silent fails if there is a line.
func (f *fifo) silent() {
	f.j.t.Helper()
	f.j.check(f.f.SetReadDeadline(time.Now().Add(20 * time.Millisecond)))
	if s, err := f.r.ReadString('\n'); err == nil {
		f.j.t.Errorf("%s has %q, want nothing", filepath.Base(f.path), s)
	}
}

// expect waits for the next line and compares it.
func (f *fifo) expect(want string) {
	f.j.t.Helper()
	if got := f.line(); got != want {
		f.j.t.Fatalf("%s has %q, want %q", filepath.Base(f.path), got, want)
	}
}

// say writes a line for the job to read.
func (f *fifo) say(s string) {
	f.j.t.Helper()
	_, err := f.f.WriteString(s + "\n")
	f.j.check(err)
}

// signal sends a signal to the shepherd.
func (j *testJob) signal(sig syscall.Signal) {
	j.t.Helper()
	j.check(unix.Kill(j.cmd.Process.Pid, sig))
}

// order sends the signal that stands for the number in the file signal, as execd does, and waits
// until the shepherd has read the file, which holds only the last number.
func (j *testJob) order(sig syscall.Signal) {
	j.t.Helper()
	text := "asked to deliver signal " + job.SignalName(sig) + "\n"
	switch sig {
	case unix.SIGKILL:
		text = "asked to end the job\n"
	case unix.SIGSTOP:
		text = "asked to suspend the job\n"
	case unix.SIGCONT:
		text = "asked to resume the job\n"
	}
	before := strings.Count(j.file("trace"), text)
	defer await(j.t, text, func() bool { return strings.Count(j.file("trace"), text) > before })
	temp := j.active + "/.signal"
	j.check(os.WriteFile(temp, []byte(strconv.Itoa(int(sig))+"\n"), 0o644))
	j.check(os.Rename(temp, j.active+"/signal"))
	j.signal(unix.SIGTTIN)
}

// traced waits for a line of the trace file.
func (j *testJob) traced(text string) {
	j.t.Helper()
	await(j.t, "the trace to say "+strconv.Quote(text), func() bool { return strings.Contains(j.file("trace"), text) })
}

// processes returns all running processes with the job's number in their environment.
func (j *testJob) processes() []int {
	want := []byte("\x00JOB_ID=" + strconv.Itoa(j.d.ID.Job) + "\x00")
	var list []int
	for _, pid := range allProcesses() {
		b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err == nil && bytes.Contains(append([]byte{0}, b...), want) && alive(pid) {
			list = append(list, pid)
		}
	}
	return list
}

func allProcesses() []int {
	entries, _ := os.ReadDir("/proc")
	var list []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			list = append(list, pid)
		}
	}
	return list
}

// status returns a field of /proc/PID/status; empty if there is no such process.
func status(pid int, field string) string {
	b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	for line := range strings.Lines(string(b)) {
		if key, value, _ := strings.Cut(line, ":"); key == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// alive reports whether a process exists and is not a zombie.
func alive(pid int) bool {
	s := status(pid, "State")
	return s != "" && s[0] != 'Z' && s[0] != 'X'
}

func stopped(pid int) bool { return strings.HasPrefix(status(pid, "State"), "T") }

// nothingLeft fails if a process of the job is left.
func (j *testJob) nothingLeft() {
	j.t.Helper()
	for _, pid := range j.processes() {
		b, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		j.t.Errorf("process %d of the job is left: %q", pid, b)
	}
}
