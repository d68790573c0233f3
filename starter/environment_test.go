package starter

import (
	"cmp"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/job"
)

// model returns an environment as a map.
func model(lists ...[]string) map[string]string {
	m := map[string]string{}
	for _, l := range lists {
		for _, s := range l {
			if name, value, ok := strings.Cut(s, "="); ok && name != "" {
				m[name] = value
			}
		}
	}
	return m
}

func compare(t *testing.T, e *environment, want map[string]string) {
	t.Helper()
	if len(e.list) != len(want) || len(e.at) != len(want) {
		t.Fatalf("%d variables and %d names, want %d", len(e.list), len(e.at), len(want))
	}
	for i, s := range e.list {
		name, value, _ := strings.Cut(s, "=")
		if v, ok := want[name]; !ok || v != value || e.at[name] != i || e.get(name) != value || !e.has(name) {
			t.Fatalf("%q at %d, want %q at %d", s, e.at[name], v, i)
		}
	}
}

// FuzzEnvironment compares the environment with a map, for any variables.
func FuzzEnvironment(f *testing.F) {
	f.Add("A=1\x00B=2\x00A=3", "B=\x00C", "A")
	f.Add("=\x00==\x00A==", "", "")
	f.Add("SGE_ROOT=/evil\x00QUEUE=x\x00SGE_RSH_COMMAND=/evil", "TZ=/evil\x00SGE_BINARY_PATH=/evil", "SGE_ROOT")
	f.Add("PATH=/evil\x00LD_PRELOAD=x\x00BASH_FUNC_a%%=() {\x00SGE_JOB_ENV_X=1\x00TMPDIR=/t", "USER=root\x00SGE_JOBEXIT_STAT=0", "PATH")
	f.Fuzz(func(t *testing.T, first, second, name string) {
		a, b := strings.Split(first, "\x00"), strings.Split(second, "\x00")
		e, m := newEnvironment(a, b), model(a, b)
		compare(t, e, m)

		// A procedure's environment does not change the job's. Procedures get Grid Engine's
		// variables from the daemon only.
		d := &job.Description{Owner: "alice"}
		said := map[string]string{"QUEUE": "all.q", "SGE_ROOT": "/sge"}
		trusted := newEnvironment([]string{"QUEUE=all.q", "SGE_ROOT=/sge"})
		own := procedureEnvironment(e, trusted, &userdb.User{Name: "alice", Home: "/h", Shell: "/s"}, d)
		other := procedureEnvironment(e, trusted, &userdb.User{Name: "root", Home: "/root", Shell: "/bin/sh"}, d)
		method := methodEnvironment(e, trusted)
		compare(t, e, m)
		for _, list := range [][]string{own.list, other.list} {
			have := model(list)
			for _, n := range gridEngineNames {
				if value, ok := have[n]; value != said[n] || ok != (said[n] != "") {
					t.Fatalf("%s is %q, %v; the daemon has said %q", n, value, ok, said[n])
				}
			}
		}
		for _, s := range own.list {
			if n, value, _ := strings.Cut(s, "="); n == "PATH" {
				if value != procedurePath {
					t.Fatalf("PATH is %q", value)
				}
			} else if isStartup(n) || m[n] != value && said[n] == "" {
				t.Fatalf("a procedure of the owner gets %q", s)
			}
		}
		for _, s := range other.list {
			n, value, _ := strings.Cut(s, "=")
			fixed := map[string]string{"PATH": procedurePath, "HOME": "/root", "SHELL": "/bin/sh", "USER": "alice", "LOGNAME": "alice"}
			rest, prefixed := strings.CutPrefix(n, userPrefix)
			switch {
			case fixed[n] != "":
				if value != fixed[n] {
					t.Fatalf("a procedure of another user gets %q", s)
				}
			case prefixed && m[rest] == value, said[n] == value:
			default:
				t.Fatalf("a procedure of another user gets %q", s)
			}
		}
		for _, s := range method.list {
			if n, value, _ := strings.Cut(s, "="); value != cmp.Or(said[n], m[n]) {
				t.Fatalf("a method gets %q", s)
			}
		}

		// Additions to an environment remain if the list below it changes.
		if added := "ADDED=1"; !strings.Contains(first+second, "ADDED") {
			edited := newEnvironment(a, []string{added})
			edited.change(a, b)
			compare(t, edited, model(b, []string{added}))
		}

		if name != "" && !strings.Contains(name, "=") {
			e.set(name, second)
			m[name] = second
			compare(t, e, m)
			e.unset(name)
			delete(m, name)
			compare(t, e, m)
			e.unset(name)
			compare(t, e, m)
		}
	})
}

func TestStartupVariables(t *testing.T) {
	for _, name := range []string{"LD_PRELOAD", "LD_", "_RLD_LIST", "IFS", "BASH_ENV", "BASH_FUNC_x%%", "ENV", "PYTHONPATH", "PERL5LIB", "TERMINFO_DIRS", "FUNCNEST", "OPTIND", "BASH_COMPAT", "POSIXLY_CORRECT"} {
		if !isStartup(name) {
			t.Errorf("%s reaches a procedure", name)
		}
	}
	// A name without a star removes no other names with the same prefix. In the original, ENV also
	// removed ENVIRONMENT.
	for _, name := range []string{"ENVIRONMENT", "LD", "TZ", "LANG", "LC_ALL", "PATH", "JOB_ID", "PS", "IFSX", "TMPDIR", "NODES", "BASE", "OPT"} {
		if isStartup(name) {
			t.Errorf("%s does not reach a procedure", name)
		}
	}
}
