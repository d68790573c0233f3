package launcher

import (
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/job"
)

// TestCompactKinds checks that each order about jobs has a code of its own, and that everything in its body and answer can
// be sent.
func TestCompactKinds(t *testing.T) {
	if len(compactKinds) == 0 {
		t.Fatal("there are none")
	}
	for k, code := range compactKinds {
		if code == 0 || kindOfCode[code] != k {
			t.Errorf("%s has the code %d, of %q", k, code, kindOfCode[code])
		}
		text, err := toCompact(nil, &struct{ A int }{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeBody(k, text); err != nil {
			t.Error(err)
		}
	}
	for _, a := range []any{&jobAnswer{}, &launchAnswer{}, &waitAnswer{}, &collectAnswer{}, &Error{}} {
		if _, err := toCompact(nil, a); err != nil {
			t.Errorf("%T: %v", a, err)
		}
	}
}

// TestCompactFields checks that the launcher gets each field of an order as it is.
func TestCompactFields(t *testing.T) {
	for _, v := range []any{&prepareBody{Plan: &launch.Plan{}}, &submission.Submission{}, &jobAnswer{}, &waitAnswer{Outcome: &job.Outcome{}}, &Error{}, &taskBody{}} {
		for _, path := range fieldsOf(reflect.ValueOf(v).Elem(), "") {
			for _, value := range append([]string{"\xff"}, forgeries...) {
				from := reflect.New(reflect.TypeOf(v).Elem())
				forge(t, from.Elem(), strings.Split(path, "."), value)
				text, err := toCompact(nil, from.Interface())
				if err != nil {
					t.Fatal(err)
				}
				got := reflect.New(from.Type().Elem())
				if err := fromCompact(text, got.Interface()); err != nil {
					t.Fatalf("%s: %v", path, err)
				}
				if path != "Plan.Cores.Queue" && !reflect.DeepEqual(got.Interface(), from.Interface()) { // it is not sent
					t.Errorf("%s: the launcher gets\n%+v, expected\n%+v", path, got.Elem(), from.Elem())
				}
			}
		}
	}
}

// TestCompactValues checks that values arrive as they are, at the ends of their ranges.
func TestCompactValues(t *testing.T) {
	type values struct {
		I     int64
		U     uint64
		B     uint8
		F     float64
		T     time.Time
		Bytes []byte
		Texts []string
		Pairs [][2]string
		Limit *job.Limits
	}
	unlimited := job.Unlimited()
	for _, v := range []*values{
		{},
		{I: math.MinInt64, U: math.MaxUint64, B: math.MaxUint8, F: math.Inf(-1), T: time.Unix(math.MaxInt32, 999_999_999)},
		{I: math.MaxInt64, U: 1, B: 1, F: math.SmallestNonzeroFloat64, T: time.Unix(-1, 1).UTC()},
		{Bytes: []byte{}, Texts: []string{}, Pairs: [][2]string{}},
		{Bytes: []byte("a\x00"), Texts: []string{"", "\xff"}, Pairs: [][2]string{{}, {"a", ""}}, Limit: &unlimited},
	} {
		text, err := toCompact(nil, v)
		if err != nil {
			t.Fatal(err)
		}
		got := &values{}
		if err := fromCompact(text, got); err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%+v became %+v (%v)", v, got, err)
		}
		for n := range len(text) {
			if err := fromCompact(text[:n], &values{}); err == nil {
				t.Errorf("%d of %d bytes of %+v are accepted", n, len(text), v)
			}
		}
		if err := fromCompact(append(text, 0), &values{}); err == nil {
			t.Errorf("a byte after %+v is accepted", v)
		}
	}
	for name, text := range map[string]string{
		"a number that is too large":        "\x04\x00\x81\x02",
		"nanoseconds that are too large":    "\x10\x00\x00\x80\x94\xeb\xdc\x03\x00",
		"a time zone that there is not":     "\x10\x00\x00\x00\x02",
		"the zero time":                     "\x10\x00\xff\xdb\x8f\xf9\xce\x03\x00\x01",
		"a list that is longer than a text": "\x40\x00\xff\xff\xff\xff\x0f",
	} {
		if err := fromCompact([]byte(text), &values{}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	for _, v := range []any{&struct{ M map[string]int }{}, &struct{ A any }{}, &struct{ L []bool }{}, &struct{ L [][]string }{}, &struct{ P **int }{}} {
		if _, err := toCompact(nil, v); err == nil {
			t.Errorf("%T has a compact form", v)
		}
	}
}

// TestCompactBounds checks that a short message does not take up much memory.
func TestCompactBounds(t *testing.T) {
	type list struct{ L []struct{ A, B string } }
	text, err := toCompact(nil, &list{make([]struct{ A, B string }, mostObjectsOf+1)})
	if err != nil {
		t.Fatal(err)
	}
	if err := fromCompact(text, &list{}); err == nil || !strings.Contains(err.Error(), "are possible") {
		t.Errorf("%v, expected that a list with too many elements is refused", err)
	}
}

// TestCompactAnswers checks that a front gets an answer, and its error, as they are.
func TestCompactAnswers(t *testing.T) {
	for _, a := range []*answer{{Number: 1}, {Number: math.MaxUint64, Error: &Error{Code: codeFailed, Errno: 5, Text: "\xff"}}} {
		a.compact = true
		text, _, err := packAnswer(a, &launchAnswer{7})
		if err != nil {
			t.Fatal(err)
		}
		var got answer
		if err := decodeAnswer(text, &got); err != nil || got.Number != a.Number || !reflect.DeepEqual(got.Error, a.Error) {
			t.Fatalf("%+v (%v), expected %+v", got, err, a)
		}
		var l launchAnswer
		if _, err := open(reply{answer: &got}, &l); a.Error == nil && (err != nil || l.PID != 7) {
			t.Errorf("the answer is %+v (%v)", l, err)
		}
	}
	for _, text := range []string{"\x01", "\x01\x02\x00\x08\x01", "\x01\x02\x04\x00\x01", "\x01\x03\x00\x00\x01"} {
		if err := decodeAnswer([]byte(text), &answer{}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}
