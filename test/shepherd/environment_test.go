package shepherd

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// added lists the variables that the shepherd adds for each step.
var added = []string{"SGE_STDIN_PATH", "SGE_STDOUT_PATH", "SGE_STDERR_PATH", "SGE_CWD_PATH"}

func TestEnvironmentOfTheJob(t *testing.T) {
	everyMode(t, func(t *testing.T, m mode) {
		for name, c := range map[string]struct {
			inherit bool
			want    map[string]string // "-" for a variable that is not there
			only    bool              // and nothing else
		}{
			"without INHERIT_ENV it is the file and nothing else": {
				false, map[string]string{"DAEMONS": "-", "BOTH": "file", "FILES": "file", "EMPTY": "", "TWICE": "last"}, true,
			},
			"with INHERIT_ENV the file replaces what the daemon has": {
				true, map[string]string{"DAEMONS": "daemon", "BOTH": "file", "FILES": "file", "EMPTY": "", "TWICE": "last"}, false,
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				j := newJob(t, m, "#!"+base+"/bin/interpreter\n")
				j.d.InheritEnv = c.inherit
				j.environ = []string{"DAEMONS=daemon", "BOTH=daemon", "EMPTY=daemon"}
				j.setenv("BOTH=file", "FILES=file", "EMPTY=", "TWICE=first", "TWICE=last")
				j.setenv("SGE_STDOUT_PATH=made up")
				// They reach the job: it is the user's own process.
				j.setenv("LD_NOTHING=kept", "BASH_ENV=/dev/null", "IFS=x")
				c.want["LD_NOTHING"], c.want["BASH_ENV"], c.want["IFS"] = "kept", "/dev/null", "x"
				c.want["SGE_STDOUT_PATH"] = j.work + "/out"
				j.run()
				j.expect(0)
				r := j.report("out")
				for name, want := range c.want {
					if got, ok := r.env(t, name); got != want && (ok || want != "-") {
						t.Errorf("%s is %q, %v; want %q", name, got, ok, want)
					}
				}
				names := r.names()
				if slices.Sort(names); len(slices.Compact(slices.Clone(names))) != len(names) {
					t.Errorf("some variables are there twice: %q", names)
				}
				if !c.only {
					return
				}
				var want []string
				for _, v := range j.d.Environment {
					n, _, _ := strings.Cut(v, "=")
					want = append(want, n)
				}
				want = append(want, added...)
				slices.Sort(want)
				if want = slices.Compact(want); !slices.Equal(names, want) {
					t.Errorf("variables %q\nwant %q", names, want)
				}
			})
		}
	})
}

// poison holds variables with which a user could try to change the behaviour of a procedure.
var poison = []string{
	"PATH=/evil", "LD_PRELOAD=/evil.so", "LD_LIBRARY_PATH=/evil", "LD_AUDIT=/evil.so", "_RLD_LIST=/evil", "GCONV_PATH=/evil",
	"GLIBC_TUNABLES=glibc.malloc.check=3", "MALLOC_TRACE=/evil", "LOCPATH=/evil", "NLSPATH=/evil", "HOSTALIASES=/evil",
	"IFS=/", "ENV=/evil", "BASH_ENV=/evil", "SHELLOPTS=xtrace", "BASHOPTS=extglob", "PS4=$(touch /evil)", "CDPATH=/evil",
	"BASH_FUNC_ls%%=() { evil; }", "GLOBIGNORE=*", "PERL5LIB=/evil", "PERL5OPT=-Mevil", "PYTHONPATH=/evil",
	"PYTHONSTARTUP=/evil", "RUBYOPT=-revil", "NODE_OPTIONS=--require=/evil", "JAVA_TOOL_OPTIONS=-javaagent:/evil",
	"FUNCNEST=1", "EXECIGNORE=*", "TMOUT=1", "BASH_COMPAT=31", "BASH_XTRACEFD=1", "POSIXLY_CORRECT=", "OPTIND=2", "FPATH=/evil",
	"TERMINFO=/evil", "KRB5_CONFIG=/evil", "RES_OPTIONS=evil", "TZDIR=/evil",
}

const cleanPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// TestEnvironmentOfProcedures checks which of the user's variables the site's procedures get. A
// procedure that runs as the user gets none that executes code before it starts; one that runs as
// another user gets none under its own name.
func TestEnvironmentOfProcedures(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		for _, inherit := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, INHERIT_ENV %v", m, inherit), func(t *testing.T) {
				t.Parallel()
				j := newJob(t, m, "#!"+base+"/bin/interpreter\n")
				j.d.InheritEnv = inherit
				j.environ = []string{"DAEMONS=daemon", "LD_DEBUG=", "BASH_ENV=/daemon"}
				j.setenv(poison...)
				j.setenv("MINE=my own", "PE=made up", "PE_HOSTFILE=/evil", "SGE_JOB_ENV_X=x", "HOME=/evil", "USER=root", "LOGNAME=root", "SHELL=/evil")
				probe := base + "/bin/command"
				j.d.Prolog, j.d.Epilog = "root@"+probe+" prolog", probe+" epilog"
				j.run()
				j.expect(0)
				reports := j.reports("out")
				if len(reports) != 3 {
					t.Fatalf("%d reports, want 3", len(reports))
				}
				for i, want := range []map[string]string{
					{ // root's
						"PATH": cleanPath, "HOME": "/root", "SHELL": "/bin/sh", "USER": "alice", "LOGNAME": "alice",
						"JOB_ID": fmt.Sprint(j.d.ID.Job), "QUEUE": "all.q", "SGE_ROOT": "/sge",
						"MINE": "-", "SGE_JOB_ENV_MINE": "my own", "TMPDIR": "-", "TMP": "-", "SGE_JOB_ENV_TMPDIR": j.d.Tmpdir,
						"SGE_JOB_ENV_LD_PRELOAD": "/evil.so", "SGE_JOB_ENV_SGE_JOB_ENV_X": "x",
						"PE": "-", "PE_HOSTFILE": "-", "SGE_JOB_ENV_PE_HOSTFILE": "/evil", "DAEMONS": "-",
						"SGE_STDOUT_PATH": j.work + "/out", "SGE_JOBEXIT_STAT": "-",
					},
					{"PATH": "/evil", "LD_PRELOAD": "/evil.so", "MINE": "my own", "TMPDIR": j.d.Tmpdir},
					{ // the owner's
						"PATH": cleanPath, "MINE": "my own", "TMPDIR": j.d.Tmpdir, "HOME": "/evil", "SGE_JOB_ENV_X": "x",
						"SGE_JOB_ENV_MINE": "-", "SGE_JOBEXIT_STAT": "0", "JOB_ID": fmt.Sprint(j.d.ID.Job),
					},
				} {
					for name, value := range want {
						if got, ok := reports[i].env(t, name); got != value && (ok || value != "-") {
							t.Errorf("step %d: %s is %q, %v; want %q", i, name, got, ok, value)
						}
					}
				}
				for _, i := range []int{0, 2} {
					names := reports[i].names()
					for _, p := range poison {
						if name, _, _ := strings.Cut(p, "="); name != "PATH" && slices.Contains(names, name) {
							t.Errorf("step %d has %s", i, name)
						}
					}
				}
			})
		}
	}
}

