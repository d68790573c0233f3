package main_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// TestDescriptors checks that jobs and procedures do not get descriptors, terminal or files of the
// caller of execd run.
func TestDescriptors(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	secret, err := os.Open(w.rootFile(t, "secret", "root's alone\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	defer secret.Close()
	log, err := os.OpenFile(w.rootFile(t, "log", "old\n", 0o600), os.O_RDWR|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	list := "ls -l /proc/$$/fd\n"
	prolog := w.write(t, "prolog", "#!/bin/sh\n"+list)
	w.write(t, "conf/queues/q", plainQueue+"prolog "+prolog+"\nstarter_method "+w.write(t, "starter", "#!/bin/sh\n"+list+"exec \"$@\"\n")+"\n")
	job := w.write(t, "job", attempts+list+`
tryto 'cat <&1'
tryto 'cat <&2'
tryto 'cat /proc/$SHEPHERD/fd/3'
tryto ': > /proc/$SHEPHERD/fd/1'
[ -p /dev/stdout ] || echo "BREACH: standard output is no pipe"
echo over
`)
	cmd := w.command("run", "--as", "alice", "-cwd", "--conf", "conf", job)
	cmd.ExtraFiles = []*os.File{secret, log, secret}
	cmd.Stdout, cmd.Stderr = log, log
	finish(t, cmd)
	b, err := os.ReadFile(w.dir + "/log")
	if err != nil {
		t.Fatal(err)
	}
	if text := string(b); !strings.HasPrefix(text, "old\n") || strings.Contains(text, "BREACH") || !strings.Contains(text, "over\n") {
		t.Errorf("the log:\n%s", text)
	}
	seen := 0
	for line := range strings.Lines(string(b)) {
		from, to, found := strings.Cut(strings.TrimSpace(line), " -> ")
		if !found {
			continue
		}
		fd := from[strings.LastIndexByte(from, ' ')+1:]
		switch {
		case fd == "0" && to == "/dev/null", (fd == "1" || fd == "2") && strings.HasPrefix(to, "pipe:"):
			seen++
		case fd == "10": // the shell's own, of its script
		default:
			t.Errorf("open in a process of the job: %s", line)
		}
	}
	if seen != 9 {
		t.Errorf("prolog, starter and job have %d streams", seen)
	}

	// Who hands a descriptor on does not keep the caller waiting, nor writing
	// after the end.
	job = w.write(t, "job", "#!/bin/sh\n(setsid sleep 1000 &)\necho over\n")
	if r := w.run(t, "--as", "alice", "-cwd", job); r.status != 0 || r.stdout != "over\n" {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestOutputOfAnotherUser checks that the output of another user's job arrives completely, however
// the caller reads it.
func TestOutputOfAnotherUser(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	const size = 3 << 20
	job := w.write(t, "job", fmt.Sprintf("#!/bin/sh\nhead -c %d /dev/zero\necho end\n", size))
	r := w.run(t, "--as", "alice", "-cwd", job)
	if len(r.stdout) != size+len("end\n") || !strings.HasSuffix(r.stdout, "end\n") {
		t.Errorf("%d bytes of output arrived", len(r.stdout))
	}
	// One stream: the order stays.
	var both bytes.Buffer
	cmd := w.command("run", "--as", "alice", "-cwd", w.write(t, "job", "#!/bin/sh\nfor i in 1 2 3 4 5; do echo out $i; echo err $i >&2; done\n"))
	cmd.Stdout = &both
	cmd.Stderr = cmd.Stdout
	finish(t, cmd)
	want := ""
	for i := range 5 {
		want += fmt.Sprintf("out %d\nerr %[1]d\n", i+1)
	}
	if !strings.HasPrefix(both.String(), want) {
		t.Errorf("the order was\n%s", &both)
	}
	// What a prolog of the owner leaves running is ended, and not waited for, though it has the pipe.
	prolog := w.write(t, "prolog", "#!/bin/sh\nsetsid sleep 1000 &\necho left $!\n")
	w.write(t, "conf/queues/q", plainQueue+"prolog "+prolog+"\n")
	r = w.run(t, "--as", "alice", "-cwd", "--conf", "conf", w.write(t, "job", "#!/bin/sh\necho over\n"))
	var left int
	if n, _ := fmt.Sscanf(r.stdout, "left %d\nover\n", &left); n != 1 || !errors.Is(unix.Kill(left, 0), unix.ESRCH) {
		t.Errorf("exit status %d, %s%s", r.status, r.stdout, r.stderr)
	}
	// A reader who goes away ends the job by SIGPIPE, as in any pipeline.
	cmd = exec.Command("sh", "-c", `{ "$0" run --as alice -cwd job; echo status $? >&2; } | head -c 1`, w.exe)
	cmd.Dir, cmd.Env = w.dir, w.env
	w.write(t, "job", "#!/bin/sh\nexec yes\n")
	if r := finish(t, cmd); !strings.Contains(r.stderr, "died through signal PIPE") || !strings.Contains(r.stderr, "status 141\n") {
		t.Errorf("%s", r.stderr)
	}
	w.gone(t)
}

// TestTerminalOfTheCaller checks that a job can neither read from the caller's terminal nor control
// it.
func TestTerminalOfTheCaller(t *testing.T) {
	t.Parallel()
	w := inWorld(t, asRoot)
	w.write(t, "job", attempts+`
try test -t 0
try test -t 1
try test -t 2
tryto ': < /dev/tty'
tryto ": > $1"
tryto ": < $1"
echo over
`)
	y := w.shell(t)
	y.typeText("$EXE run --as alice -cwd job $(tty); echo status $?\n")
	y.expect("^over$")
	y.expect("^status 0$")
	if strings.Contains(y.seen.String(), "BREACH") {
		t.Error(&y.seen)
	}
}
