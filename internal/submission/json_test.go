package submission

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/execd-project/execd/submit"
)

// FuzzDigest checks that the digest is that of the text of package json, with each field of a submission: a field that is
// left out could be changed by an attacker, and with another text submitted jobs would not start after an upgrade.
func FuzzDigest(f *testing.F) {
	for i := range reflect.TypeFor[Submission]().NumField() {
		for _, text := range []string{"", "a", "\xff", "\"\\<>&\n\u2028\u007f"} {
			f.Add(uint8(i), uint8(i+1), text, "b", 7)
		}
	}
	f.Fuzz(func(t *testing.T, first, second uint8, text, more string, number int) {
		s := &Submission{}
		v := reflect.ValueOf(s).Elem()
		for _, i := range []uint8{first, second} {
			field := v.Field(int(i) % v.NumField())
			switch to := field.Addr().Interface().(type) {
			case *Text:
				*to = Text(text)
			case *string:
				*to = text
			case *bool:
				*to = true
			case *[]Text:
				*to = []Text{Text(text), Text(more)}
			case *[]Pair:
				*to = []Pair{{Text(text), Text(more)}, {}}
			case *[]Limit:
				*to = []Limit{{Resource: number, Hard: number%2 == 0, Value: uint64(len(text))}} //nolint:gosec // not negative
			case **submit.Array:
				*to = &submit.Array{First: number}
			default:
				t.Fatalf("this test cannot change a %T", to)
			}
		}
		want, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.appendJSON(nil)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("the text is\n%s, expected\n%s (%v)", got, want, err)
		}
		if s.Digest("k") != Digest("k", want) {
			t.Error("the digest is another one")
		}
	})
}
