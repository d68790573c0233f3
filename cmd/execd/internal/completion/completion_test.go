package completion

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/options"
)

var submission = []Option{
	{Name: "-q", Value: "queue,...", Text: "queues"},
	{Name: "-pe", Value: "pe_name n[-[m]]|[-]m,...", Text: "PE"},
	{Name: "-l", Value: "resource=value,...", Text: "resources"},
	{Name: "-j", Value: "y[es]|n[o]", Text: "join"},
	{Name: "-o", Value: "[[host]:]path,...", Text: "output"},
	{Name: "-ckpt", Value: "name", Text: "checkpoints"},
	{Name: "-N", Value: "name", Text: "name"},
	{Name: "-c", Value: "n|s|m|x|r|interval", Text: "when"},
	{Name: "-hold_jid", Value: "job,...", Text: "wait"},
	{Name: "-h", Value: "u|s|o|n|U|O|S...", Text: "holds"},
	{Name: "-M", Value: "user[@host],...", Text: "mail"},
	{Name: "-soft"},
}

var table = &Table{
	Commands: []Command{
		{Name: "config", Words: []string{"check"}, Options: []Option{{Name: "--partial", Value: "", Text: "accept"}}},
		{Name: "jobs", Options: []Option{{Name: "--state", Value: "STATE", Text: "only"}, {Name: "--socket", Value: "PATH", Text: "socket"}}},
		{Name: "attach"},
		{Name: "top", NoOperands: true, Options: []Option{{Name: "--user", Short: "-u", Value: "USER"}, {Name: "--batch"}}},
		{Name: "run", Options: []Option{{Name: "--queue", Value: "NAME"}, {Name: "--host", Value: "NAME"}}},
		{Name: "seff"},
		{Name: "qsub", GridEngine: true, Options: submission},
		{Name: "qdel", GridEngine: true},
		{Name: "qacct", GridEngine: true, Options: []Option{{Name: "-j", Value: "job_id|job_name|pattern"}, {Name: "-o", Value: "owner"}}},
		{Name: "qconf", GridEngine: true, Options: []Option{
			{Name: "-su", Value: "userset_name_list"}, {Name: "-suser", Value: "user_name_list"}, {Name: "-srqs", Value: "[rqs_list]"}, {Name: "-drqs", Value: "rqs_list"}, {Name: "-ar", Value: "ar_id"},
		}},
	},
	Values: map[string][]string{"STATE": {"running", "reported"}},
	Ask: func(k Kind, _ string) []Candidate {
		return map[Kind][]Candidate{
			Queues: {{Word: "all.q"}, {Word: "long.q"}}, PEs: {{Word: "smp"}}, Resources: {{Word: "h_vmem"}},
			Users: {{Word: "alice"}, {Word: "$(reboot)"}, {Word: "a;b"}, {Word: "a b"}, {Word: "jürgen"}}, Hosts: {{Word: "n1"}}, FinishedJobs: {{Word: "6"}},
			AccessLists: {{Word: "staff"}}, QuotaSets: {{Word: "rules"}}, Reservations: {{Word: "3"}},
			Jobs: {{"12", "sleep of alice, r"}, {"3", ""}}, Checkpoints: {{Word: "ck"}}, HostJobs: {{Word: "7"}},
		}[k]
	},
}

func TestComplete(t *testing.T) {
	for line, want := range map[string]string{
		"execd":                      "",
		"execd ":                     "config jobs attach top run seff qsub qdel qacct qconf",
		"/usr/bin/execd q":           "qsub qdel qacct qconf",
		"execd config ":              "check",
		"execd config check ":        "files",
		"execd config check --":      "--partial",
		"execd jobs --state re":      "reported",
		"execd jobs --state=":        "--state=running --state=reported",
		"execd jobs --socket /":      "files",
		"execd jobs --socket=/":      "files",
		"execd nosuch x":             "files",
		"execd attach ":              "7",
		"execd qsub -q a":            "all.q",
		"/usr/lib/execd/bin/qsub -q": "-q",
		"qsub -":                     "-q -pe -l -j -o -ckpt -N -c -hold_jid -h -M -soft",
		"qsub -q all.q,":             "all.q,all.q all.q,long.q",
		"qsub -q all.q,l":            "all.q,long.q",
		"qsub -pe s":                 "smp",
		"qsub -l h_":                 "h_vmem",
		"qsub -l h_vmem=1G,h_":       "h_vmem=1G,h_vmem",
		"qsub -j ":                   "y n",
		"qsub -c ":                   "n s m x r",
		"qsub -o /tm":                "files",
		"qsub -ckpt ":                "ck",
		"qsub -N x":                  "",
		"qsub -hold_jid 1":           "12",
		"qsub jo":                    "files",
		"qdel 3 ":                    "12 3",
		"execd top -u ":              "alice jürgen",
		"execd top --user=a":         "--user=alice",
		"execd top ":                 "",
		"execd top -":                "--user --batch",
		"execd run --queue l":        "long.q",
		"execd run --host ":          "n1",
		"execd seff ":                "6",
		"qsub -h U":                  "U",
		"qsub -M j":                  "jürgen",
		"qsub -q all.q@":             "all.q@n1",
		"qsub -q all.q,long.q@":      "all.q,long.q@n1",
		"qsub -soft ":                "files",
		"qacct -j ":                  "6",
		"qacct -o a":                 "alice",
		"qconf -su ":                 "staff",
		"qconf -suser j":             "jürgen",
		"qconf -srqs r":              "rules",
		"qconf -drqs ":               "rules",
		"qconf -ar ":                 "3",
	} {
		candidates, files := table.Complete(append(strings.Fields(line), map[bool][]string{true: {""}}[strings.HasSuffix(line, " ")]...))
		var words []string
		if files {
			words = append(words, "files")
		}
		for _, c := range candidates {
			words = append(words, c.Word)
		}
		if got := strings.Join(words, " "); got != want {
			t.Errorf("%q: %q, expected %q", line, got, want)
		}
	}
}

// TestAnswerEscapesHostileNames completes descriptions of several lines, and names with control
// characters that a user chose to attack another user's terminal.
func TestAnswerEscapesHostileNames(t *testing.T) {
	hostile := &Table{
		Commands: []Command{{Name: "qdel", GridEngine: true}},
		Ask: func(Kind, string) []Candidate {
			return []Candidate{{"1", "a\x1b[31m\tb"}, {"2", "first\nsecond"}, {"3\n4", ""}, {"5\x1b", ""}, {"6", ""}}
		},
	}
	var out bytes.Buffer
	if err := hostile.Answer([]string{"qdel", ""}, &out); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff("words\n1\ta\\x1b[31m\\x09b\n2\tfirst\n6\n", out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestScript(t *testing.T) {
	for _, shell := range Shells {
		var out bytes.Buffer
		if err := table.Script([]string{shell}, &out); err != nil || !strings.Contains(out.String(), "execd qsub qdel") || strings.Contains(out.String(), "PROGRAMS") {
			t.Errorf("%s: %v\n%s", shell, err, &out)
		}
	}
	for _, args := range [][]string{nil, {"csh"}, {"bash", "zsh"}, {"--frob"}} {
		if err := table.Script(args, &bytes.Buffer{}); !errors.As(err, new(*options.UsageError)) {
			t.Errorf("%q: %v", args, err)
		}
	}
}
