package report

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestJSONIsDocumented compares the fields of a report with the section of docs/json.md.
func TestJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## report\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		column, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([A-Za-z]+)`").FindAllStringSubmatch(column, -1) {
				got = append(got, m[1])
			}
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[view](), reflect.TypeFor[row]()} {
		for field := range of.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			want = append(want, name)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/json.md has %q, the types %q", got, want)
	}
}
