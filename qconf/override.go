package qconf

import (
	"fmt"
	"strings"
)

// part is the setting of an attribute for some hosts.
type part struct {
	who  string // host name or @group; empty for all others, the default setting
	text string
}

// splitParts reads "default,[host=value],[@group=value]" (queue_conf(5), hostlist). A bracket at
// the beginning or after a comma opens the setting of a host or a group, which ends at the matching
// bracket. On an error it returns the valid parts, including the default setting, or no parts.
func splitParts(s string) ([]part, error) {
	at := strings.IndexByte(s, '[')
	for at > 0 && !strings.HasSuffix(strings.TrimRight(s[:at], blanks), ",") {
		next := strings.IndexByte(s[at+1:], '[')
		if next < 0 {
			at = -1
			break
		}
		at += 1 + next
	}
	if at < 0 {
		return []part{{text: s}}, nil
	}
	def := strings.TrimRight(s[:at], blanks)
	def = strings.TrimRight(strings.TrimSuffix(def, ","), blanks)
	if def == "" {
		return nil, fmt.Errorf("%q has no default setting before the first [", s)
	}
	parts, seen := []part{{text: def}}, map[string]bool{}
	var errs []error
	for rest := s[at:]; rest != ""; {
		if rest[0] != '[' {
			return parts, errJoin(errs, fmt.Errorf("expected [host=value] or [@group=value] at %q", rest))
		}
		end := partner(rest)
		if end < 0 {
			return parts, errJoin(errs, fmt.Errorf("%q has no closing bracket", rest))
		}
		if p, err := readPart(rest[:end+1], seen); err != nil {
			errs = addError(errs, err)
		} else {
			parts = append(parts, p)
		}
		rest = strings.TrimLeft(rest[end+1:], blanks)
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return parts, errJoin(errs, fmt.Errorf("expected a comma before %q", rest))
		}
		if rest = strings.TrimLeft(rest[1:], blanks); rest == "" {
			errs = addError(errs, fmt.Errorf("%q ends with a comma", s))
		}
	}
	return parts, errJoin(errs)
}

// readPart reads [host=value] or [@group=value]. seen holds the hosts and groups of the earlier
// settings.
func readPart(s string, seen map[string]bool) (part, error) {
	who, text, ok := strings.Cut(s[1:len(s)-1], "=")
	who, text = strings.Trim(who, blanks), strings.Trim(text, blanks)
	if !ok || text == "" {
		return part{}, fmt.Errorf("%q sets no value, expected [host=value] or [@group=value]", s)
	}
	if err := checkHostIdentifier(who); err != nil {
		return part{}, err
	}
	key := who
	if who[0] != '@' {
		key = strings.ToLower(who)
	}
	if seen[key] {
		return part{}, fmt.Errorf("%q is set twice", who)
	}
	seen[key] = true
	if strings.Contains(text, ",[") {
		return part{}, fmt.Errorf("%q has a bracket after a comma in a value, which reads like the next setting", s)
	}
	return part{who: who, text: text}, nil
}

// partner returns the index of the bracket that closes the one at the beginning of
// s, or -1.
func partner(s string) int {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case '[':
			depth++
		case ']':
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}

// overrides are the settings of one attribute of a queue, prepared for queries about many hosts.
type overrides struct {
	name, text string
	groups     []part
	hosts      map[string]string // by name in small letters
	short      map[string]string // by name without domain
}

func newOverrides(e entry) overrides {
	o := overrides{name: e.name, text: e.text(), hosts: map[string]string{}, short: map[string]string{}}
	for _, p := range e.parts[1:] {
		if strings.HasPrefix(p.who, "@") {
			o.groups = append(o.groups, p)
			continue
		}
		low := strings.ToLower(p.who)
		o.hosts[low] = p.text
		if _, taken := o.short[ShortName(low)]; !taken {
			o.short[ShortName(low)] = p.text
		}
	}
	return o
}

// on returns the setting on a host, empty for the default.
func (o overrides) on(host string, groups *HostGroups) (string, error) {
	low := strings.ToLower(host)
	if text, ok := o.hosts[low]; ok {
		return text, nil
	}
	// Other names that SameHost accepts.
	if short := ShortName(low); short != low {
		if text, ok := o.hosts[short]; ok {
			return text, nil
		}
	} else if text, ok := o.short[low]; ok {
		return text, nil
	}
	var who, texts []string
	for _, p := range o.groups {
		if groups.Contains(p.who, host) {
			who, texts = append(who, p.who), append(texts, p.text)
		}
	}
	switch len(who) {
	case 0:
		return "", nil
	case 1:
		return texts[0], nil
	}
	return "", fmt.Errorf("host %q is in %s, which set %s, and has no own setting", host, strings.Join(who, " and "), strings.Join(texts, " and "))
}

// settings returns the settings of all hosts and groups, sorted by name, hosts first.
func (o overrides) settings() []string {
	var texts []string
	for _, host := range sortedKeys(o.hosts) {
		texts = append(texts, o.hosts[host])
	}
	for _, p := range o.groups {
		texts = append(texts, p.text)
	}
	return texts
}
