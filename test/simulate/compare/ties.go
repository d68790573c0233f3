package compare

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
)

// tieBijection leads from the queue instances of got to those of want, so that the
// jobs are on the same instances, if that can be had by exchanging instances that
// tie; else it is nil.
//
// What is on an instance is the list of tasks with their slots and which of them is
// the master's. Within each class of tied instances the lists of got must be
// those of want, in whatever order; instances that already agree stay.
func (c *Case) tieBijection(want, got fs.FS) (map[string]string, error) {
	w, err := contents(want)
	if err != nil {
		return nil, err
	}
	g, err := contents(got)
	if err != nil || w == nil || g == nil {
		return nil, nil //nolint:nilerr // the comparison of the file says what is wrong with it
	}
	rename := map[string]string{}
	var from, to []string
	for _, instance := range sortedKeys(w, g) {
		if w[instance] != g[instance] {
			from, to = append(from, instance), append(to, instance)
		}
	}
	for _, instance := range from {
		i := slices.IndexFunc(to, func(other string) bool {
			return c.class(instance) == c.class(other) && g[instance] == w[other]
		})
		if i < 0 {
			return nil, nil
		}
		rename[instance] = to[i]
		to = slices.Delete(to, i, i+1)
	}
	return rename, nil
}

// contents returns the tasks on each queue instance, from the output of qstat -g t.
func contents(fsys fs.FS) (map[string]string, error) {
	text, err := fs.ReadFile(fsys, "qstat-gt.txt")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	slots, err := parseSlots(string(text))
	if err != nil {
		return nil, err
	}
	on := map[string]string{}
	for _, task := range sortedKeys(slots) {
		for _, key := range sortedKeys(slots[task]) {
			if kind, instance, ok := strings.Cut(key, " "); ok {
				on[instance] += fmt.Sprintf("%s %s %d\n", task, kind, slots[task][key])
			}
		}
	}
	return on, nil
}

// renamed returns an instance of got under the name that it has in want.
func (s *step) renamed(instance string) string {
	if to, ok := s.rename[instance]; ok {
		return to
	}
	return instance
}

// anonymous replaces the names of instances that have been exchanged, and of their
// hosts, in a line that tells the reader about them: which of them a line is about
// depends on which was taken first.
func (s *step) anonymous(line string) string {
	if len(s.rename) == 0 {
		return line
	}
	hosts := map[string]string{}
	for _, instance := range sortedKeys(s.rename) {
		queue, host, _ := strings.Cut(instance, "@")
		hosts[host] = "tied"
		line = strings.ReplaceAll(line, `"`+instance+`"`, `"`+queue+`@tied"`)
		line = strings.ReplaceAll(line, " "+instance, " "+queue+"@tied")
	}
	for _, host := range sortedKeys(hosts) {
		line = strings.ReplaceAll(line, `host "`+host+`"`, `host "tied"`)
		line = strings.ReplaceAll(line, "/"+host+"/", "/tied/")
		line = strings.ReplaceAll(line, "hosts "+host, "hosts tied")
	}
	return line
}
