package submit

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestMany checks that the time for a variable or request does not depend on the number before it.
// With this many, a linear search for each one would exceed the time limit of a test.
func TestMany(t *testing.T) {
	const n, few = 200_000, 25_000 // few is the maximum number of options
	names := make([]string, n)
	env := make([]string, n)
	for i := range n {
		names[i] = "V" + strconv.Itoa(i)
		env[i] = names[i] + "=" + strconv.Itoa(i)
	}
	var repeated, each []string
	for i := range few {
		repeated = append(repeated, "-v", names[i])
		each = append(each, "-M", "a@h"+strconv.Itoa(i), "-o", "h"+strconv.Itoa(i)+":/x")
	}
	// The length of a value is limited, so the items are spread over several options.
	with := func(option string, items []string) (args []string) {
		for some := range slices.Chunk(items, 5000) {
			args = append(args, option, strings.Join(some, ","))
		}
		return args
	}
	for name, c := range map[string]struct {
		args                       []string
		variables, context, amount int // of resources
	}{
		"-v":                 {args: slices.Concat(with("-v", env), with("-v", names)), variables: n + 1},
		"-v for each":        {args: repeated, variables: few + 1},
		"-V":                 {args: append(with("-v", names), "-V"), variables: n + 1},
		"-ac, -dc and -sc":   {args: slices.Concat(with("-ac", env), with("-dc", names), with("-ac", names), with("-sc", names)), variables: 1, context: 5000},
		"-ac":                {args: slices.Concat(with("-ac", env), with("-ac", names)), variables: 1, context: n},
		"-dc":                {args: slices.Concat(with("-ac", env), with("-dc", names)), variables: 1},
		"-l, hard and soft":  {args: slices.Concat(with("-l", names), with("-l", env), []string{"-soft"}, with("-l", env)), variables: 1, amount: 2 * n},
		"-M and -o for each": {args: each, variables: 1},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Parse(Input{Args: append(slices.Clip(c.args), "-b", "y", "x"), Env: env, Master: true})
			if err != nil {
				t.Fatal(err)
			}
			if len(r.Env) != c.variables || len(r.Context) != c.context || len(r.Resources) != c.amount {
				t.Errorf("%d variables, %d of the context, %d resources", len(r.Env), len(r.Context), len(r.Resources))
			}
			if last := r.Env[len(r.Env)-1].String(); c.variables > 1 && last != env[c.variables-2] {
				t.Errorf("the last one is %s", last)
			}
		})
	}
	t.Run("of a verifier", func(t *testing.T) {
		var changes []Correction
		for i := range n {
			changes = append(changes, Correction{Parameter: Parameter{Name: names[i], Value: "x"}, Variable: true})
		}
		for i := range n / 2 {
			changes = append(changes, Correction{Parameter: Parameter{Name: names[i]}, Variable: true, Remove: true})
		}
		r := &Request{Env: []Variable{{"A", "1"}, {names[n-1], "2"}}}
		if _, err := r.Correct(changes); err != nil || len(r.Env) != n/2+1 {
			t.Errorf("%d variables, %v", len(r.Env), err)
		}
		if got := fmt.Sprint(r.Env[:3]); got != "[A=1 V199999=x V100000=x]" {
			t.Error(got)
		}
	})
}

// TestByHost checks that an entry for a host replaces earlier entries for that host; the other entries
// remain.
func TestByHost(t *testing.T) {
	r, err := Parse(Input{Args: strings.Fields("-M a@h,b@i,c@h -o h:/1,/2,i:/3 -M d@H -o H:/4,h:/5 -b y x"), Master: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Mail, r.Output), "[b@i d@H] [/2 i:/3 H:/4 h:/5]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if _, err := r.Correct([]Correction{{Parameter: Parameter{Name: "M", Value: "x@y"}}, {Parameter: Parameter{Name: "e", Value: "/6"}}, {Parameter: Parameter{Name: "o"}}}); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Mail, r.Output, r.Error), "[x@y] [] [/6]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestOrder checks that variables keep the order of their first occurrence. One that was removed and
// set again comes last, and so does a resource that is requested again.
func TestOrder(t *testing.T) {
	r, err := Parse(Input{Args: strings.Fields("-v B=1,A=1 -v B=2,C=1 -ac x=1,y=1,z=1 -dc x -ac y=2,x=3 -l a=1,b=1 -soft -l a=2 -hard -l a=3 -b y x"), Master: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(r.Env, r.Context, r.Resources), "[TERM= B=2 A=1 C=1] [y=2 z=1 x=3] [b=1 a=2 a=3]"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
