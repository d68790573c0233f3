package launch

import "path"

// matches reports whether a name matches a request, which may be a pattern (sge_types(5), MATCHING
// TYPES).
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}
