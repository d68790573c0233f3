package scheduler

import (
	"slices"
	"weak"
)

// categories are the categories of a model by their keys. They go when nothing has one
// any more, no job and no decision: a master that is up for months would else keep each
// kind of requests that a user has ever made. What decides is never seen by the one that
// comes in its place, so that it makes no difference when it went.
type categories struct {
	known map[string]knownCategory
	free  []int // indexes of those that are gone
	next  int   // the index after all that were given
	sweep int   // how many there may be before it is looked for those that are gone
}

type knownCategory struct {
	weak.Pointer[Category]
	index int
}

// fewCategories are not worth a look.
const fewCategories = 64

func newCategories() categories {
	return categories{known: map[string]knownCategory{}, sweep: fewCategories}
}

// find returns the category with a key, nil if there is none.
func (c *categories) find(key string) *Category { return c.known[key].Value() }

// add gives a new category its index. It looks at all others once in so many times as
// there are.
func (c *categories) add(key string, x *Category) {
	if len(c.known) >= c.sweep {
		for k, known := range c.known {
			if known.Value() == nil {
				delete(c.known, k)
				c.free = append(c.free, known.index)
			}
		}
		c.sweep = max(2*len(c.known), fewCategories)
		// The small ones first: lists by index are to be short.
		slices.SortFunc(c.free, func(a, b int) int { return b - a })
	}
	switch last := len(c.free) - 1; {
	case c.known[key] != knownCategory{}: // gone, and back before anybody looked
		x.index = c.known[key].index
	case last >= 0:
		x.index, c.free = c.free[last], c.free[:last]
	default:
		x.index = c.next
		c.next++
	}
	c.known[key] = knownCategory{weak.Make(x), x.index}
}
