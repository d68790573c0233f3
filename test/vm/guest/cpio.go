package guest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// archive writes the root file system of a guest in the form that the kernel unpacks: a cpio
// archive in the format "newc" (Documentation/driver-api/early-userspace/buffer-format.rst in
// Linux). Everything in it belongs to root, unless specified otherwise.
type archive struct {
	w     *bufio.Writer
	size  int64
	inode int
	dirs  map[string]bool // which are in it
	links map[string]string
	err   error // the first one
}

// newArchive starts an archive. links are directories that are links: on Debian /bin is a link to
// /usr/bin, and a directory of that name in this archive would replace it.
func newArchive(w io.Writer, links map[string]string) *archive {
	return &archive{w: bufio.NewWriter(w), dirs: map[string]bool{".": true, "/": true}, links: links}
}

const (
	modeDir  = 0o040000
	modeFile = 0o100000
	modeLink = 0o120000
)

// owner is the owner of a file.
type owner struct{ uid, gid int }

// entry writes the head of one entry.
func (a *archive) entry(name string, mode uint32, o owner, size int64) {
	a.inode++
	name = strings.TrimPrefix(name, "/") + "\x00"
	// magic, inode, mode, uid, gid, links, mtime, size, device (2), its device (2),
	// length of the name, checksum
	a.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%s",
		a.inode, mode, o.uid, o.gid, 1, 0, size, 0, 0, 0, 0, len(name), 0, name))
	a.pad()
}

func (a *archive) write(b []byte) {
	if a.err == nil {
		var n int
		n, a.err = a.w.Write(b)
		a.size += int64(n)
	}
}

// pad fills up to a multiple of four, where the next part begins.
func (a *archive) pad() { a.write(make([]byte, -a.size&3)) }

// resolve returns the path of a file after all links were followed.
func (a *archive) resolve(name string) string {
	name = path.Clean("/" + name)
	first, rest, _ := strings.Cut(name[1:], "/")
	if target, ok := a.links["/"+first]; ok {
		return path.Join(target, rest)
	}
	return name
}

// parents makes the folders that lead to name, unless they are there.
func (a *archive) parents(name string) {
	if dir := path.Dir(name); !a.dirs[dir] {
		a.dir(dir, 0o755, owner{})
	}
}

func (a *archive) dir(name string, perm uint32, o owner) {
	name = a.resolve(name)
	a.parents(name)
	a.dirs[name] = true
	a.entry(name, modeDir|perm, o, 0)
}

func (a *archive) link(name, target string) {
	name = a.resolve(name)
	a.parents(name)
	a.entry(name, modeLink|0o777, owner{}, int64(len(target)))
	a.write([]byte(target))
	a.pad()
}

// file copies size bytes.
func (a *archive) file(name string, perm uint32, o owner, size int64, content io.Reader) {
	name = a.resolve(name)
	a.parents(name)
	a.entry(name, modeFile|perm, o, size)
	if a.err != nil {
		return
	}
	n, err := io.CopyN(a.w, content, size)
	a.size += n
	if err != nil {
		a.err = fmt.Errorf("cannot copy %q: %w", name, err)
	}
	a.pad()
}

func (a *archive) text(name string, perm uint32, content string) {
	a.file(name, perm, owner{}, int64(len(content)), strings.NewReader(content))
}

// tree copies a file or a folder of the host, following links.
func (a *archive) tree(to, from string) {
	info, err := os.Stat(from)
	switch {
	case err != nil:
		a.fail(err)
	case info.IsDir():
		entries, err := os.ReadDir(from)
		if err != nil {
			a.fail(err)
			return
		}
		if !a.dirs[a.resolve(to)] {
			a.dir(to, uint32(info.Mode().Perm()), owner{})
		}
		for _, e := range entries {
			a.tree(path.Join(to, e.Name()), filepath.Join(from, e.Name()))
		}
	case info.Mode().IsRegular():
		f, err := os.Open(from)
		if err != nil {
			a.fail(err)
			return
		}
		defer f.Close()
		a.file(to, uint32(info.Mode().Perm()), owner{}, info.Size(), f)
	default:
		a.fail(&fs.PathError{Op: "copy", Path: from, Err: errors.New("it is neither a file nor a folder")})
	}
}

func (a *archive) fail(err error) {
	if a.err == nil {
		a.err = fmt.Errorf("cannot copy into the guest: %w", err)
	}
}

// close ends the archive. Another one may follow it.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, owner{}, 0)
	if a.err == nil {
		a.err = a.w.Flush()
	}
	return a.err
}
