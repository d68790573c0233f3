package command

import (
	"fmt"
	"testing"
)

// TestInteractive checks the output of qrsh and qlogin for an accepted job, and the command that
// runs if a wrapper is configured.
func TestInteractive(t *testing.T) {
	const waiting = "waiting for interactive job to be scheduled ...\n"
	for name, c := range map[string]struct {
		line, stdout, stderr string
		verbose, noStdin     bool
		wrapper, runs        string
	}{
		"nothing":                      {line: "qrsh a b", runs: "a a [b] false"},
		"that it waits, with -verbose": {line: "qrsh -verbose a", stdout: "Your job 1 (\"a\") has been submitted\n", stderr: waiting, verbose: true, runs: "a a [] false"},
		"the same of qlogin":           {line: "qlogin", stdout: "Your job 1 (\"QLOGIN\") has been submitted\n", stderr: waiting, verbose: true, runs: "QLOGIN QLOGIN [] false"},
		"nothing is typed":             {line: "qrsh -nostdin a", noStdin: true, runs: "a a [] false"},
		"a wrapper":                    {line: "qrsh /bin/a b", wrapper: "/w", runs: "a /w [/bin/a b] true"},
		"none for a login shell":       {line: "qrsh", wrapper: "/w", runs: "QRLOGIN QRLOGIN [] false"},
	} {
		w := newWorld(t, "conf/global", "min_uid 0\nmin_gid 0\n") // the user has no number here
		w.in.Environment = []string{"QRSH_WRAPPER=" + c.wrapper}
		r := w.line("alice", c.line)
		if r.Exit != 0 || !r.Interactive || r.Stdout != c.stdout || r.Stderr != c.stderr || r.Verbose != c.verbose || r.NoStdin != c.noStdin {
			t.Errorf("%s: %+v", name, r)
			continue
		}
		q := w.cell.Job(r.Job).Request()
		if got := fmt.Sprint(q.Name, " ", q.Command, " ", q.Args, " ", q.NoShell); got != c.runs {
			t.Errorf("%s: %s, want %s", name, got, c.runs)
		}
	}
}
