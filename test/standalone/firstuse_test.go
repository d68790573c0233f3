package standalone

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/test/terminal"
)

// newcomer makes a host whose user starts the daemon without a configuration.
func newcomer(t *testing.T) (*machine, *user.User) {
	t.Helper()
	m := newMachine(t, 2)
	u := someUsers(t, 1)[0]
	m.builtin = true
	m.open("home")
	m.open("home/" + u.Username)
	m.own(u)
	return m, u
}

// TestShellOfAScript checks that the built-in queue runs a script with the shell of -S, else by its #!
// line, else with /bin/sh, and so does execd run.
func TestShellOfAScript(t *testing.T) {
	testenv.Require(t, testenv.Python)
	m, u := newcomer(t)
	out := m.open("out")
	python := "import sys\nprint('python', *sys.argv[1:])\n"
	bash := "[[ -n $BASH_VERSION ]] && x=(bash \"$@\") && echo ${x[@]}\n"
	m.write("tools/myshell", "#!/bin/sh\nshift\necho mine $*\n")
	if err := os.Chmod(filepath.Join(m.dir, "tools/myshell"), 0o755); err != nil {
		t.Fatal(err)
	}
	m.start()
	number := 0
	for name, c := range map[string]struct {
		script  string
		options []string
		want    string // of standard output, or a part of the reason
		fails   bool
	}{
		"an embedded -S":                           {script: "#$ -S /bin/bash\n" + bash, want: "bash a b"},
		"an embedded -S and another #! line":       {script: "#!/bin/cat\n#$ -S /bin/bash\n" + bash, want: "bash a b"},
		"-S of the command line":                   {script: "#!/bin/cat\n" + bash, options: []string{"-S", "/bin/bash"}, want: "bash a b"},
		"-S with the name of a program":            {script: python, options: []string{"-S", "python3"}, want: "python a b"},
		"-S with the name of a login shell":        {script: bash, options: []string{"-S", "bash"}, want: "bash a b"},
		"-S with a program of the PATH of the job": {script: "x\n", options: []string{"-S", "myshell", "-v", "PATH=" + m.dir + "/tools:/bin"}, want: "mine a b"},
		"-S with a program of the directory":       {script: "x\n", options: []string{"-S", "myshell", "-wd", m.dir + "/tools"}, want: "mine a b"},
		"-S with a program that is not there":      {script: "x\n", options: []string{"-S", "nosuch9"}, want: "the PATH of the job has no nosuch9, the shell of -S", fails: true},
		"a #! line":                                {script: "#!/usr/bin/env python3\n" + python, want: "python a b"},
		"a #! line without a program":              {script: "#! \necho sh $*\n", want: "sh a b"},
		"neither":                                  {script: "echo sh $*\n", want: "sh a b"},
		"a #! line of a missing program":           {script: "#!/no/such/one\n", want: "its interpreter /no/such/one does not exist", fails: true},
		"a #! line with CR LF":                     {script: "#!/bin/sh\r\necho sh\r\n", want: `the script has lines that end with CR LF, as on Windows, so that its interpreter is "/bin/sh\r"`, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			number++
			script := filepath.Join(m.dir, fmt.Sprintf("job%d.sh", number))
			m.write(filepath.Base(script), c.script)
			result := filepath.Join(out, fmt.Sprint(number))
			args := append([]string{"-sync", "n", "-terse", "-wd", "/", "-N", "x", "-o", result, "-j", "y"}, c.options...)
			r := m.as(u, "qsub", append(args, script, "a", "b")...)
			if r.status != 0 {
				t.Fatalf("%+v", r)
			}
			id := strings.TrimSpace(r.stdout)
			if c.fails {
				m.until("the reason is there", func() bool { return strings.Contains(m.as(u, "qstat", "-j", id).stdout, c.want) })
				m.as(u, "qdel", id)
			} else {
				m.until("the job has ended", func() bool { return m.as(u, "qstat", "-j", id).status != 0 })
				if got := strings.Join(lines(t, result), "\n"); got != c.want {
					t.Errorf("the job wrote %q, want %q", got, c.want)
				}
			}
			cmd := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), append(append([]string{"run", "-wd", "/"}, c.options...), script, "a", "b")...)
			cmd.Dir, cmd.Env = m.dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + m.dir + "/home/" + u.Username}
			cmd.SysProcAttr = credential(t, u)
			var said strings.Builder
			cmd.Stderr = &said
			printed, err := cmd.Output()
			got := strings.TrimSpace(string(printed))
			if c.fails {
				got = said.String()
			}
			if c.fails != (err != nil) || !c.fails && got != c.want || !strings.Contains(got, c.want) {
				t.Errorf("execd run: %v, %q, want %q; %s", err, got, c.want, said.String())
			}
		})
	}
}

