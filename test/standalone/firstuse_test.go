package standalone

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/testenv"
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

// TestShellOfAScript: the built-in queue runs a script with the shell of -S, else by its #! line,
// else with /bin/sh, and so does execd run.
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

// TestShellOfAScriptElsewhere: what the built-in queue has does not reach queues of a site, nor
// get lost when the built-in configuration becomes files.
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
	if r := m.as(u, "qconf", "-sconf"); !strings.Contains(r.stdout, " SCRIPT_SHELL=true\n") {
		t.Errorf("%+v", r)
	}
}

// TestComesBack: a job that always exits with 99 does not run as fast as it can. How long it
// waits is said, and outlives a restart of the daemon.
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
	said := regexp.MustCompile(`(?m)^waiting for: +its next run, in 0:00:0[1-4]: it ended to be run again \(exit status 99\), 2 times in a row; the pause grows each time$`)
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
