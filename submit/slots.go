package submit

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// MaxSlots stands for "infinity" in an open range of slots, as in the original's variable pe_max
// (sge_submit(1), -pe).
const MaxSlots = 9999999

// ParallelRequest is a request for a parallel environment (parallel_env in
// sge_types(5)).
type ParallelRequest struct {
	Name   string      // may be a pattern, like mpi*
	Ranges []SlotRange // at least one, in the order given
}

// SlotRange is a range of slot numbers, including both ends.
type SlotRange struct {
	Min, Max int // 1 <= Min <= Max <= MaxSlots; Max = MaxSlots is an open end; both 0: see Input.Master
}

// parseSlots reads the ranges of -pe: n[-[m]]|[-]m separated by commas or blanks (sge_types(5),
// range and parallel_env). For a master it accepts 0; the master refuses it at submission.
func parseSlots(s string, master bool) ([]SlotRange, error) {
	var ranges []SlotRange
	for _, item := range strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune(", \t", r) }) {
		r, err := parseSlotRange(item, master)
		if err != nil {
			return nil, err
		}
		ranges = append(ranges, r)
	}
	if len(ranges) == 0 {
		return nil, errors.New("the range of slots is empty, expected n, n-m, n- or -m")
	}
	return ranges, nil
}

func parseSlotRange(s string, master bool) (SlotRange, error) {
	r := SlotRange{Min: 1, Max: MaxSlots}
	if digits := strings.TrimLeft(s, "0123456789-"); digits == strings.TrimLeft(s, "-") && digits != "" {
		return r, errors.New("The initial portion of string " + strconv.Quote(digits) + " contains no decimal number")
	} else if digits != "" {
		if _, high, ok := strings.Cut(s, "-"); ok && strings.Contains(high, digits) {
			s = high // the original ignores the first number here
		}
		return r, errors.New("Range specifier " + strconv.Quote(s) + " has unknown trailer " + strconv.Quote(digits))
	}
	low, high, isRange := strings.Cut(s, "-")
	for _, bound := range []string{low, high} {
		if bound != "" && strings.Trim(bound, "0") == "" {
			if master {
				return SlotRange{}, nil
			}
			return r, errors.New(`"job" rejected: pe range must be greater than zero`)
		}
	}
	if isRange && low == "" && high == "" {
		return r, errors.New("the range of slots " + strconv.Quote(s) + " has no number")
	}
	var err error
	if low != "" || !isRange {
		if r.Min, err = positive(low, MaxSlots); err != nil {
			return r, errors.New("range of slots " + strconv.Quote(s) + ": " + err.Error())
		}
	}
	switch {
	case !isRange:
		r.Max = r.Min
	case high != "":
		if r.Max, err = positive(high, MaxSlots); err != nil {
			return r, errors.New("range of slots " + strconv.Quote(s) + ": " + err.Error())
		}
	}
	if r.Max < r.Min {
		return r, errors.New("the range of slots " + strconv.Quote(s) + " ends before it begins")
	}
	return r, nil
}

// PEOfSlots converts a hard request for slots (-l slots=4) to a request for that many slots of the
// parallel environment pe. Workflow engines send -l slots=4 to sites whose parallel environments
// they do not know. isSlots reports whether a name means the complex slots, which also has a
// shortcut.
//
// A request that names a parallel environment stays unchanged. The result is r itself if nothing
// changes. The error names a number that is not an integer of at least 1.
func (r *Request) PEOfSlots(pe string, isSlots func(name string) bool) (*Request, error) {
	i := slices.IndexFunc(r.Resources, func(q ResourceRequest) bool { return !q.Soft && isSlots(q.Name) })
	if i < 0 || r.PE != nil || pe == "" {
		return r, nil
	}
	text := r.Resources[i].Value
	n, err := positive(text, MaxSlots)
	if err != nil {
		return nil, errors.New("-l slots=" + text + ": " + err.Error())
	}
	with := *r
	with.PE = &ParallelRequest{Name: pe, Ranges: []SlotRange{{Min: n, Max: n}}}
	with.Resources = slices.DeleteFunc(slices.Clone(r.Resources), func(q ResourceRequest) bool { return !q.Soft && isSlots(q.Name) })
	return &with, nil
}

// Slots returns the largest number of slots that the request allows and that is at most available.
// The order follows sge_types(5): the largest number first. ok is false if even the smallest number
// is more than available.
func (p ParallelRequest) Slots(available int) (n int, ok bool) {
	for _, r := range p.Ranges {
		if r.Min <= available {
			n = max(n, min(r.Max, available))
		}
	}
	return n, n > 0
}

// String returns the value of -pe.
func (p ParallelRequest) String() string {
	parts := make([]string, len(p.Ranges))
	for i, r := range p.Ranges {
		parts[i] = r.String()
	}
	return p.Name + " " + strings.Join(parts, ",")
}

// String returns the range in the notation of -pe.
func (r SlotRange) String() string {
	switch {
	case r.Min == r.Max:
		return strconv.Itoa(r.Min)
	case r.Max == MaxSlots:
		return strconv.Itoa(r.Min) + "-"
	default:
		return strconv.Itoa(r.Min) + "-" + strconv.Itoa(r.Max)
	}
}
