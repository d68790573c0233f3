package starter

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/internal/trust"
)

// account is a user with all groups, the identity under which a step runs.
type account struct {
	*userdb.User
	groups []uint32
}

func lookup(db userdb.Database, name string) (account, error) {
	u, err := db.User(name)
	if err != nil {
		return account{}, err
	}
	groups, err := db.Groups(u.Name, u.GID)
	return account{u, groups}, err
}

// lookupOwner looks up the owner of the job, with the primary group that the owner had at
// submission (USE_QSUB_GID of execd_params). The submit client reports that group, so it is used
// only if the user is a member of it on this host and if it is not below min_gid.
func (s *Shepherd) lookupOwner() (account, error) {
	a, err := lookup(s.db, s.d.Owner)
	gid := uint32(s.d.QsubGID)
	if err != nil || gid == 0 || gid == a.GID {
		return a, err
	}
	if !slices.Contains(a.groups, gid) || s.d.QsubGID < s.d.MinGID {
		s.trace("group " + itoa(s.d.QsubGID) + " of the submission is not used: user " + a.Name +
			" is not in it on this host, or it is below min_gid")
		return a, nil
	}
	user := *a.User
	user.GID = gid
	groups, err := s.db.Groups(user.Name, gid)
	return account{&user, groups}, err
}

// checkProgram refuses a procedure that runs as another user if anyone except root and that user
// can choose or change its program: they would gain the rights of that user. Users choose the name
// of a job and the paths of its files, so these variables cannot be part of the program's path.
//
// A real sge_execd names the admin user of its cell. That user decides what root runs on all hosts
// of the cell, so programs of that user are trusted as root's are.
func (s *Shepherd) checkProgram(p procedure, as account) error {
	if p.chosen != "" {
		return &programError{p.argv[0], p.chosen}
	}
	users := trust.Users{}.With(as.UID)
	if s.d.AdminUser != "" {
		admin, err := s.db.User(s.d.AdminUser)
		if err != nil {
			return err
		}
		users = users.With(admin.UID)
	}
	return asRoot(func() error { return users.Program(p.argv[0]) })
}

// programError is the error for a program whose path contains a variable that users choose.
type programError struct{ path, variable string }

// Error names the program and the variable.
func (e *programError) Error() string {
	return "the path of the program " + strconv.Quote(e.path) + " contains $" + e.variable + ", which the user of the job chooses"
}

// mostGroups is the largest number of supplementary groups that the kernel allows (NGROUPS_MAX).
const mostGroups = 65536

// additionalGroup returns the group ID that marks the processes of the job. It returns 0 if the
// owner is in as many groups as the kernel allows and the administrator lets such jobs run.
func (s *Shepherd) additionalGroup() int {
	if s.d.SkipGroupLimit && len(s.owner.groups) >= mostGroups {
		return 0
	}
	return s.d.AddGroupID
}

// becomeRoot gives the child root's effective IDs, which it needs to change to any user: a real
// execd starts the supervisor with the effective IDs of its admin user. Without root's rights it
// does nothing.
func (s *Shepherd) becomeRoot(p *spawn.Program) {
	if s.privileged {
		p.Setresuid(0)
	}
}

// become changes the identity of the child to a user, for good.
func (s *Shepherd) become(p *spawn.Program, a account, extraGroup int) {
	if !s.privileged {
		return
	}
	p.Groups(withGroup(a.groups, extraGroup))
	p.Setresgid(a.GID)
	p.Setresuid(a.UID)
}

func withGroup(groups []uint32, extra int) []uint32 {
	if extra == 0 {
		return groups
	}
	return append(slices.Clone(groups), uint32(extra))
}

// borrow lets the child act as a user until giveBack.
func (s *Shepherd) borrow(p *spawn.Program, a account, extraGroup int) {
	if !s.privileged {
		return
	}
	p.Groups(withGroup(a.groups, extraGroup))
	p.Setresgid(a.GID)
	p.Seteuid(a.UID)
}

// giveBack ends borrow.
func (s *Shepherd) giveBack(p *spawn.Program) {
	if s.privileged {
		p.Seteuid(0)
	}
}
