package launcher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/submit"
)

// TestKnownSubmissions checks that a submission is read again only if its key or text differs, and that few are kept.
func TestKnownSubmissions(t *testing.T) {
	var k knownSubmissions
	read := func(key string, of *submission.Submission, known bool) {
		t.Helper()
		s, err := newSubmitted(key, of)
		if err != nil {
			t.Fatal(err)
		}
		if got := k.find(s) != nil; got != known {
			t.Errorf("the submission is known: %v, expected %v", got, known)
		}
		got, digest, err := k.read(s)
		if err != nil || digest != of.Digest(key) || got.Digest(key) != digest {
			t.Errorf("the submission is %+v with %q (%v), expected %+v", got, digest, err, of)
		}
	}
	array := &submit.Array{First: 1, Last: 9, Step: 1}
	read("a", &submission.Submission{Command: "c", Array: array}, false)
	read("a", &submission.Submission{Command: "c", Array: array}, true)
	read("b", &submission.Submission{Command: "c", Array: array}, false)
	read("a", &submission.Submission{Command: "d", Array: array}, false)
	read("c", &submission.Submission{Command: "c"}, false)
	read("c", &submission.Submission{Command: "c"}, false)
	large := submission.Text(strings.Repeat("x", mostKnownText))
	read("d", &submission.Submission{Command: large, Array: array}, false)
	read("d", &submission.Submission{Command: large, Array: array}, false)
	read("a", &submission.Submission{Command: "c", Array: array}, true)
	for i := range mostKnown {
		read(fmt.Sprint("e", i), &submission.Submission{Array: array}, false)
	}
	if len(k.list) != mostKnown {
		t.Errorf("%d submissions are kept", len(k.list))
	}
	read("a", &submission.Submission{Command: "c", Array: array}, false)
	for _, text := range []string{"\x00", "x", "\x00\x00\x00\x80"} {
		if _, _, err := k.read(&submitted{"a", []byte(text)}); err == nil {
			t.Errorf("%q is a submission", text)
		}
	}
}
