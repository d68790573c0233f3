package trust

import (
	"errors"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/nss"
)

// Error says who else can change what a path leads to.
type Error struct {
	Path string // the path that was to be used
	At   string // the file, directory or link that did not pass: Path, or a part of its way
	UID  uint32 // of its owner
	GID  uint32
	Mode uint32 // st_mode (inode(7))

	problem, remedy string
}

// Error names the part that did not pass, its owner and its mode, the reason, and the remedy.
func (e *Error) Error() string {
	text := strconv.Quote(e.Path) + " is not trusted: "
	if e.At != e.Path {
		text += strconv.Quote(e.At) + " "
	}
	return text + e.Reason()
}

// Reason is Error without the names of the path and of the part.
func (e *Error) Reason() string {
	return e.problem + " (owner " + userName(e.UID) + ", group " + groupName(e.GID) + ", mode " + e.mode() + "); " + e.remedy
}

func (e *Error) mode() string {
	text := strconv.FormatUint(uint64(e.Mode&0o7777), 8)
	for len(text) < 4 {
		text = "0" + text
	}
	return text
}

func userName(uid uint32) string {
	if u, err := nss.System().UserID(uid); err == nil {
		return u.Name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

func groupName(gid uint32) string {
	return nss.System().GroupName(gid)
}

// aclAttribute is where file systems show access control lists (acl(5), xattr(7)).
const aclAttribute = "system.posix_acl_access"

// judge decides about one part of a path.
func (u Users) judge(p *part) error {
	st := &p.stat
	link, directory := st.Mode&unix.S_IFMT == unix.S_IFLNK, st.Mode&unix.S_IFMT == unix.S_IFDIR
	refuse := func(problem, remedy string) error {
		return &Error{Path: p.path, At: p.at, UID: st.Uid, GID: st.Gid, Mode: st.Mode, problem: problem, remedy: remedy}
	}
	switch {
	case st.Uid != 0 && !has(u.UIDs, st.Uid):
		remedy := "run chown " + u.owner() + " " + p.at
		if !p.last {
			remedy = "use a path through directories of " + u.owner() + " alone"
		}
		return refuse("belongs to "+userName(st.Uid)+", expected "+u.expected(), remedy)
	case link: // its mode says nothing: its owner and those who may write to its directory can change it
		return nil
	case p.shared && !directory && st.Nlink > 1:
		return refuse("has several names, in a directory in which others can make links", "move it to a directory of "+u.owner())
	case directory && !p.last && st.Mode&unix.S_ISVTX != 0: // others cannot replace the entries of trusted users
		return nil
	case st.Mode&unix.S_IWOTH != 0:
		return refuse("may be written by everybody", "run chmod o-w "+p.at)
	case st.Mode&unix.S_IWGRP == 0:
		return nil
	case st.Gid != 0 && !has(u.GIDs, st.Gid):
		return refuse("may be written by group "+groupName(st.Gid), "run chmod g-w "+p.at)
	}
	// All parts above have passed: the path leads to the file that was examined.
	_, err := unix.Lgetxattr(p.at, aclAttribute, nil)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return refuse("has an access control list that permits others to write", "run setfacl -b "+p.at)
}

// expected names the users who may be owners.
func (u Users) expected() string {
	text := "root"
	for _, uid := range u.UIDs {
		text += " or " + userName(uid)
	}
	return text
}

// owner is the user who should be the owner.
func (u Users) owner() string {
	if len(u.UIDs) > 0 {
		return userName(u.UIDs[0])
	}
	return "root"
}
