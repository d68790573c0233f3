// Package program runs the programs of a site: mailers, health checks, load sensors and verifiers.
// It looks up the user that a program runs as, refuses a program that others than this user and
// root can change, and runs it in a session of its own. It kills the processes of the session as a
// whole, and only before their process IDs can be reused. All functions may be called from several
// goroutines.
package program

import (
	"errors"
	"os"
	"syscall"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/trust"
)

// Identity is the user that a program runs as.
type Identity struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32 // supplementary ones
}

// Lookup finds a user of this host.
func Lookup(name string) (Identity, error) {
	db := userdb.System()
	u, err := db.User(name)
	if err != nil {
		return Identity{}, err
	}
	groups, err := db.Groups(u.Name, u.GID)
	if err != nil {
		return Identity{}, err
	}
	return Identity{Name: u.Name, Home: u.Home, UID: u.UID, GID: u.GID, Groups: groups}, nil
}

// Credential returns the credentials with which to start a process of the user; nil without root's
// rights, because then they cannot be changed.
func (id Identity) Credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
}

// Own returns the identity of this process.
func Own() Identity {
	id := Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/"}
	if u, err := userdb.System().UserID(id.UID); err == nil {
		id.Name, id.Home = u.Name, u.Home
	}
	return id
}

// Trusted returns an error if another user can change a program that runs as this user: the other
// user would get this user's rights. Without root's rights there is only one user, and no error.
//
// exposed is the same reason, even if it is not an error.
func (id Identity) Trusted(program string) (exposed string, err error) {
	users := trust.Own().With(id.UID)
	err = users.Program(program)
	if e, ok := errors.AsType[*trust.Error](err); ok && id.Credential() == nil {
		return e.Error(), nil
	}
	return "", err
}
