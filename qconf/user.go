package qconf

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// User is an object of user(5).
type User struct {
	Text
	Name           string
	OverrideTicket int       // oticket
	FunctionShare  int       // fshare
	DeleteTime     time.Time // zero for a user that stays
	DefaultProject string    // empty for NONE
}

// Project is an object of project(5).
type Project struct {
	Text
	Name           string
	OverrideTicket int      // oticket
	FunctionShare  int      // fshare
	ACL, XACL      []string // access lists of its users (empty admits all users), and of users without access
}

// UserSet is an access list, a department, or both (access_list(5)).
type UserSet struct {
	Text
	Name              string
	ACL, Department   bool // type
	FunctionShare     int  // fshare, of a department
	OverrideTicket    int  // oticket, of a department
	Users, UserGroups []string
}

// The user sets that every cluster has.
const (
	ARUsers           = "arusers"           // may make advance reservations
	DeadlineUsers     = "deadlineusers"     // may submit with -dl
	DefaultDepartment = "defaultdepartment" // of all users who are in no other department
)

// defaultNode is a reserved name in the share tree: no user or project may have it.
const defaultNode = "default"

// ownName returns the name of a user or a project.
func ownName[T any](field func(*T) *string) kind[T] {
	return kind[T]{read: func(dst *T, s string) (string, error) {
		*field(dst) = s
		if s == defaultNode {
			return s, fmt.Errorf("%q is not a name: it stands for all others in the share tree", s)
		}
		return s, CheckName(s)
	}}
}

var userTable = table[User]{
	object: "user",
	manual: "user(5)",
	rows: []attribute[User]{
		{name: "name", required: true, kind: ownName(func(u *User) *string { return &u.Name })},
		row("oticket", "0", unsigned(0, func(u *User) *int { return &u.OverrideTicket })),
		row("fshare", "0", unsigned(0, func(u *User) *int { return &u.FunctionShare })),
		row("delete_time", "0", kind[User]{read: func(u *User, s string) (string, error) {
			var seconds int
			normal, err := unsigned(0, func(n *int) *int { return n }).read(&seconds, s)
			if u.DeleteTime = (time.Time{}); seconds > 0 {
				u.DeleteTime = time.Unix(int64(seconds), 0).UTC()
			}
			return normal, err
		}}),
		row("default_project", none, optionalName(func(u *User) *string { return &u.DefaultProject })),
	},
}

var projectTable = table[Project]{
	object: "project",
	manual: "project(5)",
	rows: []attribute[Project]{
		{name: "name", required: true, kind: ownName(func(p *Project) *string { return &p.Name })},
		row("oticket", "0", unsigned(0, func(p *Project) *int { return &p.OverrideTicket })),
		row("fshare", "0", unsigned(0, func(p *Project) *int { return &p.FunctionShare })),
		row("acl", none, names(func(p *Project) *[]string { return &p.ACL })),
		row("xacl", none, names(func(p *Project) *[]string { return &p.XACL })),
	},
}

var userSetTable = table[UserSet]{
	object: "user set",
	manual: "access_list(5)",
	layout: layout{column: 8},
	rows: []attribute[UserSet]{
		{name: "name", required: true, kind: name(func(s *UserSet) *string { return &s.Name })},
		row("type", "ACL", kind[UserSet]{breaks: betweenItems, read: readSetType}),
		row("fshare", "0", unsigned(0, func(s *UserSet) *int { return &s.FunctionShare })),
		row("oticket", "0", unsigned(0, func(s *UserSet) *int { return &s.OverrideTicket })),
		row("entries", none, kind[UserSet]{breaks: betweenItems, keeps: true, read: readEntries}),
	},
}

func readSetType(u *UserSet, s string) (string, error) {
	u.ACL, u.Department = false, false
	var printed []string
	var errs []error
	for _, w := range words(s) {
		switch {
		case isWord(w, "ACL"):
			u.ACL = true
		case isWord(w, "DEPT"):
			u.Department = true
		default:
			errs = addError(errs, fmt.Errorf("%q is not a type of a user set, expected ACL, DEPT or both", w))
		}
	}
	if u.ACL {
		printed = append(printed, "ACL")
	}
	if u.Department {
		printed = append(printed, "DEPT")
	}
	if printed == nil && errs == nil {
		errs = addError(errs, fmt.Errorf("%q names no type, expected ACL, DEPT or both", s))
	}
	return strings.Join(printed, " "), errJoin(errs)
}

// readEntries reads users and @groups. Patterns are names here like any other,
// as in the original.
func readEntries(u *UserSet, s string) (string, error) {
	u.Users, u.UserGroups = nil, nil
	var all []string
	normal, err := list(",", func(s string) error {
		if group, ok := strings.CutPrefix(s, "@"); ok {
			return CheckName(group)
		}
		return CheckName(s)
	}, func(l *[]string) *[]string { return l }).read(&all, s)
	for _, e := range all {
		if group, ok := strings.CutPrefix(e, "@"); ok {
			u.UserGroups = append(u.UserGroups, group)
		} else {
			u.Users = append(u.Users, e)
		}
	}
	return normal, err
}

// Contains reports whether the set names the user, or the user's primary group
// (access_list(5), entries). group may be empty.
func (u *UserSet) Contains(user, group string) bool {
	return slices.Contains(u.Users, user) || slices.Contains(u.UserGroups, group)
}

// ParseUser reads a user in the notation of user(5). file is only used in
// errors, which are all *Error, joined.
func ParseUser(file string, data []byte) (*User, error) {
	return whole(newUser(userTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (u *User) With(attribute, value string) (*User, error) {
	return whole(newUser(userTable.with(u.Text, attribute, value)))
}

func newUser(text Text, u User, err error) (*User, error) {
	u.Text = text
	return &u, err
}

// ParseProject reads a project in the notation of project(5). file is only
// used in errors, which are all *Error, joined.
func ParseProject(file string, data []byte) (*Project, error) {
	return whole(newProject(projectTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (p *Project) With(attribute, value string) (*Project, error) {
	return whole(newProject(projectTable.with(p.Text, attribute, value)))
}

func newProject(text Text, p Project, err error) (*Project, error) {
	p.Text = text
	errs := problems(err)
	for _, x := range p.XACL {
		if slices.Contains(p.ACL, x) {
			errs = append(errs, p.errorAt("xacl", x, fmt.Sprintf("user set %q is in acl, too", x), nil))
		}
	}
	return &p, errJoin(errs)
}

// ParseUserSet reads a user set in the notation of access_list(5). file is only
// used in errors, which are all *Error, joined.
func ParseUserSet(file string, data []byte) (*UserSet, error) {
	return whole(newUserSet(userSetTable.parse(file, data)))
}

// With returns the object with one attribute changed, or the reason why it
// cannot have that value.
func (u *UserSet) With(attribute, value string) (*UserSet, error) {
	return whole(newUserSet(userSetTable.with(u.Text, attribute, value)))
}

func newUserSet(text Text, u UserSet, err error) (*UserSet, error) {
	u.Text = text
	if err == nil && u.FunctionShare+u.OverrideTicket > 0 && !u.Department {
		u.warnings = append(u.warnings, u.errorAt("type", "ACL", "fshare and oticket have no effect: the user set is no department", nil))
	}
	return &u, err
}
