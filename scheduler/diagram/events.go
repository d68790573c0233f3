package diagram

import "iter"

// Events returns the times after a given one at which any of the diagrams changes, the last one
// first and each once. The diagrams must not be changed meanwhile.
//
// The search for the start of a parallel job uses them: it begins at the last one, at which
// everything is free that ever will be, and goes back in time as long as the job can start.
func Events(after int64, diagrams iter.Seq[*Diagram]) iter.Seq[int64] {
	return func(yield func(int64) bool) {
		var h tails
		for d := range diagrams {
			if rest := d.after(d.covering(after)); len(rest) > 0 {
				h = append(h, tail{rest[len(rest)-1].at, rest})
			}
		}
		for i := range h {
			h.sink(len(h) - 1 - i)
		}
		for last := Forever; len(h) > 0; h.sink(0) {
			at := h[0].end
			if at != last && !yield(at) {
				return
			}
			last = at
			if rest := h[0].steps[:len(h[0].steps)-1]; len(rest) > 0 {
				h[0] = tail{rest[len(rest)-1].at, rest}
			} else {
				h[0] = h[len(h)-1]
				h = h[:len(h)-1]
			}
		}
	}
}

// tail is the non-empty remainder of a diagram, with the time of its last step.
type tail struct {
	end   int64
	steps []step
}

// tails is a heap with the one on top that ends last.
type tails []tail

// sink moves an element down to its place.
func (h tails) sink(i int) {
	for {
		child := 2*i + 1
		if child+1 < len(h) && h[child+1].end > h[child].end {
			child++
		}
		if child >= len(h) || h[child].end <= h[i].end {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
