package sensor

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/internal/testenv"
)

const good = `#!/bin/sh
while read line; do
	test "$line" = quit && break
	echo begin
	%s
	echo end
done
`

var seconds = regexp.MustCompile(`[0-9]+\.[0-9]{3} s`)

// check runs the command on a script, as the user who runs the tests.
func check(t *testing.T, script string, options ...string) (status int, out, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "sensor")
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"check", "--host", "n1", path}, options...)
	if os.Getuid() == 0 {
		args = append(args, "--user", "root")
	}
	var stdout bytes.Buffer
	status, err := (&Command{Args: args, Stdout: &stdout}).Run()
	if err != nil {
		t.Fatal(err)
	}
	return status, seconds.ReplaceAllString(stdout.String(), "N s"), path
}

func TestGoodSensor(t *testing.T) {
	status, out, _ := check(t, fmt.Sprintf(good, `n=$((n+1)); echo $HOST:count:$n; echo complaint >&2`))
	_, out, _ = strings.Cut(out, "\n") // the first line names the file and the user
	want := `cycle 1: 1 value in N s
  n1:count:1
cycle 2: 1 value in N s
  n1:count:2
cycle 3: 1 value in N s
  n1:count:3
change: seen at once; the sensor exited with status 0 and was started again, N s in all
cycle 4: 1 value in N s
  n1:count:1
quit: exited with status 0 after N s
standard error: complaint
standard error: complaint
standard error: complaint
standard error: complaint
0 errors, 0 warnings
`
	if status != ExitGood || out != want {
		t.Errorf("status %d\n%s\nwant\n%s", status, out, want)
	}
}

// releasing opens a FIFO for the sensor when it receives a message.
type releasing struct {
	fifo string
	said bytes.Buffer
}

func (r *releasing) Write(p []byte) (int, error) {
	if r.said.Len() == 0 {
		if err := os.WriteFile(r.fifo, []byte("go\n"), 0o600); err != nil {
			return 0, err
		}
	}
	return r.said.Write(p)
}

