package submit

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestEmbeddedOptions(t *testing.T) {
	type want struct{ name, env, resources string }
	for name, c := range map[string]struct {
		lines []string
		want  want
	}{
		"several on a line":                        {[]string{"#$ -N n -l a=1"}, want{"n", "", "a=1"}},
		"no blank after the prefix":                {[]string{"#$-N n"}, want{"n", "", ""}},
		"tabs are blanks":                          {[]string{"#$\t-N\tn"}, want{"n", "", ""}},
		"anywhere in the script":                   {[]string{"echo", "#$ -N n"}, want{"n", "", ""}},
		"not on an indented line":                  {[]string{" #$ -N n"}, want{"s", "", ""}},
		"not after a plain hash":                   {[]string{"# $ -N n", "#-N n"}, want{"s", "", ""}},
		"a carriage return is a blank":             {[]string{"#$ -N n\r"}, want{"n", "", ""}},
		"the last of a kind counts":                {[]string{"#$ -N a", "#$ -N b"}, want{"b", "", ""}},
		"empty lines":                              {[]string{"#$", "#$ ", "#$ # only"}, want{"s", "", ""}},
		"a comment ends the options":               {[]string{"#$ -l a=1#x -N n"}, want{"s", "", "a=1"}},
		"a comment with an apostrophe":             {[]string{"#$ -N n # don't"}, want{"n", "", ""}},
		"double quotes group":                      {[]string{`#$ -v "A=x y",B=2 -N n`}, want{"n", "A=x y B=2", ""}},
		"single quotes group":                      {[]string{`#$ -v 'A=x y' -N n`}, want{"n", "A=x y", ""}},
		"quotes in the middle":                     {[]string{`#$ -v A="x y",B="z w" -N n`}, want{"n", "A=x y B=z w", ""}},
		"quotes within other quotes":               {[]string{`#$ -v "A=it's" -N n`}, want{"n", "A=it's", ""}},
		"a hash in quotes":                         {[]string{`#$ -v "A=#fff" -N n`}, want{"n", "A=#fff", ""}},
		"an open quote ends with its line":         {[]string{`#$ -l a=1 -v A="x y # z`, `#$ -N it's`}, want{"its", "A=x y # z", "a=1"}},
		"an open quote after other quotes":         {[]string{`#$ -v A="x y",B='z w`, `#$ -N n`}, want{"n", "A=x y B=z w", ""}},
		"quotes don't make a comma part of a word": {[]string{`#$ -v "A=x,B=y"`}, want{"s", "A=x B=y", ""}},
		"a backslash is a character":               {[]string{`#$ -v A=a\b`}, want{"s", `A=a\b`, ""}},
		"-soft ends with its line":                 {[]string{"#$ -soft -l a=1", "#$ -l b=2"}, want{"s", "", "soft a=1 b=2"}},
		"a prefix in the script is ignored":        {[]string{"#$ -C %%", "%% -N n"}, want{"s", "", ""}},
		"options from a file":                      {[]string{"#$ -@ opts -l a=1"}, want{"at", "", "q=1 a=1"}},
		"-soft isn't for options from a file":      {[]string{"#$ -soft -@ opts -l a=1"}, want{"at", "", "q=1 soft a=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(Input{Args: []string{"s"}, ReadFile: files(map[string]string{
				"s":    "#!/bin/sh\n" + strings.Join(c.lines, "\n"),
				"opts": "-N at\n-l q=1",
			})})
			if err != nil {
				t.Fatal(err)
			}
			var env, resources []string
			for _, v := range r.Env[1:] {
				env = append(env, v.String())
			}
			for _, q := range r.Resources {
				if q.Soft {
					resources = append(resources, "soft")
				}
				resources = append(resources, q.String())
			}
			if got := (want{r.Name, strings.Join(env, " "), strings.Join(resources, " ")}); got != c.want {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ line, want string }{
		"a wrong time":         {"#$ -l h_rt=1:2:3:4", `s:3: "-l h_rt=1:2:3:4": h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`},
		"an unknown option":    {"#$ -hold 5", `s:3: "-hold": unknown option; did you mean "-hold_jid"?`},
		"a stray word":         {"#$ -N a other.sh", `s:3: "other.sh": expected an option; a command and its arguments belong on the command line`},
		"a NUL byte":           {"#$ -N a\x00b", `s:3: "-N": the value: it contains a NUL byte`},
		"-help":                {"#$ -help", `s:3: "-help": it is only allowed on the command line`},
		"a missing value":      {"#$ -l", `s:3: "-l": a value is missing, expected -l resource=value,...`},
		"a file that is gone":  {"#$ -@ gone", `s:3: "-@ gone": cannot read the file: open gone: file does not exist`},
		"an error in a file":   {"#$ -@ bad", `bad:2: "-t 0": job rejected: 0 is an invalid task id`},
		"a lonely quoted word": {`#$ "" -N x`, `s:3: expected an option; a command and its arguments belong on the command line`},
	} {
		_, err := Parse(Input{Args: []string{"s"}, ReadFile: files(map[string]string{"s": "#!/bin/sh\n\n" + c.line, "bad": "\n-t 0"})})
		if err == nil || err.Error() != c.want {
			t.Errorf("%s:\ngot  %v\nwant %s", name, err, c.want)
		}
	}
}

