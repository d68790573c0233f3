package diagram

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler/value"

	"pgregory.net/rapid"
)

// one returns a booking of one slot.
func one(from, until int64, each float64) Booking {
	return Booking{From: from, Until: until, Slots: 1, Each: each}
}

func must(t interface {
	Helper()
	Fatal(args ...any)
}, err error,
) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// shape returns a diagram as times and amounts.
func shape(d *Diagram) [][2]float64 {
	var all [][2]float64
	for at, used := range d.Steps() {
		all = append(all, [2]float64{float64(at), used.Float()})
	}
	return all
}

func wantShape(t testing.TB, d *Diagram, want ...[2]float64) {
	t.Helper()
	if diff := cmp.Diff(want, shape(d)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestStepsAreAsFewAsPossible(t *testing.T) {
	var d Diagram
	must(t, d.Add(one(10, 20, 1)))
	must(t, d.Add(one(20, 30, 1)))
	wantShape(t, &d, [2]float64{10, 1}, [2]float64{30, 0})
	must(t, d.Add(Booking{15, 25, 2, 0.5}))
	wantShape(t, &d, [2]float64{10, 1}, [2]float64{15, 2}, [2]float64{25, 1}, [2]float64{30, 0})
	must(t, d.Remove(one(15, 25, 1)))
	must(t, d.Add(one(30, Forever, 1)))
	wantShape(t, &d, [2]float64{10, 1})
	must(t, d.Remove(one(10, Forever, 1)))
	if !d.IsEmpty() {
		t.Errorf("%v is left", shape(&d))
	}
	must(t, d.Add(one(5, 5, 1)))
	must(t, d.Add(one(6, 5, 1)))
	must(t, d.Add(Booking{5, 6, 0, 1}))
	must(t, d.Add(one(5, 6, 0)))
	if !d.IsEmpty() {
		t.Errorf("bookings of nothing: %v", shape(&d))
	}
}

func TestNothingDrifts(t *testing.T) {
	var d Diagram
	for _, each := range []float64{0.1, 0.2, -0.1, -0.2} {
		must(t, d.Add(one(0, 100, each)))
	}
	if !d.IsEmpty() {
		t.Errorf("0.1+0.2-0.1-0.2 is %v", shape(&d))
	}
	for range 10 {
		must(t, d.Add(one(7, 9, 0.1)))
	}
	if !d.Fits(1.1, one(7, 9, 0.1)) || d.Fits(1.1, one(7, 9, 0.11)) {
		t.Error("what fits beside ten times 0.1 into 1.1")
	}
}

func TestFits(t *testing.T) {
	var d Diagram
	must(t, d.Add(one(10, 20, 1)))
	must(t, d.Add(one(30, Forever, 2)))
	for what, c := range map[string]struct {
		b    Booking
		want bool
	}{
		"before":                             {one(0, 10, 3), true},
		"until a second too late":            {one(0, 11, 3), false},
		"beside":                             {one(0, 30, 2), true},
		"between":                            {one(20, 30, 3), true},
		"between, a second too early":        {one(19, 30, 3), false},
		"for ever":                           {one(12, Forever, 1), true},
		"for ever, more than is left later":  {one(12, Forever, 2), false},
		"slots":                              {Booking{10, 20, 4, 0.5}, true},
		"one slot too many":                  {Booking{10, 20, 5, 0.5}, false},
		"more than there is":                 {one(0, 1, 4), false},
		"no time, at a moment with room":     {one(20, 20, 3), true},
		"no time, at a moment without":       {one(15, 15, 3), false},
		"nothing, where all is taken":        {one(15, 15, 0), true},
		"before, ended before it has begun":  {one(5, 0, 3), true},
		"far away, where it goes on forever": {one(1<<40, 1<<41, 2), false},
	} {
		if got := d.Fits(3, c.b); got != c.want {
			t.Errorf("%s: %v fits: %v", what, c.b, got)
		}
	}
	if d.Max(0, 10).Float() != 0 || d.Max(0, 11).Float() != 1 || d.Max(25, Forever).Float() != 2 {
		t.Error("the most in use")
	}
}

func TestEarliest(t *testing.T) {
	var d Diagram
	must(t, d.Add(one(10, 20, 2)))
	must(t, d.Add(one(30, 50, 3)))
	must(t, d.Add(one(40, 60, 1)))
	for what, c := range map[string]struct {
		capacity float64
		now      int64
		each     float64
		want     int64
	}{
		"now, beside all":                      {5, 5, 1, 5},
		"now, behind all":                      {4, 60, 4, 60},
		"after the last":                       {4, 5, 4, 60},
		"after the last that leaves too few":   {4, 5, 3, 50},
		"after a peak":                         {4, 5, 1, 50},
		"not in a gap, though there is one":    {4, 20, 4, 60},
		"now, amidst the last that leaves one": {4, 55, 3, 55},
		"never more than there is":             {4, 5, 4.5, Forever},
		"nothing, now":                         {4, 45, 0, 45},
	} {
		if got := d.Earliest(c.capacity, c.now, 1, c.each); got != c.want {
			t.Errorf("%s: %d", what, got)
		}
	}
	must(t, d.Add(one(55, Forever, 1)))
	if at := d.Earliest(4, 5, 2, 2); at != Forever {
		t.Errorf("what is in use for ever is free at %d", at)
	}
	if at := d.Earliest(4, 5, 2, 1.5); at != 60 {
		t.Errorf("beside what is in use for ever: %d", at)
	}
}

func TestNothingIsInUse(t *testing.T) {
	for what, d := range map[string]*Diagram{"nil": nil, "zero": {}, "clone of nil": (*Diagram)(nil).Clone()} {
		switch {
		case !d.IsEmpty(), d.Max(0, Forever) != value.Amount{}, !d.Fits(1, one(0, Forever, 1)), d.Fits(1, one(0, 1, 2)),
			d.Earliest(1, 77, 1, 1) != 77, d.Earliest(1, 77, 1, 2) != Forever, shape(d) != nil:
			t.Error(what)
		}
	}
	var d Diagram
	if n := testing.AllocsPerRun(100, func() {
		if !d.Fits(1, one(0, Forever, 1)) || d.Earliest(1, 7, 1, 1) != 7 {
			t.Error("not empty")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWhatFailsChangesNothing(t *testing.T) {
	var d Diagram
	must(t, d.Add(one(0, 100, 1)))
	must(t, d.Add(one(50, 100, 1e300)))
	must(t, d.Add(one(60, 70, 0x1p-40)))
	before := shape(&d)
	for what, b := range map[string]Booking{
		"no number":                  one(10, 20, math.NaN()),
		"infinite":                   one(10, 20, math.Inf(1)),
		"too different in size late": one(20, 65, 1e100),
	} {
		if err := d.Add(b); err == nil {
			t.Errorf("%s: no error", what)
		}
		if err := d.Remove(b); err == nil {
			t.Errorf("%s: no error", what)
		}
		if err := d.AddAll([]Booking{one(1, 2, 1), b}); err == nil {
			t.Errorf("%s: no error", what)
		}
		if diff := cmp.Diff(before, shape(&d)); diff != "" {
			t.Errorf("%s: (-before +after)\n%s", what, diff)
		}
	}
}

func TestEnd(t *testing.T) {
	for _, c := range [][3]int64{
		{5, 10, 15},
		{5, Forever, Forever},
		{Forever - 5, 5, Forever},
		{Forever - 5, 4, Forever - 1},
		{Forever, Forever, Forever},
		{0, math.MaxInt64, Forever},
	} {
		if got := End(c[0], c[1]); got != c[2] {
			t.Errorf("%d and %d seconds: %d", c[0], c[1], got)
		}
	}
}

func TestEvents(t *testing.T) {
	var a, b, c Diagram
	must(t, a.AddAll([]Booking{one(10, 20, 1), one(15, 40, 1)}))
	must(t, b.AddAll([]Booking{one(20, 30, 1), one(50, Forever, 1)}))
	all := slices.Values([]*Diagram{&a, nil, &b, &c, &a})
	if got := slices.Collect(Events(10, all)); !slices.Equal(got, []int64{50, 40, 30, 20, 15}) {
		t.Errorf("behind 10: %v", got)
	}
	if got := slices.Collect(Events(0, all)); !slices.Equal(got, []int64{50, 40, 30, 20, 15, 10}) {
		t.Errorf("behind 0: %v", got)
	}
	if got := slices.Collect(Events(50, all)); got != nil {
		t.Errorf("behind the last: %v", got)
	}
	for at := range Events(0, all) {
		if at != 50 {
			t.Errorf("first comes %d", at)
		}
		break
	}
}

// TestMaxSince asks for each earlier period that is as long.
func TestMaxSince(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var d Diagram
		for range rapid.IntRange(0, 8).Draw(t, "bookings") {
			from := rapid.Int64Range(0, 30).Draw(t, "from")
			until := from + rapid.Int64Range(1, 20).Draw(t, "for")
			if rapid.IntRange(0, 9).Draw(t, "endless") == 0 {
				until = Forever
			}
			must(t, d.Add(one(from, until, float64(rapid.IntRange(1, 3).Draw(t, "slots")))))
		}
		from, long := rapid.Int64Range(0, 60).Draw(t, "asked from"), rapid.Int64Range(0, 40).Draw(t, "asked for")
		if rapid.IntRange(0, 5).Draw(t, "forever") == 0 {
			long = Forever
		}
		most, since := d.MaxSince(from, End(from, long))
		if since > from || most != d.Max(from, End(from, long)) {
			t.Fatalf("from %d: %v since %d", from, most, since)
		}
		for earlier := since; earlier < from; earlier++ {
			if got := d.Max(earlier, End(earlier, long)); got != most {
				t.Fatalf("from %d for %d it is %v, since %d, and from %d %v", from, long, most, since, earlier, got)
			}
		}
	})
}
