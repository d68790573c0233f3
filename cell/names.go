package cell

import (
	"slices"

	"github.com/execd-project/execd/scheduler/tickets"
)

// names assigns numbers to names. The number of a removed name is reused.
type names struct {
	list  []string // empty for a number that is free
	index map[string]int32
}

func newNames() names { return names{index: map[string]int32{}} }

// indexOf returns the number of a name, tickets.None if it has none.
func (n *names) indexOf(name string) int32 {
	if i, ok := n.index[name]; ok && name != "" {
		return i
	}
	return tickets.None
}

// add returns the number of a name. It assigns one if the name has none.
func (n *names) add(name string) int32 {
	if i, ok := n.index[name]; ok {
		return i
	}
	i := slices.Index(n.list, "")
	if i < 0 {
		i = len(n.list)
		n.list = append(n.list, "")
	}
	n.list[i] = name
	n.index[name] = int32(i)
	return int32(i)
}

func (n *names) remove(name string) {
	if i, ok := n.index[name]; ok {
		n.list[i] = ""
		delete(n.index, name)
	}
}

func (n *names) clone() names {
	c := names{list: slices.Clone(n.list), index: map[string]int32{}}
	for i, name := range n.list {
		if name != "" {
			c.index[name] = int32(i)
		}
	}
	return c
}

// name returns the name with a number, empty if there is none.
func (n *names) name(i int32) string {
	if i < 0 || int(i) >= len(n.list) {
		return ""
	}
	return n.list[i]
}

// put assigns a name its previous number, if that is free and below the limit: the length of the
// lists is the largest number.
func (n *names) put(name string, i int32, limit int) int32 {
	if i < 0 || int(i) > limit || int(i) < len(n.list) && n.list[i] != "" {
		return n.add(name)
	}
	n.list = grown(n.list, i)
	n.list[i], n.index[name] = name, i
	return i
}
