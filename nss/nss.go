// Package nss looks up users and their groups as the host's name service
// switch does (nsswitch.conf(5)), without cgo.
//
// The local files are read directly, which costs microseconds. Where the switch
// names other services, such as LDAP, and the files do not have the answer,
// getent(1) is asked, since only the C library can load those services. This
// keeps the per-job supervisor a small static program and still right on sites
// whose users are in a directory.
package nss

import (
	"bytes"
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
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

// Database is where to look. Its methods may be called from any goroutine.
type Database struct {
	Passwd, Group, Switch string // paths of the files
	Getent                string // path of getent(1); empty for files only
}

// System is the database of this host.
func System() Database {
	return Database{"/etc/passwd", "/etc/group", "/etc/nsswitch.conf", "/usr/bin/getent"}
}

// User returns the entry of a login name. A name that is not there gives an
// error that wraps ErrUnknown.
func (db Database) User(name string) (*User, error) {
	if !validName(name) {
		return nil, &lookupError{"user", name, ErrUnknown}
	}
	return db.find("user", name, func(f []string) bool { return f[0] == name })
}

// UserID returns the first entry with a user id.
func (db Database) UserID(uid uint32) (*User, error) {
	id := strconv.FormatUint(uint64(uid), 10)
	return db.find("uid", id, func(f []string) bool { return f[2] == id })
}

// find looks through the passwd file and then asks getent for key.
func (db Database) find(kind, key string, match func(fields []string) bool) (*User, error) {
	b, err := os.ReadFile(db.Passwd)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if u := findUser(b, match); u != nil {
		return u, nil
	}
	if db.Getent != "" && !onlyFiles(db.services("passwd")) {
		b, err := getent(db.Getent, "passwd", key)
		if err != nil {
			return nil, &lookupError{kind, key, err}
		}
		if u := findUser(b, match); u != nil {
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
	services := db.services("initgroups")
	if services == nil {
		services = db.services("group")
	}
	if db.Getent != "" && !onlyFiles(services) && validName(name) {
		b, err := getent(db.Getent, "initgroups", name)
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
	b, err := os.ReadFile(db.Group)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for line := range bytes.Lines(b) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) == 4 && slices.Contains(strings.Split(f[3], ","), name) {
			add(f[2])
		}
	}
	return gids, nil
}

// GroupName returns the name of a group of the group file, or its number.
func (db Database) GroupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	b, err := os.ReadFile(db.Group)
	if err != nil {
		return id
	}
	for line := range bytes.Lines(b) {
		if f := strings.Split(string(line), ":"); len(f) >= 3 && f[2] == id {
			return f[0]
		}
	}
	return id
}

// services are those that the switch names for a database, nil for none.
func (db Database) services(database string) []string {
	b, err := os.ReadFile(db.Switch)
	if err != nil {
		return nil
	}
	for line := range bytes.Lines(b) {
		text, _, _ := strings.Cut(string(line), "#")
		if key, value, ok := strings.Cut(text, ":"); ok && strings.TrimSpace(key) == database {
			return strings.Fields(value)
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

// validName keeps names from being taken for an option or for several fields.
func validName(name string) bool {
	return name != "" && name[0] != '-' && !strings.ContainsAny(name, ":\n\x00/")
}

func findUser(passwd []byte, match func(fields []string) bool) *User {
	for line := range bytes.Lines(passwd) {
		f := strings.Split(strings.TrimSuffix(string(line), "\n"), ":")
		if len(f) < 7 || f[0] == "" || !match(f) {
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

// getentNotFound is getent's exit status for a key that is not there.
const getentNotFound = 2

// getent returns what getent(1) prints for a key; nothing when it has none.
func getent(path, database, key string) ([]byte, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	p, err := os.StartProcess(path, []string{"getent", database, key}, &os.ProcAttr{Files: []*os.File{nil, w, nil}, Env: []string{}})
	_ = w.Close()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	_, readErr := out.ReadFrom(r)
	state, err := p.Wait()
	switch {
	case err != nil:
		return nil, err
	case state.ExitCode() == getentNotFound:
		return nil, nil
	case !state.Success():
		return nil, errors.New(path + ": " + state.String())
	}
	return out.Bytes(), readErr
}

type lookupError struct {
	kind, key string
	err       error
}

func (e *lookupError) Error() string {
	return "cannot look up " + e.kind + " " + strconv.Quote(e.key) + ": " + e.err.Error()
}

func (e *lookupError) Unwrap() error { return e.err }
