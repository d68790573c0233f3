package qconf

import (
	"strings"
	"testing"
)

func TestLinesAreReadAs(t *testing.T) {
	for sentence, c := range map[string]struct {
		text string
		want []string // "number name|value"
		errs []string
	}{
		"name and value, whatever blanks are between": {"a 1\nb \t  2  3 \n", []string{"1 a|1", "2 b|2  3"}, nil},
		"comments and blank lines do not count":       {"# x\n\n \t\n  # y\na 1\n", []string{"5 a|1"}, nil},
		"a backslash before the newline is a blank":   {"a 1\\\n2\nb 3", []string{"1 a|1 2", "3 b|3"}, nil},
		"the blanks around a break are layout":        {"a 1,   \\\n \t  2 \\\n  3\n", []string{"1 a|1, 2 3"}, nil},
		"the value may begin on the next line":        {"a \\\n 1\n", []string{"1 a|1"}, nil},
		"blanks may follow the backslash":             {"a 1 \\ \t\n 2\n", []string{"1 a|1 2"}, nil},
		"a blank line ends a continued one":           {"a 1 \\\n\nb 2\n", []string{"1 a|1", "3 b|2"}, nil},
		"a comment is not continued":                  {"# c \\\na 1\n", []string{"2 a|1"}, nil},
		"a # within a value is no comment":            {"a /x #1 \\\n  #2\n", []string{"1 a|/x #1 #2"}, nil},
		"lines of DOS files end in CR LF":             {"a 1\r\nb 2 \\\r\n 3\r\n", []string{"1 a|1", "2 b|2 3"}, nil},
		"two backslashes are one and a break":         {"a 1\\\\\n2\n", []string{`1 a|1\ 2`}, nil},
		"the last line needs no newline":              {"a 1", []string{"1 a|1"}, nil},
		"an empty file has no lines":                  {"", nil, nil},
		"a name alone has an empty value":             {"a\n", []string{"1 a|"}, nil},
		"a break at the end of the file is an error":  {"a 1\nb 2 \\", []string{"1 a|1"}, []string{"f:2: the file ends in a continued line"}},
	} {
		t.Run(sentence, func(t *testing.T) {
			lines, errs := readLines("f", c.text)
			var got []string
			for _, l := range lines {
				got = append(got, strings.Join([]string{string(rune('0' + l.number)), " ", l.name, "|", l.value}, ""))
			}
			same(t, "lines", c.want, got)
			refused(t, errJoin(errs), c.errs...)
		})
	}
}

func TestALineBrokenAfterACommaIsMarked(t *testing.T) {
	for text, want := range map[string]bool{
		"a 1, \\\n 2": true, "a 1 \\\n 2": false, "a 1, 2": false, "a 1, \\\n [h=2]": false,
	} {
		lines, _ := readLines("f", text)
		same(t, text, want, lines[0].gap)
	}
}

func TestNamesAreRefusedBySgeTypes(t *testing.T) {
	for name, ok := range map[string]bool{
		"all.q": true, "a": true, "1": true, "-x": true, "a*b": true, strings.Repeat("x", 512): true,
		"": false, strings.Repeat("x", 513): false, ".q": false, "#q": false, "None": false, "all": false, "TEMPLATE": false,
		"a b": false, "a/b": false, "a:b": false, "a'b": false, `a\b`: false, "a[b": false, "a]": false, "a{": false, "}": false,
		"a|b": false, "(": false, ")": false, "a@b": false, "%": false, "a,b": false, `"`: false, "ä": false, "a\x00": false, "a\x7f": false,
	} {
		if err := CheckName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHostNamesAreRefused(t *testing.T) {
	for name, ok := range map[string]bool{
		"n1": true, "n-1.example.org": true, "10.0.0.1": true, "N_1": true,
		"": false, "global": false, "Unknown": false, "-n": false, ".n": false, "n 1": false, "n/1": false, "@n": false, strings.Repeat("x", 256): false,
	} {
		if err := CheckHostName(name); (err == nil) != ok {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestHostsAreTheSame(t *testing.T) {
	for sentence, c := range map[string]struct {
		a, b string
		want bool
	}{
		"with equal names":                        {"n1", "n1", true},
		"in any case":                             {"N1.Example.org", "n1.example.ORG", true},
		"when one has no domain":                  {"n1", "n1.example.org", true},
		"but not in two domains":                  {"n1.a", "n1.b", false},
		"but not with a name that only begins so": {"n1", "n10.example.org", false},
	} {
		if SameHost(c.a, c.b) != c.want || SameHost(c.b, c.a) != c.want {
			t.Error(sentence)
		}
	}
}
