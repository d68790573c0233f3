package guest

import (
	"bytes"
	"strings"
	"testing"
)

func TestReceive(t *testing.T) {
	const ended = `e %d 29
{"Status":3,"Milliseconds":5}`
	first, second := strings.Replace(ended, "%d", "0", 1), strings.Replace(ended, "%d", "1", 1)
	tests := map[string]struct {
		said    string
		results int
		output  string // of both steps
		err     string
	}{
		"two steps":                               {"o 0 2\nab" + first + "o 1 1\nc" + second, 2, "ab|c", ""},
		"a guest that ends early":                 {"o 0 2\nab" + first, 1, "ab|", ""},
		"a guest that ends in the midst":          {"o 0 2\na", 0, "|", "cannot read a frame"},
		"a guest that cannot go on":               {first + "f 0 7\nno disk", 1, "|", "cannot go on in the guest: no disk"},
		"output of a step that is not its turn":   {"o 1 2\nab", 0, "|", "it speaks of step 1 after 0 steps"},
		"output after the last step":              {first + second + "o 2 1\na", 2, "|", "after its last step"},
		"a step that ended, and nobody knows how": {"e 0 2\nno", 0, "|", "cannot read how a step ended"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			var outputs [2]bytes.Buffer
			results, err := receive(strings.NewReader(test.said), []Step{{Output: &outputs[0]}, {Output: &outputs[1]}})
			if got := outputs[0].String() + "|" + outputs[1].String(); len(results) != test.results || got != test.output {
				t.Errorf("%d results, output %q", len(results), got)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
		})
	}
}

func TestTailKeepsTheEnd(t *testing.T) {
	var all bytes.Buffer
	w := &tail{next: &all}
	for range 1000 {
		if _, err := w.Write([]byte("a line of the kernel\r\n")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Write([]byte("panic\r\n")); err != nil {
		t.Fatal(err)
	}
	if got := w.String(); len(got) > tailSize || !strings.HasSuffix(got, "kernel\npanic\n") {
		t.Errorf("%d bytes kept, with the end %q", len(got), got[len(got)-20:])
	}
	if all.Len() != 1000*22+7 {
		t.Errorf("%d bytes passed on", all.Len())
	}
}
