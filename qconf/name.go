package qconf

import (
	"fmt"
	"strings"
)

// maxName is the longest object_name of sge_types(5), in bytes.
const maxName = 512

// CheckName refuses text that is not an object_name of sge_types(5), OBJECT TYPES. As Grid Engine
// does, it also refuses a leading "." or "#", and the words NONE, ALL and TEMPLATE in any case.
func CheckName(s string) error {
	switch {
	case s == "":
		return fmt.Errorf("empty name")
	case len(s) > maxName:
		return fmt.Errorf("name of %d bytes, expected at most %d", len(s), maxName)
	case s[0] == '.' || s[0] == '#':
		return fmt.Errorf("%q is not a name: it begins with %q", s, s[:1])
	case isWord(s, "none", "all", "template"):
		return fmt.Errorf("%q is not a name: the word is reserved", s)
	}
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c > '~' || strings.IndexByte(`/:'\[]{}|()@%,"`, c) >= 0 {
			return fmt.Errorf("%q is not a name: it contains %q, expected printing ASCII without blanks and / : ' \\ [ ] { } | ( ) @ %% , \"", s, s[i:i+1])
		}
	}
	return nil
}

// CheckHostName refuses text that is not a host_name of sge_types(5), and the names reserved there.
func CheckHostName(s string) error {
	if s == "" || len(s) > 255 {
		return fmt.Errorf("%q is not a host name: it has %d bytes, expected 1 to 255", s, len(s))
	}
	if isWord(s, "global", "template", "all", "default", "unknown", "none") {
		return fmt.Errorf("%q is not a host name: the word is reserved", s)
	}
	for i := range len(s) {
		c := s[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && (i == 0 || c != '-' && c != '_' && c != '.') {
			return fmt.Errorf("%q is not a host name: it contains %q, expected letters, digits, - . _", s, s[i:i+1])
		}
	}
	return nil
}

// checkGroupName refuses text that is not a hostgroup_name of sge_types(5).
func checkGroupName(s string) error {
	name, ok := strings.CutPrefix(s, "@")
	if !ok {
		return fmt.Errorf("%q is not a host group name, expected @ and a name", s)
	}
	return CheckName(name)
}

// checkHostIdentifier refuses text that is not a host_identifier of sge_types(5).
func checkHostIdentifier(s string) error {
	if strings.HasPrefix(s, "@") {
		return checkGroupName(s)
	}
	return CheckHostName(s)
}

// SameHost reports whether two host names mean the same host. Letter case does
// not count. A name without a domain means the host of that name in any domain;
// two names with domains are the same only when both parts are.
func SameHost(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	if a == b {
		return true
	}
	return a == ShortName(b) || b == ShortName(a)
}

// ShortName returns a host name without its domain. Names that are SameHost have the same one,
// but for letter case.
func ShortName(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

// isWord reports whether s is one of the words, in any case.
func isWord(s string, words ...string) bool {
	for _, w := range words {
		if strings.EqualFold(s, w) {
			return true
		}
	}
	return false
}
