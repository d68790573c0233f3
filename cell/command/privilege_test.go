package command

import (
	"strings"
	"testing"
)

// TestManagerIsNotRoot changes each privileged attribute in each way that qconf has, as a
// manager and as root.
func TestManagerIsNotRoot(t *testing.T) {
	commands := map[string]string{
		"modify an attribute":       "qconf -mattr queue prolog root@/tmp/x two.q",
		"another user":              "qconf -mattr queue epilog bob@/tmp/x two.q",
		"replace an attribute":      "qconf -rattr queue prolog root@/tmp/x two.q",
		"one host of a queue":       "qconf -mattr queue prolog NONE,[node1=root@/tmp/x] two.q",
		"one instance":              "qconf -mattr queue prolog root@/tmp/x two.q@node1",
		"a new queue":               "qconf -Aq evilq",
		"a queue from a file":       "qconf -Mq evil2",
		"a parallel environment":    "qconf -mattr pe start_proc_args root@/tmp/x pe1",
		"stop of one":               "qconf -mattr pe stop_proc_args root@/tmp/x pe1",
		"a new one":                 "qconf -Ap evilpe",
		"one from a file":           "qconf -Mp evilpe1",
		"global, from a file":       "qconf -Mconf dir/global",
		"of a new host":             "qconf -Aconf dir/node1",
		"a file of attributes":      "qconf -Mattr queue evilattr two.q",
		"another case of the value": "qconf -mattr queue prolog ROOT@/tmp/x two.q",
	}
	files := func(t *testing.T, w *world) {
		w.in.Files["evilq"] = whole(t, queueKind, "qname evil.q\nhostlist node1\nprolog root@/tmp/x\n")
		w.in.Files["evil2"] = whole(t, queueKind, "qname two.q\nhostlist node1\nepilog root@/tmp/x -v\n")
		w.in.Files["evilpe"] = whole(t, peKind, "pe_name pe7\nslots 1\nstart_proc_args root@/tmp/x\n")
		w.in.Files["evilpe1"] = whole(t, peKind, "pe_name pe1\nslots 1\nstart_proc_args root@/tmp/x\n")
		w.in.Files["dir/global"] = []byte("mailer /tmp/x\n")
		w.in.Files["dir/node1"] = []byte("load_sensor /tmp/x\n")
		w.in.Files["evilattr"] = []byte("prolog root@/tmp/x\n")
	}
	prepared := func(t *testing.T) *world {
		w := configured(t)
		files(t, w)
		for _, c := range []string{"qconf -Aq q2", "qconf -Ap pe1", "qconf -am alice"} {
			if r := w.line("root", c); r.Exit != 0 {
				t.Fatalf("%s: %s%s", c, r.Stdout, r.Stderr)
			}
		}
		w.in.Restricted = true
		return w
	}
	for name, c := range commands {
		t.Run(name, func(t *testing.T) {
			w := prepared(t)
			r := w.line("alice", c)
			if text := r.Stdout + r.Stderr; r.Exit == 0 || !strings.Contains(text, "only root may set") || len(r.Writes) > 0 {
				t.Errorf("a manager: exit status %d, %d files written, %s", r.Exit, len(r.Writes), text)
			}
			w.in.Restricted = false
			if r := w.line("root", c); r.Exit != 0 {
				t.Errorf("root: exit status %d, %s%s", r.Exit, r.Stdout, r.Stderr)
			}
		})
	}
	for folder, attributes := range privileged {
		if folder != confFolder {
			continue
		}
		for attribute := range attributes {
			t.Run("conf "+attribute, func(t *testing.T) {
				value := map[string]string{
					"min_uid": "5", "min_gid": "5", "gid_range": "100-200", "execd_params": "KEEP_ACTIVE=true", "cgroups_params": "pids_limit=0",
					"prolog": "root@/tmp/x", "epilog": "root@/tmp/x", "additional_jvm_args": "-x",
				}[attribute]
				if value == "" {
					value = "/tmp/x"
				}
				w := prepared(t)
				w.in.Files["dir/global"] = []byte(attribute + " " + value + "\n")
				if r := w.line("alice", "qconf -Mconf dir/global"); r.Exit == 0 || !strings.Contains(r.Stderr+r.Stdout, "only root may set") {
					t.Errorf("exit status %d, %s%s", r.Exit, r.Stdout, r.Stderr)
				}
			})
		}
	}
}

// TestManagerChangesTheRest checks that a manager may change attributes for which root's rights are
// not required, also in an object in which root has set a program.
func TestManagerChangesTheRest(t *testing.T) {
	w := configured(t)
	w.in.Files["copy"] = whole(t, queueKind, "qname copy.q\nhostlist node1\nprolog root@/site/prolog $job_id\n")
	for _, args := range [][]string{{"-Aq", "q2"}, {"-am", "alice"}, {"-mattr", "queue", "prolog", "root@/site/prolog $job_id", "two.q"}} {
		if r := w.run("root", "qconf", args...); r.Exit != 0 {
			t.Fatalf("%q: %s%s", args, r.Stdout, r.Stderr)
		}
	}
	w.in.Restricted = true
	for _, c := range []string{
		"qconf -mattr queue slots 7 two.q", "qconf -mattr queue epilog /home/alice/epilog two.q", "qconf -Aq copy",
		"qconf -mattr queue prolog NONE two.q", "qconf -dq copy.q",
	} {
		if r := w.line("alice", c); r.Exit != 0 {
			t.Errorf("%s: exit status %d, %s%s", c, r.Exit, r.Stdout, r.Stderr)
		}
	}
}
