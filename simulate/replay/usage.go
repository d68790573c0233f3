package replay

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/lazyregexp"
	"github.com/execd-project/execd/scheduler/tickets"
)

// pastUsage is an element of initial_usage.
type pastUsage struct {
	user, project string // one of them may be empty
	amounts       tickets.Amounts
	age           int64 // seconds since the last decay; -1 for never
}

var (
	usageOwner = lazyregexp.New(`^(?:(user|project|in project) +)?([\w.-]+) +((?:(?:cpu|mem|io)=[\d.]+ *)+)(?:\(without project\))?$`)
	usageStamp = lazyregexp.New(`^stamp (\d{1,9})(?: s ago| \(never\))$`)
)

// readUsage reads initial_usage, which is written for people:
//
//	alice cpu=6000 mem=0 io=0, stamp 3600 s ago
//	user bob cpu=500 (without project), in project p1 cpu=2000
//	project p1 cpu=3000, project p2 cpu=700
//
// It ignores a line that ends with a colon. halftime comes from the configuration, and the time of
// the stamps from the output.
func readUsage(text string) ([]pastUsage, error) {
	var all []pastUsage
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasSuffix(line, ":") || strings.HasPrefix(line, "#") ||
			strings.HasPrefix(line, "halftime ") || strings.HasPrefix(line, "exact seconds") {
			continue
		}
		user, first := "", len(all)
		for part := range strings.SplitSeq(line, ", ") {
			part = strings.TrimSpace(part)
			if m := usageStamp().FindStringSubmatch(part); m != nil && len(all) > first {
				age, _ := strconv.ParseInt(m[1], 10, 64)
				if strings.HasSuffix(part, "(never)") {
					age = -1
				}
				for i := first; i < len(all); i++ {
					all[i].age = age
				}
				continue
			}
			m := usageOwner().FindStringSubmatch(part)
			if m == nil {
				return nil, fmt.Errorf("line %d: %q: expected [user|project|in project] NAME cpu=N mem=N io=N, or stamp N s ago", number, part)
			}
			u := pastUsage{age: -1}
			switch m[1] {
			case "project":
				u.project = m[2]
			case "in project":
				u.user, u.project = user, m[2]
			default:
				user = m[2]
				u.user = user
			}
			for f := range strings.FieldsSeq(m[3]) {
				name, value, _ := strings.Cut(f, "=")
				n, err := strconv.ParseFloat(value, 64)
				if err != nil {
					return nil, fmt.Errorf("line %d: %q is not a number", number, value)
				}
				u.amounts[map[string]tickets.UsageType{"cpu": tickets.CPU, "mem": tickets.Mem, "io": tickets.IO}[name]] = n
			}
			all = append(all, u)
		}
	}
	return all, nil
}
