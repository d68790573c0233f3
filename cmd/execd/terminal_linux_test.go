package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// typist is an interactive shell at a terminal of its own, in which a test
// types.
type typist struct {
	*live
	keys *os.File
}

func (w *world) shell(t *testing.T) *typist {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	master := os.NewFile(uintptr(fd), "/dev/ptmx") // pollable, so that Close is at once
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer slave.Close()
	// No echo: what the test has typed must not look like what it waits for.
	termios, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	termios.Lflag &^= unix.ECHO | unix.ECHOCTL
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, termios); err != nil {
		t.Fatal(err)
	}
	if w.mode == asUser {
		w.own(t, slave.Name()) // a terminal is of who has logged in on it
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "--noediting", "-i")
	cmd.Dir, cmd.Env = w.dir, setenv(w.env, "PS1=", "PS2=", "HISTFILE=", "EXE="+w.exe)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	y := &typist{newLive(t, cmd, master), master}
	// The end of the terminal ends what runs there.
	t.Cleanup(func() {
		master.Close()
		_ = cmd.Process.Kill()
	})
	return y
}

func (y *typist) typeText(text string) {
	y.t.Helper()
	if _, err := y.keys.WriteString(text); err != nil {
		y.t.Fatal(err)
	}
}

const (
	ctrlC = "\x03"
	ctrlZ = "\x1a"
)

// state returns the state of a process in /proc/PID/stat: T is stopped.
func state(t *testing.T, pid string) byte {
	t.Helper()
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	return b[bytes.LastIndexByte(b, ')')+2]
}

func TestTerminal(t *testing.T) {
	t.Run("Ctrl-C", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.write(t, "job", obstinate)
		y := w.shell(t)
		y.typeText("$EXE run -cwd job; echo status $?\n")
		y.expect("^started$")
		y.typeText(ctrlC)
		y.expect(`^execd: job 1 \(job\) was ended on request, by signal KILL, after `)
		y.expect("^status 137$")
		w.gone(t)
	})
	t.Run("Ctrl-Z suspends the job, fg resumes it", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		fifo(t, w, "told")
		fifo(t, w, "go")
		told := func() string {
			b, err := os.ReadFile(w.dir + "/told")
			if err != nil {
				t.Fatal(err)
			}
			return strings.TrimSpace(string(b))
		}
		suspend := w.write(t, "suspend", "#!/bin/sh\nkill -STOP $1\nuntil grep -q '^State:.*stopped' /proc/$1/status; do :; done\necho suspended > told\n")
		resume := w.write(t, "resume", "#!/bin/sh\nkill -CONT $1\nwhile grep -q '^State:.*stopped' /proc/$1/status; do :; done\necho resumed > told\n")
		w.write(t, "conf/queues/q", plainQueue+"suspend_method "+suspend+" $job_pid\nresume_method "+resume+" $job_pid\n")
		w.write(t, "job", "#!/bin/sh\necho started $$\nread x < go\nexit 6\n")
		y := w.shell(t)
		y.typeText("$EXE run -cwd --conf conf job\necho status $?\n")
		pid := strings.TrimPrefix(y.expect("^started [0-9]+$"), "started ")
		y.typeText(ctrlZ)
		y.expect("^execd: the job is suspended; fg resumes it$")
		y.expect("Stopped.*EXE run -cwd --conf conf job$")
		if got := told(); got != "suspended" || state(t, pid) != 'T' {
			t.Errorf("told %q, job in state %c", got, state(t, pid))
		}
		y.typeText("fg\n")
		if got := told(); got != "resumed" || state(t, pid) == 'T' {
			t.Errorf("told %q, job in state %c", got, state(t, pid))
		}
		w.feed(t, "go")
		y.expect(`^execd: job 1 \(job\) ended with exit status 6, after `)
		y.typeText("echo status $?\n")
		y.expect("^status 6$")
		w.gone(t)
	})
	t.Run("Ctrl-C ends a job that was suspended and resumed", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.write(t, "job", obstinate)
		y := w.shell(t)
		y.typeText("$EXE run -cwd job\n")
		y.expect("^started$")
		y.typeText(ctrlZ)
		y.expect("Stopped.*EXE run -cwd job$")
		y.typeText("kill -INT %1; fg; echo status $?\n")
		y.expect(`^execd: job 1 \(job\) was ended on request, by signal KILL, after `)
		y.expect("^status 137$")
		w.gone(t)
	})
	t.Run("without a shell that could resume it a job is not suspended", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		fifo(t, w, "go")
		cmd := w.command("run", "-cwd", w.write(t, "job", "#!/bin/sh\necho started\nread x < go\nexit 6\n"))
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // as with ssh HOST execd run
		l := follow(t, cmd)
		l.expect("^started$")
		l.signal(unix.SIGTSTP)
		l.expect("^execd: not suspended: there is no shell with job control that could resume the job$")
		w.feed(t, "go")
		l.end(6)
	})
	t.Run("a checkpointing environment that says so migrates the job instead", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		w.write(t, "conf/queues/q", plainQueue+"ckpt_list c\n")
		w.write(t, "conf/ckpts/c", "ckpt_name c\ninterface userdefined\nwhen x\n")
		w.write(t, "job", obstinate)
		y := w.shell(t)
		y.typeText("$EXE run -cwd --conf conf -ckpt c job; echo status $?\n")
		y.expect("^started$")
		y.typeText(ctrlZ)
		y.expect("^execd: the job is checkpointed and ended: so its checkpointing environment says of suspension$")
		y.expect("a master would run the job again; failed 24")
		y.expect("^status 137$")
		w.gone(t)
	})
	t.Run("the end of the terminal ends the job", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		fifo(t, w, "told")
		epilog := w.write(t, "epilog", "#!/bin/sh\necho $SGE_JOBEXIT_STAT > told\n")
		w.write(t, "conf/queues/q", plainQueue+"epilog "+epilog+"\n")
		w.write(t, "job", obstinate)
		y := w.shell(t)
		y.typeText("exec $EXE run -cwd --conf conf --json out job\n")
		y.expect("^started$")
		y.keys.Close()
		if b, err := os.ReadFile(w.dir + "/told"); err != nil || string(b) != "137\n" {
			t.Errorf("the epilog says %q, %v", b, err)
		}
		y.end(137)
		w.gone(t)
	})
	t.Run("a script is read from the terminal", func(t *testing.T) {
		t.Parallel()
		w := inWorld(t, asUser)
		y := w.shell(t)
		y.typeText("$EXE run\n")
		y.expect("^execd run: no job script: name one, or pipe it to standard input$")
		y.typeText("$EXE run --help | head -1\n") // must not wait for one
		y.expect("^Usage: execd run ")
		y.typeText("$EXE run -cwd -N typed\n")
		y.expect("^execd: reading the job script from the terminal; Ctrl-D ends it$")
		y.typeText("echo from $JOB_NAME\n\x04")
		y.expect("^from typed$")
	})
}
