package audit

import (
	"reflect"
	"strings"
)

// Compare returns an object that was and is what two maps of attributes say, nil for one that was
// or is not there; ok is false where nothing has changed. secret names attributes of which only the
// names of variables are said (list of "NAME=value" or of objects with a Name).
func Compare(kind, name string, was, is map[string]any) (o Object, ok bool) {
	o = Object{Kind: kind, Name: name, Change: Changed, Attributes: map[string]Attribute{}}
	switch {
	case was == nil && is == nil:
		return o, false
	case was == nil:
		o.Change = Added
	case is == nil:
		o.Change = Removed
	}
	for key, before := range was {
		if after, there := is[key]; !there || !reflect.DeepEqual(before, after) {
			o.Attributes[key] = Attribute{before, is[key]}
		}
	}
	for key, after := range is {
		if _, there := was[key]; !there {
			o.Attributes[key] = Attribute{Is: after}
		}
	}
	return o, len(o.Attributes) > 0 || o.Change != Changed
}

// Text returns the attributes of an object in a format of Grid Engine: a line for each, with the
// name in front, and continued where it ends with a backslash. A line that stands there twice, as
// in a table of complexes, is one more attribute. nil stays nil.
func Text(text []byte) map[string]any {
	if text == nil {
		return nil
	}
	attributes := map[string]any{}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || line == "{" || line == "}" {
			continue
		}
		name, value, found := strings.Cut(line, "=")
		if before, after, blank := strings.Cut(line, " "); blank && (!found || len(before) < len(name)) {
			name, value = before, after
		}
		name = strings.TrimSpace(name)
		for n := name; ; n += "'" {
			if _, twice := attributes[n]; !twice {
				attributes[n] = strings.Join(strings.Fields(value), " ")
				break
			}
		}
	}
	return attributes
}
