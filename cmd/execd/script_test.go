package main_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/execd-project/execd/internal/testenv"
)

// TestScripts runs testdata/script as an ordinary user, and where we are root
// once more as root with --as alice. "execd run" is written as "run".
func TestScripts(t *testing.T) {
	build(t)
	t.Run("user", func(t *testing.T) {
		if os.Getuid() == 0 {
			testenv.Require(t, testenv.Root)
		}
		runScripts(t, asUser, "testdata/script")
	})
	t.Run("root", func(t *testing.T) {
		testenv.Require(t, testenv.Root)
		runScripts(t, asRoot, "testdata/script")
	})
}

func runScripts(t *testing.T, m mode, dir string) {
	work := openDir(t)
	testscript.Run(t, testscript.Params{
		Dir:                 dir,
		WorkdirRoot:         work,
		RequireUniqueNames:  true,
		RequireExplicitExec: true,
		Deadline:            time.Now().Add(5 * time.Minute),
		Setup: func(e *testscript.Env) error {
			if err := executable(e.WorkDir); err != nil {
				return err
			}
			w, err := newWorld(e.T().(testing.TB), m, e.WorkDir)
			if err != nil {
				return err
			}
			e.Values["mode"], e.Values["world"] = m, w
			for _, v := range w.env {
				if name, value, _ := strings.Cut(v, "="); name == "HOME" || name == "XDG_STATE_HOME" || name == "LC_ALL" || name == "GORACE" || strings.HasPrefix(name, "EXECD_TEST_") {
					e.Setenv(name, value)
				}
			}
			e.Setenv("OWNER", w.user)
			// Where it is, and what execd takes it for.
			e.Setenv("SPOOL", w.spool)
			e.Setenv("SPOOL_SEEN", w.spool)
			if m == asRoot {
				e.Setenv("SPOOL_SEEN", "/var/spool/execd")
			}
			e.Setenv("PATH", filepath.Dir(w.exe)+":"+e.Getenv("PATH"))
			return nil
		},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return m == asRoot, nil
			}
			return false, fmt.Errorf("unknown condition %q", cond)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"run":     cmdRun,
			"json":    cmdJSON,
			"unspent": cmdUnspent,
			"subst":   cmdSubst,
		},
	})
}

// executable makes all scripts below a directory executable.
func executable(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if text, err := os.ReadFile(path); err != nil || !strings.HasPrefix(string(text), "#!") {
			return err
		}
		return os.Chmod(path, 0o755)
	})
}

// cmdRun implements "run STATUS ARGS...": it calls execd run with the arguments and expects the
// exit status. If root calls it, the job is alice's unless the arguments name another user.
func cmdRun(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: run STATUS ARGS...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	w := ts.Value("world").(*world)
	words := []string{"run"}
	if ts.Value("mode") == asRoot && !strings.Contains(strings.Join(args, " "), "--as") {
		words = append(words, "--as", w.user)
	}
	err = ts.Exec(w.exe, append(words, args[1:]...)...)
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit status %d, expected %d", got, want)
	}
}

// cmdJSON implements "json FILE PATH=VALUE...": it compares the value at a path like "limit.name",
// or "0.usage.cpu" in an array. PATH<N and PATH>N compare numbers.
func cmdJSON(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: json FILE PATH=VALUE...")
	}
	var root any
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &root))
	for _, arg := range args[1:] {
		at := strings.IndexAny(arg, "=<>")
		if at < 0 {
			ts.Fatalf("%q is no PATH=VALUE", arg)
		}
		path, op, want := arg[:at], arg[at], arg[at+1:]
		v := root
		for name := range strings.SplitSeq(path, ".") {
			switch c := v.(type) {
			case map[string]any:
				value, ok := c[name]
				if !ok {
					ts.Fatalf("%s: there is no %q", path, name)
				}
				v = value
			case []any:
				i, err := strconv.Atoi(name)
				if name == "length" {
					v = float64(len(c))
				} else if err != nil || i >= len(c) {
					ts.Fatalf("%s: there is no element %s of %d", path, name, len(c))
				} else {
					v = c[i]
				}
			default:
				ts.Fatalf("%s: %v has no %q", path, v, name)
			}
		}
		got := fmt.Sprint(v)
		n, isNumber := v.(float64)
		limit, err := strconv.ParseFloat(want, 64)
		if isNumber {
			got = strconv.FormatFloat(n, 'f', -1, 64)
		}
		switch {
		case op == '=' && got != want, op != '=' && (!isNumber || err != nil), op == '<' && n >= limit, op == '>' && n <= limit:
			ts.Fatalf("%s is %s, expected %c%s", path, got, op, want)
		}
	}
}

// cmdUnspent implements "unspent": it checks that nothing was ever made below the spool directory.
func cmdUnspent(ts *testscript.TestScript, neg bool, _ []string) {
	if _, err := os.Lstat(ts.Getenv("SPOOL")); (err == nil) != neg {
		ts.Fatalf("spool directory %s: %v", ts.Getenv("SPOOL"), err)
	}
}

// cmdSubst implements "subst FILE...": it replaces variables in the files, because configurations
// need absolute paths.
func cmdSubst(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), func(v string) string {
			if v != "WORK" && v != "OWNER" {
				return "$" + v // for the file itself
			}
			return ts.Getenv(v)
		})
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o644))
	}
}