func TestPrefix(t *testing.T) {
	for args, want := range map[string]string{"": "dollar", "-C %%": "percent", "-C %% -C #$": "dollar", "-C #": "hash", "-C none": "s"} {
		r, err := parse(append(strings.Fields(args), "s"), "#$ -N dollar", "%% -N percent")
		if args == "-C #" { // "$" is then the first word of the line
			if err == nil || !strings.Contains(err.Error(), `s:1: "!/bin/sh"`) {
				t.Errorf("%s: %v", args, err)
			}
			continue
		}
		if err != nil || r.Name != want {
			t.Errorf("%q: %+v, %v", args, r, err)
		}
	}
	if r, err := parse([]string{"-C", "", "s"}, "#$ -N x"); err != nil || r.Name != "s" {
		t.Errorf("no prefix: %+v, %v", r, err)
	}
}

func TestBinaryInTheScript(t *testing.T) {
	r, err := parse([]string{"s"}, "#$ -b y", "#$ -N n")
	if err != nil || !r.Binary || r.Script != nil || r.Name != "n" {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = Parse(Input{ReadStdin: func() ([]byte, error) { return []byte("#$ -b y"), nil }})
	if err == nil || err.Error() != "command line: -b y needs a command" {
		t.Error(err)
	}
	_, err = Parse(Input{ReadStdin: func() ([]byte, error) { return []byte("\n#$ -t 0"), nil }})
	if err == nil || !strings.HasPrefix(err.Error(), `STDIN:2: "-t 0"`) {
		t.Error(err)
	}
}

func TestSplitList(t *testing.T) {
	for in, want := range map[string][]string{
		"":            nil,
		",":           nil,
		"a":           {"a"},
		"a,b":         {"a", "b"},
		",a,,b,":      {"a", "b"},
		`A="x,y",B`:   {`A="x,y"`, "B"},
		`A='x,y',B`:   {`A='x,y'`, "B"},
		`it's,B`:      {"it's", "B"},
		`it's,isn't`:  {"it's,isn't"},
		`"a,b`:        {`"a`, "b"},
		`"a'b,c"'d,e`: {`"a'b,c"'d`, "e"},
	} {
		if got := splitList(in, ","); fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// join quotes words so that splitWords returns them unchanged.
func join(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		q := `"`
		if strings.Contains(w, q) {
			q = "'"
		}
		quoted[i] = q + w + q
	}
	return strings.Join(quoted, " ")
}

func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{"", "a b", `"a b" c`, `it's`, `'"' "'"`, "#x", `"#" #`, "\t\r\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		rest := cutComment(line)
		if !strings.HasPrefix(line, rest) {
			t.Fatalf("%q is not the beginning of %q", rest, line)
		}
		words := splitWords(rest)
		for _, w := range words {
			if strings.Contains(w, `"`) && strings.Contains(w, "'") {
				return // such a word cannot be quoted
			}
		}
		again := splitWords(cutComment(join(words)))
		if fmt.Sprintf("%q", again) != fmt.Sprintf("%q", words) {
			t.Fatalf("%q gave %q, and quoted again %q", line, words, again)
		}
	})
}

