package qconf

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// messages are the texts of all errors in err.
func messages(err error) []string {
	var texts []string
	for _, e := range Errors(err) {
		texts = append(texts, e.Error())
	}
	return texts
}

// refused checks that err is exactly these errors.
func refused(t *testing.T, err error, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, messages(err)); diff != "" {
		t.Errorf("errors (-want +got)\n%s", diff)
	}
}

func value(t *testing.T, text Text, attribute string) string {
	t.Helper()
	v, ok := text.Value(attribute)
	if !ok {
		t.Errorf("no %s", attribute)
	}
	return v
}

func same(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got)\n%s", what, diff)
	}
}

func queue(t *testing.T, lines string) *Queue {
	t.Helper()
	q, err := ParseQueue("q", []byte("qname q\n"+lines))
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func groups(t *testing.T, texts ...string) *HostGroups {
	t.Helper()
	var all []*HostGroup
	for _, text := range texts {
		g, err := ParseHostGroup("g", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, g)
	}
	resolved, err := NewHostGroups(all...)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}
