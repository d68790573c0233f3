package trust

import (
	"errors"
	"io/fs"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// A Memory checks the same few paths again and again, and remembers those that have passed: it examines
// the parts of such a path again only if one of them has changed. The zero value trusts only root.
//
// The kernel sets the ctime of a file whenever its owner, mode, access control list, number of names or
// content changes (inode(7)), and of a directory also when an entry of it changes. A part with the same
// inode number, device and ctime is therefore the one that has passed, and leads to the same next part.
type Memory struct {
	Users Users

	eager bool // for tests: remember parts that have just changed, too

	mu       sync.Mutex
	checked  map[string][]part // paths that have passed Check
	programs map[string][]part // binaries that have passed Program
}

// part identifies the state of a part of a path.
type part struct {
	at       string
	dev, ino uint64
	ctime    unix.Timespec
}

func partOf(at string, st *unix.Stat_t) part { return part{at, st.Dev, st.Ino, st.Ctim} }

// young is the age, in seconds, up to which a part is not remembered: a further change might get the same ctime, because
// the kernel's clock for it advances in steps of some milliseconds, on some file systems of a second or two.
const young = 3

// Check does what Users.Check does.
func (m *Memory) Check(path string) error {
	return m.remembered(&m.checked, path, func() (keep bool, err error) {
		return true, m.Users.Check(path)
	})
}

// CheckDirectory does what Users.CheckDirectory does.
func (m *Memory) CheckDirectory(path string) error {
	for {
		var st unix.Stat_t
		err := unix.Lstat(path, &st)
		if err == nil {
			err = m.Check(path)
		}
		above := parent(path)
		if !errors.Is(err, fs.ErrNotExist) || above == path {
			return err
		}
		path = above
	}
}

// Program does what Users.Program does. It does not remember scripts.
func (m *Memory) Program(path string) error {
	return m.remembered(&m.programs, path, func() (keep bool, err error) {
		if err := m.Users.Program(path); err != nil {
			return false, err
		}
		fd, err := m.Users.Open(path)
		if err != nil { // it is executable, and not readable
			return false, nil
		}
		defer unix.Close(fd)
		return interpreter(fd) == "", nil
	})
}

// remembered returns nil if a path has passed before and its parts are the same. Otherwise it calls check, which
// says whether to remember the path.
func (m *Memory) remembered(list *map[string][]part, path string, check func() (keep bool, err error)) error {
	m.mu.Lock()
	parts := (*list)[path]
	m.mu.Unlock()
	if parts != nil && same(parts) {
		return nil
	}
	parts = m.partsOf(path)
	keep, err := check()
	// Parts that are the same before and after the check are the ones that have passed.
	keep = keep && err == nil && parts != nil && same(parts)
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case !keep:
		delete(*list, path)
	case *list == nil:
		*list = map[string][]part{path: parts}
	default:
		(*list)[path] = parts
	}
	return err
}

// partsOf returns the parts of a path; nil if they cannot be remembered.
func (m *Memory) partsOf(path string) (parts []part) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_REALTIME, &now); err != nil {
		return nil
	}
	at, links := "", 0
	for rest := strings.Split(path, "/"); len(rest) > 0; {
		name := rest[0]
		if rest = rest[1:]; at != "" && (name == "" || name == ".") {
			continue
		}
		next := join(at, name)
		var st unix.Stat_t
		if err := unix.Lstat(next, &st); err != nil {
			return nil
		}
		if !m.eager && now.Sec-st.Ctim.Sec <= young {
			return nil
		}
		parts = append(parts, partOf(next, &st))
		if st.Mode&unix.S_IFMT != unix.S_IFLNK {
			at = next
			continue
		}
		var buf [unix.PathMax]byte
		n, err := unix.Readlink(next, buf[:])
		if links++; err != nil || n == 0 || n == len(buf) || links > mostLinks {
			return nil
		}
		target := string(buf[:n])
		rest = append(strings.Split(target, "/"), rest...)
		if target[0] == '/' {
			at = ""
		}
	}
	return parts
}

// same reports whether all parts of a path are as they were.
func same(parts []part) bool {
	for _, p := range parts {
		var st unix.Stat_t
		if err := unix.Lstat(p.at, &st); err != nil || partOf(p.at, &st) != p {
			return false
		}
	}
	return true
}
