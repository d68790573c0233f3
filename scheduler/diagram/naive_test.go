package diagram

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// horizon is how many seconds naive knows; the last one stands for all that follow.
const horizon = 24

// naive is how many slots are in use in each second.
type naive [horizon]int

// tenth is a fraction that all of them contain: sums of it in floating point drift.
const tenth = 0.1

// half is added to numbers of slots, so that it does not matter how the product is
// rounded.
const half = 0.5

func (n *naive) add(b Booking, sign int) {
	for s := range n {
		if b.From <= int64(s) && int64(s) < b.Until {
			n[s] += sign * b.Slots
		}
	}
}

func (n *naive) fits(capacity int, b Booking) bool {
	for s, used := range n {
		if b.From == int64(s) || b.From <= int64(s) && int64(s) < b.Until {
			if used+b.Slots > capacity {
				return false
			}
		}
	}
	return true
}

// earliest looks for the last second that does not fit.
func (n *naive) earliest(capacity int, now int64, request int) int64 {
	at := Forever
	for s := int64(horizon - 1); s >= now && n[s]+request <= capacity; s-- {
		at = s
	}
	return at
}

// compare compares a diagram with what is known to be in use.
func compare(t *rapid.T, d *Diagram, n *naive) {
	t.Helper()
	for s := range int64(horizon) {
		if got, want := d.Max(s, s+1).Float(), float64(n[s])*tenth; got != want {
			t.Fatalf("at %d: %v, want %v", s, got, want)
		}
	}
	steps, before := 0, 0
	for _, used := range n {
		if used != before {
			steps++
		}
		before = used
	}
	if got := len(shape(d)); got != steps {
		t.Fatalf("%d steps, want %d: %v", got, steps, shape(d))
	}
}

// TestDiagramIsTheSumOfItsBookings checks that the diagram equals the sum of each second, whatever is
// added, tried and removed.
func TestDiagramIsTheSumOfItsBookings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var (
			d        Diagram
			n        naive
			bookings []Booking
		)
		draw := func() Booking {
			from := rapid.Int64Range(0, horizon-2).Draw(t, "from")
			until := rapid.OneOf(rapid.Int64Range(0, horizon-1), rapid.Just(Forever)).Draw(t, "until")
			return Booking{from, until, rapid.IntRange(0, 9).Draw(t, "slots"), tenth}
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				b := draw()
				must2(t, d.Add(b))
				n.add(b, 1)
				bookings = append(bookings, b)
			},
			"remove": func(t *rapid.T) {
				if len(bookings) == 0 {
					t.Skip()
				}
				i := rapid.IntRange(0, len(bookings)-1).Draw(t, "which")
				must2(t, d.Remove(bookings[i]))
				n.add(bookings[i], -1)
				bookings = slices.Delete(bookings, i, i+1)
			},
			"add all": func(t *rapid.T) {
				var some []Booking
				for range rapid.IntRange(0, 6).Draw(t, "how many") {
					b := draw()
					some = append(some, b)
					n.add(b, 1)
					bookings = append(bookings, b)
				}
				must2(t, d.AddAll(some))
			},
			"try": func(t *rapid.T) {
				before, clone := shape(&d), d.Clone()
				var tried []Booking
				for range rapid.IntRange(0, 4).Draw(t, "how many") {
					b := draw()
					must2(t, d.Add(b))
					tried = append(tried, b)
					must2(t, clone.Add(b))
				}
				if !slices.Equal(shape(&d), shape(clone)) {
					t.Fatalf("%v, its clone %v", shape(&d), shape(clone))
				}
				for _, b := range tried {
					must2(t, d.Remove(b))
				}
				if !slices.Equal(before, shape(&d)) {
					t.Fatalf("%v before, %v after", before, shape(&d))
				}
			},
			"ask": func(t *rapid.T) {
				b := draw()
				slots := rapid.IntRange(0, 60).Draw(t, "capacity")
				capacity := (float64(slots) + half) * tenth
				if got, want := d.Fits(capacity, b), n.fits(slots, b); got != want {
					t.Fatalf("%v fits into %v: %v, want %v; %v", b, capacity, got, want, shape(&d))
				}
				got := d.Earliest(capacity, b.From, b.Slots, b.Each)
				if want := n.earliest(slots, b.From, b.Slots); got != want {
					t.Fatalf("%v into %v: %v, want %v; %v", b, capacity, got, want, shape(&d))
				}
				if got != Forever && !d.Fits(capacity, Booking{got, Forever, b.Slots, b.Each}) {
					t.Fatalf("does not fit at %d", got)
				}
			},
			"": func(t *rapid.T) {
				compare(t, &d, &n)
			},
		})
		for _, b := range bookings {
			must2(t, d.Remove(b))
		}
		if !d.IsEmpty() {
			t.Fatalf("%v is left", shape(&d))
		}
	})
}

func must2(t *rapid.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// FuzzDiagram reads four bytes as a booking, or as one that is taken back.
func FuzzDiagram(f *testing.F) {
	f.Add([]byte{0, 5, 1, 1, 3, 9, 2, 0x81, 0, 5, 1, 0x41})
	f.Fuzz(func(t *testing.T, text []byte) {
		var d Diagram
		var n [256]int
		for b := range slices.Chunk(text, 4) {
			if len(b) < 4 {
				break
			}
			each := int(b[3] & 0x3f)
			booking := Booking{int64(b[0]), int64(b[1]), int(b[2]), float64(each)}
			sign := 1
			switch b[3] >> 6 {
			case 1:
				sign = -1
				must(t, d.Remove(booking))
			case 2:
				must(t, d.AddAll([]Booking{booking}))
			default:
				must(t, d.Add(booking))
			}
			for s := int(b[0]); s < int(b[1]); s++ {
				n[s] += sign * int(b[2]) * each
			}
		}
		steps, before := 0, 0
		for s, used := range n {
			if got := d.Max(int64(s), int64(s)+1).Float(); got != float64(used) {
				t.Fatalf("at %d: %v, want %d", s, got, used)
			}
			if used != before {
				steps++
			}
			before = used
		}
		if got := len(shape(&d)); got != steps {
			t.Fatalf("%d steps, want %d", got, steps)
		}
	})
}
