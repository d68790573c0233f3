// Package userdb looks up users and their groups as the host's name service
// switch does (nsswitch.conf(5)), without cgo.
//
// The local files are read directly, which costs microseconds. If the switch names other services,
// such as LDAP, and the files do not contain the answer, the package runs getent(1), because only
// the C library can load those services. So the supervisor of each job remains a small static
// program, and still works on sites whose users are in a directory service.
package userdb

import (
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/internal/oslite"
)

// User is an entry of passwd(5).
type User struct {
	Name     string
	UID, GID uint32
	Home     string
	Shell    string
}

// ErrUnknown is wrapped by lookups of a user or group that does not exist.
var ErrUnknown = errors.New("unknown")

// ErrNoAnswer is wrapped by lookups that a service of the switch has not answered in time.
var ErrNoAnswer = errors.New("the user database has not answered in time")

// Database holds the paths of the user database. Its methods may be called from any goroutine.
type Database struct {
	Passwd, Group, Switch string // paths of the files
	Getent                string // path of getent(1); empty for files only
	// Patience is how long getent may take; 0 is DefaultPatience.
	Patience time.Duration
}

// DefaultPatience is long, because the services of getent may be remote and slow, and have timeouts
// of their own.
const DefaultPatience = 30 * time.Second

// System returns the database of this host.
func System() Database {
	return Database{Passwd: "/etc/passwd", Group: "/etc/group", Switch: "/etc/nsswitch.conf", Getent: "/usr/bin/getent"}
}

// User returns the entry of a login name. A name that is not there gives an
// error that wraps ErrUnknown.
func (db Database) User(name string) (*User, error) {
	if !validName(name) {
		return nil, &lookupError{"user", name, ErrUnknown}
	}
	return db.find("user", name, 0)
}

// UserID returns the first entry with a user id.
func (db Database) UserID(uid uint32) (*User, error) {
	id := strconv.FormatUint(uint64(uid), 10)
	return db.find("uid", id, 2)
}

// find looks in the passwd file for the entry with key in the given field, and then asks getent for
// key.
func (db Database) find(kind, key string, field int) (*User, error) {
	b, err := readFile(db.Passwd)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if u := findUser(b, key, field); u != nil {
		return u, nil
	}
	if db.Getent != "" && !onlyFiles(db.services("passwd")) {
		b, err := db.getent("passwd", key)
		if err != nil {
			return nil, &lookupError{kind, key, err}
		}
		if u := findUser(b, key, field); u != nil {
			return u, nil
		}
	}
	return nil, &lookupError{kind, key, ErrUnknown}
}

// Groups returns the supplementary groups that initgroups(3) would give to a
// user with primary group gid: gid first, then every group that lists the
// name, each once.
func (db Database) Groups(name string, gid uint32) ([]uint32, error) {
	gids := []uint32{gid}
	add := func(s string) {
		if v, err := strconv.ParseUint(s, 10, 32); err == nil && !slices.Contains(gids, uint32(v)) {
			gids = append(gids, uint32(v))
		}
	}
	if db.Getent != "" && !onlyFiles(db.services("initgroups", "group")) && validName(name) {
		b, err := db.getent("initgroups", name)
		if err != nil {
			return nil, &lookupError{"groups of user", name, err}
		}
		if f := strings.Fields(string(b)); len(f) > 0 && f[0] == name {
			for _, s := range f[1:] {
				add(s)
			}
		}
		return gids, nil
	}
	b, err := readFile(db.Group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for line := range strings.Lines(string(b)) {
		if !strings.Contains(line, name) {
			continue // nearly every one, and splitting is work
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) == 4 && slices.Contains(strings.Split(f[3], ","), name) {
			add(f[2])
		}
	}
	return gids, nil
}

// GroupID returns the ID of a group. The error is ErrUnknown if there is no such group.
func (db Database) GroupID(name string) (uint32, error) {
	b, err := readFile(db.Group)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	if gid, ok := findGroup(b, name); ok {
		return gid, nil
	}
	if db.Getent != "" && !onlyFiles(db.services("group")) && validName(name) {
		b, err := db.getent("group", name)
		if err != nil {
			return 0, &lookupError{"group", name, err}
		}
		if gid, ok := findGroup(b, name); ok {
			return gid, nil
		}
	}
	return 0, &lookupError{"group", name, ErrUnknown}
}

// findGroup reads lines of group(5).
func findGroup(group []byte, name string) (gid uint32, ok bool) {
	for line := range strings.Lines(string(group)) {
		f := strings.Split(line, ":")
		if len(f) < 3 || f[0] != name {
			continue
		}
		if v, err := strconv.ParseUint(f[2], 10, 32); err == nil {
			return uint32(v), true
		}
	}
	return 0, false
}

// GroupName returns the name of a group of the group file, or its number.
func (db Database) GroupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	b, err := readFile(db.Group)
	if err != nil {
		return id
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(line, ":"); len(f) >= 3 && f[2] == id {
			return strings.Clone(f[0]) // and not the whole file
		}
	}
	return id
}

// readFile reads a file of the database. It refuses everything but regular files, because reading a
// pipe, for example, could block forever.
func readFile(path string) ([]byte, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, &fs.PathError{Op: "read", Path: path, Err: errNoFile}
	}
	return oslite.Read(path)
}

var errNoFile = errors.New("it is not a regular file")

// services returns the services that the name service switch lists for the first database that it
// knows, or nil.
func (db Database) services(databases ...string) []string {
	b, err := readFile(db.Switch)
	if err != nil {
		return nil
	}
	for _, database := range databases {
		for line := range strings.Lines(string(b)) {
			text, _, _ := strings.Cut(line, "#")
			if key, value, ok := strings.Cut(text, ":"); ok && strings.TrimSpace(key) == database {
				return strings.Fields(value)
			}
		}
	}
	return nil
}

// onlyFiles reports whether the local files are all there is. The service
// "systemd" adds users that exist while a unit runs: they run no jobs.
func onlyFiles(services []string) bool {
	for _, s := range services {
		if s != "files" && s != "systemd" && !strings.HasPrefix(s, "[") && !strings.HasSuffix(s, "]") {
			return false
		}
	}
	return true
}

// validName refuses names that could be taken for an option or for several fields.
func validName(name string) bool {
	return name != "" && name[0] != '-' && !strings.ContainsAny(name, ":\n\x00/")
}

// findUser finds the entry that has key in one of its fields.
func findUser(passwd []byte, key string, field int) *User {
	for line := range strings.Lines(string(passwd)) {
		if !strings.Contains(line, key) {
			continue // nearly every one, and splitting is work
		}
		f := strings.Split(strings.TrimSuffix(line, "\n"), ":")
		if len(f) < 7 || f[0] == "" || f[field] != key {
			continue
		}
		uid, err1 := strconv.ParseUint(f[2], 10, 32)
		gid, err2 := strconv.ParseUint(f[3], 10, 32)
		if err1 != nil || err2 != nil {
			continue
		}
		return &User{Name: f[0], UID: uint32(uid), GID: uint32(gid), Home: f[5], Shell: f[6]}
	}
	return nil
}

type lookupError struct {
	kind, key string
	err       error
}

func (e *lookupError) Error() string {
	return "cannot look up " + e.kind + " " + strconv.Quote(e.key) + ": " + e.err.Error()
}

func (e *lookupError) Unwrap() error { return e.err }
