package workload

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/execd-project/execd/submit"
)

func file(text string) submit.File { return submit.File{Name: "jobs", Text: []byte(text)} }

// show formats a job as a line for comparison.
func show(j Job) string {
	r := j.Request
	s := fmt.Sprintf("%d: @%d run=%d %s:%s %s", j.Line, j.Submit, j.Run, j.User, j.Group, r.Name)
	if r.PE != nil {
		s += " pe=" + r.PE.String()
	}
	for _, l := range r.Resources {
		s += " " + l.String()
	}
	for _, q := range r.Queues {
		s += " q=" + q.Reference
	}
	return s
}

func showAll(jobs []Job) []string {
	lines := make([]string, 0, len(jobs))
	for _, j := range jobs {
		lines = append(lines, show(j))
	}
	return lines
}

// TestExample checks that the example in the package documentation gives the documented result.
func TestExample(t *testing.T) {
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var example strings.Builder
	for line := range strings.Lines(string(text)) {
		if code, isCode := strings.CutPrefix(line, "//\t"); isCode {
			example.WriteString(code)
		}
	}
	jobs, err := Read(file(example.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"2: @0 run=600 alice:staff a h_rt=900",
		"3: @0 run=300 alice:staff b pe=mpi 4-8",
		"4: @0 run=20 alice:staff c",
		"5: @60 run=7200 bob: sleep q=long.q q=*@@big",
	}
	if diff := cmp.Diff(want, showAll(jobs)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if a := jobs[2].Request; a.Array == nil || len(a.PrecedingJobs) != 1 || !jobs[1].Request.Reserve {
		t.Errorf("%+v", a)
	}
}

func TestWhenAndForHowLong(t *testing.T) {
	const text = `@0:1:0 qsub a.sh
qsub -b y sleep 5
@+10 run=0:0:7 qsub -b y sleep 5

@5 qsub -b y /bin/sleep 5 6
@+0 user=x:y run=infinity qsub -b y sleep 5
@+1 user=z qsub -b y sleep 1m
qsub -b y sleep
`
	o := Options{
		User: "me", Group: "us",
		ReadFile: func(path string) ([]byte, error) { return []byte("#$ -N inside -l h_rt=9\n"), nil },
	}
	jobs, err := Read(file(text), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"5: @5 run=5 me:us sleep",
		"6: @5 run=-1 x:y sleep",
		"7: @6 run=-1 z: sleep",
		"8: @6 run=-1 me:us sleep",
		"1: @60 run=-1 me:us inside h_rt=9",
		"2: @60 run=5 me:us sleep",
		"3: @70 run=7 me:us sleep",
	}
	if diff := cmp.Diff(want, showAll(jobs)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestJobsOfTheSameTimeKeepTheirOrder(t *testing.T) {
	jobs, err := Read(file(strings.Repeat("@1 qsub -b y sleep 2000000000000\n@0 qsub\n", 50)), Options{})
	if err != nil || len(jobs) != 100 {
		t.Fatal(len(jobs), err)
	}
	for i, j := range jobs[50:] {
		if j.Line != 2*i+1 || j.Run != Endless {
			t.Fatalf("%d: %s", i, show(j))
		}
	}
	if _, err := Read(file("@1000000000000 qsub\n@+200000000000 qsub\n"), Options{}); err == nil {
		t.Error("a sum above MaxTime")
	}
}

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"a  b\tc":                  "1:a|b|c",
		"a b\nc\n\n d":             "1:a|b 2:c 4:d",
		"a b\r\nc \\\r\nd\r\n":     "1:a|b 2:c|d",
		`'a b' "c d" e\ f`:         "1:a b|c d|e f",
		`a'b'"c"d`:                 "1:abcd",
		`'' "" x`:                  "1:||x",
		`'a\b"c' "a\b'c"`:          `1:a\b"c|a\b'c`,
		`"a\"b\\c\$d\` + "`e\"":    "1:a\"b\\c$d`e",
		"a \\\n b \\\n\\\nc\nd":    "1:a|b|c 5:d",
		"a\\\nb":                   "1:ab",
		"\"a\\\nb\"":               "1:ab",
		"# nothing \\\na # b\nc#d": "2:a 3:c#d",
		"a '#' \\# \"#\"":          "1:a|#|#|#",
		"$HOME ~ * ? [a] {b} !c":   "1:$HOME|~|*|?|[a]|{b}|!c",
		"'a;b|c&d<e>f(g)h`'":       "1:a;b|c&d<e>f(g)h`",
		"a\\;b":                    "1:a;b",
		"":                         "",
		" \n\t\n":                  "",
		"a;b":                      "1!';' has a special meaning to a shell: expected it in quotes",
		"x\na | b":                 "1:x 2!'|' has a special meaning to a shell: expected it in quotes",
		"a 'b\nc":                  "1!a quote ' is not closed 2:c",
		"a 'b \\\nc'":              "1!a quote ' is not closed 2!a quote ' is not closed",
		"a \"b":                    "1!a quote \" is not closed",
		"a \"b\\":                  "1!a quote \" is not closed",
		"a\nb \\":                  "1:a 2!the file ends in a continued line",
	} {
		var got []string
		for l := range split(text) {
			if l.err != nil {
				got = append(got, fmt.Sprintf("%d!%v", l.number, l.err))
			} else {
				got = append(got, fmt.Sprintf("%d:%s", l.number, strings.Join(l.words, "|")))
			}
		}
		if s := strings.Join(got, " "); s != want {
			t.Errorf("%q: %s, want %s", text, s, want)
		}
	}
}

// TestQuotedWords checks that quoting a word in either kind of quotes preserves it.
func TestQuotedWords(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOfN(rapid.StringMatching("[ -~\t]{0,6}"), 1, 5).Draw(t, "words")
		var text strings.Builder
		for i, w := range words {
			if i > 0 {
				text.WriteString(" ")
			}
			switch {
			case w != "" && rapid.Bool().Draw(t, "backslashes"):
				for i := range len(w) {
					text.WriteString(`\` + w[i:i+1])
				}
			case !strings.Contains(w, "'") && rapid.Bool().Draw(t, "single"):
				text.WriteString("'" + w + "'")
			default:
				text.WriteString(`"` + strings.NewReplacer(`"`, `\"`, `\`, `\\`, "$", `\$`, "`", "\\`").Replace(w) + `"`)
			}
		}
		lines := slices.Collect(split(text.String()))
		if len(lines) != 1 || lines[0].err != nil || !cmp.Equal(lines[0].words, words) {
			t.Fatalf("%s: %+v", text.String(), lines)
		}
	})
}

func TestAllThatIsWrong(t *testing.T) {
	const text = `@0 run=1 qsub -b y true
@x qsub
@ run=-1 qsub -l h_rt=no -b y true
@infinity qsub
@+2000000000000 qsub
@1 @2 qsub
user= qsub
user=a:b:c qsub
user=a\ b qsub
user=a run=1
then qsub
run=5 user=b \
  qsub -pee x 3
qsub 'a
qsub -w v -b y true
qsub -help
qsub missing.sh
qsub bad.sh
"" qsub
qsub -q a|b
`
	want := []string{
		`jobs:2: "@x": "x" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		`jobs:3: "@": empty, expected seconds or hours:minutes:seconds`,
		`jobs:3: "run=-1": "-1" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		`jobs:3: "-l h_rt=no": h_rt: "no" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		`jobs:4: "@infinity": nothing is submitted at that time, expected seconds or hours:minutes:seconds`,
		`jobs:5: "@+2000000000000": 2000000000000 seconds are more than the 1099511627776 that are possible`,
		`jobs:6: "@2": there is one already in this line`,
		`jobs:7: "user=": the user: empty name`,
		`jobs:8: "user=a:b:c": the group: "b:c" is not a name: it contains ":", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
		`jobs:9: "user=a b": the user: "a b" is not a name: it contains " ", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
		`jobs:10: the line has no qsub, expected it behind @TIME, run=TIME and user=NAME`,
		`jobs:11: "then": expected @TIME, run=TIME, user=NAME[:GROUP] or qsub`,
		`jobs:12: "-pee": unknown option; did you mean "-pe"?`,
		`jobs:14: a quote ' is not closed`,
		`jobs:15: the line submits nothing, expected none of -help, -verify, -w v and -w p`,
		`jobs:16: the line submits nothing, expected none of -help, -verify, -w v and -w p`,
		`jobs:17: "missing.sh": cannot read the script: file does not exist`,
		`jobs:18: bad.sh:1: "-l": a value is missing, expected -l resource=value,...`,
		`jobs:19: expected @TIME, run=TIME, user=NAME[:GROUP] or qsub`,
		`jobs:20: '|' has a special meaning to a shell: expected it in quotes`,
	}
	jobs, err := Read(file(text), Options{ReadFile: func(path string) ([]byte, error) {
		if path == "bad.sh" {
			return []byte("#$ -l\n"), nil
		}
		return nil, os.ErrNotExist
	}})
	if jobs != nil || err == nil {
		t.Fatalf("%v, %v", jobs, err)
	}
	if diff := cmp.Diff(want, strings.Split(err.Error(), "\n")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	var e *Error
	var s *submit.Error
	if !errors.As(err, &e) || e.Line != 2 || !errors.As(err, &s) || s.Option != "-l" {
		t.Errorf("%#v, %#v", e, s)
	}
}

func TestScriptsAreReadOnce(t *testing.T) {
	n := 0
	o := Options{ReadFile: func(string) ([]byte, error) { n++; return []byte("true\n"), nil }}
	if jobs, err := Read(file(strings.Repeat("qsub x.sh\n", 10)), o); err != nil || len(jobs) != 10 || n != 1 {
		t.Errorf("%d jobs, read %d times, %v", len(jobs), n, err)
	}
	if _, err := Read(file("qsub x.sh"), Options{}); err == nil || !strings.Contains(err.Error(), "files cannot be read here") {
		t.Error(err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add("@0 run=600 user=alice:staff qsub -N a -l h_rt=900 -b y /bin/true # x")
	f.Add("@+0:1:0 user=b 'qsub' \\\n -pe \"mpi\" 4-8\\\n -q '*@@big'\nqsub -b y sleep 5\n")
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := Read(file(text), Options{User: "me"})
		if err != nil {
			all, joined := err.(interface{ Unwrap() []error })
			if !joined {
				t.Fatalf("%#v", err)
			}
			for _, err := range all.Unwrap() {
				var e *Error
				if !errors.As(err, &e) || e.Line < 1 || e.Line > strings.Count(text, "\n")+1 || e.Problem == "" {
					t.Fatalf("%#v", err)
				}
			}
			return
		}
		before := int64(0)
		for _, j := range jobs {
			if j.Request == nil || j.User == "" || j.Submit < before || j.Submit > MaxTime || j.Run < Endless || j.Run > MaxTime || j.Line < 1 {
				t.Fatalf("%+v", j)
			}
			before = j.Submit
		}
	})
}

func BenchmarkRead(b *testing.B) {
	const jobs = 10_000
	text := []byte(strings.Repeat("@+7 run=0:10:0 user=alice:staff qsub -N job -pe mpi 4-8 -l h_rt=900,h_vmem=2G -q '*@@big' -b y /bin/true\n", jobs))
	b.ReportAllocs()
	for b.Loop() {
		if got, err := Read(submit.File{Name: "jobs", Text: text}, Options{}); err != nil || len(got) != jobs {
			b.Fatal(err)
		}
	}
}
