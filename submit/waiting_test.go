package submit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/job"
)

func TestWhatWaitingAndPlacingDependOn(t *testing.T) {
	for args, want := range map[string]func(*Request) any{
		"-q a.q,b.q@n1 -soft -q *@@g": func(r *Request) any { return r.Queues },
		"-masterq a.q -masterq b.q":   func(r *Request) any { return r.MasterQueues },
		"-now y":                      func(r *Request) any { return r.Immediate },
		"-R yes":                      func(r *Request) any { return r.Reserve },
		"-R y -R n":                   func(r *Request) any { return r.Reserve },
		"-sync y":                     func(r *Request) any { return r.Sync },
		"-w e":                        func(r *Request) any { return string(r.Validation) },
		"-w e -w n":                   func(r *Request) any { return r.Validation },
		"-h":                          func(r *Request) any { return r.Hold },
		"-a 202611202325.07":          func(r *Request) any { return r.Start },
		"-dl 11202325":                func(r *Request) any { return r.Deadline.String() },
		"-hold_jid 1,a*":              func(r *Request) any { return r.PrecedingJobs },
		"-hold_jid_ad 7":              func(r *Request) any { return r.PrecedingTasks },
		"-tc 2":                       func(r *Request) any { return r.TaskLimit },
		"-js 10 -js 5":                func(r *Request) any { return r.JobShare },
		"-ar 99":                      func(r *Request) any { return r.Reservation },
	} {
		for _, master := range []bool{false, true} {
			r, err := Parse(Input{Args: append(strings.Fields(args), "s"), ReadFile: files(map[string]string{"s": ""}), Master: master})
			if err != nil {
				t.Errorf("%s: %v", args, err)
				continue
			}
			got := fmt.Sprint(want(r))
			expected := map[string]string{
				"-q a.q,b.q@n1 -soft -q *@@g": "[{a.q false} {b.q@n1 false} {*@@g true}]", "-masterq a.q -masterq b.q": "[a.q b.q]",
				"-now y": "true", "-R yes": "true", "-R y -R n": "false", "-sync y": "true", "-w e": "e", "-w e -w n": "0", "-h": "true",
				"-a 202611202325.07": "202611202325.07", "-dl 11202325": "11202325", "-hold_jid 1,a*": "[1 a*]", "-hold_jid_ad 7": "[7]",
				"-tc 2": "2", "-js 10 -js 5": "5", "-ar 99": "99",
			}[args]
			if got != expected {
				t.Errorf("%s: got %s, want %s", args, got, expected)
			}
			if master && len(r.Noted) > 0 {
				t.Errorf("%s: noted %v although it is for a master", args, r.Noted)
			}
		}
	}
}

// TestTextsOfTheOriginal checks the texts that the original's commands print (observed on 8.1.9).
func TestTextsOfTheOriginal(t *testing.T) {
	for args, want := range map[string]string{
		"-p 1025":      `invalid priority "1025".  Must be an integer from -1023 to 1024`,
		"-p x":         `invalid priority "x".  Must be an integer from -1023 to 1024`,
		"-pe smp 0":    `"job" rejected: pe range must be greater than zero`,
		"-pe smp 2,0":  `"job" rejected: pe range must be greater than zero`,
		"-pe smp 0-4":  `"job" rejected: pe range must be greater than zero`,
		"-pe smp 6:2":  `Range specifier "6:2" has unknown trailer ":2"`,
		"-pe smp abc":  `The initial portion of string "abc" contains no decimal number`,
		"-t 0-3":       `job rejected: 0 is an invalid task id`,
		"-t 0":         `job rejected: 0 is an invalid task id`,
		"-t 1-5:0":     `Negative or zero step in range is not allowed`,
		"-t 1-5:-2":    `Negative or zero step in range is not allowed`,
		"-t x":         `The initial portion of string "x" contains no decimal number`,
		"-l osver=":    `denied: missing value for resource "osver"`,
		"-l a=1,mem= ": `denied: missing value for resource "mem"`,
	} {
		_, err := parse(append(strings.Fields(args), "s"))
		e := new(Error)
		if !errors.As(err, &e) || e.Problem != want {
			t.Errorf("%s:\ngot  %v\nwant %s", args, err, want)
		}
	}
}