// TestProcedureOfAnotherUserSeesAllowedNamesOnly checks the names that a procedure gets, instead of
// a list of forbidden ones.
func TestProcedureOfAnotherUserSeesAllowedNamesOnly(t *testing.T) {
	needRoot(t)
	t.Parallel()
	allowed := []string{
		"PATH", "HOME", "SHELL", "USER", "LOGNAME", "ARC", "ENVIRONMENT", "HOSTNAME", "JOB_ID", "JOB_NAME", "JOB_SCRIPT",
		"NHOSTS", "NQUEUES", "NSLOTS", "PE", "PE_HOSTFILE", "QUEUE", "REQNAME", "REQUEST", "RESTARTED", "SGE_ACCOUNT",
		"SGE_ARCH", "SGE_BINARY_PATH", "SGE_CELL", "SGE_JOB_SPOOL_DIR", "SGE_ROOT", "SGE_TASK_FIRST", "SGE_TASK_ID",
		"SGE_TASK_LAST", "SGE_TASK_STEPSIZE", "SGE_JOBEXIT_STAT",
	}
	allowed = append(allowed, added...)
	j := newJob(t, asRoot, "exit 0")
	j.setenv(poison...)
	for c := 'A'; c <= 'Z'; c++ {
		j.setenv(fmt.Sprintf("%c=x", c), fmt.Sprintf("SGE_%c=x", c), fmt.Sprintf("_%c=x", c))
	}
	for _, n := range allowed {
		if n != "PATH" && n != "HOME" && n != "JOB_ID" {
			j.setenv(n + "=of the job")
		}
		j.d.Trusted = append(j.d.Trusted, n) // more than is given to a procedure
	}
	j.d.PE = &job.ParallelEnvironment{Name: "pe", StdoutPath: j.work, StderrPath: j.work}
	j.d.Epilog = "site@" + base + "/bin/command"
	j.run()
	j.expect(0)
	names := j.report("out").names()
	for _, n := range names {
		if !slices.Contains(allowed, n) && !strings.HasPrefix(n, "SGE_JOB_ENV_") {
			t.Errorf("the procedure sees %s", n)
		}
	}
	for _, n := range allowed {
		if !slices.Contains(names, n) {
			t.Errorf("the procedure does not see %s", n)
		}
	}
}

// TestUserCannotFailSiteProcedures runs a prolog that calls other programs, with variables that
// could prevent these from being found or started.
func TestUserCannotFailSiteProcedures(t *testing.T) {
	for _, as := range []string{"", "root@", "site@"} {
		for _, v := range poison {
			name, _, _ := strings.Cut(v, "=")
			t.Run(as+" "+name, func(t *testing.T) {
				t.Parallel()
				m := best()
				if as != "" {
					m = asRoot
				}
				j := newJob(t, m, "")
				j.d.Command = job.Command{File: "/bin/true", Binary: true, NoShell: true, StartMode: job.UnixBehavior}
				j.setenv(v)
				if name == "LD_PRELOAD" || name == "LD_AUDIT" {
					j.d.Command.File = base + "/bin/command" // static
				}
				// bash reads more from its environment than sh.
				j.d.Prolog = as + j.executable("prolog", "#!/bin/bash\nset -e\nid >/dev/null\nls / | grep -q tmp\necho prolog >>"+j.log+"\n")
				j.run()
				j.expect(0)
				if got := j.logged(); got[0] != "prolog" {
					t.Errorf("steps %q", got)
				}
				if b, _ := os.ReadFile(j.work + "/err"); len(b) > 0 {
					t.Errorf("the prolog complains: %s", b)
				}
			})
		}
	}
}

// TestHijackThroughTmpdir tries an attack that works on a root@ epilog of 8.1.9: the job's TMPDIR
// came first in the PATH of the epilog.
func TestHijackThroughTmpdir(t *testing.T) {
	needRoot(t)
	for _, m := range []mode{asRoot, asAdmin} {
		t.Run(string(m), func(t *testing.T) {
			t.Parallel()
			j := newJob(t, m, `for p in id ls sh true; do printf '#!/bin/sh\n/usr/bin/id -u >>$LOG\n' >$TMPDIR/$p; chmod 755 $TMPDIR/$p; done; PATH=$TMPDIR:$PATH id`)
			j.d.Epilog = "root@" + j.script("epilog", "id >/dev/null; ls >/dev/null; true")
			j.run()
			j.expect(0)
			if got := j.logged(); !slices.Equal(got, []string{"20001"}) {
				t.Errorf("the user's program ran as %q, want only as 20001", got)
			}
		})
	}
}
