package value

import (
	"math"
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

func TestAmount(t *testing.T) {
	var a Amount
	add := func(slots int, each float64) {
		t.Helper()
		if err := a.Add(slots, each); err != nil {
			t.Fatal(err)
		}
	}
	add(1, 0.1)
	add(1, 0.2)
	add(1, -0.1)
	add(1, -0.2)
	if !a.IsZero() || a != (Amount{}) {
		t.Errorf("0.1+0.2-0.1-0.2 is %v", a)
	}
	add(3, 4<<30)
	if a.Float() != 12<<30 || a.Left(16<<30) != 4<<30 {
		t.Errorf("3 times 4G: %v, left of 16G %v", a.Float(), a.Left(16<<30))
	}
	if !a.Fits(16<<30, 1, 4<<30) || a.Fits(16<<30, 1, 4<<30+1) || a.Fits(16<<30, 2, 4<<30) || !a.Fits(12<<30, 5, 0) {
		t.Error("what fits beside 12G into 16G")
	}
	if err := a.Sub(3, 4<<30); err != nil || !a.IsZero() {
		t.Errorf("%v is left, %v", a, err)
	}
	// A thousand small ones beside a large one.
	add(1, 1e12)
	for range 1000 {
		add(1, 0.001)
	}
	add(1, -1e12)
	if got := a.Float(); math.Abs(got-1) > 1e-15 {
		t.Errorf("1000 times 0.001 is %v", got)
	}
}

func TestAmountRefuses(t *testing.T) {
	for what, c := range map[string]struct {
		start, each float64
		slots       int
	}{
		"infinity":                   {0, Infinity, 1},
		"no number":                  {0, math.NaN(), 1},
		"more than a float64":        {Infinity / 2, Infinity / 2, 3},
		"as much as infinity":        {Infinity / 2, Infinity / 2, 1},
		"a drop in the ocean":        {1e300, 1, 1},
		"slots that nobody can have": {0, 1, math.MaxInt},
	} {
		var a Amount
		if err := a.Add(1, c.start); err != nil {
			t.Fatal(err)
		}
		// 1e300+1 is exact as two numbers; a third one is not.
		if what == "a drop in the ocean" {
			if err := a.Add(1, 1e100); err != nil {
				t.Fatal(err)
			}
		}
		before := a
		if err := a.Add(c.slots, c.each); err == nil || a != before {
			t.Errorf("%s: %v, error %v", what, a, err)
		}
	}
}

// TestAmountIsExact checks that the amount is the exact sum, whatever is added and subtracted in
// whatever order.
func TestAmountIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Amount
		exact := new(big.Float).SetPrec(2000)
		each := rapid.OneOf(
			rapid.SampledFrom([]float64{0.1, 0.25, 0.3, 1.5, 1, 3, 1e9 / 3, 1 << 30, 1e8 + 0.1}),
			rapid.Map(rapid.IntRange(0, 1<<32), func(i int) float64 { return float64(i) / 1000 }))
		type use struct {
			slots int
			each  float64
		}
		var uses []use
		check := func() {
			if want, _ := exact.Float64(); a.Float() != want {
				t.Fatalf("%v, the exact sum is %v", a.Float(), want)
			}
			capacity := each.Draw(t, "capacity")
			left, _ := new(big.Float).SetPrec(2000).Sub(new(big.Float).SetFloat64(capacity), exact).Float64()
			if got := a.Left(capacity); math.Abs(got-left) > math.Abs(left)*0x1p-52 {
				t.Fatalf("left of %v: %v, exactly %v", capacity, got, left)
			}
		}
		product := func(u use) *big.Float {
			return new(big.Float).SetPrec(2000).Mul(new(big.Float).SetInt64(int64(u.slots)), new(big.Float).SetFloat64(u.each))
		}
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(uses) > 0 && rapid.Bool().Draw(t, "ends") {
				i := rapid.IntRange(0, len(uses)-1).Draw(t, "which")
				if err := a.Sub(uses[i].slots, uses[i].each); err != nil {
					t.Fatal(err)
				}
				exact.Sub(exact, product(uses[i]))
				uses = append(uses[:i], uses[i+1:]...)
			} else {
				u := use{rapid.IntRange(1, 1000).Draw(t, "slots"), each.Draw(t, "each")}
				if err := a.Add(u.slots, u.each); err != nil {
					t.Fatal(err)
				}
				exact.Add(exact, product(u))
				uses = append(uses, u)
			}
			check()
		}
		for _, u := range uses {
			if err := a.Sub(u.slots, u.each); err != nil {
				t.Fatal(err)
			}
		}
		if a != (Amount{}) {
			t.Fatalf("%v is left", a)
		}
	})
}

func TestAmountsAreAddedAndCompared(t *testing.T) {
	of := func(slots int, each float64) (a Amount) {
		if err := a.Add(slots, each); err != nil {
			t.Fatal(err)
		}
		return a
	}
	third := of(1, 1e9/3)
	sum, err := third.Plus(of(1, 1e-9))
	if err != nil || sum.Compare(third) <= 0 || third.Compare(sum) >= 0 || sum.Compare(sum) != 0 || sum.Float() != third.Float() {
		t.Errorf("%v and a little: %v, %v", third, sum, err)
	}
	if back, err := sum.Plus(of(-1, 1e-9)); back != third || err != nil {
		t.Errorf("%v without a little: %v, %v", sum, back, err)
	}
	if sum, err := of(1, Infinity/2).Plus(of(1, Infinity/2)); err == nil {
		t.Errorf("infinite, and no error: %v", sum)
	}
}

func BenchmarkAmount(b *testing.B) {
	var a Amount
	b.ReportAllocs()
	for b.Loop() {
		if a.Add(4, 0.1) != nil || a.Sub(4, 0.1) != nil || !a.Fits(1, 1, 0.5) {
			b.Fatal(a)
		}
	}
}

// TestTenths checks that a value that is printed as a tenth is a tenth to each caller, ten times.
func TestTenths(t *testing.T) {
	var a Amount
	for i := range 10 {
		if !a.Fits(1, 1, 0.1) {
			t.Fatalf("the %d. tenth does not fit into 1", i+1)
		}
		if got := a.Slots(1, 0.1, 100); got != 10-i {
			t.Errorf("beside %d tenths there are slots for %d, want %d", i, got, 10-i)
		}
		if err := a.Add(1, 0.1); err != nil {
			t.Fatal(err)
		}
	}
	if a.Fits(1, 1, 0.1) {
		t.Error("the eleventh fits, too")
	}
}
