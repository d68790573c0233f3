package expression

import "strings"

// Only ASCII letters are folded, as in the C locale, in which Grid Engine runs.

func lowerByte(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + ('a' - 'A')
	}
	return c
}

func lower(s string) string {
	for i := range len(s) {
		if s[i] != lowerByte(s[i]) {
			b := []byte(s)
			for i := range b {
				b[i] = lowerByte(b[i])
			}
			return string(b)
		}
	}
	return s
}

// equalFold compares s, in any case, with a text in lower case.
func equalFold(lowered, s string) bool {
	if len(lowered) != len(s) {
		return false
	}
	for i := range len(s) {
		if lowered[i] != lowerByte(s[i]) {
			return false
		}
	}
	return true
}

// HostNames holds the rules for the comparison of host names (bootstrap(5)). The zero value
// compares them as they are; case never matters.
type HostNames struct {
	// IgnoreFQDN cuts names at the first dot. DefaultDomain has no effect then.
	IgnoreFQDN bool
	// DefaultDomain is appended to names without a dot. Empty for none.
	DefaultDomain string
}

// Normalize returns the form of a name that is equal for all names of a host.
func (h HostNames) Normalize(name string) string {
	name = lower(name)
	if h.IgnoreFQDN {
		short, _, _ := strings.Cut(name, ".")
		return short
	}
	if h.DefaultDomain != "" && !strings.Contains(name, ".") {
		return name + "." + lower(h.DefaultDomain)
	}
	return name
}

// equal compares a normalized name with one that is not normalized.
func (h HostNames) equal(normalized, name string) bool {
	dot := strings.IndexByte(name, '.')
	switch {
	case h.IgnoreFQDN && dot >= 0:
		return equalFold(normalized, name[:dot])
	case h.IgnoreFQDN || h.DefaultDomain == "" || dot >= 0:
		return equalFold(normalized, name)
	}
	short, domain, _ := strings.Cut(normalized, ".")
	return equalFold(short, name) && equalFold(domain, h.DefaultDomain)
}
