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

// foreign is a folder in which another user than root can have put links, or files that name
// other folders. With root's rights these would lead to root's own files, and the new
// configuration would show them to everybody.
type foreign struct {
	rights userfile.Rights // of that user
	user   string
	// top is the first directory of the path that is the user's: root has named what is above,
	// which the user need not be able to pass. nil where a link of the user's is first.
	top  *os.Root
	path string // of top
}

// foreignOf returns nil for a folder that only root can have filled, or if we are not root.
func foreignOf(dir string) (*foreign, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	e, ok := errors.AsType[*trust.Error](trust.Users{}.Check(path))
	if !ok { // it passes, or reading says what is wrong
		return nil, nil
	}
	if e.UID == 0 { // by whom it was filled nobody can say
		return nil, e
	}
	p := &foreign{rights: userfile.Rights{UID: e.UID, GID: e.GID}, user: strconv.FormatUint(uint64(e.UID), 10), path: e.At}
	if u, err := userdb.System().UserID(e.UID); err == nil {
		p.rights.GID, p.user = u.GID, u.Name
		if groups, err := userdb.System().Groups(u.Name, u.GID); err == nil { // else it has fewer rights
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

// below returns the path of a file relative to the top.
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
