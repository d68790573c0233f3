package scheduler

import (
	"slices"
	"weak"
)

// categories holds the categories of a model by key. A category that neither a job nor a decision
// uses is garbage collected; otherwise a master that runs for months would keep every kind of
// request that users have ever made. A category never influences decisions about a later one with
// the same key, so the time of its collection does not matter.
type categories struct {
	known map[string]knownCategory
	free  []int // indexes of collected categories
	next  int   // the smallest index never used
	sweep int   // number of categories that triggers a search for collected ones
}

type knownCategory struct {
	weak.Pointer[Category]
	index int
}

// fewCategories is a number below which a search is not worthwhile.
const fewCategories = 64

func newCategories() categories {
	return categories{known: map[string]knownCategory{}, sweep: fewCategories}
}

// find returns the category with a key, nil if there is none.
func (c *categories) find(key string) *Category { return c.known[key].Value() }

// add gives a new category its index. Whenever the number of categories has doubled, it searches
// for collected ones.
func (c *categories) add(key string, x *Category) {
	if len(c.known) >= c.sweep {
		for k, known := range c.known {
			if known.Value() == nil {
				delete(c.known, k)
				c.free = append(c.free, known.index)
			}
		}
		c.sweep = max(2*len(c.known), fewCategories)
		// Small indexes are used first, to keep lists by index short.
		slices.SortFunc(c.free, func(a, b int) int { return b - a })
	}
	switch last := len(c.free) - 1; {
	case c.known[key] != knownCategory{}: // collected, and made again before this search
		x.index = c.known[key].index
	case last >= 0:
		x.index, c.free = c.free[last], c.free[:last]
	default:
		x.index = c.next
		c.next++
	}
	c.known[key] = knownCategory{weak.Make(x), x.index}
}
