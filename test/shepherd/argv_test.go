package shepherd

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// nasty holds arguments of all kinds.
var nasty = []string{"plain", "two words", "", "new\nline", `q'u"o\te`, "$HOME `id` *", "\xff\xfe\x01", "-s", "job_owner=root", "a=b\nprolog=/bin/id"}

// TestInvocation checks which program is executed with which arguments: for each shell_start_mode,
// kind of job, and starter_method, with a login shell and without. In the table, SH is the shell, SCR the
// script, CMD the command, ST the starter method, and INT the interpreter that the script names. sh0 and
// st0 are base names, with a dash in front for a login shell.
func TestInvocation(t *testing.T) {
	type want struct {
		exe  string
		argv []string // before the arguments of the job
		line bool     // the arguments are joined to the last word
		in   string   // standard input: SCR, or the file of -i
	}
	const script, binary, noShell = "script", "-b y", "-b y -shell n"
	table := map[job.ShellStartMode]map[string][2]want{
		// without and with a starter method
		job.PosixCompliant: {
			script:  {{"SH", []string{"sh0", "SCR"}, false, "IN"}, {"ST", []string{"st0", "SCR"}, false, "IN"}},
			binary:  {{"SH", []string{"sh0", "-c", "CMD"}, true, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
			noShell: {{"CMD", []string{"CMD"}, false, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
		},
		job.UnixBehavior: {
			script:  {{"INT", []string{"INT", "SCR"}, false, "IN"}, {"ST", []string{"st0", "SCR"}, false, "IN"}},
			binary:  {{"SH", []string{"sh0", "-c", "CMD"}, true, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
			noShell: {{"CMD", []string{"CMD"}, false, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
		},
		job.ScriptFromStdin: {
			script:  {{"SH", []string{"sh0", "-s"}, false, "SCR"}, {"ST", []string{"st0", "-s"}, false, "SCR"}},
			binary:  {{"SH", []string{"sh0", "-c", "CMD"}, true, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
			noShell: {{"CMD", []string{"CMD"}, false, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
		},
		job.RawExec: {
			script:  {{"INT", []string{"INT", "SCR"}, false, "IN"}, {"ST", []string{"st0", "SCR"}, false, "IN"}},
			binary:  {{"SH", []string{"sh0", "-c", "CMD"}, true, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
			noShell: {{"CMD", []string{"CMD"}, false, "IN"}, {"ST", []string{"st0", "CMD"}, false, "IN"}},
		},
	}
	for startMode, kinds := range table {
		for kind, wants := range kinds {
			for i, starter := range []bool{false, true} {
				for _, login := range []bool{false, true} {
					name := fmt.Sprintf("%s %s starter %v login %v", startMode, kind, starter, login)
					t.Run(name, func(t *testing.T) {
						t.Parallel()
						j := newJob(t, best(), "#!"+base+"/bin/interpreter\nthe script\n")
						j.check(os.WriteFile(j.work+"/in", []byte("the input\n"), 0o644))
						j.d.Streams[0].Path = j.work + "/in"
						c := &j.d.Command
						c.Shell, c.StartMode, c.LoginShell, c.Args = base+"/bin/testshell", startMode, login, nasty
						words := strings.NewReplacer("SCR", c.File, "CMD", base+"/bin/command", "INT", base+"/bin/interpreter",
							"SH", c.Shell, "ST", base+"/bin/starter", "sh0", dash(login)+"testshell", "st0", dash(login)+"starter")
						if kind != script {
							c.File, c.Binary, c.NoShell = base+"/bin/command", true, kind == noShell
						}
						if starter {
							j.d.StarterMethod = base + "/bin/starter"
						}
						j.run()
						j.expect(0)

						w := wants[i]
						r := j.report("out")
						if exe := words.Replace(w.exe); r.Exe != exe {
							t.Errorf("executed %s, want %s", r.Exe, exe)
						}
						var argv []string
						for _, a := range w.argv {
							argv = append(argv, words.Replace(a))
						}
						if w.line {
							argv[len(argv)-1] += " " + strings.Join(nasty, " ") + " "
						} else {
							argv = append(argv, nasty...)
						}
						if got := r.args(); !slices.Equal(got, argv) {
							t.Errorf("arguments %q\nwant %q", got, argv)
						}
						in := "the input\n"
						if w.in == "SCR" {
							in = "#!" + base + "/bin/interpreter\nthe script\n"
						}
						if string(r.Stdin) != in {
							t.Errorf("standard input is %q, want %q", r.Stdin, in)
						}
						for name, value := range map[string]string{
							"SGE_STARTER_SHELL_PATH":       c.Shell,
							"SGE_STARTER_SHELL_START_MODE": string(startMode),
							"SGE_STARTER_USE_LOGIN_SHELL":  fmt.Sprint(login),
						} {
							if got, ok := r.env(t, name); ok != starter || (ok && got != value) {
								t.Errorf("%s is %q, %v; want %q, %v", name, got, ok, value, starter)
							}
						}
					})
				}
			}
		}
	}
}

func dash(login bool) string {
	if login {
		return "-"
	}
	return ""
}

func TestPrograms(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		edit   func(j *testJob)
		out    string // of the job; % is its directory
		failed job.Failed
		says   string
		status int
	}{
		"a script without an interpreter runs under sh": {
			edit: func(j *testJob) {
				j.d.Command.File = j.executable("bare", "echo \"$0|$#|$2\"\n")
				j.d.Command.Args = []string{"a b", "c\nd"}
			},
			out: "%/bare|2|c\nd\n",
		},
		"an empty script runs under sh": {
			edit: func(j *testJob) { j.d.Command.File = j.executable("bare", "") },
		},
		"a command is found along the PATH of the job": {
			edit: func(j *testJob) {
				j.check(os.Mkdir(j.top+"/bin", 0o755))
				j.executable("bin/tool", "#!/bin/sh\necho tool \"$@\"\n")
				j.d.Command = job.Command{File: "tool", Binary: true, NoShell: true, Args: []string{"x y"}, StartMode: job.UnixBehavior}
				j.setenv("PATH=/nonexistent:" + j.top + "/bin:/bin")
			},
			out: "tool x y\n",
		},
		"a command in the working directory is not found without a dot in PATH": {
			edit: func(j *testJob) {
				j.check(os.WriteFile(j.work+"/tool", []byte("#!/bin/sh\necho tool\n"), 0o755))
				j.d.Command = job.Command{File: "tool", Binary: true, NoShell: true, StartMode: job.UnixBehavior}
			},
			failed: job.FailedShell, says: "cannot execute",
		},
		"a job without PATH finds the standard commands": {
			edit: func(j *testJob) {
				j.check(os.WriteFile(j.work+"/echo", []byte("#!/bin/sh\nprintf wrong\n"), 0o755))
				j.d.Command = job.Command{File: "echo", Binary: true, NoShell: true, Args: []string{"right"}, StartMode: job.UnixBehavior}
				j.d.Environment = []string{"HOME=/"}
			},
			out: "right\n",
		},
		"a file that may not be executed does not hide one further down": {
			edit: func(j *testJob) {
				j.check(os.Mkdir(j.top+"/a", 0o755))
				j.check(os.Mkdir(j.top+"/b", 0o755))
				j.check(os.WriteFile(j.top+"/a/tool", []byte("#!/bin/sh\necho wrong\n"), 0o644))
				j.executable("b/tool", "#!/bin/sh\necho right\n")
				j.d.Command = job.Command{File: "tool", Binary: true, NoShell: true, StartMode: job.UnixBehavior}
				j.setenv("PATH=" + j.top + "/a:" + j.top + "/b")
			},
			out: "right\n",
		},
		"a shell is found by its path only": {
			edit: func(j *testJob) {
				j.d.Command.StartMode = job.PosixCompliant
				j.d.Command.Shell = "/no/such/shell"
			},
			failed: job.FailedShell, says: `/no/such/shell`,
		},
		"unix_behavior ignores the shell": {
			script: "echo fine",
			edit:   func(j *testJob) { j.d.Command.Shell = "/no/such/shell" },
			out:    "fine\n",
		},
		"the shell reports a missing command": {
			edit: func(j *testJob) {
				j.d.Command = job.Command{File: "/no/such/command", Binary: true, Shell: "/bin/sh", StartMode: job.UnixBehavior}
			},
			status: 127,
		},
		"a missing command without a shell is not started": {
			edit: func(j *testJob) {
				j.d.Command = job.Command{File: "/no/such/command", Binary: true, NoShell: true, StartMode: job.UnixBehavior}
			},
			failed: job.FailedShell, says: "/no/such/command",
		},
		"a missing interpreter": {
			script: "#!/no/such/interpreter\n",
			failed: job.FailedShell, says: "interpreter",
		},
		"a starter method that is missing": {
			edit:   func(j *testJob) { j.d.StarterMethod = "/no/such/starter" },
			failed: job.FailedShell, says: "/no/such/starter",
		},
		"a shell that is a directory": {
			edit: func(j *testJob) {
				j.d.Command.StartMode = job.PosixCompliant
				j.d.Command.Shell = "/tmp"
			},
			failed: job.FailedShell, says: "permission denied",
		},
		"an argument list that is too long": {
			edit: func(j *testJob) {
				j.d.Command.Args = []string{strings.Repeat("x", 200<<10)}
			},
			failed: job.FailedShell, says: "argument list too long",
		},
		"the script is read with the rights of root": {
			script: "echo read",
			edit: func(j *testJob) {
				j.d.Command.StartMode = job.ScriptFromStdin
				if j.mode == asRoot {
					j.check(os.Chmod(j.d.Command.File, 0o600))
				}
			},
			out: "read\n",
		},
		"a script from stdin that is missing": {
			edit: func(j *testJob) {
				j.d.Command.StartMode = job.ScriptFromStdin
				j.d.Command.File = j.top + "/none"
			},
			failed: job.FailedInJobChild, says: "/none",
		},
		"a script from stdin that is a fifo does not block the shepherd": {
			edit: func(j *testJob) {
				j.d.Command.StartMode = job.ScriptFromStdin
				j.d.Command.File = j.fifo("script-fifo").path
			},
			failed: job.FailedInJobChild, says: "not a regular file",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), c.script)
			if c.edit != nil {
				c.edit(j)
			}
			j.run()
			j.expect(c.failed)
			if c.failed != 0 {
				j.expectError(c.says)
				if u := j.usage(); u != nil {
					t.Error("there is a usage file, though the job was not started")
				}
				return
			}
			j.expectUsage(c.status, 0)
			if got, want := j.output("out"), strings.ReplaceAll(c.out, "%", j.top); got != want {
				t.Errorf("output %q, want %q", got, want)
			}
		})
	}
}

// TestBytesArriveUnharmed passes every byte but NUL to a job in an argument and in a variable. It does so
// with the file of arguments and, for bytes that the config file can hold, without it.
func TestBytesArriveUnharmed(t *testing.T) {
	every := make([]byte, 0, 255)
	for b := 1; b < 256; b++ {
		every = append(every, byte(b))
	}
	long := strings.Repeat("long \\n\n\\\\", 12000)
	for name, c := range map[string]struct {
		args        []string
		noArguments bool
	}{
		"as execd writes it":       {[]string{string(every), long, "", "\n", `\n`, `\\n`}, false},
		"as sge_execd writes it":   {[]string{strings.ReplaceAll(string(every), "\n", ""), "", `\n`, `a\`, "=", "job_arg1=x"}, true},
		"no arguments at all":      {nil, false},
		"many arguments":           {slices.Repeat([]string{"a", "b c"}, 5000), false},
		"many arguments, no file":  {slices.Repeat([]string{"a", "b c"}, 5000), true},
		"one empty argument":       {[]string{""}, true},
		"carriage returns at ends": {[]string{"a\r", "\r"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), "")
			j.noArguments = c.noArguments
			j.d.Command = job.Command{File: base + "/bin/command", Binary: true, NoShell: true, Args: c.args, StartMode: job.UnixBehavior}
			vars := map[string]string{
				"EVERY": string(every), "LONG": long, "EMPTY": "", "NEWLINE": "\n", "BACKSLASH": `\`, "ESCAPE": `\n\\`,
				"a.b-c": "an odd name", "\xff": "\xfe", "EQUALS": "=a=b",
			}
			for n, v := range vars {
				j.setenv(n + "=" + v)
			}
			j.run()
			j.expect(0)
			r := j.report("out")
			if got := r.args()[1:]; !slices.Equal(got, c.args) && len(got)+len(c.args) > 0 {
				t.Errorf("arguments %.300q\nwant %.300q", got, c.args)
			}
			for n, v := range vars {
				if got, ok := r.env(t, n); !ok || got != v {
					t.Errorf("variable %q is %.100q, want %.100q", n, got, v)
				}
			}
		})
	}
}

// TestPriority checks that the nice value of a job is that of its queue, even if that is 0 and the daemon
// has another.
func TestPriority(t *testing.T) {
	testenv.Require(t, testenv.Root)
	runtime.LockOSThread() // the shepherd inherits the nice value of the thread
	defer runtime.UnlockOSThread()
	own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
	if err == nil {
		defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 20-own) }()
		err = unix.Setpriority(unix.PRIO_PROCESS, 0, 5)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, nice := range []int{0, -2, 7} {
		j := newJob(t, asRoot, "#!"+base+"/bin/interpreter\n")
		j.d.Nice = nice
		j.run()
		j.expect(0)
		if got := j.report("out").Nice; got != nice {
			t.Errorf("the job has the nice value %d, its queue %d", got, nice)
		}
	}
}

// TestFirstMoments checks the initial state of every process that a shepherd starts.
func TestFirstMoments(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		j := newJob(t, m, "#!"+base+"/bin/interpreter\n")
		own, err := unix.Getpriority(unix.PRIO_PROCESS, 0)
		if err != nil {
			t.Fatal(err)
		}
		const highest = 19
		j.d.Nice = min(20-own+3, highest) // an ordinary user may only raise the value
		j.run()
		j.expect(0)
		r := j.report("out")
		_, uid, gid := owner()
		if want := [3]int{uid, uid, uid}; r.Uids != want {
			t.Errorf("user ids %v, want %v", r.Uids, want)
		}
		if want := [3]int{gid, gid, gid}; r.Gids != want {
			t.Errorf("group ids %v, want %v", r.Gids, want)
		}
		if private {
			want := []int{gid, staff}
			if m != asUser {
				want = append(want, j.d.AddGroupID)
			}
			slices.Sort(r.Groups)
			for _, g := range want {
				if g != gid && !slices.Contains(r.Groups, g) {
					t.Errorf("groups %v lack %d", r.Groups, g)
				}
			}
			for _, g := range r.Groups {
				if !slices.Contains(want, g) {
					t.Errorf("groups %v have %d, which is not among %v", r.Groups, g, want)
				}
			}
		}
		if r.Session != r.PID || r.Pgid != r.PID {
			t.Errorf("process %d is in session %d and process group %d, not its own", r.PID, r.Session, r.Pgid)
		}
		if r.Umask != 0o22 {
			t.Errorf("umask 0%o, want 022", r.Umask)
		}
		if r.Nice != j.d.Nice {
			t.Errorf("nice value %d, want %d", r.Nice, j.d.Nice)
		}
		if r.Cwd != j.work {
			t.Errorf("working directory %s, want %s", r.Cwd, j.work)
		}
		if want := []string{"0", "1", "2"}; !slices.Equal(r.Fds, want) {
			t.Errorf("descriptors %v, want %v", r.Fds, want)
		}
		if r.StdinPath != "/dev/null" {
			t.Errorf("standard input is %s", r.StdinPath)
		}
		const none = "0000000000000000"
		if r.Blocked != none || r.Ignored != none {
			t.Errorf("signals %s are blocked, %s ignored", r.Blocked, r.Ignored)
		}
		if got := strings.TrimSpace(j.file("job_pid")); got != fmt.Sprint(r.PID) {
			t.Errorf("file job_pid has %s, the job is process %d", got, r.PID)
		}
		if got, want := j.file("addgrpid"), fmt.Sprintln(j.d.AddGroupID); got != want {
			t.Errorf("file addgrpid has %q, want %q", got, want)
		}
		if got, want := strings.TrimSpace(j.file("pid")), fmt.Sprint(r.PPID); got != want {
			t.Errorf("file pid has %s, the parent of the job is %s", got, want)
		}
	})
}
