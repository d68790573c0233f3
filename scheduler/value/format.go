package value

import (
	"math"
	"strconv"
)

// Form is one of the notations in which Grid Engine's commands show values.
type Form uint8

// The forms. They differ in INT and BOOL only.
const (
	Reason Form = iota // the reasons of qstat -j: 5.000000, true
	QHost              // qhost -F: 5.000000, 1.000000
	QStat              // qstat -F: 5, 1.000000
)

// Format returns the value in a form.
func (v Value) Format(f Form) string { return string(v.Append(nil, f)) }

// Append appends the value in a form. Sizes have three decimals and the largest
// letter of K M G T that leaves at least 1.
func (v Value) Append(dst []byte, f Form) []byte {
	switch t := v.Type(); {
	case t == 0:
		return dst
	case t.IsText():
		return append(dst, v.text.s...)
	case v.IsInfinite():
		return append(dst, "infinity"...)
	case t == Time:
		return appendClock(dst, v.number)
	case t == Memory:
		return appendSize(dst, v.number)
	case t == Bool && f == Reason:
		return strconv.AppendBool(dst, v.number > 0)
	case t == Int && f == QStat:
		return appendFixed(dst, math.Trunc(v.number), 0)
	}
	return appendFixed(dst, v.number, 6)
}

// String returns the value in a notation that Parse reads back to the same value.
func (v Value) String() string {
	switch t := v.Type(); {
	case t == 0:
		return ""
	case t.IsText():
		return v.text.s
	case v.IsInfinite():
		return "INFINITY"
	case t == Time && v.number >= 0 && v.number < 1<<40:
		return string(appendClock(nil, v.number))
	case t == Memory && v.number > 0:
		return exactSize(v.number)
	case t == Bool && v.number == 1:
		return "TRUE"
	case t == Bool && v.number == 0:
		return "FALSE"
	}
	s := strconv.FormatFloat(v.number, 'f', -1, 64)
	if len(s) > 24 {
		s = strconv.FormatFloat(v.number, 'e', -1, 64)
	}
	return s
}

// appendFixed appends v as C's %.*f writes it, but without a sign before zero.
func appendFixed(dst []byte, v float64, decimals int) []byte {
	begin := len(dst)
	dst = strconv.AppendFloat(dst, v, 'f', decimals, 64)
	if dst[begin] != '-' {
		return dst
	}
	for _, c := range dst[begin+1:] {
		if c != '0' && c != '.' {
			return dst
		}
	}
	return append(dst[:begin], dst[begin+1:]...)
}

// appendClock prints seconds as hours:minutes:seconds, two digits each at least.
func appendClock(dst []byte, seconds float64) []byte {
	seconds = math.Trunc(seconds)
	if seconds < 0 {
		dst, seconds = append(dst, '-'), -seconds
	}
	hours := math.Trunc(seconds / 3600)
	rest := int(math.Mod(seconds, 3600))
	if hours < 10 {
		dst = append(dst, '0')
	}
	dst = appendFixed(dst, hours, 0)
	for _, part := range []int{rest / 60, rest % 60} {
		dst = append(dst, ':', byte('0'+part/10), byte('0'+part%10))
	}
	return dst
}

var sizes = [...]struct {
	letter byte
	size   float64
}{{'T', 1 << 40}, {'G', 1 << 30}, {'M', 1 << 20}, {'K', 1 << 10}}

func appendSize(dst []byte, bytes float64) []byte {
	for _, s := range sizes {
		if math.Abs(bytes) >= s.size {
			return append(appendFixed(dst, bytes/s.size, 3), s.letter)
		}
	}
	return appendFixed(dst, bytes, 3)
}

// exactSize takes the largest letter that leaves a whole number.
func exactSize(bytes float64) string {
	for _, s := range sizes {
		if q := bytes / s.size; q == math.Trunc(q) && q < 1<<53 {
			return string(append(strconv.AppendFloat(nil, q, 'f', -1, 64), s.letter))
		}
	}
	return strconv.FormatFloat(bytes, 'g', -1, 64)
}
