package verifier

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/submit"
)

const head = "#!/bin/sh\nwhile read -r line; do case \"$line\" in\nSTART) echo STARTED;;\nQUIT) exit 0;;\n"

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "jsv")
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRun(t *testing.T) {
	parameters := []submit.Parameter{{Name: "N", Value: "a b"}, {Name: "x", Value: "1\nBEGIN"}}
	environment := []submit.Variable{{Name: "A", Value: "1"}}
	correction := func(name, value string) submit.Correction {
		return submit.Correction{Parameter: submit.Parameter{Name: name, Value: value}}
	}
	for name, c := range map[string]struct {
		text, log string
		want      []submit.Correction
		err       string
	}{
		"takes it as it is":            {text: head + "BEGIN) echo RESULT STATE ACCEPT;;\nesac; done"},
		"sends late":                   {text: head + "BEGIN) echo SEND ENV; echo RESULT STATE ACCEPT;;\nesac; done"},
		"sends what there is none of":  {text: head + "BEGIN) echo SEND X; echo RESULT STATE ACCEPT;;\nesac; done", err: `got "X" as object for SEND command`},
		"changes it":                   {text: head + "BEGIN) echo LOG INFO a b; echo PARAM N x y; echo PARAM p; echo RESULT STATE CORRECT well;;\nesac; done", log: "INFO a b\n", want: []submit.Correction{correction("N", "x y"), correction("p", "")}},
		"refuses it":                   {text: head + "BEGIN) echo RESULT STATE REJECT not now;;\nesac; done", err: "not now"},
		"refuses it without a word":    {text: head + "BEGIN) echo RESULT STATE REJECT_WAIT;;\nesac; done", err: "JSV temporarily rejected job"},
		"says something else":          {text: head + "BEGIN) echo HELLO;;\nesac; done", err: `unknown command from JSV: "HELLO"`},
		"has another verdict":          {text: head + "BEGIN) echo RESULT STATE MAYBE;;\nesac; done", err: `unknown result "MAYBE"`},
		"writes to standard error":     {text: head + "BEGIN) echo oops >&2; echo RESULT STATE ACCEPT;;\nesac; done", err: "JSV stderr: oops\nJSV stderr is - oops"},
		"ends at once":                 {text: "#!/bin/sh\nexit 3\n", err: "got no response"},
		"ends behind START":            {text: "#!/bin/sh\nread x; echo STARTED\n", err: "got no response"},
		"is told no variables unasked": {text: head + "ENV*) echo RESULT STATE REJECT $line;; BEGIN) echo RESULT STATE ACCEPT;;\nesac; done"},
		"a value of two lines is one":  {text: head + "BEGIN) echo RESULT STATE ACCEPT;; PARAM\\ x\\ *) printf 'RESULT STATE REJECT %s\\n' \"$line\";;\nesac; done", err: `PARAM x 1\nBEGIN`},
		"changes variables, having them": {text: "#!/bin/sh\nwhile read -r line; do case \"$line\" in\nSTART) echo SEND ENV; echo STARTED;;\nENV*) echo ENV DEL A; echo ENV ADD B 1 2; echo ENV MOD C;;\nBEGIN) echo RESULT STATE CORRECT;; QUIT) exit;;\nesac; done", want: []submit.Correction{
			{Parameter: submit.Parameter{Name: "A"}, Variable: true, Remove: true}, {Parameter: submit.Parameter{Name: "B", Value: "1 2"}, Variable: true}, {Parameter: submit.Parameter{Name: "C"}, Variable: true},
		}},
		"says a lot and does not end": {text: "#!/bin/sh\nread x; echo STARTED; echo RESULT STATE ACCEPT; while :; do echo x; done\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var log strings.Builder
			got, err := Run(t.Context(), written(t, c.text), parameters, environment, func(level, text string) { log.WriteString(level + " " + text + "\n") }, Patience)
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
			if log.String() != c.log {
				t.Errorf("log %q", log.String())
			}
		})
	}
}

func TestPath(t *testing.T) {
	good := written(t, head)
	for url, want := range map[string]string{
		good: "", "script:" + good: "", "perl:" + good: "type", "bob@" + good: "user is not allowed", "script:bob@" + good: "user is not allowed",
		"": "not a file", "relative": "not a file", "/": "not a file", good + ".nosuch": "not a file",
	} {
		path, err := Path(url)
		switch {
		case want == "" && (err != nil || path != good):
			t.Errorf("%q: %q, %v", url, path, err)
		case want != "" && (!errors.As(err, new(*URLError)) || !strings.Contains(err.Error(), want)):
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
}
