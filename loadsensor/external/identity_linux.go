package external

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/execd-project/execd/nss"
)

// Identity is whom a sensor runs as.
type Identity struct {
	Name, Home string
	UID, GID   uint32
	Groups     []uint32 // supplementary ones
}

// Lookup finds a user of this host.
func Lookup(name string) (Identity, error) {
	db := nss.System()
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

// credential is nil where there is nothing to change.
func (id Identity) credential() *syscall.Credential {
	if os.Geteuid() != 0 {
		return nil
	}
	return &syscall.Credential{Uid: id.UID, Gid: id.GID, Groups: id.Groups}
}

// Own is whoever this process is.
func Own() Identity {
	id := Identity{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid()), Home: "/"}
	if u, err := nss.System().UserID(id.UID); err == nil {
		id.Name, id.Home = u.Name, u.Home
	}
	return id
}

// Exposed says who else can change what will run: somebody who owns or may write the
// file or a folder above it, and is neither root nor the user that it runs as. It
// gives an empty text where nobody can. others is true if that is more than a group.
func Exposed(path string, uid uint32) (problem string, others bool, err error) {
	path, err = filepath.EvalSymlinks(path)
	if err != nil {
		return "", false, err
	}
	for at := path; ; at = filepath.Dir(at) {
		info, err := os.Lstat(at)
		if err != nil {
			return "", false, err
		}
		st, ok := info.Sys().(*syscall.Stat_t)
		if !ok {
			return "", false, fmt.Errorf("cannot tell the owner of %q", at)
		}
		// In a sticky folder nobody can replace what belongs to others.
		sticky := info.IsDir() && info.Mode()&fs.ModeSticky != 0
		switch {
		case st.Uid != 0 && st.Uid != uid:
			return fmt.Sprintf("%q belongs to user %d", at, st.Uid), true, nil
		case info.Mode()&0o002 != 0 && !sticky:
			return fmt.Sprintf("%q may be written by everybody", at), true, nil
		case info.Mode()&0o020 != 0 && !sticky && st.Gid != 0:
			problem = fmt.Sprintf("%q may be written by group %d", at, st.Gid)
		}
		if at == "/" {
			return problem, false, nil
		}
	}
}
