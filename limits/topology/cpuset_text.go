package topology

import (
	"errors"
	"strconv"
	"strings"
)

// ParseList reads the list format of sysfs, /proc and cpusets: numbers and ranges separated by
// commas, "0-3,8". It accepts surrounding white space; empty text is the empty set.
func ParseList(text string) (CPUSet, error) {
	var s CPUSet
	text = strings.TrimSpace(text)
	if text == "" {
		return s, nil
	}
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		first, ok := number(from)
		last := first
		if isRange && ok {
			last, ok = number(to)
		}
		if !ok || last > MaxCPU || first > last {
			return CPUSet{}, errors.New("cannot read CPU list " + strconv.Quote(text) + ": " +
				strconv.Quote(item) + " is not a number from 0 to " + strconv.Itoa(MaxCPU) + " and no ascending range of such")
		}
		s.add(first, last)
	}
	return s, nil
}

// String returns the list format, "" for the empty set.
func (s CPUSet) String() string {
	var b strings.Builder
	first, last := -1, -1
	flush := func() {
		if first < 0 {
			return
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(first))
		if last > first {
			b.WriteByte('-')
			b.WriteString(strconv.Itoa(last))
		}
	}
	for c := range s.All {
		if first >= 0 && c == last+1 {
			last = c
			continue
		}
		flush()
		first, last = c, c
	}
	flush()
	return b.String()
}

// Fields returns the format of the variable SGE_BINDING (sge_submit(1), -binding): all numbers,
// separated by spaces.
func (s CPUSet) Fields() string {
	var b strings.Builder
	for c := range s.All {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(strconv.Itoa(c))
	}
	return b.String()
}

const maskDigits = 8 // hexadecimal digits of one 32-bit group of a mask

// Mask returns the kernel's mask format, with all digits of each group: "000000ff,00000000";
// "00000000" for the empty set.
func (s CPUSet) Mask() string {
	const hex = "0123456789abcdef"
	groups := 2 * len(s.words)
	if groups > 0 && s.words[len(s.words)-1]>>32 == 0 {
		groups--
	}
	if groups == 0 {
		return strings.Repeat("0", maskDigits)
	}
	var b strings.Builder
	for g := groups - 1; g >= 0; g-- {
		v := s.words[g/2] >> (g % 2 * 32)
		for d := maskDigits - 1; d >= 0; d-- {
			b.WriteByte(hex[v>>(d*4)&0xf])
		}
		if g > 0 {
			b.WriteByte(',')
		}
	}
	return b.String()
}

// ParseMask reads a mask as hwloc(7) writes it: hexadecimal groups of 32 bits, the highest first,
// each with 0x in front or empty for zero: "0x00000001", "0xff,,0x1".
func ParseMask(text string) (CPUSet, error) {
	var s CPUSet
	groups := strings.Split(text, ",")
	if len(groups) > mostMaskGroups {
		return CPUSet{}, errors.New("cannot read a mask of processors: it has more than " + strconv.Itoa(mostMaskGroups) + " groups")
	}
	for i, g := range groups {
		digits, _ := strings.CutPrefix(g, "0x")
		if digits == "" && g == "" && len(groups) > 1 {
			continue
		}
		bits, err := strconv.ParseUint(digits, 16, 32)
		if err != nil {
			return CPUSet{}, errors.New("cannot read a mask of processors: " + strconv.Quote(g[:min(len(g), 20)]) + " is not a hexadecimal number of 32 bits")
		}
		for bit := range 32 {
			if bits>>bit&1 != 0 {
				s.add((len(groups)-1-i)*32+bit, (len(groups)-1-i)*32+bit)
			}
		}
	}
	return s, nil
}

// mostMaskGroups is the largest number of groups of a mask: for 8192 processors.
const mostMaskGroups = 256

// number parses digits only; strconv.Atoi would also accept a sign.
func number(s string) (int, bool) {
	if s == "" || s[0] < '0' || s[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil
}