func TestMasterReadsTheValuesItself(t *testing.T) {
	in := Input{Args: strings.Fields("-l h_rt=1.5,h_vmem,x=1GB,y= -pe p 4,0-3 -pty y s"), ReadFile: files(map[string]string{"s": ""}), Master: true}
	r, err := Parse(in)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(r.Resources); got != "[h_rt=1.5 h_vmem=TRUE x=1GB y=]" || r.PTY != job.Yes || !slices.Equal(r.PE.Ranges, []SlotRange{{4, 4}, {}}) {
		t.Errorf("%s, pty %v", got, r.PTY)
	}
	for _, args := range []string{"-ot 5 s", "-inherit s", "-he y s", "-u x s"} {
		in.Args = strings.Fields(args)
		if _, err := Parse(in); err == nil || !strings.Contains(err.Error(), "unknown option") && !strings.Contains(err.Error(), "it is an option of q") {
			t.Errorf("%s: %v", args, err)
		}
	}
	in.RequestFiles = []File{{"r", []byte("-display x\n-inherit\n")}}
	in.Args = []string{"s"}
	if _, err := Parse(in); err != nil {
		t.Errorf("options of other commands in a request file: %v", err)
	}
}

func TestDateTime(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for in, want := range map[string]string{
		"12241200":        "2026-12-24T12:00:00Z", // of this year, even if it is in the past
		"01010000":        "2026-01-01T00:00:00Z",
		"2412241200":      "2024-12-24T12:00:00Z",
		"6912241200":      "2069-12-24T12:00:00Z",
		"7012241200":      "1970-12-24T12:00:00Z",
		"202412241200.30": "2024-12-24T12:00:30Z",
		"02301200":        "2026-03-02T12:00:00Z",
	} {
		d, err := ParseDateTime(in)
		if err != nil || d.IsZero() {
			t.Errorf("%s: %v", in, err)
			continue
		}
		if got := d.Time(now).Format(time.RFC3339); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if again, err := ParseDateTime(d.String()); err != nil || again != d {
			t.Errorf("%s: printed as %s, read as %+v, %v", in, d, again, err)
		}
	}
	if !(DateTime{}).IsZero() {
		t.Error("none is some")
	}
}

func FuzzDateTime(f *testing.F) {
	for _, s := range []string{"12241200", "2412241200", "202412241200.30", "000012241200", "x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := ParseDateTime(s)
		if err != nil {
			return
		}
		if again, err := ParseDateTime(d.String()); err != nil || again != d {
			t.Fatalf("%q: %+v printed as %q, read as %+v, %v", s, d, d.String(), again, err)
		}
	})
}

func TestHolds(t *testing.T) {
	for in, want := range map[string]HoldChange{
		"u": {Set: HoldUser}, "uo": {Set: HoldUser | HoldOperator}, "s": {Set: HoldSystem},
		"U": {Clear: HoldUser}, "": {}, "OS": {Clear: HoldOperator | HoldSystem}, "n": {Clear: AllHolds},
	} {
		if got, err := ParseHolds(in); err != nil || got != want {
			t.Errorf("%s: %+v, %v", in, got, err)
		}
	}
	for _, in := range []string{"x", "uU", "nu", "u,s"} {
		if got, err := ParseHolds(in); err == nil {
			t.Errorf("%q: %+v", in, got)
		}
	}
	for h, want := range map[Holds]string{0: "n", HoldUser: "u", AllHolds: "uos", HoldSystem: "s"} {
		if h.String() != want {
			t.Errorf("%d: %s", h, h)
		}
	}
}

