package starter

import (
	"slices"
	"strconv"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/spawn"
	"github.com/execd-project/execd/internal/trust"
)

// account is a user with all groups, as the steps of a job run.
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

// lookupOwner is lookup for the owner of the job, with the group that was the
// primary one where it was submitted (USE_QSUB_GID of execd_params). It is the
// submit client that tells which: only a group is taken that the user is in here
// as well, and that jobs may have.
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

// checkProgram refuses a procedure of another user whose program somebody else than root and that user
// can choose or change: that one would have the user's rights. Users choose the name of a job and
// the paths of its files, so these variables cannot be part of the program's path.
//
// A real sge_execd names the admin user of its cell. That user decides what root runs on all hosts
// of the cell, so its programs are trusted as root's are.
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

// programError is the refusal of a program whose path has a variable that users choose.
type programError struct{ path, variable string }

// Error names the program and the variable.
func (e *programError) Error() string {
	return "the path of the program " + strconv.Quote(e.path) + " contains $" + e.variable + ", which the user of the job chooses"
}

// mostGroups is how many supplementary groups the kernel takes (NGROUPS_MAX).
const mostGroups = 65536

// additionalGroup is the group id that marks the processes of the job; 0 where
// the owner has no room for it and the administrator wants the job all the same.
func (s *Shepherd) additionalGroup() int {
	if s.d.SkipGroupLimit && len(s.owner.groups) >= mostGroups {
		return 0
	}
	return s.d.AddGroupID
}

// becomeRoot undoes that a real execd starts us with the effective ids of its
// admin user, so that the child may change into any user. Without root's
// rights there is nothing to undo and nobody else to become.
func (s *Shepherd) becomeRoot(p *spawn.Program) {
	if s.privileged {
		p.Setresuid(0)
	}
}

// become has the child become a user, for good.
func (s *Shepherd) become(p *spawn.Program, a account, extraGroup int) {
	if !s.privileged {
		return
	}
	groups := a.groups
	if extraGroup != 0 {
		groups = append(slices.Clone(groups), uint32(extraGroup))
	}
	p.Groups(groups)
	p.Setresgid(a.GID)
	p.Setresuid(a.UID)
}

// borrow has the child act as a user and keep the way back.
func (s *Shepherd) borrow(p *spawn.Program, a account) {
	if !s.privileged {
		return
	}
	p.Groups(a.groups)
	p.Setresgid(a.GID)
	p.Seteuid(a.UID)
}

// giveBack ends borrow.
func (s *Shepherd) giveBack(p *spawn.Program) {
	if s.privileged {
		p.Seteuid(0)
	}
}
