package protocol

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// decode feeds the output in pieces of n bytes; 0 means all at once. Each report is one string.
func decode(output string, n int) (reports, violations []string) {
	d := Decoder{
		Report: func(values []Value) {
			var b strings.Builder
			for _, v := range values {
				fmt.Fprintf(&b, "%s:%s:%s@%d ", v.Host, v.Name, v.Text, v.Line)
			}
			reports = append(reports, strings.TrimSpace(b.String()))
		},
		Violation: func(v Violation) {
			s := v.String()
			if v.Harmless {
				s = "harmless: " + s
			}
			violations = append(violations, s)
		},
	}
	for piece := range slices.Chunk([]byte(output), max(1, n)) {
		if n == 0 {
			d.Feed([]byte(output))
			break
		}
		d.Feed(piece)
	}
	d.Close()
	return reports, violations
}

func TestDecoder(t *testing.T) {
	long := strings.Repeat("x", MaxLine+1)
	for name, tt := range map[string]struct {
		output              string
		reports, violations []string
	}{
		"a report":                           {"begin\nh:a:1\nglobal:b:x\nend\n", []string{"h:a:1@2 global:b:x@3"}, nil},
		"start is begin":                     {"start\nh:a:1\nend\n", []string{"h:a:1@2"}, nil},
		"an empty report":                    {"begin\nend\n", []string{""}, nil},
		"a value may have colons":            {"begin\nh:t:1:00:00\nend\n", []string{"h:t:1:00:00@2"}, nil},
		"a value may have blanks":            {"begin\nh:t:a b\nend\n", []string{"h:t:a b@2"}, nil},
		"empty lines are skipped":            {"\nbegin\n\nh:a:1\n\nend\n\n", []string{"h:a:1@4"}, nil},
		"two reports":                        {"begin\nh:a:1\nend\nbegin\nh:a:2\nend\n", []string{"h:a:1@2", "h:a:2@5"}, nil},
		"begin drops what is unfinished":     {"begin\nh:a:1\nbegin\nh:a:2\nend\n", []string{"h:a:2@4"}, []string{`line 1: the report that begins here is not used: the next report begins in line 3, expected "end" on a line of its own`}},
		"no end":                             {"begin\nh:a:1\n", nil, []string{`line 1: the report that begins here is not used: the output ends in the middle of a report, expected "end" on a line of its own`}},
		"no newline":                         {"begin\nh:a:1\nend", nil, []string{`line 3: "end": the output ends in the middle of a line, expected a newline`, `line 1: the report that begins here is not used: the output ends in the middle of a report, expected "end" on a line of its own`}},
		"no begin":                           {"h:a:1\nh:b:1\nend\nbegin\nh:a:2\nend\n", []string{"h:a:2@5"}, []string{`line 1: "h:a:1": the line is outside of a report, expected "begin" on a line of its own`, `line 3: "end": a report ends that has not begun, expected "begin" on a line of its own`}},
		"CRLF":                               {"begin\r\nh:a:1\r\nend\r\n", []string{"h:a:1@2"}, []string{`harmless: line 1: "begin\r": the line ends with a carriage return, expected a newline alone`, `harmless: line 2: "h:a:1\r": the line ends with a carriage return, expected a newline alone`, `harmless: line 3: "end\r": the line ends with a carriage return, expected a newline alone`}},
		"blanks around parts":                {"begin\nh:a: 1\nend\n", []string{"h:a:1@2"}, []string{`harmless: line 2: "h:a: 1": there are blanks around a part of the line, expected host:name:value without blanks`}},
		"blanks around words":                {" begin\nend \n", []string{""}, []string{`harmless: line 1: " begin": there are blanks around the word, expected begin`, `harmless: line 2: "end ": there are blanks around the word, expected end`}},
		"one bad line costs itself":          {"begin\nh:a:1\noops\nh:b\nh:b:2\nend\n", []string{"h:a:1@2 h:b:2@5"}, []string{`line 3: "oops": the line has no colon, expected host:name:value, or "end"`, `line 4: "h:b": the line has one colon only, expected host:name:value, or "end"`}},
		"empty parts":                        {"begin\n:a:1\nh::1\nh:a:\nend\n", []string{""}, []string{`line 2: ":a:1": the host is empty, expected host:name:value, or "end"`, `line 3: "h::1": the name of the load value is empty, expected host:name:value, or "end"`, `line 4: "h:a:": the value is empty, expected host:name:value, or "end"`}},
		"blanks in names":                    {"begin\nh x:a:1\nh:a b:1\nend\n", []string{""}, []string{`line 2: "h x:a:1": the host has blanks, expected host:name:value, or "end"`, `line 3: "h:a b:1": the name of the load value has blanks, expected host:name:value, or "end"`}},
		"bytes that are no text":             {"begin\nh:a:\x00\nh:b:\xff\nh:c:\x1b[1m\nh:d:\u00e9\nend\n", []string{"h:d:\u00e9@5"}, []string{`line 2: "h:a:\x00": the line has characters that are no text, expected host:name:value, or "end"`, `line 3: "h:b:` + "\uFFFD" + `": the line has characters that are no text, expected host:name:value, or "end"`, `line 4: "h:c:\x1b[1m": the line has characters that are no text, expected host:name:value, or "end"`}},
		"the last of two counts":             {"begin\nh:a:1\nh:a:2\nend\n", []string{"h:a:2@3"}, []string{`harmless: line 3: "h:a:2": the value was already given in line 2; the last one counts, expected each value once`}},
		"a line that is too long":            {"begin\nh:a:" + long + "\nh:b:1\nend\n", []string{"h:b:1@3"}, []string{fmt.Sprintf(`line 2: "h:a:%s...": the line is too long, expected at most 10000 bytes`, long[:maxShown-4])}},
		"a line of the greatest length":      {"begin\nh:a:" + long[:MaxLine-4] + "\nend\n", []string{"h:a:" + long[:MaxLine-4] + "@2"}, nil},
		"words are words only by themselves": {"begin\nbegins\nend:x\nend\n", []string{""}, []string{`line 2: "begins": the line has no colon, expected host:name:value, or "end"`, `line 3: "end:x": the line has one colon only, expected host:name:value, or "end"`}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{0, 1, 3} {
				reports, violations := decode(tt.output, n)
				if diff := cmp.Diff(tt.reports, reports); diff != "" {
					t.Errorf("in pieces of %d: reports (-want +got)\n%s", n, diff)
				}
				if diff := cmp.Diff(tt.violations, violations); diff != "" {
					t.Errorf("in pieces of %d: violations (-want +got)\n%s", n, diff)
				}
			}
		})
	}
}

