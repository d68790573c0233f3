package options_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/options"
)

const help = `Usage: execd frob [options] FILE

Does what --frob does.

Files
  --conf DIR           configuration directory (default: /etc/execd/conf if it exists,
                       else built in)
  --listen-loopback ADDRESS
                       address
  --user NAME  only this user; may
               be repeated
  --json       print JSON
  --help       print this text

Exit status: 0.
`

func TestRead(t *testing.T) {
	want := []options.Option{
		{"conf", "DIR", "configuration directory (default: /etc/execd/conf if it exists, else built in)"},
		{"listen-loopback", "ADDRESS", "address"},
		{"user", "NAME", "only this user; may be repeated"},
		{"json", "", "print JSON"},
		{"help", "", "print this text"},
	}
	if diff := cmp.Diff(want, options.Read(help)); diff != "" {
		t.Error(diff)
	}
}

type settings struct {
	Conf, Listen string
	Users        []string
	JSON         bool
}

func parse(args []string) (settings, *options.Line, error) {
	var s settings
	l, err := options.Parse(help, args, options.Values{"conf": &s.Conf, "listen-loopback": &s.Listen, "user": &s.Users, "json": &s.JSON})
	return s, l, err
}

func TestParse(t *testing.T) {
	for name, c := range map[string]struct {
		args     []string
		want     settings
		operands []string
	}{
		"nothing":                        {},
		"options and operands":           {[]string{"a", "--conf", "x", "b", "-json", "-"}, settings{Conf: "x", JSON: true}, []string{"a", "b", "-"}},
		"joined values":                  {[]string{"--conf=a=b", "--listen-loopback=", "--json=false"}, settings{Conf: "a=b"}, nil},
		"a repeated option":              {[]string{"--user", "a", "--user=b"}, settings{Users: []string{"a", "b"}}, nil},
		"the last value counts":          {[]string{"--conf", "a", "--conf", "b"}, settings{Conf: "b"}, nil},
		"no options after two dashes":    {[]string{"--json", "--", "--conf", "--"}, settings{JSON: true}, []string{"--conf", "--"}},
		"a value that looks like an end": {[]string{"--conf", "--", "--json"}, settings{Conf: "--", JSON: true}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, l, err := parse(c.args)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got) + cmp.Diff(c.operands, l.Operands); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	for name, c := range map[string]struct {
		args []string
		want string
	}{
		"a mistyped option":      {[]string{"--cnof", "x"}, "unknown option --cnof (did you mean --conf?)"},
		"an unknown option":      {[]string{"--xyzzy=1"}, "unknown option --xyzzy"},
		"no value":               {[]string{"--user"}, "--user needs a value: --user NAME"},
		"a value for a switch":   {[]string{"--json=x"}, `--json takes no value, but was given "x"`},
		"no name of an option":   {[]string{"--=x"}, "unknown option --"},
		"three dashes":           {[]string{"---json"}, "unknown option ---json (did you mean --json?)"},
		"a mistyped help":        {[]string{"--hepl"}, "unknown option --hepl (did you mean --help?)"},
		"the first error counts": {[]string{"--jsn", "--help"}, "unknown option --jsn (did you mean --json?)"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := parse(c.args)
			if _, ok := errors.AsType[*options.UsageError](err); !ok || err.Error() != c.want {
				t.Errorf("got %v, expected %s", err, c.want)
			}
		})
	}
	for _, word := range []string{"--help", "-help", "-h", "--h"} {
		if _, _, err := parse([]string{"x", word}); !errors.Is(err, options.ErrHelp) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestParseRefusesVariablesThatDifferFromHelp passes variables that the help text does not
// describe, or describes with another type.
func TestParseRefusesVariablesThatDifferFromHelp(t *testing.T) {
	var text string
	var list []string
	var on bool
	for name, to := range map[string]options.Values{
		"none":         {},
		"one too many": {"conf": &text, "listen-loopback": &text, "user": &list, "json": &on, "more": &on},
		"a switch":     {"conf": &on, "listen-loopback": &text, "user": &list, "json": &on},
		"no list":      {"conf": &text, "listen-loopback": &text, "user": &text, "json": &on},
		"a list":       {"conf": &list, "listen-loopback": &text, "user": &list, "json": &on},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := options.Parse(help, nil, to)
			if _, usage := errors.AsType[*options.UsageError](err); err == nil || usage || errors.Is(err, options.ErrHelp) {
				t.Error(err)
			}
		})
	}
}
