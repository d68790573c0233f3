package expression

import (
	"strings"
	"testing"
)

// groups of the tests: @Sub is in @top, @empty has no hosts.
func groups(host string) []string {
	if host == "n1" {
		return []string{"@Sub", "@top"}
	}
	return nil
}

// TestQueueReferences checks the answers of qselect -q in a cell with the queues v1, v2 and v3 at the
// host n1.
func TestQueueReferences(t *testing.T) {
	for text, want := range map[string]string{
		"v1":                   "v1",
		"V1":                   "",
		"v1|v2":                "v1 v2",
		"!v1":                  "v2 v3",
		"v1@n1":                "v1",
		"v1@N1":                "v1",
		"V1@n1":                "",
		"v1@n*":                "v1",
		"v1|v2@n1":             "v1 v2",
		"(v1|v2)@n1":           "v1 v2",
		"v1@!n1":               "",
		"v1@!n2":               "v1",
		"v1@n1@n2":             "",
		"v1@*&n1":              "v1",
		"*@@Sub":               "v1 v2 v3",
		"*@@sub":               "v1 v2 v3",
		"*@@s*":                "v1 v2 v3",
		"*@@top":               "v1 v2 v3",
		"*@@*":                 "v1 v2 v3",
		"*@@empty":             "",
		"*@@@Sub":              "",
		"v[12]@@top&!empty":    "v1 v2", // "empty" is no group: its name begins with @
		"v1@@empty|top":        "",
		"v1@@empty|@top":       "v1",
		"v1@@TOP":              "v1",
		"v1,v2":                "v1 v2",
		"v1@n2,v3@@top":        "v3",
		`v1@"n1"`:              "",
		"!(v1|v2)&v*":          "v3",
		"v1@n1.example.com":    "",
		"v1@@top.example.com":  "",
		"v1@@top.example.com|": "error",
		"(v1":                  "error",
		"v1@(n1":               "error",
		"*@@!top":              "error", // the @ begins a pattern, which ends at the !
		"@n1":                  "error",
		"@@top":                "error",
		"v1@":                  "error",
		"v1@@":                 "error",
		"":                     "error",
		"@":                    "error",
	} {
		l, err := CompileQueueList(HostNames{}, text)
		if err != nil {
			if want != "error" {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		var got []string
		for _, q := range []string{"v1", "v2", "v3"} {
			if l.Match(q, "n1", groups) {
				got = append(got, q)
			}
			if l.Match(q, "n1", groups) && !l.MatchQueue(q) {
				t.Errorf("%q matches the instance of %s but not the queue", text, q)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
		if l.String() != text {
			t.Errorf("%q is printed as %q", text, l.String())
		}
	}
}

func TestHostReferences(t *testing.T) {
	names := HostNames{IgnoreFQDN: true}
	for text, want := range map[string]string{
		"n1":      "n1 n1.a.org",
		"N1.b.c":  "n1 n1.a.org",
		"@top":    "n1",
		"@TOP":    "n1",
		"@t*":     "n1",
		"@top.x":  "", // groups have no domain
		"*":       "n1 n1.a.org n2",
		"!@top":   "n1 n1.a.org n2", // about hosts, none of which is called @top
		"n2|@top": "n2",
	} {
		r, err := CompileHostReference(names, text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		var got []string
		for _, h := range []string{"n1", "n1.a.org", "n2"} {
			if r.Match(h, groups) {
				got = append(got, h)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q means %q, want %q", text, got, want)
		}
		if r.IsGroup() != (text[0] == '@') || r.String() != text {
			t.Errorf("%q is about groups: %v, printed %q", text, r.IsGroup(), r)
		}
	}
	for _, text := range []string{"", "@", "(", "a|"} {
		if _, err := CompileHostReference(names, text); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
	var none *HostReference
	var noQueue *QueueReference
	if none.Match("n1", groups) || noQueue.Match("v1", "n1", groups) || (QueueList{}).Match("v1", "n1", groups) {
		t.Error("a reference that is not there matches")
	}
}

func FuzzCompileQueueList(f *testing.F) {
	f.Add("a*&!adam@@solaris, *@b*|c*")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := CompileQueueList(HostNames{}, text)
		if err != nil {
			return
		}
		again, err := CompileQueueList(HostNames{}, l.String())
		if err != nil || again.String() != l.String() {
			t.Fatalf("%q is printed as %q: %v", text, l, err)
		}
		l.Match("v1", "n1", groups)
	})
}

func BenchmarkMatchQueueList(b *testing.B) {
	l, err := CompileQueueList(HostNames{}, "big*@n1,small.q,*.q@@top")
	if err != nil {
		b.Fatal(err)
	}
	member := []string{"@Sub", "@top"}
	of := func(string) []string { return member }
	b.ReportAllocs()
	for b.Loop() {
		l.Match("all.q", "n1", of)
	}
}
