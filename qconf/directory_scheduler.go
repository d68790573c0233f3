package qconf

import (
	"fmt"
	"io/fs"
	"strings"
)

// readForScheduler reads the objects that only a scheduler needs.
func (l *loader) readForScheduler(c *Cluster) {
	single(l, "complexes", complexesOf, func(v *Complexes) {
		c.complexes = v
		for name := range v.refused {
			l.refused.add("complexes", name)
		}
	})
	single(l, "sched_conf", readWith(&schedulerTable, newSchedulerConfig), func(v *SchedulerConfig) { c.scheduler = v })
	single(l, "sharetree", readShareTree, func(v *ShareTree) { c.shareTree = v })
	l.readHosts(c)
	l.readQuotas(c)
	if l.present["calendars"] {
		c.calendars = objects(l, "calendars", l.parseCalendar, func(c *Calendar) *string { return &c.Name })
	}
	if l.present["usersets"] {
		c.userSets = objects(l, "usersets", readWith(&userSetTable, newUserSet), func(u *UserSet) *string { return &u.Name })
	}
	if l.present["users"] {
		c.users = objects(l, "users", readWith(&userTable, newUser), func(u *User) *string { return &u.Name })
	}
	if l.present["projects"] {
		c.projects = objects(l, "projects", readWith(&projectTable, newProject), func(p *Project) *string { return &p.Name })
	}
	c.addDefaultUserSets()
}

// addDefaultUserSets adds the user sets that every cluster has.
func (c *Cluster) addDefaultUserSets() {
	for name, kind := range map[string]string{ARUsers: "ACL", DeadlineUsers: "ACL", DefaultDepartment: "DEPT"} {
		if c.userSets[name] == nil {
			c.userSets[name] = static(ParseUserSet("", []byte("name "+name+"\ntype "+kind+"\n")))
		}
	}
}

// single reads a file that is one object. read returns the valid part of the object together with
// the errors.
func single[O any](l *loader, file string, read func(string, []byte) (O, error), set func(O)) {
	if !l.present[file] {
		return
	}
	data, ok := l.read(file)
	if !ok {
		return
	}
	o, err := read(file, data)
	l.fail(err)
	set(o)
}

// readHosts reads the folder hosts.
func (l *loader) readHosts(c *Cluster) {
	if !l.present["hosts"] {
		return
	}
	c.hosts = map[string]*ExecHost{}
	for _, h := range objects(l, "hosts", readWith(&hostTable, newHost), func(h *ExecHost) *string { return &h.Name }) {
		low := strings.ToLower(h.Name)
		if h.Name == GlobalHost {
			c.globalHost = h
			continue
		}
		if other := c.hosts[low]; other != nil {
			first, second := min(h.file, other.file), max(h.file, other.file)
			l.refuse(second, fmt.Sprintf("is the same host as %q", first), nil)
			continue
		}
		c.hosts[low] = h
	}
}

// readQuotas reads the file or the folder rqs.
func (l *loader) readQuotas(c *Cluster) {
	if !l.present["rqs"] {
		return
	}
	c.quotas = nil
	if info, err := fs.Stat(l.fsys, "rqs"); err == nil && info.IsDir() {
		one := func(file string, data []byte) (*ResourceQuotaSet, error) {
			sets, err := readQuotas(file, data)
			if len(sets) > 1 || len(sets) == 0 && err == nil {
				err = errJoin(problems(err), &Error{File: file, Problem: fmt.Sprintf("holds %d resource quota sets, expected one in each file of a folder", len(sets))})
			}
			if len(sets) == 0 {
				return nil, err
			}
			return sets[0], err
		}
		sets := objects(l, "rqs", one, func(q *ResourceQuotaSet) *string { return &q.Name })
		for _, name := range sortedKeys(sets) {
			c.quotas = append(c.quotas, sets[name])
		}
		return
	}
	single(l, "rqs", readQuotas, func(sets []*ResourceQuotaSet) { c.quotas = sets })
	lines := map[string]int{}
	for _, q := range c.quotas {
		if first, again := lines[q.Name]; again && q.Name != "" {
			l.fail(&Error{File: q.file, Line: q.line, Attribute: "name", Value: q.Name, Problem: fmt.Sprintf("there is a set %q already, in line %d", q.Name, first)})
		}
		lines[q.Name] = q.line
	}
}

// parseCalendar does what ParseCalendar does, and makes the checks of the options.
func (l *loader) parseCalendar(file string, data []byte) (*Calendar, error) {
	c, err := newCalendar(calendarTable.parse(file, data))
	errs := problems(err)
	for _, part := range []struct {
		name, text string
		check      func(string) error
	}{{"year", c.Year, l.options.Year}, {"week", c.Week, l.options.Week}} {
		if part.text == "" || part.check == nil {
			continue
		}
		if err := part.check(part.text); err != nil {
			errs = append(errs, c.errorAt(part.name, part.text, err.Error(), err))
		}
	}
	return c, errJoin(errs)
}
