package trust

import (
	"errors"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/host/userdb"
)

// Error names the other users who can change the target of a path.
type Error struct {
	Path string // the path that was to be used
	At   string // the file, directory or link that did not pass: Path, or a part of its way
	UID  uint32 // of its owner
	GID  uint32
	Mode uint32 // st_mode (inode(7))

	problem problem
	users   Users
}

// problem is a reason why a part of a path does not pass.
type problem int

const (
	owned problem = iota
	linked
	openToAll
	openToGroup
	listed
)

// Error names the part that did not pass, its owner and its mode, the reason, and the remedy.
func (e *Error) Error() string {
	text := strconv.Quote(e.Path) + " is not trusted: "
	if e.At != e.Path {
		text += strconv.Quote(e.At) + " "
	}
	return text + e.Reason()
}

// Reason returns the text of Error without the names of the path and of the part.
func (e *Error) Reason() string {
	owner, group, expected, who := userName(e.UID), userdb.System().GroupName(e.GID), "root", "root"
	if len(e.users.UIDs) > 0 {
		who = userName(e.users.UIDs[0])
		expected += " or " + who
	}
	problem := [...]string{
		owned:       "belongs to " + owner + ", expected " + expected,
		linked:      "has several names, in a directory in which others can make links",
		openToAll:   "may be written by everybody",
		openToGroup: "may be written by group " + group,
		listed:      "has an access control list that permits others to write",
	}[e.problem]
	at := strconv.Quote(e.At)
	remedy := [...]string{
		owned:       "run chown " + who + " " + at,
		linked:      "move it to a directory of " + who,
		openToAll:   "run chmod o-w " + at,
		openToGroup: "run chmod g-w " + at,
		listed:      "run setfacl -b " + at,
	}[e.problem]
	mode := strconv.FormatUint(uint64(e.Mode&0o7777|0o10000), 8)[1:]
	return problem + " (owner " + owner + ", group " + group + ", mode " + mode + "); " + remedy
}

func userName(uid uint32) string {
	if u, err := userdb.System().UserID(uid); err == nil {
		return u.Name
	}
	return strconv.FormatUint(uint64(uid), 10)
}

// aclAttribute is the attribute in which file systems show access control lists (acl(5), xattr(7)).
const aclAttribute = "system.posix_acl_access"

// checkPart checks the next part of a path; last marks the target of the path.
func (u Users) checkPart(w *walk, at string, st *unix.Stat_t, last bool) error {
	const others, sticky = unix.S_IWOTH | unix.S_IWGRP, unix.S_ISVTX
	link, directory := st.Mode&unix.S_IFMT == unix.S_IFLNK, st.Mode&unix.S_IFMT == unix.S_IFDIR
	var problem problem
	switch {
	case st.Uid != 0 && !slices.Contains(u.UIDs, st.Uid):
		problem = owned
	case link: // its mode has no meaning: its owner and users who may write to its directory can change it
		return nil
	case !directory && st.Nlink > 1 && w.stat.Mode&sticky != 0 && w.stat.Mode&others != 0:
		problem = linked
	case directory && !last && st.Mode&sticky != 0: // others cannot replace the entries of trusted users
		return nil
	case st.Mode&unix.S_IWOTH != 0:
		problem = openToAll
	case st.Mode&unix.S_IWGRP == 0:
		return nil
	case st.Gid != 0 && !slices.Contains(u.GIDs, st.Gid):
		problem = openToGroup
	default:
		// All parts above have passed: the path leads to the file that was examined.
		_, err := unix.Lgetxattr(at, aclAttribute, nil)
		if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.EOPNOTSUPP) {
			return nil
		}
		problem = listed
	}
	return &Error{Path: w.path, At: at, UID: st.Uid, GID: st.Gid, Mode: st.Mode, problem: problem, users: u}
}
