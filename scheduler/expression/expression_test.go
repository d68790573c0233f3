package expression

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestOriginal compares with what the original answered: for each expression the
// values that it matches, or the position of the error. Regenerate by asking
// qselect -l for each.
func TestOriginal(t *testing.T) {
	data, err := os.ReadFile("testdata/original.txt")
	if err != nil {
		t.Fatal(err)
	}
	var values []string
	asked := 0
	for line := range strings.Lines(string(data)) {
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		switch fields[0] {
		case "#":
			continue
		case "values":
			values = fields[1:]
			continue
		}
		kind := map[string]Kind{"STRING": String, "CSTRING": CString}[fields[0]]
		text, want := fields[1], fields[2]
		asked++
		e, err := Compile(kind, text)
		var syntax *SyntaxError
		switch {
		case errors.As(err, &syntax):
			if got := "error " + strconv.Itoa(syntax.Position); got != want {
				t.Errorf("%s %q: %s, the original: %s", fields[0], text, got, want)
			}
			continue
		case err != nil:
			t.Errorf("%s %q: %v, want a *SyntaxError", fields[0], text, err)
			continue
		}
		var got []string
		for i, v := range values {
			if e.Match(v) {
				got = append(got, strconv.Itoa(i))
			}
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%s %q matches %s, the original %s", fields[0], text, got, want)
		}
		if again, err := Compile(kind, e.Format()); err != nil {
			t.Errorf("Format of %q: %v", text, err)
		} else {
			for _, v := range values {
				if again.Match(v) != e.Match(v) {
					t.Errorf("%q and its Format %q differ for %q", text, e.Format(), v)
				}
			}
		}
	}
	if asked < 1000 {
		t.Errorf("%d expressions, expected more: the file is damaged", asked)
	}
	t.Attr("expressions", strconv.Itoa(asked))
}

