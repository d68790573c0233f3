package cull

import (
	"embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed attributes-*.txt
var attributes embed.FS

// table holds the attributes of one kind of element in a format.
type table struct {
	descriptor Descriptor
	ids        map[string]uint32 // by name, without the prefix
	forks      []*table          // the same kind as forks of the release have it
}

// insertion is an attribute that a fork has inserted after another one. The ids of all following
// attributes are higher by one there.
type insertion struct {
	kind, behind, name string
	kindOfValue        Type
}

// tablesOf reads a file of attributes once.
func tablesOf(file string, forks ...insertion) func() map[string]*table {
	return sync.OnceValue(func() map[string]*table {
		all := readTables(file)
		for _, f := range forks {
			t := all[f.kind]
			t.forks = append(t.forks, t.insert(f))
		}
		return all
	})
}

func readTables(file string) map[string]*table {
	text, err := attributes.ReadFile(file)
	if err != nil {
		mistake("%v", err)
	}
	all := map[string]*table{}
	var current *table
	for i, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0 || strings.HasPrefix(line, "#"):
		case len(words) == 1:
			current = &table{ids: map[string]uint32{}}
			all[words[0]] = current
		default:
			var id uint32
			var word uint32
			var err error
			if len(words) == 3 {
				id, err = parse(words[1])
				if err == nil {
					word, err = parse(words[2])
				}
			}
			if len(words) != 3 || err != nil || current == nil {
				mistake("%s:%d: %q, expected name, id and type", file, i+1, line)
			}
			current.descriptor = append(current.descriptor, Attribute{id, word})
			current.ids[words[0]] = id
		}
	}
	return all
}

func parse(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	return uint32(n), err
}

// insert returns the table of a fork.
func (t *table) insert(f insertion) *table {
	behind := t.id(f.kind, f.behind)
	fork := &table{ids: map[string]uint32{f.name: behind + 1}}
	for name, id := range t.ids {
		if id > behind {
			id++
		}
		fork.ids[name] = id
	}
	for _, a := range t.descriptor {
		if a.ID > behind {
			a.ID++
		}
		fork.descriptor = append(fork.descriptor, a)
		if a.ID == behind {
			fork.descriptor = append(fork.descriptor, Attribute{behind + 1, uint32(f.kindOfValue)})
		}
	}
	return fork
}

// table returns the table of a kind of element, or nil if the format has none.
func (f *Format) table(kind string) *table { return f.tables()[kind] }

// need returns the table of a kind that the format must have.
func (f *Format) need(kind string) *table {
	t := f.table(kind)
	if t == nil {
		mistake("format %s has no %s", f.Name, kind)
	}
	return t
}

func (t *table) id(kind, name string) uint32 {
	id, ok := t.ids[name]
	if !ok {
		mistake("%s has no %s", kind, name)
	}
	return id
}

// known reports whether one of the formats has an attribute.
func known(kind, name string) bool {
	return slices.ContainsFunc(formats, func(f *Format) bool {
		t := f.table(kind)
		if t == nil {
			return false
		}
		_, ok := t.ids[name]
		return ok
	})
}

// DescriptorOf returns the complete descriptor of a kind of element, such as "JR". Do not change
// it. Grid Engine looks attributes up by id, and sge_qmaster aborts if one is missing: so sent
// elements have all attributes.
func (f *Format) DescriptorOf(kind string) Descriptor { return f.need(kind).descriptor }

// ID returns the id of an attribute of a kind of elements: ID("JR", "job_number").
func (f *Format) ID(kind, name string) uint32 { return f.need(kind).id(kind, name) }

// Attribute returns the place of an attribute among those of a kind of elements, and the attribute.
func (f *Format) Attribute(kind, name string) (int, Attribute) {
	t := f.need(kind)
	i := t.descriptor.index(t.id(kind, name))
	return i, t.descriptor[i]
}

// fits finds the first attribute of a descriptor that a table does not have in this place,
// with this type; -1 for none. Attributes may be missing.
func (t *table) fits(d Descriptor) int {
	rest := t.descriptor
	for i, a := range d {
		at := slices.IndexFunc(rest, func(b Attribute) bool { return a.ID == b.ID && a.Type() == b.Type() })
		if at < 0 {
			return i
		}
		rest = rest[at+1:]
	}
	return -1
}

// tableFor returns the table with the names of a descriptor's attributes: the format's, or the
// table of a fork with other attributes. Received data is always read with its own descriptor.
func (k *kind) tableFor(d Descriptor) (*table, error) {
	at := k.table.fits(d)
	if at < 0 {
		return k.table, nil
	}
	for _, t := range k.table.forks {
		if t.fits(d) < 0 {
			return t, nil
		}
	}
	return nil, &DescriptorError{Kind: k.object, Place: at, Got: d[at], Format: k.format.Name}
}

// DescriptorError is a descriptor that a kind of elements does not have.
type DescriptorError struct {
	Kind   string
	Place  int // of the first attribute that does not fit
	Got    Attribute
	Format string // in which it was read
}

func (e *DescriptorError) Error() string {
	return fmt.Sprintf("attribute %d of %s is %d (%v), which Grid Engine %s does not have there: the other side is another release or a fork",
		e.Place, e.Kind, e.Got.ID, e.Got.Type(), e.Format)
}

// mistake panics because of an error in this package's own tables and types. The first encoding or
// decoding of a message of each type finds such an error.
func mistake(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) //nolint:forbidigo // no input can lead here
}