// TestBounds simulates a sensor that writes without end.
func TestBounds(t *testing.T) {
	for name, output := range map[string]func(i int) string{
		"values":      func(i int) string { return fmt.Sprintf("h:v%d:1\n", i) },
		"long values": func(i int) string { return fmt.Sprintf("h:v%d:%s\n", i, strings.Repeat("x", 9000)) },
	} {
		t.Run(name, func(t *testing.T) {
			var reports, violations int
			d := Decoder{Report: func([]Value) { reports++ }, Violation: func(Violation) { violations++ }}
			d.Feed([]byte("begin\n"))
			for i := range 3 * MaxValues {
				d.Feed([]byte(output(i)))
				if d.size > MaxReport+MaxLine || len(d.values) > MaxValues+1 {
					t.Fatalf("%d bytes in %d values are kept", d.size, len(d.values))
				}
			}
			d.Feed([]byte("end\n"))
			if reports != 0 || violations != 1 {
				t.Errorf("%d reports, %d violations; want none and 1", reports, violations)
			}
			d.Feed([]byte("begin\nh:a:1\nend\n"))
			if reports != 1 {
				t.Errorf("the next report is not read")
			}
		})
	}
}

// FuzzDecoder checks that memory stays bounded for any output, that each value could have been
// written as it is, and that the result does not depend on the pieces.
func FuzzDecoder(f *testing.F) {
	f.Add("begin\nh:a:1\nglobal:b:x y:z\nend\n", 1)
	f.Add("start\r\nh:a:1\r\nend\r\nh:b:2\nend\n", 2)
	f.Add("begin\nbegin\n:::\n\x00\xff\nh:a: 1\nh:a:2\nend", 5)
	f.Fuzz(func(t *testing.T, output string, n int) {
		var got []Value
		d := Decoder{Report: func(values []Value) { got = append(got, values...) }, Violation: func(v Violation) {
			if v.Problem == "" || v.Line < 0 || v.Line > 1+strings.Count(output, "\n") || len(v.Text) > 3*maxShown+3 {
				t.Errorf("violation %+v", v)
			}
		}}
		for piece := range slices.Chunk([]byte(output), 1+(n&0xff)) {
			d.Feed(piece)
			if len(d.line) > MaxLine || d.size > MaxReport+MaxLine {
				t.Fatalf("%d bytes of a line, %d of a report are kept", len(d.line), d.size)
			}
		}
		d.Close()
		for _, v := range got {
			again, _ := decode(fmt.Sprintf("begin\n%s:%s:%s\nend\n", v.Host, v.Name, v.Text), 0)
			if want := fmt.Sprintf("%s:%s:%s@2", v.Host, v.Name, v.Text); len(again) != 1 || again[0] != want {
				t.Errorf("%+v is read back as %q", v, again)
			}
		}
		whole, violations := decode(output, 0)
		inPieces, violations2 := decode(output, 1+(n&0xff))
		if diff := cmp.Diff(whole, inPieces) + cmp.Diff(violations, violations2); diff != "" {
			t.Errorf("in pieces it is something else:\n%s", diff)
		}
	})
}
