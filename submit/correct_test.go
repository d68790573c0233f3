package submit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var verified = map[string]string{
	"nothing":     "-b y sleep 1 2",
	"most":        "-N n -a 203001011200 -ac a=1,b -A acc -binding pe linear:2:0,0 -c s -ckpt ck -cwd -e /tmp/e -o h:/tmp/o,/tmp/p -i /tmp/i -hold_jid 1,x -j y -js 5 -l h_rt=1:0:0,h_vmem=1G -soft -l s_rt=5 -q a* -hard -q all.q -m be -M a@b,c -masterq all.q -notify -P p -p -5 -pe make 2-4 -R y -r y -shell n -S /bin/sh -t 1-5:2 -tc 3 -v A=1,B=2 -w e -h -b y sleep 1",
	"other kinds": "-c 0:5:0 -dl 203001011200.30 -binding explicit:0,0:0,1 -hold_jid_ad 5 -t 3 -ar 4 -wd /tmp -b y sleep",
	"striding":    "-binding striding:2:2:0,1 -pe make 3- -b y sleep",
}

func parseVerified(t *testing.T, line string) *Request {
	t.Helper()
	r, err := Parse(Input{Args: strings.Fields(line), Master: true, Cwd: "/home/alice"})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestCorrectionsAreParameters checks that nothing changes if a verifier sets all parameters to their
// present values. With the same values it can build the same job from an empty one.
func TestCorrectionsAreParameters(t *testing.T) {
	who := Submitter{Context: "client", Command: "qsub", User: "alice", Group: "users", Host: "h"}
	for name, line := range verified {
		t.Run(name, func(t *testing.T) {
			want := parseVerified(t, line)
			var changes []Correction
			for _, p := range want.Parameters(who) {
				if !readOnly[p.Name] && !strings.HasPrefix(p.Name, "CMDARG") {
					changes = append(changes, Correction{Parameter: p})
				}
			}
			command := strings.Fields(line[strings.Index(line, "-b y"):])
			for _, from := range []string{line, strings.Join(command, " ")} {
				got := parseVerified(t, from)
				if unknown, err := got.Correct(changes); err != nil || unknown != nil {
					t.Fatal(unknown, err)
				}
				if diff := cmp.Diff(want.Parameters(who), got.Parameters(who)); diff != "" {
					t.Errorf("from %q: %s", from, diff)
				}
			}
			// A verifier can remove every parameter except the name and the mail addresses.
			for i := range changes {
				if changes[i].Name != "N" && changes[i].Name != "j" && changes[i].Name != "notify" {
					changes[i].Value = ""
				}
			}
			got := parseVerified(t, line)
			if _, err := got.Correct(changes); err != nil {
				t.Fatal(err)
			}
			for _, p := range got.Parameters(Submitter{}) {
				switch p.Name {
				case "VERSION", "CMDNAME", "CMDARGS", "CMDARG0", "CMDARG1", "b", "N", "M", "j", "notify":
				default:
					t.Errorf("%s is %q", p.Name, p.Value)
				}
			}
		})
	}
}

func TestWrongCorrections(t *testing.T) {
	for name, c := range map[string]struct {
		change Correction
		want   string
	}{
		"what tells about the submission": {Correction{Parameter: Parameter{"USER", "root"}}, `read-only parameter "USER"`},
		"the command":                     {Correction{Parameter: Parameter{"CMDNAME", "rm"}}, `read-only parameter "CMDNAME"`},
		"an invalid number":               {Correction{Parameter: Parameter{"CMDARGS", "x"}}, `sets CMDARGS to "x"`},
		"an argument far behind":          {Correction{Parameter: Parameter{"CMDARG999999999", "x"}}, "expected a number"},
		"an argument before the first":    {Correction{Parameter: Parameter{"CMDARG-1", "x"}}, "expected a number"},
		"an invalid priority":             {Correction{Parameter: Parameter{"p", "abc"}}, "invalid priority"},
		"an invalid hold":                 {Correction{Parameter: Parameter{"h", "x"}}, "expected u or n"},
		"an invalid range":                {Correction{Parameter: Parameter{"t_min", "x"}}, "no decimal number"},
		"a variable without a name":       {Correction{Variable: true}, "no name"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parseVerified(t, "-t 1-5 -b y sleep").Correct([]Correction{c.change})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
	r := parseVerified(t, "-v A=1,B=2 -b y sleep")
	unknown, err := r.Correct([]Correction{
		{Parameter: Parameter{"nosuch", "1"}}, {Parameter: Parameter{"A", ""}, Variable: true, Remove: true}, {Parameter: Parameter{"C", "x y"}, Variable: true},
	})
	if diff := cmp.Diff([]string{"nosuch"}, unknown); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff([]Variable{{"TERM", ""}, {"B", "2"}, {"C", "x y"}}, r.Env); diff != "" {
		t.Error(diff)
	}
}

// TestCorrectArguments checks that arguments are changed, removed at the end, and added without gaps,
// as in the original.
func TestCorrectArguments(t *testing.T) {
	for changes, want := range map[string]string{
		"CMDARG0=55": "55 2", "CMDARGS=1": "1", "CMDARGS=0": "", "CMDARG3=x": "1 2 <> x", "CMDARGS=3 CMDARG2=y": "1 2 y", "CMDARG1=": "1 <>",
	} {
		r := parseVerified(t, "-b y sleep 1 2")
		before := r.Args
		var list []Correction
		for c := range strings.FieldsSeq(changes) {
			name, value, _ := strings.Cut(c, "=")
			list = append(list, Correction{Parameter: Parameter{name, value}})
		}
		if unknown, err := r.Correct(list); err != nil || unknown != nil {
			t.Errorf("%s: %v, %v", changes, unknown, err)
		}
		got := slices.Clone(r.Args)
		for i := range got {
			if got[i] == "" {
				got[i] = "<>"
			}
		}
		if strings.Join(got, " ") != want || strings.Join(before, " ") != "1 2" {
			t.Errorf("%s: %q, want %q; before %q", changes, got, want, before)
		}
	}
}
