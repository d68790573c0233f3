package qconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// peopleFiles are the files that list users and hosts, one per line, with the check for their
// names.
var peopleFiles = map[string]func(string) error{
	"managers": checkUserName, "operators": checkUserName, "adminhosts": CheckHostName, "submithosts": CheckHostName,
}

// checkUserName refuses text that cannot be a login name.
func checkUserName(s string) error {
	if s == "" || strings.ContainsAny(s, ":/@ ,") || s[0] == '-' || strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f }) >= 0 {
		return fmt.Errorf("%s is not a login name", strconv.Quote(s))
	}
	return nil
}

// readPeople reads the lists. Empty lines, and those that begin with #, are skipped.
func (l *loader) readPeople(c *Cluster) {
	for _, name := range sortedKeys(peopleFiles) {
		if !l.present[name] {
			continue
		}
		data, ok := l.read(name)
		if !ok {
			continue
		}
		names := []string{}
		number, wrong := 0, 0
		for text := range strings.Lines(string(data)) {
			number++
			text = strings.TrimSpace(text)
			if text == "" || text[0] == '#' {
				continue
			}
			if err := peopleFiles[name](text); err != nil {
				l.fail(&Error{File: name, Line: number, Value: text, Problem: err.Error(), Err: err})
				if wrong++; wrong == maxErrors {
					l.fail(&Error{File: name, Line: number, Problem: manyErrors})
					break
				}
			} else {
				names = append(names, text)
			}
		}
		slices.Sort(names)
		c.people[name] = slices.Compact(names)
	}
}

// Managers returns the users who, besides root, may do everything (qconf(1), -sm), sorted.
func (c *Cluster) Managers() []string { return c.people["managers"] }

// Operators returns the users with the rights of managers except changes of the configuration
// (qconf(1), -so), sorted.
func (c *Cluster) Operators() []string { return c.people["operators"] }

// AdminHosts returns the administrative hosts (qconf(1), -sh), sorted.
func (c *Cluster) AdminHosts() []string { return c.people["adminhosts"] }

// SubmitHosts returns the submit hosts (qconf(1), -ss), sorted.
func (c *Cluster) SubmitHosts() []string { return c.people["submithosts"] }
