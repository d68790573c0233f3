package importer

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/internal/userfile"
)

// foreign is a directory in which a user other than root may have placed links, or files that name
// other directories. With root's rights these could lead to root's own files, and the new
// configuration would make them readable for everybody.
type foreign struct {
	rights userfile.Rights // rights of that user
	user   string
	// top is the first directory in the path that belongs to the user. Root has chosen the
	// directories above it, which the user may not be able to search. It is nil if the first entry
	// of the user in the path is a link.
	top  *os.Root
	path string // of the user's first directory or link
}

// foreignOf finds out which user can have filled a directory. It returns nil if only root can have
// done so, or if this process is not root's.
func foreignOf(dir string) (*foreign, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e, ok := errors.AsType[*trust.Error](trust.Users{}.Check(path))
	if !ok { // safe, or reading reports the error
		return nil, nil
	}
	if e.UID == 0 { // anyone may have filled it
		return nil, e
	}
	p := &foreign{rights: userfile.Rights{UID: e.UID, GID: e.GID}, user: strconv.FormatUint(uint64(e.UID), 10), path: e.At}
	if u, err := userdb.System().UserID(e.UID); err == nil {
		p.rights.GID, p.user = u.GID, u.Name
		if groups, err := userdb.System().Groups(u.Name, u.GID); err == nil { // otherwise the user has fewer rights
			p.rights.Groups = groups
		}
	}
	if info, err := os.Lstat(e.At); err == nil && info.IsDir() {
		if p.top, err = os.OpenRoot(e.At); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func (p *foreign) close() {
	if p != nil && p.top != nil {
		p.top.Close()
	}
}

// below returns the path of a file relative to top.
func (p *foreign) below(file string) (name string, ok bool) {
	if p.top == nil {
		return "", false
	}
	abs, err := filepath.Abs(file)
	if err != nil {
		return "", false
	}
	name, err = filepath.Rel(p.path, abs)
	return name, err == nil && filepath.IsLocal(name)
}

func (p *foreign) open(file string) (*os.File, error) {
	f, err := p.rights.Open(file, 0)
	if name, ok := p.below(file); ok && errors.Is(err, fs.ErrPermission) {
		f, err = p.rights.OpenBelow(p.top, name)
	}
	return f, p.explain(err)
}

func (p *foreign) entries(dir string) ([]fs.DirEntry, error) {
	entries, err := p.rights.ReadDir(dir)
	if name, ok := p.below(dir); ok && errors.Is(err, fs.ErrPermission) {
		entries, err = p.rights.ReadDirBelow(p.top, name)
	}
	return entries, p.explain(err)
}

func (p *foreign) explain(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w for user %s, who could have made a link there", reason(err), p.user)
	}
	return err
}
