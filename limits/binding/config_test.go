package binding

import (
	"errors"
	"strings"
	"testing"

	"github.com/execd-project/execd/limits/topology"
)

func TestConfigEntriesOfTheOriginal(t *testing.T) {
	for sentence, c := range map[string]struct{ host, entry, cores, cpus string }{
		"explicit":                             {"SCC", "explicit:0,0:0,1:Scc", "0,0:0,1", "0-1"},
		"explicit with threads":                {"SCTTCTT", "explicit:0,1:SCTTctt", "0,1", "2-3"},
		"explicit of env":                      {"SCC", "env_explicit:0,0:ScC", "0,0", "0"},
		"explicit of pe":                       {"SCC", "pe_explicit:0,1:SCc", "0,1", "1"},
		"explicit without topology":            {"SCC", "explicit:0,1", "0,1", "1"},
		"linear with a start":                  {"SCC", "linear:1:0,1:SCc", "0,1", "1"},
		"linear without topology":              {"SCCSCC", "linear:2:0,1", "0,1:1,0", "1-2"},
		"striding":                             {"SCCCC", "striding:2:2:0,0:ScCcC", "0,0:0,2", "0,2"},
		"striding without topology":            {"SCCCC", "striding:2:2:0,1", "0,1:0,3", "1,3"},
		"striding whose start is another core": {"SCCCC", "striding:2:2:0,0:SCcCc", "0,1:0,3", "1,3"},
		"a socket in lower case":               {"SCCSCC", "explicit:1,0:1,1:SCCscc", "1,0:1,1", "2-3"},
		"none":                                 {"SCC", "NULL", "", ""},
		"empty":                                {"SCC", "", "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, _ := host(t, c.host)
			conf, err := ParseConfig(c.entry)
			if err != nil {
				t.Fatal(err)
			}
			b, err := conf.Resolve(top)
			if got := topology.FormatPairs(b.Cores); err != nil || got != c.cores || b.CPUs.String() != c.cpus {
				t.Errorf("%s on %s: got %s, %s, %v", c.entry, c.host, got, b.CPUs, err)
			}
			if b.Instance != conf.Instance {
				t.Errorf("instance is %v, was %v", b.Instance, conf.Instance)
			}
		})
	}
}

func TestConfigEntriesThatCannotBeRead(t *testing.T) {
	for _, entry := range []string{
		"explicit", "explicit:", "explicit:SCC", "explicit:0:SCC", "explicit:0,0::SCC", "explicit:0,0:SCX", "explicit:0,0:SCC:",
		"linear", "linear:1", "linear:1:SCC", "linear:x:0,0:ScC", "linear:0:0,0:SCC", "linear:-1:0,0", "linear:1:0,0:0,1:SCC", "linear:99999999999:0,0",
		"striding:2:0,0:SCC", "striding:2:0:0,0:SCC", "striding:2:2:SCC", "striding:1:1:1:0,0",
		"set_explicit:0,0:ScC", "env_pe_explicit:0,0", "env_NULL", "NULL:0,0", "null", " explicit:0,0", "none", "SCC",
	} {
		if c, err := ParseConfig(entry); err == nil || !strings.HasPrefix(err.Error(), "cannot read binding ") {
			t.Errorf("%q reads as %v, %v", entry, c, err)
		}
	}
}

func TestConfigEntriesOfAnotherHost(t *testing.T) {
	for sentence, c := range map[string]struct {
		host, entry string
		reason      Reason
	}{
		"fewer cores":                       {"SCC", "explicit:0,0:ScCC", OtherHost},
		"threads":                           {"SCTTCTT", "explicit:0,0:ScC", OtherHost},
		"no such core":                      {"SCC", "explicit:1,0", NoSuchCore},
		"no such start":                     {"SCC", "linear:1:0,2", NoSuchCore},
		"beyond the end":                    {"SCC", "striding:2:2:0,0", TooFewCores},
		"explicit against its own topology": {"SCC", "explicit:0,0:SCc", Malformed},
		"fewer in lower case":               {"SCC", "linear:2:0,0:ScC", Malformed},
		"a core twice":                      {"SCC", "explicit:0,0:0,0", Malformed},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, _ := host(t, c.host)
			conf, err := ParseConfig(c.entry)
			if err != nil {
				t.Fatal(err)
			}
			b, err := conf.Resolve(top)
			var no *RefusedError
			if !errors.As(err, &no) || no.Reason != c.reason || !strings.Contains(err.Error(), c.entry) || len(b.Cores) > 0 {
				t.Errorf("got %v, %v, want %v", b.Cores, err, c.reason)
			}
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, s := range []string{"NULL", "explicit:0,0:0,1:Scc", "env_linear:1:0,1:SCc", "pe_striding:2:1:0,0:Scc", "explicit:0,0:S"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := ParseConfig(text)
		if err != nil {
			return
		}
		again, err := ParseConfig(c.String())
		if err != nil || again.String() != c.String() {
			t.Errorf("%q prints as %q, which reads as %v, %v", text, c, again, err)
		}
		top, _ := host(t, "SCTTCTTSCC")
		if b, err := c.Resolve(top); err == nil && !b.CPUs.SubsetOf(top.Usable()) {
			t.Errorf("%q gives processors %v", text, b.CPUs)
		}
	})
}
