package submit

import (
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

func TestTableIsConsistent(t *testing.T) {
	seen := map[string]Commands{}
	for _, o := range Options() {
		if seen[o.Name]&o.Commands != 0 {
			t.Errorf("%s stands twice for a command", o.Name)
		}
		seen[o.Name] |= o.Commands
		if !strings.HasPrefix(o.Name, "-") || len(o.Name) < 2 || o.Commands == 0 || o.Help == "" || strings.Contains(o.Help, "\n") {
			t.Errorf("%+v is incomplete", o)
		}
		if (o.Values == 0) != (o.Args == "") {
			t.Errorf("%s has %d values, called %q", o.Name, o.Values, o.Args)
		}
		if o.Treatment == Executed && o.apply == nil && o.Name != "-@" && o.Name != "-clear" {
			t.Errorf("%s is said to be carried out, but nothing does", o.Name)
		}
		if o.Commands&Qsub == 0 && o.Treatment == Executed && o.Commands != Qrsub {
			t.Errorf("%s is not for qsub, but carried out", o.Name)
		}
		if o.harmless != nil && o.Values == 0 {
			t.Errorf("%s has no value that could be harmless", o.Name)
		}
		for c := Qsub; c <= Qrsub; c <<= 1 {
			if got := lookup(c, o.Name); o.Commands&c != 0 && (got == nil || got.Help != o.Help) {
				t.Errorf("%s isn't found for command %b", o.Name, c)
			}
		}
		if _, ok := Lookup(o.Name); ok != (o.Commands != Qrsub || o.Name == "-e") {
			t.Errorf("%s: found %v", o.Name, ok)
		}
	}
	if _, ok := Lookup("-x"); ok {
		t.Error("an unknown option is found")
	}
	table := Options()
	table[0].Name = "changed"
	if Options()[0].Name == "changed" {
		t.Error("a caller can change the table")
	}
}

// TestTableHasTheOptionsOfTheManual checks the table against the manual page, if it is installed.
func TestTableHasTheOptionsOfTheManual(t *testing.T) {
	for page, c := range map[string]struct{ commands, example, atLeast Commands }{
		"sge_submit": {everywhere, Qsub, 50}, "qrsub": {Qrsub, Qrsub, 15},
	} {
		cmd := exec.Command("man", "-P", "cat", page)
		cmd.Env = append(cmd.Environ(), "MANWIDTH=110")
		output, err := cmd.Output()
		if err != nil {
			t.Skipf("no manual page %s here: %v", page, err)
		}
		text := regexp.MustCompile(`.\x08`).ReplaceAllString(string(output), "")
		_, text, _ = strings.Cut(text, "\nOPTIONS\n")
		text, _, _ = strings.Cut(text, "\nENVIRONMENT VARIABLES\n")
		manual := map[string]bool{}
		for _, m := range regexp.MustCompile(`(?m)^ {7}(-[@a-zA-Z_]+)\b?`).FindAllStringSubmatch(text, -1) {
			manual[m[1]] = true
			if lookup(c.example, m[1]) == nil {
				t.Errorf("%s: %s is missing", page, m[1])
			}
		}
		if len(manual) < int(c.atLeast) {
			t.Fatalf("found only %d options in the page %s", len(manual), page)
		}
		for _, o := range Options() {
			if o.Commands&c.commands != 0 && !manual[o.Name] && !ofLaterSystems[o.Name] {
				t.Errorf("%s is not in the manual page %s", o.Name, page)
			}
		}
	}
}

// ofLaterSystems lists options of Gridware Cluster Scheduler 9.1 that clients send.
var ofLaterSystems = map[string]bool{
	"-bamount": true, "-bfilter": true, "-binstance": true, "-bsort": true, "-bstart": true, "-bstop": true, "-bstrategy": true,
	"-btype": true, "-bunit": true, "-scope": true,
}

func TestSuggest(t *testing.T) {
	for in, want := range map[string]string{
		"-hard_resource": "-hard", "-hold": "-hold_jid", "-hold_jd": "-hold_jid", "-Cwd": "-cwd", "-CWD": "-cwd", "-notfy": "-notify", "-pe4": "-pe",
		"--N": "-N", "--cwd": "-cwd", "-N=x": "-N", "-t1-5": "-t", "-lh_rt=5": "-l", "-bindng": "-binding", "-tesre": "-terse", "-x": "", "-": "",
		"-verfy": "-verify", "-xyzzy": "", "-checkpoint": "-c", strings.Repeat("-l", 1000): "",
	} {
		if got := suggest(in); got != want {
			t.Errorf("%.30q: %q, want %q", in, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	text := Usage()
	for _, row := range Options() {
		o, ok := Lookup(row.Name)
		if n := strings.Count(text, "\n  "+row.Name+" "); ok && (n != 1 || !strings.Contains(text, o.Help)) || !ok && n != 0 {
			t.Errorf("%s stands there %d times", row.Name, n)
		}
	}
	for i, line := range strings.Split(text, "\n") {
		if len(line) > 110 || strings.TrimRight(line, " ") != line {
			t.Errorf("line %d: %q", i+1, line)
		}
	}
	if i, j := strings.Index(text, Executed.String()), strings.Index(text, Refused.String()); i != 0 || j < i {
		t.Errorf("the groups are out of order:\n%s", text)
	}
}
