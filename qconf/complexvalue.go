package qconf

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Numeric reports whether values of the type are numbers.
func (t ComplexType) Numeric() bool {
	return t == ComplexInt || t == ComplexDouble || t == ComplexTime || t == ComplexMemory || t == ComplexBool
}

// Check refuses a value that the type of the complex does not have: "4G" is
// one of MEMORY and not of TIME. Every text is a value of the string types.
//
// As in the original, all numeric types share one notation: a MEMORY may be
// 1:0:0, and an INT may be 1k.
func (x Complex) Check(value string) error {
	switch {
	case x.Type == ComplexRSMap:
		_, err := ParseResourceMap(value)
		return err
	case !x.Type.Numeric():
		return nil
	}
	_, err := complexNumber(value)
	if err == nil {
		return nil
	}
	expected := map[ComplexType]string{
		ComplexInt:    "an integer",
		ComplexDouble: "a number",
		ComplexTime:   "seconds or hours:minutes:seconds",
		ComplexMemory: "a number of bytes with an optional letter of k K m M g G t T",
		ComplexBool:   "TRUE or FALSE",
	}
	return fmt.Errorf("%q is not a value of the type %s, expected %s", value, x.Type, expected[x.Type])
}

// CheckCapacity refuses a value that complex_values cannot have: everything that Check refuses, and
// for consumables also an infinite or negative amount. Jobs could not use up an infinite amount, and
// no job could use a negative one.
func (x Complex) CheckCapacity(value string) error {
	if err := x.Check(value); err != nil || x.Consumable == ConsumableNo || x.Type == ComplexRSMap {
		return err
	}
	switch v, _ := complexNumber(value); {
	case math.IsInf(v, 0):
		return fmt.Errorf("%q is not possible for the consumable %s, expected a finite value", value, x.Name)
	case v < 0:
		return fmt.Errorf("%q is not possible for the consumable %s, expected a value that is not negative", value, x.Name)
	}
	return nil
}

// zero reports whether a default value stands for no value: NONE for texts, otherwise 0.
func (x Complex) zero(value string) bool {
	if !x.Type.Numeric() && x.Type != ComplexRSMap {
		return isWord(value, none)
	}
	v, err := complexNumber(value)
	return err == nil && v == 0
}

// complexNumber reads a value of a numeric type: TRUE, FALSE, INFINITY (which
// is +Inf), hours:minutes:seconds with fractions and empty parts, or a number
// with one letter. A number that begins with 0 and has no point is octal or
// hexadecimal.
func complexNumber(s string) (float64, error) {
	bad := func() (float64, error) { return 0, fmt.Errorf("%q is not a number", s) }
	switch {
	case isWord(s, "true"):
		return 1, nil
	case isWord(s, "false"):
		return 0, nil
	case isWord(s, "infinity"):
		return math.Inf(1), nil
	case strings.Contains(s, ":"):
		parts := strings.Split(s, ":")
		if len(parts) != 3 {
			return bad()
		}
		var total float64
		for i, weight := range []float64{3600, 60, 1} {
			v, err := decimal(parts[i])
			if err != nil && parts[i] != "" {
				return bad()
			}
			total += v * weight
		}
		return total, nil
	}
	number, factor := s, 1.0
	if n := len(s); n > 0 {
		if i := strings.IndexByte("kKmMgGtT", s[n-1]); i >= 0 {
			base := []float64{1000, 1024}[i%2]
			number, factor = s[:n-1], math.Pow(base, float64(i/2+1))
		}
	}
	if strings.HasPrefix(number, "0") && !strings.Contains(number, ".") && !strings.Contains(number, "_") {
		v, err := strconv.ParseInt(number, 0, 64)
		if err != nil || strings.HasPrefix(number, "0b") || strings.HasPrefix(number, "0o") {
			return bad()
		}
		return float64(v) * factor, nil
	}
	v, err := decimal(number)
	if err != nil {
		return bad()
	}
	return v * factor, nil
}

// decimal parses a number in decimal or scientific notation. It refuses the other notations of Go.
func decimal(s string) (float64, error) {
	if strings.Trim(s, "0123456789.eE+-") != "" {
		return 0, strconv.ErrSyntax
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return 0, err //nolint:wrapcheck // says what is wrong, callers say where
	}
	return v, nil
}

// ResourceMap is the value of a complex of the type RSMAP: distinct elements with an id each, such
// as the GPUs of a host. A job gets the IDs of its elements.
type ResourceMap struct {
	IDs []string // in the order in which jobs get them; an id that is listed twice can be given to two jobs
	// Attributes are the attributes of each element, at its index in IDs; nil if no element has
	// any.
	Attributes [][]Setting
}

// maxMapped is the largest number of elements in a resource map. It limits the memory that a short
// range such as 0-999999999 takes.
const maxMapped = 65536

