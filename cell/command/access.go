package command

import (
	"slices"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/expression"
)

// accessLists are the access lists of an object: the users with and without access, and the
// projects with and without access.
type accessLists struct{ users, xusers, projects, xprojects []string }

// allAccess reports whether all users of -U (qstat(1)) have access to a queue instance: to the
// queue, its host, the cluster, and to the projects whose jobs run there. A name may be a
// pattern: it is compared with the entries of access lists. As in the original (tested), one user
// without access is enough for false, and the access lists of projects count although a job does
// not need a project.
func (x *call) allAccess(users []string, q *qconf.QueueInstance) bool {
	c := x.cell.Cluster()
	lists := []accessLists{{q.UserLists, q.XUserLists, q.Projects, q.XProjects}}
	if g := c.Global(); g != nil {
		lists = append(lists, accessLists{users: g.UserLists, xusers: g.XUserLists})
	}
	hosts := []*qconf.ExecHost{c.GlobalHost()}
	if h, err := c.Host(q.Host); err == nil {
		hosts = append(hosts, h)
	}
	for _, h := range hosts {
		lists = append(lists, accessLists{h.UserLists, h.XUserLists, h.Projects, h.XProjects})
	}
	return !slices.ContainsFunc(users, func(user string) bool {
		return slices.ContainsFunc(lists, func(l accessLists) bool { return !x.access(user, &l) })
	})
}

func (x *call) access(user string, l *accessLists) bool {
	if len(l.users) > 0 && !x.inSets(user, l.users) || x.inSets(user, l.xusers) {
		return false
	}
	mayUse := func(project string) bool {
		p, err := x.cell.Cluster().Project(project)
		return err == nil && x.access(user, &accessLists{users: p.ACL, xusers: p.XACL})
	}
	return !slices.ContainsFunc(l.projects, func(p string) bool { return !mayUse(p) }) && !slices.ContainsFunc(l.xprojects, mayUse)
}

// inSets reports whether a name or a pattern matches an entry of any of the user sets. Entries for
// groups begin with an @.
func (x *call) inSets(name string, sets []string) bool {
	is := func(entry string) bool { return entry == name }
	if !expression.PlainPattern(name) {
		is = expression.CompilePattern(false, name).Match
	}
	return slices.ContainsFunc(sets, func(of string) bool {
		set, err := x.cell.Cluster().UserSet(of)
		return err == nil && (slices.ContainsFunc(set.Users, is) || slices.ContainsFunc(set.UserGroups, func(g string) bool { return is("@" + g) }))
	})
}