// TestShellOfAScriptElsewhere checks that the setting of the built-in queue does not affect queues of
// a site, and is kept when the built-in configuration becomes files.
func TestShellOfAScriptElsewhere(t *testing.T) {
	m := newMachine(t, 2)
	out := m.open("out")
	m.write("job.sh", "#!/bin/cat\necho sh\n")
	m.start()
	u := someUsers(t, 1)[0]
	wrote := func() string {
		result := filepath.Join(out, "o")
		if r := m.as(u, "qsub", "-sync", "y", "-wd", "/", "-o", result, "-j", "y", "job.sh"); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		all := lines(t, result)
		if err := os.Remove(result); err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "\n")
	}
	if got := wrote(); got != "sh" {
		t.Errorf("posix_compliant: %q", got)
	}
	if r := m.root("qconf", "-mattr", "queue", "shell_start_mode", "unix_behavior", "all.q"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if got := wrote(); got != "#!/bin/cat\necho sh" {
		t.Errorf("unix_behavior: %q", got)
	}
	m, u = newcomer(t)
	m.write("job.sh", "#!/bin/cat\necho sh\n")
	out = m.open("out")
	m.own(u)
	m.start()
	if r := m.as(u, "qconf", "-mattr", "queue", "slots", "3", "all.q"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if got := wrote(); got != "#!/bin/cat\necho sh" {
		t.Errorf("built-in and changed: %q", got)
	}
	if r := m.as(u, "qconf", "-sconf"); !strings.Contains(r.stdout, " SCRIPT_SHELL=true ") {
		t.Errorf("%+v", r)
	}
}

// TestComesBack checks that a job that always exits with 99 runs at growing intervals. The daemon says
// how long the job waits, also after a restart.
func TestComesBack(t *testing.T) {
	m := newMachine(t, 2)
	m.write("conf/sched_conf", "schedule_interval 0:0:2\n")
	out := m.open("out")
	m.write("again.sh", "#!/bin/sh\ndate +%s.%N >> "+out+"/$JOB_ID\nexit 99\n")
	m.start()
	u := someUsers(t, 1)[0]
	m.as(u, "qsub", "-wd", "/", "-o", "/dev/null", "-j", "y", "again.sh")
	started := func() (at []float64) {
		for _, line := range lines(t, filepath.Join(out, "1")) {
			if s, err := strconv.ParseFloat(line, 64); err == nil {
				at = append(at, s)
			}
		}
		return at
	}
	m.until("the job has run twice", func() bool { return len(started()) >= 2 })
	said := regexp.MustCompile(`(?m)^waiting for: +its next run, in 0:0[0-9]:[0-9]{2}: it ended to be run again \(exit status 99\), [0-9]+ times in a row; the pause grows each time$`)
	m.until("qstat -j says so", func() bool { return said.MatchString(m.as(u, "qstat", "-j", "1").stdout) })
	m.daemon.Kill()
	m.start()
	m.until("the job has run four times", func() bool { return len(started()) >= 4 })
	at := started()
	for i, least := range []float64{1, 3, 7} { // whole seconds, of 2, 4 and 8
		if pause := at[i+1] - at[i]; pause < least {
			t.Errorf("pause %d is %.3f s, want at least %.0f: %.3f", i+1, pause, least, at)
		}
	}
}

// at types a command on a terminal as a user.
func (m *machine) at(u *user.User, name string, args ...string) *terminal.Session {
	m.Helper()
	cmd := m.command(context.Background(), u, name, args...) //nolint:contextcheck // the session ends it
	return terminal.Start(m, cmd, 30, 200)
}

// TestSyncOnATerminal checks that on a terminal qsub -sync y says what it waits for, and that
// elsewhere it prints the original's output.
func TestSyncOnATerminal(t *testing.T) {
	m := newMachine(t, 1)
	m.start()
	u := someUsers(t, 1)[0]
	options := []string{"-sync", "y", "-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y"}
	m.root("qmod", "-d", "all.q")
	s := m.at(u, "qsub", append(options, "-N", "waits", "/bin/false")...)
	s.See("qsub: job 1 waits for room in all.q@node1: ")
	m.root("qhold", "1")
	s.See("qsub: job 1 waits for its user hold to be taken off: qrls 1")
	m.root("qrls", "1")
	m.root("qmod", "-e", "all.q")
	s.See(" exited with exit code 1.")
	s.See("qsub: job 1 used ")
	s.See(" of CPU time")
	if status := s.Status(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}
	s = m.at(u, "qsub", "-sync", "y", "-wd", "/", "-o", "/nowhere/x", "-j", "y", "-b", "y", "true")
	s.See("qsub: job 2 waits for its error to be cleared with qmod -cj 2: ")
	m.root("qdel", "2")
	if status := s.Status(); status != 1 {
		t.Errorf("exit status %d, want 1", status)
	}

	m.root("qmod", "-d", "all.q")
	quiet := make(chan result, 1)
	go func() { quiet <- m.as(u, "qsub", append(options, "true")...) }()
	loud := m.at(u, "qsub", append(options, "true")...) // takes as long
	loud.See(" waits for room in ")
	m.root("qmod", "-e", "all.q")
	if r := <-quiet; r.status != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
}

// TestUnsuitableOnATerminal checks that a job that can never run on any host is warned of on a
// terminal alone.
func TestUnsuitableOnATerminal(t *testing.T) {
	m := newMachine(t, 2)
	m.start()
	u := someUsers(t, 1)[0]
	options := []string{"-wd", "/", "-o", "/dev/null", "-j", "y", "-b", "y", "-h"}
	s := m.at(u, "qsub", append(options, "-l", "arch=vax", "true")...)
	s.See("Your job 1 (\"true\") has been submitted\r\nwarning: no queue can ever run job 1 as the cluster is configured; qalter changes what it asks for, qdel removes it\r\nwarning: job 1 ")
	if status := s.Status(); status != 0 {
		t.Errorf("exit status %d", status)
	}
	if r := m.as(u, "qsub", append(options, "-l", "arch=vax", "true")...); r.status != 0 || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	s = m.at(u, "qsub", append(options, "-pe", "smp", "2", "true")...)
	if shown := s.See("has been submitted"); strings.Contains(shown, "warning") {
		t.Errorf("%q", shown)
	}
	if status := s.Status(); status != 0 {
		t.Errorf("exit status %d", status)
	}
}

// TestForbiddenSocket checks that the error for a user who may not use a daemon names the owner of the
// daemon.
func TestForbiddenSocket(t *testing.T) {
	testenv.Require(t, testenv.Root)
	m := newMachine(t, 1)
	users := someUsers(t, 2)
	m.own(users[0])
	m.start()
	m.as(users[0], "qstat") // waits for the socket
	want := "cannot connect to the daemon of user " + users[0].Username + " at " + m.socket() + ": permission denied\n"
	for name, change := range map[string]func() error{
		"the socket":    func() error { return os.Chmod(m.socket(), 0o600) },
		"its directory": func() error { return os.Chmod(filepath.Dir(m.socket()), 0o700) },
	} {
		if err := change(); err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		if r := m.as(users[1], "qstat"); r.status != 1 || !strings.Contains(r.stderr, want) || strings.Contains(r.stderr, "trying again") || strings.Contains(r.stderr, "http") {
			t.Errorf("%s: %+v, want %q", name, r, want)
		}
		if took := time.Since(begin); took > 20*time.Second {
			t.Errorf("%s: took %v", name, took)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), "status", "--socket", m.socket())
		cmd.SysProcAttr = credential(t, users[1])
		if said, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(said), want[:len(want)-1]) {
			t.Errorf("%s: %v, %s", name, err, said)
		}
	}
	m.daemon.Kill()
	cmd := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), "status", "--socket", m.socket())
	if said, err := cmd.CombinedOutput(); err == nil || strings.Contains(string(said), "systemctl") || !strings.Contains(string(said), "start it with: execd standalone") {
		t.Errorf("a dead daemon: %v, %s", err, said)
	}
	m.start()
}