func TestAlteration(t *testing.T) {
	alter := func(line string) (*Alteration, error) { return ParseAlteration(Input{Args: strings.Fields(line)}) }
	type want struct {
		Jobs, Options string
		Users         []string
		Holds         HoldChange
		Override      int
		Priority      int
		Preceding     []string
		Args          []string
	}
	for line, want := range map[string]want{
		"-p -5 3":               {Jobs: "[3]", Options: "[-p]", Priority: -5},
		"-ot 25 c1":             {Jobs: "[c1]", Options: "[-ot]", Override: 25},
		"-h uo 1,2 3":           {Jobs: "[1 2 3]", Options: "[-h]", Holds: HoldChange{Set: HoldUser | HoldOperator}},
		"-h U 1.2-4:2":          {Jobs: "[1 -t 2-4:2]", Options: "[-h]", Holds: HoldChange{Clear: HoldUser}},
		"-p 1 4 -t 1-3,7":       {Jobs: "[4 -t 1-3:1,7-7:1]", Options: "[-p]", Priority: 1},
		"-p 1 -u alice,bob":     {Jobs: "[]", Options: "[-p]", Priority: 1, Users: []string{"alice", "bob"}},
		"-p 1 -u *":             {Jobs: "[]", Options: "[-p]", Priority: 1, Users: []string{"*"}},
		"-hold_jid 7,x -p 2 3":  {Jobs: "[3]", Options: "[-hold_jid -p]", Priority: 2, Preceding: []string{"7", "x"}},
		"3 -- -a b":             {Jobs: "[3]", Options: "[]", Args: []string{"-a", "b"}},
		"-p 1 -p 2 job.sh":      {Jobs: "[job.sh]", Options: "[-p]", Priority: 2},
		"-l a=1 -soft -l b=2 3": {Jobs: "[3]", Options: "[-l -soft]"},
	} {
		a, err := alter(line)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		got := want
		got.Jobs, got.Options, got.Users, got.Holds, got.Override = fmt.Sprint(a.Jobs), fmt.Sprint(a.Options), a.Users, a.Holds, a.Override
		got.Priority, got.Preceding, got.Args = a.Request.Priority, a.Request.PrecedingJobs, a.Request.Args
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", line, diff)
		}
	}
	a, err := ParseAlteration(Input{Args: []string{"-hold_jid", "", "3"}})
	if err != nil || !a.Has("-hold_jid") || len(a.Request.PrecedingJobs) != 0 {
		t.Errorf("taking dependencies away: %+v, %v", a, err)
	}
	if a, err := alter("-help"); err != nil || !a.Help {
		t.Errorf("-help: %+v, %v", a, err)
	}
	for line, want := range map[string]string{
		"-p 5":           "no job is named",
		"-p 5 -u a 3":    "jobs are named beside users",
		"3":              "no option says what is to be changed",
		"-t 1-5 3":       "it is an option of qsub",
		"-b y 3":         "it is an option of qsub, qrsh",
		"-h 3":           `'3' is not one of u, o, s, n, U, O and S`,
		"-p 5 -t 1":      "it is an option of qsub",
		"-p 5 3 -t":      "-t needs a job before it",
		"-p 5 3.0":       "0 is an invalid task id",
		"-p 5 3 -t x":    "no decimal number",
		"-ot -5 3":       "is not a number",
		"-hold_jid , -h": "a value is missing",
	} {
		if _, err := alter(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
}

func TestReservation(t *testing.T) {
	reserve := func(line string) (*Reservation, error) {
		return ParseReservation(Input{Args: strings.Fields(line), RequestFiles: []File{{"ar", []byte("-A site\n")}}})
	}
	got, err := reserve("-a 202611202238.09 -e 202611202243.09 -d 300 -he y -N ar1 -A acct -pe fill 3 -l lic=1 -q a.q,b.q -masterq a.q -u alice,@staff -ckpt ck -now n -w v -m be -M x@y")
	if err != nil {
		t.Fatal(err)
	}
	want := &Reservation{
		Start: DateTime{2026, 11, 20, 22, 38, 9}, End: DateTime{2026, 11, 20, 22, 43, 9}, Duration: 5 * time.Minute, HardError: true,
		Users: []string{"alice", "@staff"}, Name: "ar1", Account: "acct", PE: &ParallelRequest{"fill", []SlotRange{{3, 3}}}, Checkpoint: "ck",
		Resources: []ResourceRequest{{"lic", "1", false}}, Queues: []string{"a.q", "b.q"}, MasterQueues: []string{"a.q"}, Validation: ValidateVerify,
		Mail: []string{"x@y"}, MailOptions: job.MailAtBegin | job.MailAtEnd,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got, err := reserve("-d 0:5:0"); err != nil || got.Duration != 5*time.Minute || got.Account != "site" {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := reserve("-help"); err != nil || !got.Help {
		t.Errorf("%+v, %v", got, err)
	}
	for line, want := range map[string]string{
		"-d 2147483648": "the duration is not a time of at most", "-d x": "x", "-e x": "expected [[CC]YY]MMDDhhmm[.SS]", "-t 1-5": "unknown option",
		"-d 5 job": "a reservation has no command", "-w p": "expected one of e, v", "-he maybe": "neither y[es] nor n[o]", "-u ,": "no user is named",
		"-u a:b": "is not a name of a user", "-hold_jid 3": "unknown option",
	} {
		if _, err := reserve(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	if _, err := ParseReservation(Input{RequestFiles: []File{{"ar", []byte("-d")}}}); err == nil || !strings.HasPrefix(err.Error(), "ar:1:") {
		t.Errorf("a mistake in the request file: %v", err)
	}
}

func FuzzJobRanges(f *testing.F) {
	for _, s := range []string{"1", "1,2 3", "4 -t 1-3,7", "1.2-4:2", "a.b", "-t", "j* -t 5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		list, err := ParseJobRanges(strings.Fields(s))
		if err != nil {
			return
		}
		var words []string
		for _, r := range list {
			words = append(words, strings.Fields(r.String())...)
		}
		again, err := ParseJobRanges(words)
		if err != nil || !slices.EqualFunc(again, list, func(a, b JobRange) bool { return a.String() == b.String() }) {
			t.Fatalf("%q: %v printed as %q, read as %v, %v", s, list, words, again, err)
		}
	})
}

func TestPriorityIsReadForAllIntegersOfItsRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(-3000, 3000).Draw(t, "n")
		r, err := parse([]string{"-p", fmt.Sprint(n), "s"})
		if ok := n >= -1023 && n <= 1024; ok != (err == nil) || ok && r.Priority != n {
			t.Fatalf("%d: %v", n, err)
		}
	})
}