// ParseResourceMap reads a value of the type RSMAP: "4(0 1 2 3)", "4(0-3)" or
// "2(gpu0 gpu1)". A number alone stands for that many ids, counted from 0. "4(0:2 1:2)" has
// two elements, each of which can be given to two jobs. "1(0[gpu_type=A40;gpu_mem=45G])" has
// an element with attributes, which jobs can request.
func ParseResourceMap(s string) (ResourceMap, error) {
	var m ResourceMap
	head, tail, listed := strings.Cut(s, "(")
	n, err := parseNumber(strings.Trim(head, blanks), 0, maxMapped)
	if err != nil || listed && !strings.HasSuffix(tail, ")") {
		return m, fmt.Errorf("%q is not a value of the type RSMAP, expected a number and as many ids, like 4(0 1 2 3)", s)
	}
	if !listed {
		for i := range n {
			m.IDs = append(m.IDs, strconv.Itoa(i))
		}
		return m, nil
	}
	for _, item := range words(strings.TrimSuffix(tail, ")")) {
		if err := m.addItem(item); err != nil {
			return ResourceMap{}, err
		}
	}
	if len(m.IDs) != n {
		return ResourceMap{}, fmt.Errorf("%q has %d ids, expected %d", s, len(m.IDs), n)
	}
	if !slices.ContainsFunc(m.Attributes, func(list []Setting) bool { return len(list) > 0 }) {
		m.Attributes = nil
	}
	return m, nil
}

// addItem reads an id, or a range of them, with the number of jobs that may have it and its
// attributes.
func (m *ResourceMap) addItem(item string) error {
	id, list, bracket := strings.Cut(item, "[")
	attributes, err := parseMapAttributes(item, list, bracket)
	if err != nil {
		return err
	}
	times := 1
	if name, count, shared := strings.Cut(id, ":"); shared && isNumber(count) {
		id = name
		if times, err = parseNumber(count, 1, maxMapped); err != nil {
			return fmt.Errorf("%q: %w", item, err)
		}
	}
	ids := []string{id}
	if r, err := parseRange(id, 0, math.MaxInt32); err == nil && strings.Contains(id, "-") {
		if r.Last-r.First >= maxMapped {
			return fmt.Errorf("%q has more than %d ids", item, maxMapped)
		}
		ids = nil
		for i := r.First; i <= r.Last; i++ {
			ids = append(ids, strconv.Itoa(i))
		}
	} else if err := checkMapID(id); err != nil {
		return err
	}
	if len(ids)*times+len(m.IDs) > maxMapped {
		return fmt.Errorf("%q makes the map larger than %d ids", item, maxMapped)
	}
	for _, id := range ids {
		for range times {
			m.IDs, m.Attributes = append(m.IDs, id), append(m.Attributes, attributes)
		}
	}
	return nil
}

func isNumber(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// parseMapAttributes reads the attributes of an element, "a=b;c=d]".
func parseMapAttributes(item, list string, bracket bool) (all []Setting, err error) {
	if !bracket {
		return nil, nil
	}
	list, closed := strings.CutSuffix(list, "]")
	if !closed {
		return nil, fmt.Errorf("%q: a bracket is not closed", item)
	}
	for text := range strings.SplitSeq(list, ";") {
		name, value, _ := strings.Cut(text, "=")
		if err := CheckName(name); err != nil {
			return nil, fmt.Errorf("%q: %w", item, err)
		}
		if value == "" || strings.ContainsAny(value, "[]()=,\"'\\") {
			return nil, fmt.Errorf("%q: %q is not an attribute, expected name=value", item, text)
		}
		if slices.ContainsFunc(all, func(s Setting) bool { return s.Name == name }) {
			return nil, fmt.Errorf("%q: %q is set twice", item, name)
		}
		all = append(all, Setting{name, value})
	}
	return all, nil
}

func checkMapID(s string) error {
	if i := strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`()[]=,"'\`, r) }); i >= 0 {
		return fmt.Errorf("%q is not an id of a resource map: it contains %q", s, s[i:i+1])
	}
	return nil
}

// String returns the map in the notation of complex_values.
func (m ResourceMap) String() string {
	items := slices.Clone(m.IDs)
	for i, list := range m.Attributes {
		var texts []string
		for _, s := range list {
			texts = append(texts, s.Name+"="+s.Value)
		}
		if texts != nil {
			items[i] += "[" + strings.Join(texts, ";") + "]"
		}
	}
	return strconv.Itoa(len(m.IDs)) + "(" + strings.Join(items, " ") + ")"
}

// settingWords splits a list like words does, but not within the parentheses
// of a resource map.
func settingWords(s string) []string {
	var items []string
	depth, from := 0, -1
	for i := range len(s) {
		switch c := s[i]; {
		case depth == 0 && (c == ',' || c == ' ' || c == '\t'):
			if from >= 0 {
				items = append(items, s[from:i])
			}
			from = -1
			continue
		case c == '(':
			depth++
		case c == ')' && depth > 0:
			depth--
		}
		if from < 0 {
			from = i
		}
	}
	if depth > 0 {
		// A parenthesis without its partner is an ordinary character.
		return words(s)
	}
	if from >= 0 {
		items = append(items, s[from:])
	}
	for i, item := range items {
		// Ids are separated by exactly one blank in print, so that a line broken between them reads
		// back the same.
		if open := strings.IndexByte(item, '('); open >= 0 {
			items[i] = item[:open] + strings.Join(words(item[open:]), " ")
		}
	}
	return slices.Clip(items)
}