// TestOddScriptsOnATerminal checks that commands warn of line endings of Windows in a script, and of
// memory without a unit, on a terminal alone.
func TestOddScriptsOnATerminal(t *testing.T) {
	m := newMachine(t, 2)
	m.write("crlf.sh", "echo a\r\necho b\r\n")
	m.write("mark.sh", "\xef\xbb\xbf#!/bin/sh\necho a\n")
	m.start()
	u := someUsers(t, 1)[0]
	options := []string{"-wd", "/", "-o", "/dev/null", "-j", "y", "-h"}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"crlf.sh"}, "warning: the script has lines that end with CR LF, as on Windows"},
		{[]string{"mark.sh"}, "warning: the script begins with a byte order mark"},
		{[]string{"-l", "h_vmem=4", "-b", "y", "true"}, "warning: -l h_vmem=4 is 4 bytes: did you mean 4G, or 4M?"},
	} {
		s := m.at(u, "qsub", append(options, c.words...)...)
		s.See("has been submitted\r\n" + c.want)
		if status := s.Status(); status != 0 {
			t.Errorf("%q: exit status %d", c.words, status)
		}
		if r := m.as(u, "qsub", append(options, c.words...)...); r.status != 0 || r.stderr != "" {
			t.Errorf("%q: %+v", c.words, r)
		}
	}
}