// TestProgress checks that a user who waits for a slow sensor sees what the check is waiting for.
func TestProgress(t *testing.T) {
	dir := t.TempDir()
	r := &releasing{fifo: filepath.Join(dir, "fifo")}
	if err := unix.Mkfifo(r.fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "sensor")
	// Only its first report is slow.
	script := fmt.Sprintf(good, `test -p `+r.fifo+` && read go <`+r.fifo+` && rm `+r.fifo)
	if err := os.WriteFile(path, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	args := []string{"check", path, "--timeout", "9m"}
	if os.Getuid() == 0 {
		args = append(args, "--user", "root")
	}
	var stdout bytes.Buffer
	if status, err := (&Command{Args: args, Stdout: &stdout, Progress: r}).Run(); err != nil || status != ExitGood {
		t.Errorf("status %d (%v)\n%s", status, err, &stdout)
	}
	if want := "execd sensor: waiting for report 1, which may take 9m0s\n"; !strings.HasPrefix(r.said.String(), want) {
		t.Errorf("%q was said, want %q", &r.said, want)
	}
}

func TestFindings(t *testing.T) {
	conf := t.TempDir()
	for name, text := range map[string]string{
		"complexes":    "license lic INT <= YES YES 0 0\nscratch scr MEMORY <= YES NO 0 0\n",
		"hosts/n1":     "hostname n1\n",
		"hosts/global": "hostname global\n",
	} {
		path := filepath.Join(conf, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		script  string
		options []string
		status  int
		want    []string
		unwant  string
	}{
		"all is right with the configuration": {
			fmt.Sprintf(good, "echo global:license:5; echo n1:scratch:12G; echo n1:load_avg:1.5"),
			[]string{"--conf", conf},
			ExitGood,
			[]string{"0 errors, 0 warnings\n"},
			"",
		},
		"values that the configuration does not know": {
			fmt.Sprintf(good, "echo global:lic:5; echo n1:license:many; echo n1:nothing:1; echo n7:license:1"),
			[]string{"--conf", conf},
			ExitGood,
			[]string{
				`warning: cycle 1: line 2: "global:lic:5": "lic" is the shortcut of a complex, so that the value is not used, expected its name, "license"`,
				`warning: cycle 1: line 3: "n1:license:many": the value is of the wrong type: `, `, expected one of type INT`,
				`warning: cycle 1: line 4: "n1:nothing:1": there is no complex "nothing", so that the value is not used, expected a name of qconf -sc`,
				`warning: cycle 1: line 5: "n7:license:1": there is no host "n7", so that the value is not used`,
				"0 errors, 4 warnings\n",
			},
			"warning: cycle 2",
		},
		"a line that is wrong": {
			fmt.Sprintf(good, "echo n1:a:1; echo oops"), nil, ExitErrors,
			[]string{
				`error: cycle 1: line 3: "oops": the line has no colon, expected host:name:value, or "end"`,
				`error: cycle 2: line 7: "oops": `, `error: cycle 4: line 3: "oops": `, "4 errors, 0 warnings\n",
			},
			"",
		},
		"carriage returns": {
			fmt.Sprintf(good, `printf 'n1:a:1\r\n'`), nil, ExitGood,
			[]string{`warning: cycle 3: line 8: "n1:a:1\r": the line ends with a carriage return, expected a newline alone`, "0 errors, 4 warnings\n"},
			"",
		},
		"a report that is not finished": {
			"#!/bin/sh\nread l; echo begin; echo n1:a:1; read quit\n",
			[]string{"--timeout", "5s"},
			ExitErrors,
			[]string{
				`error: cycle 1: line 1: the report that begins here is not used: it has not ended 5s after the request, expected "end" on a line of its own`,
				"error: cycle 1: the load sensor has not answered within 5s",
			},
			"change:",
		},
		"ends after a report": {
			"#!/bin/sh\nread l; echo begin; echo n1:a:1; echo end; exit 0\n", nil, ExitErrors,
			[]string{`the load sensor exited with status 0 after 1 report, expected it to answer until it reads "quit"`},
			"change:",
		},
		"does not wait to be asked": {
			fmt.Sprintf("#!/bin/sh\necho begin; echo n1:x:1; echo end\n"+strings.TrimPrefix(good, "#!/bin/sh\n"), "echo n1:a:1"), nil, ExitGood,
			[]string{"the report was not asked for, expected one report for each line read", "not asked for: 1 value\n"},
			"",
		},
		"quits with a status": {
			fmt.Sprintf(good, "echo n1:a:1") + "exit 3\n", nil, ExitGood,
			[]string{"warning: the load sensor exited with status 3 when it was told to quit, expected status 0"},
			"",
		},
		"reports nothing":       {fmt.Sprintf(good, ""), nil, ExitGood, []string{"warning: cycle 1: the report has no values\n0 errors, 1 warning\n"}, ""},
		"cannot be started":     {"#!/no/such/interpreter\n", nil, ExitCannotRun, []string{"error: cycle 1: cannot start the load sensor: "}, "quit:"},
		"options may come last": {fmt.Sprintf(good, "echo n1:a:1"), []string{"--timeout", "20s"}, ExitGood, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, out, _ := check(t, tt.script, tt.options...)
			if status != tt.status {
				t.Errorf("status %d, want %d", status, tt.status)
			}
			for _, want := range tt.want {
				if !strings.Contains(out, want) {
					t.Errorf("no %q", want)
				}
			}
			if tt.unwant != "" && strings.Contains(out, tt.unwant) {
				t.Errorf("%q is said", tt.unwant)
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	status, out, path := check(t, fmt.Sprintf(good, "echo n1:a:1; echo oops"), "--json")
	var r Result
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	if status != ExitErrors || r.Status != status || r.Path != path || len(r.Cycles) != 4 || len(r.Findings) != 4 ||
		r.Cycles[1].Values[0].Name != "a" || r.Findings[0].Line != 3 || r.Findings[0].Text != "oops" {
		t.Errorf("%+v", r)
	}
}

func TestUsage(t *testing.T) {
	user := []string{"check"}
	if os.Getuid() == 0 {
		user = append(user, "--user", "root")
	}
	for want, args := range map[string][]string{
		"expected the command check":      {},
		"check takes one script, not 0":   user,
		"check takes one script, not 2":   append(user, "a", "b"),
		"unknown option --wrong":          append(user, "--wrong", "a"),
		"--timeout: -1s is too short":     append(user, "--timeout", "-1s", "a"),
		"cannot read the configuration: ": append(user, "--conf", "/no/such", "a"),
	} {
		var out bytes.Buffer
		status, err := (&Command{Args: args, Stdout: &out}).Run()
		if status != options.ExitUsage || err == nil || !strings.Contains(err.Error(), want) || out.Len() > 0 {
			t.Errorf("%v: status %d, %v, want %q", args, status, err, want)
		}
	}
	var out bytes.Buffer
	if status, err := (&Command{Args: []string{"--help"}, Stdout: &out}).Run(); status != ExitGood || err != nil || out.String() != Usage {
		t.Errorf("help: %d, %v", status, err)
	}
	if os.Getuid() == 0 {
		if status, err := (&Command{Args: []string{"check", "a"}, Stdout: &out}).Run(); status != options.ExitUsage || err == nil {
			t.Errorf("root without --user: %d, %v", status, err)
		}
	}
}

// TestExamples checks that the examples in the documentation are correct.
func TestExamples(t *testing.T) {
	paths, err := filepath.Glob("../../../../examples/sensors/*")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%v, %v", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(path, ".py") {
				testenv.Require(t, testenv.Python)
			}
			status, out, _ := check(t, string(text))
			if status != ExitGood || !strings.HasSuffix(out, "\n0 errors, 0 warnings\n") || !strings.Contains(out, "  n1:") {
				t.Errorf("status %d\n%s", status, out)
			}
		})
	}
}
