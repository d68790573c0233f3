package command

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

// TestMistypedOptions checks that each command suggests the option that the user probably meant.
func TestMistypedOptions(t *testing.T) {
	for name, c := range map[string]struct{ typed, meant string }{
		"qalter": {"-hold_jdi", "-hold_jid"}, "qconf": {"-sqll", "-sql"}, "qdel": {"-hlep", "-help"}, "qhold": {"-hlep", "-help"},
		"qhost": {"-hlep", "-help"}, "qlogin": {"-nwo", "-now"}, "qmod": {"-sjj", "-sj"}, "qquota": {"-hlep", "-help"}, "qrdel": {"-hlep", "-help"},
		"qresub": {"-hlep", "-help"}, "qrls": {"-hlep", "-help"}, "qrsh": {"-nostdn", "-nostdin"}, "qrstat": {"-xlm", "-xml"}, "qrsub": {"-hlep", "-help"},
		"qselect": {"-hlep", "-help"}, "qstat": {"-explian", "-explain"}, "qsub": {"-tersee", "-terse"}, "sge_share_mon": {"--hlep", ""},
	} {
		r := newWorld(t).run("alice", name, c.typed, "x")
		if c.meant != "" && !strings.Contains(r.Stdout+r.Stderr, "did you mean "+c.meant+"?") {
			t.Errorf("%s %s: nothing about %s in\n%s%s", name, c.typed, c.meant, r.Stdout, r.Stderr)
		}
		if r.Exit == 0 {
			t.Errorf("%s %s: exit status 0", name, c.typed)
		}
	}
	if got, want := len(Names()), 18; got != want {
		t.Errorf("%d commands, of which %d are tried", got, want)
	}
}

// TestMistypedNames checks that the message about an unknown object names it as in the original,
// and then suggests the name that the user probably meant.
func TestMistypedNames(t *testing.T) {
	conf := []string{"queues/long.q", "qname long.q\nhostlist node1\n", "projects/climate", "name climate\n", "ckpts/blcr", "ckpt_name blcr\n"}
	for line, want := range map[string]string{
		"qsub -l h_vmm=1G -b y sleep":         "Unable to run job: unknown resource \"h_vmm\"\nExiting.\ndid you mean h_vmem?\n",
		"qsub -q lnog.q -b y sleep":           "unknown queue \"lnog.q\"\nExiting.\ndid you mean long.q?\n",
		"qsub -q lnog.q@node1 -b y sleep":     "did you mean long.q@node1?\n",
		"qsub -q long.q@nowhere -b y sleep":   "unknown queue \"long.q@nowhere\"\nExiting.\n", // the queue is there, but not on that host
		"qsub -pe smpp 2 -b y sleep":          "Exiting.\ndid you mean smp?\n",
		"qsub -P climat -b y sleep":           "Exiting.\ndid you mean climate?\n",
		"qsub -l something_else=1 -b y sleep": "unknown resource \"something_else\"\nExiting.\n",
		"qrsh -l h_vmm=1G true":               "did you mean h_vmem?\n",
		"qhost -l mem_fre=1G":                 "did you mean mem_free?\n",
		"qstat -l mem_fre=1G":                 "did you mean mem_free?\n",
		"qalter -l h_vmm=1G 1":                "did you mean h_vmem?\n",
		"qalter -pe smpp 2 1":                 "did you mean smp?\n",
	} {
		w := newWorld(t, conf...)
		if r := w.run("alice", "qsub", "-h", "-b", "y", "sleep"); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
		words := strings.Fields(line)
		if r := w.run("alice", words[0], words[1:]...); r.Exit == 0 || !strings.HasSuffix(r.Stderr+r.Hint, want) {
			t.Errorf("%s: exit status %d\n%s%s", line, r.Exit, r.Stdout, r.Stderr)
		}
	}
}

// TestMistypedValues checks that an error names the form of a value on a terminal, and only there.
func TestMistypedValues(t *testing.T) {
	for line, want := range map[string]string{
		"qsub -l h_rt=1:00 -b y sleep": "attribute \"h_rt\" is not a time value\nExiting.\na time is hours:minutes:seconds, such as 1:00:00 for one hour, or a number of seconds\n",
		"qalter -l h_vmem=4x 1":        "such as 4G or 500M, or a number of bytes\n",
		"qrsh -l h_rt=x true":          "or a number of seconds\n",
		"qstat -l h_rt=x":              "or a number of seconds\n",
	} {
		w := newWorld(t)
		if r := w.run("alice", "qsub", "-h", "-b", "y", "sleep"); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
		words := strings.Fields(line)
		if r := w.run("alice", words[0], words[1:]...); r.Exit == 0 || r.Hint != "" {
			t.Errorf("%s: without a terminal: exit status %d, hint %q", line, r.Exit, r.Hint)
		}
		w.in.Terminal = true
		if r := w.run("alice", words[0], words[1:]...); r.Exit == 0 || !strings.HasSuffix(r.Stderr+r.Hint, want) {
			t.Errorf("%s: exit status %d\n%s%s", line, r.Exit, r.Stderr, r.Hint)
		}
	}
}

// TestVerifiers checks that verifiers get a job once, and that the job is then submitted with their
// corrections.
func TestVerifiers(t *testing.T) {
	w := newWorld(t)
	r := w.run("alice", "qsub", "-jsv", "/opt/a", "-N", "n", "-b", "y", "sleep")
	if r.Verify == nil || r.Job != 0 || r.Stdout != "" || len(r.Verify.Programs) != 1 || r.Verify.Programs[0] != "/opt/a" {
		t.Fatalf("%+v", r)
	}
	w.in.Defaults = map[string][]byte{"sge_request": []byte("-jsv /opt/b\n")}
	if r = w.run("alice", "qsub", "-jsv", "/opt/a", "-b", "y", "sleep"); strings.Join(r.Verify.Programs, " ") != "/opt/a /opt/b" {
		t.Errorf("that of the command line is the first: %q", r.Verify.Programs)
	}
	w.in.Corrections = correct("N", "other")
	if r = w.run("alice", "qsub", "-b", "y", "sleep"); r.Job == 0 || !strings.Contains(r.Stdout, `("other")`) {
		t.Errorf("%+v", r)
	}
	w.in.Corrections = correct("USER", "root")
	if r = w.run("alice", "qsub", "-b", "y", "sleep"); r.Job != 0 || r.Exit != 1 || !strings.Contains(r.Stderr, "read-only") {
		t.Errorf("%+v", r)
	}
}

func correct(name, value string) []submit.Correction {
	return []submit.Correction{{Parameter: submit.Parameter{Name: name, Value: value}}}
}