// TestOddScriptsFail checks that if a script that shells do not understand does not exit with 0, the
// end of the job names the cause wherever it is shown.
func TestOddScriptsFail(t *testing.T) {
	m := newMachine(t, 2)
	m.write("crlf.sh", "echo a\r\nif true\r\nthen echo b\r\nfi\r\n")
	m.write("mark.sh", "\xef\xbb\xbf#!/bin/sh\nexit 4\n")
	m.write("good.sh", "\xef\xbb\xbf#!/bin/sh\nexit 0\n")
	m.start()
	u := someUsers(t, 1)[0]
	home := m.open("home")
	options := []string{"-wd", "/", "-o", "/dev/null", "-j", "y"}
	for name, c := range map[string]struct{ script, want string }{
		"line ends":               {"crlf.sh", "the script has lines that end with CR LF, as on Windows"},
		"a byte order mark":       {"mark.sh", "the script begins with a byte order mark"},
		"a script that ends well": {"good.sh", ""},
	} {
		r := m.as(u, "qsub", append(append([]string{"-sync", "y"}, options...), c.script)...)
		if !strings.Contains(r.stderr, c.want) || c.want == "" && r.stderr != "" {
			t.Errorf("%s: qsub -sync y: %+v", name, r)
		}
		id := regexp.MustCompile(`\d+`).FindString(r.stdout)
		if r := m.as(u, "qstat", "-s", "z", "-j", id); !strings.Contains(r.stdout, c.want) || strings.Contains(r.stdout, "the script") != (c.want != "") {
			t.Errorf("%s: qstat -s z -j: %+v", name, r)
		}
		if r := m.as(u, "qacct", "-json", "-j", id); !strings.Contains(r.stdout, c.want) || strings.Contains(r.stdout, "notice") != (c.want != "") {
			t.Errorf("%s: qacct -json: %+v", name, r)
		}
		cmd := exec.CommandContext(t.Context(), filepath.Join(m.bin, "execd"), append(append([]string{"run"}, options...), filepath.Join(m.dir, c.script))...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
		cmd.SysProcAttr = credential(t, u)
		if said, err := cmd.CombinedOutput(); !strings.Contains(string(said), c.want) || (err != nil) != (c.want != "") {
			t.Errorf("%s: execd run: %v, %q", name, err, said)
		}
	}
}

// TestOutputFilesOnATerminal checks that on a terminal, qstat -j names the files to which a job
// writes.
func TestOutputFilesOnATerminal(t *testing.T) {
	m := newMachine(t, 2)
	m.start()
	u := someUsers(t, 1)[0]
	for i, c := range []struct{ options, want []string }{
		{[]string{"-wd", "/tmp", "-N", "x"}, []string{"/tmp/x.o1", "/tmp/x.e1"}},
		{[]string{"-wd", "/tmp", "-N", "x", "-j", "y", "-t", "1-2"}, []string{"/tmp/x.o2.$TASK_ID"}},
		{[]string{"-N", "x", "-o", "/tmp/$USER.$HOSTNAME", "-e", "/dev/null"}, []string{"/tmp/" + u.Username + ".node1, or x.o3 in it if it is a directory", "/dev/null"}},
		{[]string{"-N", "x", "-o", "/tmp/", "-j", "y"}, []string{"/tmp/x.o4"}},
		{[]string{"-N", "x", "-j", "y"}, []string{"~" + u.Username + "/x.o5"}},
	} {
		if r := m.as(u, "qsub", append(c.options, "-h", "-b", "y", "true")...); r.status != 0 {
			t.Fatalf("%+v", r)
		}
		job := strconv.Itoa(i + 1)
		s := m.at(u, "qstat", "-j", job)
		s.See("output files:               " + strings.Join(c.want, "\r\n                            ") + "\r\n")
		if status := s.Status(); status != 0 {
			t.Errorf("exit status %d", status)
		}
		if r := m.as(u, "qstat", "-j", job); r.status != 0 || strings.Contains(r.stdout, "output files") {
			t.Errorf("without a terminal: %+v", r)
		}
	}
}
