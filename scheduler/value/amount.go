package value

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// Amount is the used amount of a consumable: the sum of the jobs' requests. It is exact: after
// everything was subtracted again, in any order, it is zero. A sum of float64 would drift
// (0.1+0.2-0.1-0.2 is not 0), and an unused resource could seem too small for a request. Requests
// are compared with the float64 nearest to the sum, which for whole numbers below 2^53 is the same
// as in Grid Engine. The zero Amount is 0.
//
// It has 106 binary digits, enough for example for 10^12 with thousandths, 10^14 with tenths, or
// whole numbers up to 10^31. A sum that does not fit is an error; precision is never lost.
//
// An Amount may not be changed by several goroutines.
type Amount struct {
	high, low float64 // the sum is high+low, and high is the float64 nearest to it
}

var errInexact = errors.New("the numbers are too different in size to be added without loss")

// Add adds slots times each. If the sum would not be exact or not finite, it returns an error and
// changes nothing.
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

// Sub subtracts slots times each.
func (a *Amount) Sub(slots int, each float64) error { return a.Add(slots, -each) }

// Plus returns the sum of two amounts. It is an error if the sum is not exact or not finite.
func (a Amount) Plus(b Amount) (Amount, error) {
	sum, err := a.plus(b.high, b.low)
	if err != nil {
		return a, fmt.Errorf("cannot add %v to %v: %w", b.high, a.high, err)
	}
	return sum, nil
}

// Compare returns a negative number if a is less than b, a positive number if it is more, and 0 if
// they are equal.
func (a Amount) Compare(b Amount) int {
	// The high part is the rounded sum, so it has the same order.
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

// Fits reports whether slots can each use an amount of a capacity in addition to a. The sum is
// rounded before it is compared: ten times 0.1 fit into 1, although the float64 0.1 is slightly
// more than a tenth.
func (a Amount) Fits(capacity float64, slots int, each float64) bool {
	sum, lost := twoSum(a.high, float64(slots)*each)
	return sum+(lost+a.low) <= capacity
}

// Slots returns the number of slots, at most most, that can each use an amount of a capacity in
// addition to a.
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

// twoSum returns the rounded sum of two numbers and the rounding error.
func twoSum(a, b float64) (sum, lost float64) {
	sum = a + b
	part := sum - a
	return sum, (a - (sum - part)) + (b - part)
}
