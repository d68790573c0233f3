package submit

import (
	"strings"

	"github.com/execd-project/execd/internal/nearest"
)

// suggest returns the most similar known option, or "".
func suggest(name string) string {
	if len(name) > 64 {
		return ""
	}
	if o := lookup(Qsub, "-"+strings.TrimLeft(name, "-")); o != nil {
		return o.Name
	}
	// -N=name, the notation of other programs.
	if before, _, ok := strings.Cut(name, "="); ok && lookup(Qsub, before) != nil {
		return before
	}
	var known []string
	prefix := ""
	for i := range table {
		option := table[i].Name
		if table[i].Commands&everywhere == 0 {
			continue
		}
		if strings.EqualFold(option, name) {
			return option
		}
		known = append(known, option[1:])
		if strings.HasPrefix(name, option) && len(option) > len(prefix) {
			prefix = option
		}
	}
	// Every name begins with a dash, so it does not count for the similarity.
	if near, ok := nearest.Word(strings.TrimPrefix(name, "-"), known); ok {
		return "-" + near
	}
	for i := range table {
		if len(name) > 2 && strings.HasPrefix(table[i].Name, name) && table[i].Commands&everywhere != 0 {
			return table[i].Name
		}
	}
	return prefix
}
