package command

import "strings"

// override is the value of an attribute of a queue for some hosts: value,[host=value],
// [@group=value] (queue_conf(5), hostlist). The first element, for all other hosts, has an empty
// who.
type override struct{ who, text string }

// splitValue splits a value into its parts. There is at least one.
func splitValue(v string) []override {
	at := strings.Index(v, "[")
	for at > 0 && v[at-1] != ',' {
		next := strings.Index(v[at+1:], "[")
		if next < 0 {
			at = -1
			break
		}
		at += 1 + next
	}
	if at <= 0 {
		return []override{{text: v}}
	}
	all := []override{{text: strings.TrimSuffix(v[:at], ",")}}
	for rest := v[at:]; strings.HasPrefix(rest, "["); {
		depth, end := 0, -1
		for i := range len(rest) {
			switch rest[i] {
			case '[':
				depth++
			case ']':
				if depth--; depth == 0 {
					end = i
				}
			}
			if end >= 0 {
				break
			}
		}
		if end < 0 {
			break
		}
		who, text, _ := strings.Cut(rest[1:end], "=")
		all = append(all, override{who, text})
		rest = strings.TrimPrefix(rest[end+1:], ",")
	}
	return all
}

// givenValue parses a value that may be for some hosts only: [host=value],[@group=value]. It
// returns nil for an invalid value.
func givenValue(v string) []override {
	if strings.HasPrefix(v, "[") {
		v = "," + v
	}
	all := splitValue(v)
	switch {
	case joinValue(all) != v:
		return nil
	case v != "" && v[0] == ',':
		return all[1:]
	}
	return all
}

func joinValue(all []override) string {
	var b strings.Builder
	for i, o := range all {
		if i == 0 {
			b.WriteString(o.text)
		} else {
			b.WriteString(",[" + o.who + "=" + o.text + "]")
		}
	}
	return b.String()
}
