package audit

import (
	"reflect"
	"strings"
)

// Compare returns the changes of an object from the attributes was to the attributes is; a nil map
// means that the object did not exist, or no longer exists. ok is false if nothing has changed.
// secret names the attributes that hold variables (lists of "NAME=value" or of objects with a
// Name): the result contains only the names of these.
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

// Text parses the attributes of an object in a format of Grid Engine: one line for each, beginning
// with the name; a backslash at its end continues a line. A repeated name, as in a table of
// complexes, becomes another attribute. Text returns nil for nil.
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
