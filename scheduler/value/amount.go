package value

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Amount is how much of a consumable is in use: the sum of what jobs have requested.
// It is exact: after all that was added has been taken away, nothing is left, in any
// order. A sum of float64 would drift (0.1+0.2-0.1-0.2 is not 0), and a resource that
// nobody uses would be short of what a request needs. What is compared with a
// request is the float64 nearest to the sum, which for whole numbers below 2^53 is
// what the original has. The zero Amount is nothing.
//
// It has 106 binary digits: thousandths beside 10^12, tenths beside 10^14, and whole
// numbers up to 10^31. What does not fit is an error, never a loss.
//
// An Amount may not be changed by several goroutines.
type Amount struct {
	high, low float64 // the sum is high+low, and high is the float64 nearest to it
}

var errInexact = errors.New("the numbers are too different in size to be added without loss")

// Add adds what so many slots use. The amount stays as it is after an error:
// if the sum is not exact or not finite.
func (a *Amount) Add(slots int, each float64) error {
	if slots != int(float64(slots)) {
		return fmt.Errorf("cannot add %d slots: more than 2^53", slots)
	}
	if math.IsNaN(each) || math.Abs(each) >= Infinity {
		return fmt.Errorf("cannot add %d times %v: it is not finite", slots, each)
	}
	product := float64(slots) * each
	sum, err := a.plus(product, math.FMA(float64(slots), each, -product))
	if err != nil {
		return fmt.Errorf("cannot add %d times %v to %v: %w", slots, each, a.high, err)
	}
	*a = sum
	return nil
}

// Sub takes away what Add added.
func (a *Amount) Sub(slots int, each float64) error { return a.Add(slots, -each) }

// Plus returns the sum of two amounts. It is an error if the sum is not exact or not finite.
func (a Amount) Plus(b Amount) (Amount, error) {
	sum, err := a.plus(b.high, b.low)
	if err != nil {
		return a, fmt.Errorf("cannot add %v to %v: %w", b.high, a.high, err)
	}
	return sum, nil
}

// Compare is negative if a is less than b, positive if it is more, and 0 if they are
// equal.
func (a Amount) Compare(b Amount) int {
	// The high part is the sum rounded, which keeps the order.
	return cmp.Or(cmp.Compare(a.high, b.high), cmp.Compare(a.low, b.low))
}

// Float returns the number to compare with.
func (a Amount) Float() float64 { return a.high }

// IsZero reports whether nothing is in use.
func (a Amount) IsZero() bool { return a.high == 0 }

// Left returns the capacity minus a.
func (a Amount) Left(capacity float64) float64 {
	d, lost := twoSum(capacity, -a.high)
	return d + (lost - a.low)
}

// Fits reports whether so many slots can have as much each out of a capacity. What
// fits exactly, fits, and the sum is rounded before it is compared: ten times 0.1
// fit into 1, though the float64 0.1 is a little more than a tenth.
func (a Amount) Fits(capacity float64, slots int, each float64) bool {
	sum, lost := twoSum(a.high, float64(slots)*each)
	return sum+(lost+a.low) <= capacity
}

// Slots is for how many slots that want as much each a capacity is enough beside what is
// in use, at most so many.
func (a Amount) Slots(capacity, each float64, most int) int {
	if each <= 0 {
		return most
	}
	n := int(max(0, min(math.Trunc(a.Left(capacity)/each), float64(most))))
	// Rounding may have taken one away.
	if n < most && a.Fits(capacity, n+1, each) {
		n++
	}
	return n
}

// plus adds high+low, exactly.
func (a Amount) plus(high, low float64) (Amount, error) {
	s, e := twoSum(a.high, high)
	t, f := twoSum(a.low, low)
	e, r := twoSum(e, t)
	f, lost1 := twoSum(f, r)
	s, e = twoSum(s, e)
	e, lost2 := twoSum(e, f)
	s, e = twoSum(s, e)
	switch {
	case math.IsInf(s, 0) || math.IsNaN(s) || math.Abs(s) >= Infinity:
		return Amount{}, errors.New("the sum is too large")
	case lost1 != 0 || lost2 != 0 || math.IsNaN(e):
		return Amount{}, errInexact
	}
	return Amount{high: s, low: e}, nil
}

// twoSum returns the sum of two numbers and what rounding took from it.
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	part := sum - a
	return sum, (a - (sum - part)) + (b - part)
}