// TestRequests checks the hosts and requests of a run of the original's scheduler.
func TestRequests(t *testing.T) {
	osver := map[string]string{"n1": "rh_3.1", "n2": "rh_3.2", "n3": "sol-x64", "n4": "lx24-amd64", "n5": "lx26-amd64", "n6": "lx2[4"}
	color := map[string]string{"n1": "Red", "n2": "blue", "n3": "GREEN", "n4": "red", "n6": "Blue"}
	host := map[string]string{"n1": "n1", "n2": "n2", "n3": "n3", "n4": "n4", "n5": "n5", "n6": "n6"}
	for name, c := range map[string]struct {
		kind   Kind
		values map[string]string
		want   string
	}{
		`rh_3*&!rh_3.1`:   {String, osver, "n2"},
		`(lx*|sol*)&*64*`: {String, osver, "n3 n4 n5"},
		`RED`:             {CString, color, "n1 n4"},
		`!red&!blue`:      {CString, color, "n3"},
		`b*`:              {CString, color, "n2 n6"},
		`RH_3*`:           {String, osver, ""},
		`lx2[46]-amd64`:   {String, osver, "n4 n5"},
		`lx2[4|6]-amd64`:  {String, osver, "n6"},
		`sol-x??`:         {String, osver, "n3"},
		`!(rh*|lx*)`:      {String, osver, "n3"},
		`!rh*|lx*&*amd64`: {String, osver, "n3 n4 n5 n6"},
		`n[2-3]&!N2`:      {Host, host, "n3"},
		`lx2\[4`:          {String, osver, "n6"},
		`lx2[^4]-amd64`:   {String, osver, "n5"},
		`TRUE`:            {String, osver, ""},
		`N5`:              {Host, host, "n5"},
		`!red`:            {CString, color, "n2 n3 n6"},
		`!!rh_3.2`:        {String, osver, "n2"},
		`"lx*|rh_3.2"`:    {String, osver, ""},
	} {
		e, err := Compile(c.kind, name)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		var got []string
		for h, v := range c.values {
			if e.Match(v) {
				got = append(got, h)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q matches %q, want %q", name, got, c.want)
		}
	}
}

func TestBlanks(t *testing.T) {
	for text, want := range map[string]bool{
		" a ":          false, // a name, blanks included: nothing in it is special
		" a | b ":      true,
		"( a )":        true,
		"!  b":         true,
		"\ta|\tb":      false, // a tab is a character like others
		"a  &  (  a )": true,
	} {
		e, err := Compile(String, text)
		if err != nil || e.Match("a") != want {
			t.Errorf("%q matches a: %v, %v; want %v", text, e.Match("a"), err, want)
		}
	}
	if _, err := Compile(String, "a* b"); err == nil {
		t.Error("two patterns without an operator: no error")
	}
}

func TestErrors(t *testing.T) {
	for text, want := range map[string]string{
		"lx2[!4]-amd64":           `cannot read the expression "lx2[!4]-amd64": unexpected "!", expected an operator at position 5`,
		"(lx*":                    `cannot read the expression "(lx*": it ends, expected an operator or ")" at position 4`,
		"lx*&":                    `cannot read the expression "lx*&": it ends, expected a name or pattern at position 4`,
		"(a|b).q&!b*":             `cannot read the expression "(a|b).q&!b*": unexpected ".q", expected an operator at position 7`,
		strings.Repeat("a", 2048): "too long",
	} {
		_, err := Compile(String, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
	var none *Expression
	if none.Match("") || none.Match("a") || (&Expression{}).Match("") {
		t.Error("an expression that is not there matches")
	}
}

func TestName(t *testing.T) {
	for text, want := range map[string]string{"a": "a", "N1": "n1", "a*": "-", "!a": "-", "a|b": "-"} {
		e, err := Compile(Host, text)
		if err != nil {
			t.Fatal(err)
		}
		name, ok := e.Name()
		if !ok {
			name = "-"
		}
		if name != want {
			t.Errorf("%q is the name %q, want %q", text, name, want)
		}
	}
}

func TestHostNames(t *testing.T) {
	for what, c := range map[string]struct {
		hosts       HostNames
		name, value string
		want        bool
	}{
		"case does not matter":                {HostNames{}, "N1", "n1", true},
		"a domain does":                       {HostNames{}, "n1", "n1.a.org", false},
		"domains are cut":                     {HostNames{IgnoreFQDN: true}, "n1.a.org", "N1.b.org", true},
		"cut domains leave names apart":       {HostNames{IgnoreFQDN: true}, "n1.a.org", "n2.a.org", false},
		"the default is added to the value":   {HostNames{DefaultDomain: "A.org"}, "n1.a.org", "n1", true},
		"the default is added to the name":    {HostNames{DefaultDomain: "a.org"}, "n1", "n1.A.ORG", true},
		"the default is added to both":        {HostNames{DefaultDomain: "a.org"}, "n1", "n1", true},
		"another domain is another host":      {HostNames{DefaultDomain: "a.org"}, "n1", "n1.b.org", false},
		"a longer domain is another host":     {HostNames{DefaultDomain: "a.org"}, "n1.a.org.x", "n1", false},
		"without its domain it is another":    {HostNames{DefaultDomain: "a.org"}, "n1.b.org", "n1", false},
		"cutting has precedence over default": {HostNames{IgnoreFQDN: true, DefaultDomain: "a.org"}, "n1.b.org", "n1", true},
		"in an expression, too":               {HostNames{IgnoreFQDN: true}, "n2|n1.b.org", "n1", true},
		"patterns see the value as it is":     {HostNames{IgnoreFQDN: true}, "n1*b*", "n1.b.org", true},
	} {
		e, err := CompileHost(c.hosts, c.name)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Match(c.value); got != c.want {
			t.Errorf("%s: %q matches %q: %v, want %v", what, c.name, c.value, got, c.want)
		}
		if name, plain := e.Name(); plain {
			if got := c.hosts.Normalize(c.value) == name; got != c.want {
				t.Errorf("%s: the normal forms %q and %q", what, name, c.hosts.Normalize(c.value))
			}
		}
	}
}

func TestPattern(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"", "a", false},
		{"*", "", true},
		{"a*b*c", "aXbYc", true},
		{"a*b*c", "aXcYb", false},
		{"a*b*c", "abbbc", true},
		{"*a*a*a*", "aa", false},
		{"*ab*", "xaaby", true},
		{"*ab", "abab", true},
		{"ab*", "a", false},
		{"*ab", "b", false},
		{"a*?", "a", false},
		{"a*?", "ab", true},
		{"[!a]", "b", true},
		{"[!a]", "a", false}, // outside of expressions
		{"[]a]", "]", true},
		{"[^]a]", "]", false},
		{"[^]a]", "b", true},
		{"[a-]", "-", true},
		{"[b-a]", "a", false},
		{"[a-c-e]", "d", false},
		{"[a-c-e]", "-", true},
		{`[\]]`, "]", true},
		{`[a\-z]`, "m", false},
		{`[a\-z]`, "-", true},
		{`[\a-c]`, "b", true},
		{"[a", "[a", true},
		{"x[", "x[", true},
		{`[\`, "[", false},
		{"[[:digit:]x]", "7", true},
		{"[[:digit:]x]", "a", false},
		{"[^[:digit:]]", "7", false},
		{"[[:nosuch:]]", "n", false},
		{"[[:nosuch:]]*", "", false},
		{"[[.-.]]", "-", true},
		{"[[=a=]]", "a", true},
		{"[[.ab.]]", "a", false},
		{"[[.a.]-c]", "b", true},
		{`\*`, "*", true},
		{`\*`, "a", false},
		{`a\`, "a", false},
		{`a\`, `a\`, false},
		{`*\`, `\`, false},
		{"*/x", "a/b/x", true},
		{"*", ".a", true},
		{"?nt", "\xc3\xbcnt", false},
		{"??nt", "\xc3\xbcnt", true},
	} {
		if got := CompilePattern(false, c.pattern).Match(c.s); got != c.want {
			t.Errorf("%q matches %q: %v, want %v", c.pattern, c.s, got, c.want)
		}
	}
	if !CompilePattern(true, "A*[X-Z]").Match("abcy") || CompilePattern(true, "[[:upper:]]").Match("A") {
		t.Error("case does matter")
	}
}

// word draws values and names over few characters, so that matches happen.
func word() *rapid.Generator[string] { return rapid.StringMatching(`[abA.\-]{0,4}`) }

func drawExpression(t *rapid.T) string {
	return rapid.StringMatching(`!?\(?[abA*?]{1,3}([&|]!?[ab*?]{1,2}){0,2}`).Draw(t, "expression")
}

func TestLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := word().Draw(t, "value")
		kind := rapid.SampledFrom([]Kind{String, CString, Host}).Draw(t, "kind")
		match := func(text string) bool {
			e, err := Compile(kind, text)
			if err != nil {
				t.Skip(err)
			}
			return e.Match(value)
		}
		a, b := "("+drawExpression(t)+")", "("+drawExpression(t)+")"
		if match("!"+a) == match(a) || match("!!"+a) != match(a) {
			t.Fatalf("negation of %s", a)
		}
		if match(a+"&"+b) != (match(a) && match(b)) || match(a+"|"+b) != (match(a) || match(b)) {
			t.Fatalf("%s and %s", a, b)
		}
		if match("!("+a+"&"+b+")") != match("!"+a+"|!"+b) {
			t.Fatalf("De Morgan of %s and %s", a, b)
		}
		if match(a+"|"+b+"&"+a) != match(a+"|("+b+"&"+a+")") {
			t.Fatalf("& does not bind tighter in %s|%s&%s", a, b, a)
		}
	})
}

// TestPatternSlow compares with the definition, written down without care for speed.
func TestPatternSlow(t *testing.T) {
	var slow func(p, s string) bool
	slow = func(p, s string) bool {
		switch {
		case p == "":
			return s == ""
		case p[0] == '*':
			return slow(p[1:], s) || s != "" && slow(p, s[1:])
		case s == "":
			return false
		default:
			return (p[0] == '?' || p[0] == s[0]) && slow(p[1:], s[1:])
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.StringMatching(`[ab*?]{0,7}`).Draw(t, "pattern")
		s := rapid.StringMatching(`[ab]{0,9}`).Draw(t, "text")
		if got, want := CompilePattern(false, p).Match(s), slow(p, s); got != want {
			t.Fatalf("%q matches %q: %v, want %v", p, s, got, want)
		}
	})
}

func FuzzCompile(f *testing.F) {
	for _, s := range []string{"(lx*|sol*)&*64*", "!a", "[a-z]*", `\`, "((", "[[:alpha:]]"} {
		f.Add(s, "lx24-amd64")
	}
	f.Fuzz(func(t *testing.T, text, value string) {
		for _, kind := range []Kind{String, CString, Host} {
			e, err := Compile(kind, text)
			if err != nil {
				var syntax *SyntaxError
				if !errors.As(err, &syntax) || syntax.Position > len(text) {
					t.Fatal(err)
				}
				continue
			}
			again, err := Compile(kind, e.Format())
			if err != nil && len(e.Format()) <= maxLength {
				t.Fatalf("Format of %q: %v", text, err)
			}
			if err == nil && again.Match(value) != e.Match(value) {
				t.Fatalf("%q and its Format %q differ for %q", text, e.Format(), value)
			}
		}
	})
}

func BenchmarkMatch(b *testing.B) {
	for _, text := range []string{"lx-amd64", "lx-*", "(lx*|sol*)&*64*", "*a*6[0-4]"} {
		e, err := Compile(String, text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				e.Match("lx-amd64")
			}
		})
	}
}

// TestForMany checks that ForMany changes no results, with sets of states of one and of several words.
func TestForMany(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.StringMatching(`[abA*?]|\[[ab^!]{1,3}\]|\\[ab*]`)
		text := strings.Join(rapid.SliceOfN(piece, 0, rapid.SampledFrom([]int{6, 70, 140}).Draw(t, "pieces")).Draw(t, "pattern"), "")
		// A text that matches more often than a random one: without the special characters.
		values := []string{
			rapid.StringMatching(`[abA]{0,9}`).Draw(t, "text"), strings.Repeat("a", rapid.IntRange(0, 200).Draw(t, "length")),
			strings.NewReplacer("*", "ab", "?", "b", "[", "", "]", "", "^", "", "!", "", `\`, "").Replace(text),
		}
		for _, fold := range []bool{false, true} {
			p := CompilePattern(fold, text)
			many := p.ForMany()
			for _, s := range values {
				if got, want := many.Match(s), p.Match(s); got != want {
					t.Fatalf("%q, fold %v, matches %q: %v, want %v", text, fold, s, got, want)
				}
			}
		}
		e, err := Compile(CString, "!"+text+"|b*&"+text)
		if err != nil {
			return
		}
		for _, s := range values {
			if got, want := e.ForMany().Match(s), e.Match(s); got != want {
				t.Fatalf("%q matches %q: %v, want %v", e, s, got, want)
			}
		}
	})
}

// TestForManyLengths checks patterns as long as one word of states, and one more or fewer.
func TestForManyLengths(t *testing.T) {
	for n := 61; n < 200; n++ {
		name := strings.Repeat("a", n)
		for _, form := range []string{"*%s*", "?*%s*", "*%s?*", "%s*?", "*[ab]%s"} {
			p := CompilePattern(false, fmt.Sprintf(form, name))
			for _, s := range []string{name, name + "a", name + "aa", "b" + name + "b", name[1:] + "b" + name, name[1:]} {
				if got, want := p.ForMany().Match(s), p.Match(s); got != want {
					t.Errorf("%s matches %s: %v, want %v", p, s, got, want)
				}
			}
		}
	}
}
