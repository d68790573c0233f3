package qacct

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestJSONIsDocumented compares the rows of a summary with the section of docs/json.md.
func TestJSONIsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../../docs/json.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "\n## sum\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var got, want []string
	for line := range strings.Lines(section) {
		column, _, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		if strings.HasPrefix(line, "| `") {
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(column, -1) {
				got = append(got, m[1])
			}
		}
	}
	for field := range reflect.TypeFor[jsonRow]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		want = append(want, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("docs/json.md has %q, the type %q", got, want)
	}
}
