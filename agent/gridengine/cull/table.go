package cull

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

//go:embed attributes.txt
var attributes string

// table is what attributes.txt says of one kind of element.
type table struct {
	descriptor Descriptor
	ids        map[string]uint32 // by name, without the prefix
}

// tables reads attributes.txt once.
var tables = sync.OnceValue(func() map[string]*table {
	all := map[string]*table{}
	var current *table
	for i, line := range strings.Split(attributes, "\n") {
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
				mistake("attributes.txt:%d: %q, expected name, id and type", i+1, line)
			}
			current.descriptor = append(current.descriptor, Attribute{id, word})
			current.ids[words[0]] = id
		}
	}
	return all
})

func parse(s string) (uint32, error) {
	n, err := strconv.ParseUint(s, 0, 32)
	return uint32(n), err
}

// tableOf is what attributes.txt says of a kind of elements.
func tableOf(object string) *table {
	t := tables()[object]
	if t == nil {
		mistake("attributes.txt has no %s", object)
	}
	return t
}

func (t *table) id(object, name string) uint32 {
	id, ok := t.ids[name]
	if !ok {
		mistake("attributes.txt: %s has no %s", object, name)
	}
	return id
}

// DescriptorOf is the descriptor of a kind of elements in full, such as "JR". It is not
// to be changed. A receiver of Grid Engine looks for attributes by their ids, and
// sge_qmaster ends itself where one is missing: what is sent has all of them.
func DescriptorOf(object string) Descriptor { return tableOf(object).descriptor }

// ID is the id of an attribute of a kind of elements: ID("JR", "job_number").
func ID(object, name string) uint32 { return tableOf(object).id(object, name) }

// mistake is one in the tables and types of this program, which each of its messages
// meets when it is made or read for the first time.
func mistake(format string, args ...any) {
	panic(fmt.Sprintf(format, args...)) //nolint:forbidigo // no input can lead here
}
