package diagram

import "iter"

// Events returns the times behind a given one at which anything changes in any of the
// diagrams, the last one first and each once. The diagrams may not be changed
// meanwhile.
//
// The start of a parallel job is looked for among them: at the last one all that
// will ever be free is free, and the search goes back in time for as long as the job
// can start.
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

// tail is what is left of a diagram, which is not nothing, and when its last step is.
type tail struct {
	end   int64
	steps []step
}

// tails is a heap with the one on top that ends last.
type tails []tail

// sink puts an element in its place below itself.
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
