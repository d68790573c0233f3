package submit

import "strings"

// suggest returns the option that was probably meant by an unknown one, or "".
func suggest(name string) string {
	if len(name) > 64 {
		return ""
	}
	if o := lookup(Qsub, "-"+strings.TrimLeft(name, "-")); o != nil {
		return o.Name
	}
	// -N=name, for the friends of other programs.
	if before, _, ok := strings.Cut(name, "="); ok && lookup(Qsub, before) != nil {
		return before
	}
	best, distance := "", len(name)/3+1
	prefix := ""
	for i := range table {
		known := table[i].Name
		if table[i].Commands&everywhere == 0 {
			continue
		}
		if strings.EqualFold(known, name) {
			return known
		}
		if d := editDistance(name, known); d < distance {
			best, distance = known, d
		}
		if strings.HasPrefix(name, known) && len(known) > len(prefix) {
			prefix = known
		}
	}
	if best != "" {
		return best
	}
	for i := range table {
		if len(name) > 2 && strings.HasPrefix(table[i].Name, name) && table[i].Commands&everywhere != 0 {
			return table[i].Name
		}
	}
	return prefix
}

// editDistance is the number of insertions, deletions, replacements and swaps
// of neighbours that turn a into b.
func editDistance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
