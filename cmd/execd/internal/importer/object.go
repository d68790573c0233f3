package importer

import (
	"fmt"
	"slices"
	"strings"
)

// object is a file of the new configuration directory. Its lines keep their positions, so that
// messages can name them: skipped lines become empty.
type object struct {
	path  string // below the configuration directory
	lines []string
	from  []origin // of each line; one origin for all lines if there is only one
	// added is the number of lines inserted before the first line of the origin.
	added int
	// emptied holds the lines of lists from which all items were removed.
	emptied map[int]bool
}

// none is the text of an empty list.
const none = "NONE"

// origin is the source of a line: a file, or the command that printed it.
type origin struct {
	name string
	line int // 0 for the whole source
}

func (p origin) String() string {
	if p.line == 0 {
		return p.name
	}
	return fmt.Sprintf("%s:%d", p.name, p.line)
}

func newObject(path, from, text string) *object {
	return &object{path: path, lines: strings.Split(strings.TrimSuffix(text, "\n"), "\n"), from: []origin{{name: from}}}
}

// text returns the remaining lines.
func (o *object) text() []byte { return []byte(strings.Join(o.lines, "\n") + "\n") }

// origin returns the file and line from which a line of the object comes. Lines count from 1; line
// 0 stands for the whole object.
func (o *object) origin(line int) origin {
	if len(o.from) > 1 {
		if 0 < line && line <= len(o.from) {
			return o.from[line-1]
		}
		return origin{name: o.from[0].name}
	}
	return origin{o.from[0].name, max(line-o.added, 0)}
}

// end returns the line after the attribute that begins at a line, which may be continued. Lines
// count from 1.
func (o *object) end(line int) int {
	for line < len(o.lines) && strings.HasSuffix(strings.TrimRight(o.lines[line-1], " \t\r"), `\`) {
		line++
	}
	return line + 1
}

// value returns the text of the attribute that begins at a line.
func (o *object) value(line int) string {
	var words []string
	for _, l := range o.lines[line-1 : o.end(line)-1] {
		words = append(words, strings.Fields(strings.TrimSuffix(strings.TrimRight(l, " \t\r"), `\`))...)
	}
	if len(words) == 0 {
		return ""
	}
	return strings.Join(words[1:], " ")
}

// drop removes an attribute with all its lines.
func (o *object) drop(line int) {
	clear(o.lines[line-1 : o.end(line)-1])
}

// part is a list for all hosts, or for some: [host=list].
type part struct {
	host, separator string
	items           []string
}

func parts(value string) (all []part) {
	for i, text := range strings.Split(value, "[") {
		text = strings.TrimRight(text, ", \t]")
		p := part{separator: " "}
		if i > 0 {
			p.host, text, _ = strings.Cut(text, "=")
		}
		if strings.Contains(text, ",") {
			p.separator = ","
		}
		p.items = strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' })
		if i > 0 || len(p.items) > 0 {
			all = append(all, p)
		}
	}
	return all
}

func (p *part) String() string {
	text := strings.Join(p.items, p.separator)
	if text == "" {
		text = none
	}
	if p.host != "" {
		text = "[" + p.host + "=" + text + "]"
	}
	return text
}

// dropItem removes an item, or a setting by its name, from a list, for all hosts, and reports
// whether it was there. A list without other items becomes NONE.
func (o *object) dropItem(line int, item string) bool {
	if item == "" || strings.EqualFold(item, none) {
		return false
	}
	found := false
	all := parts(o.value(line))
	for i := range all {
		p := &all[i]
		n := len(p.items)
		p.items = slices.DeleteFunc(p.items, func(s string) bool { return s == item || strings.HasPrefix(s, item+"=") })
		if len(p.items) == n {
			continue
		}
		found = true
		if len(p.items) == 0 {
			if o.emptied == nil {
				o.emptied = map[int]bool{}
			}
			o.emptied[line] = true
		}
	}
	if found {
		o.set(line, all)
	}
	return found
}

// set replaces the value of an attribute.
func (o *object) set(line int, all []part) {
	name := strings.Fields(o.lines[line-1])[0]
	var texts []string
	for i := range all {
		texts = append(texts, all[i].String())
	}
	o.drop(line)
	o.lines[line-1] = name + " " + strings.Join(texts, ",")
}

// dropNone handles attributes that cannot be NONE: a host whose value would be NONE gets the value
// for all hosts, and the value for all hosts becomes the default.
func (o *object) dropNone(line int) {
	delete(o.emptied, line)
	all := parts(o.value(line))
	kept := slices.DeleteFunc(slices.Clone(all), func(p part) bool { return p.host != "" && len(p.items) == 1 && p.items[0] == none })
	if len(kept) == len(all) || len(kept) == 0 {
		o.drop(line)
		return
	}
	o.set(line, kept)
}

// strip removes lines that are not configuration, and converts lines that a master writes in
// another form than qconf.
func (o *object) strip(k *kind) {
	for i, line := range o.lines {
		words := strings.Fields(line)
		switch other, ok := k.words[strings.Join(words, " ")]; {
		case ok:
			o.lines[i] = other
		case len(words) > 0 && slices.Contains(k.state, words[0]):
			o.drop(i + 1)
		}
	}
}