func FuzzScript(f *testing.F) {
	f.Add("#!/bin/sh\n#$ -N x -l h_rt=1\n#$ -pe smp 2- -binding set linear:1 # c\n#$ -v A,B=\"x y\" -t 1-2")
	f.Add("#$ -@ x\n#$ -clear\r\n#$-cwd -M a@b -m be -o h:/x,y")
	f.Add("-@ \"\"")
	f.Add("#$ -ac a,b=c -dc a -sc d -c sx -a 12241200 -w v -S /bin/sh -q a@b")
	f.Fuzz(func(t *testing.T, text string) {
		in := Input{Args: []string{"-N", "n", "s"}, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }, Cwd: "/"}
		r, err := Parse(in)
		checkOutcome(t, r, err)
		in.RequestFiles = []File{{"r", []byte(text)}}
		r, err = Parse(in)
		checkOutcome(t, r, err)
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add("-N|x|-l|h_rt=1|s|-a")
	f.Add("-pe|smp|1-4,8-|-binding|pe|explicit:0,1|--|x")
	f.Add("-b|y|ls|-l")
	f.Fuzz(func(t *testing.T, line string) {
		in := Input{
			Args:      strings.Split(line, "|"),
			ReadFile:  func(string) ([]byte, error) { return []byte("#$ -j y\n"), nil },
			ReadStdin: func() ([]byte, error) { return []byte("#$ -j y\n"), nil },
		}
		r, err := Parse(in)
		checkOutcome(t, r, err)
	})
}

// checkOutcome checks that the result for any input is either an error with a place, or a request
// that can be run.
func checkOutcome(t *testing.T, r *Request, err error) {
	t.Helper()
	if err != nil {
		if e := new(Error); !errors.As(err, &e) || e.Where == "" || e.Problem == "" || r != nil {
			t.Fatalf("%#v with %+v", err, r)
		}
		return
	}
	if r.Help {
		return
	}
	if checkJobName(r.Name) != nil || r.Command == "" || (r.Script == nil) != r.Binary || len(r.Env) == 0 {
		t.Fatalf("%+v", r)
	}
	limits := 0
	for _, q := range r.Resources {
		if _, _, ok := limitNamed(q.Name); ok && !q.Soft {
			limits++
		}
	}
	if got := len(r.LimitRequests()); got != limits || got+len(r.OtherRequests()) != len(r.Resources) {
		t.Fatalf("%d limits of %v", got, r.Resources)
	}
	for _, n := range r.Noted {
		if o := lookup(Qsub, n.Option); o == nil || o.Treatment != Noted {
			t.Fatalf("noted %+v", n)
		}
	}
}

// TestOddScript checks that exactly the parts that shells do not understand are named.
func TestOddScript(t *testing.T) {
	const mark, ends = "byte order mark", "CR LF"
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"nothing":                      {"#!/bin/sh\necho\n", nil},
		"an empty script":              {"", nil},
		"a byte order mark":            {"\xef\xbb\xbf#!/bin/sh\necho\n", []string{mark}},
		"line ends of Windows":         {"#!/bin/sh\r\necho\r\n", []string{ends}},
		"both":                         {"\xef\xbb\xbf#!/bin/sh\r\necho\r\n", []string{mark, ends}},
		"a carriage return at the end": {"echo\r", nil},
		"a carriage return in a line":  {"printf 'a\rb'\n", nil},
	} {
		got := OddScript([]byte(c.script))
		for _, word := range []string{mark, ends} {
			if strings.Contains(got, word) != slices.Contains(c.want, word) {
				t.Errorf("%s: %q, want %q", name, got, c.want)
			}
		}
		if (got == "") != (c.want == nil) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
