package starter

import (
	"slices"

	"github.com/execd-project/execd/nss"
	"github.com/execd-project/execd/starter/spawn"
)

// account is a user with all groups, as the steps of a job run.
type account struct {
	*nss.User
	groups []uint32
}

func lookup(db nss.Database, name string) (account, error) {
	u, err := db.User(name)
	if err != nil {
		return account{}, err
	}
	groups, err := db.Groups(u.Name, u.GID)
	return account{u, groups}, err
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
