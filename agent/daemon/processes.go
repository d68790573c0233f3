package daemon

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/launcher"
	"github.com/execd-project/execd/agent/paths"
	"github.com/execd-project/execd/internal/host/userdb"
	"github.com/execd-project/execd/internal/trust"
	"github.com/execd-project/execd/jobdir"
)

// defaultFrontUser is the user of fronts that the packages make.
const defaultFrontUser = "execd"

// lastSystemUser is the highest user ID of system accounts (SYS_UID_MAX of login.defs(5)). Other users may submit jobs.
const lastSystemUser = 999

// chooseProcesses decides how many processes a daemon of root has that was started with neither --front-user nor
// --one-process, and sets frontUser for two. A spool directory keeps the number of processes that it was made with, because
// there is no way back from two to one. A new one is for two if the daemon is its own master and nothing prevents it; why
// says what does.
func (c *Command) chooseProcesses(s *settings) (why string, err error) {
	if os.Geteuid() != 0 || s.isFront() || s.oneProcess || s.frontUser != "" {
		return "", nil
	}
	user, one, err := userOfSpool(s.spool)
	switch {
	case err != nil:
		return "", err
	case user != "":
		s.frontUser, s.chosen = user, true
		return "", nil
	case !s.ownMaster:
		return "", nil
	case one:
		return fmt.Sprintf("the spool directory %s was made by a daemon of one process; --front-user %s divides it, and there is no way back", s.spool, defaultFrontUser), nil
	}
	if prevented := c.preventsTwo(s, defaultFrontUser); prevented != nil {
		return prevented.Error(), nil //nolint:nilerr // it is no error: the daemon has one process
	}
	s.frontUser, s.chosen = defaultFrontUser, true
	return "", nil
}

// takeSockets makes the default directory for sockets root's again. The front of an earlier daemon has owned it.
func (s *settings) takeSockets() error {
	dir := filepath.Dir(s.socket)
	if other, err := net.Dial("unix", s.socket); err == nil { // of a daemon with another spool directory
		return other.Close()
	}
	if os.Geteuid() != 0 || s.isFront() || dir != filepath.Dir(paths.Socket(true, "")) {
		return nil
	}
	if err := ownDirectory(dir, 0, 0); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// userOfSpool returns the user of the front that an existing spool directory belongs to. one says that a daemon of one
// process has made the directory.
func userOfSpool(path string) (user string, one bool, err error) {
	if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) {
		return "", false, nil
	}
	spool, err := jobdir.OpenSpool(path)
	if err != nil {
		return "", false, err
	}
	defer spool.Close()
	state, err := spool.Dir().ReadFile(agent.FileNumbers)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", false, nil
	case err != nil:
		return "", false, err
	case string(state) != divided && string(state) != dividing:
		return "", true, nil
	}
	var info unix.Stat_t
	err = spool.Dir().Use(func(fd int) error { return unix.Fstatat(fd, frontDir, &info, unix.AT_SYMLINK_NOFOLLOW) })
	switch {
	case errors.Is(err, unix.ENOENT): // the first start was interrupted
		return defaultFrontUser, false, nil
	case err != nil:
		return "", false, &fs.PathError{Op: "stat", Path: filepath.Join(path, frontDir), Err: err}
	case info.Uid == 0:
		return defaultFrontUser, false, nil
	}
	u, err := userdb.System().UserID(info.Uid)
	if err != nil {
		return "", false, fmt.Errorf("%s belongs to a daemon of two processes, whose user is unknown: give --front-user: %w", path, err)
	}
	return u.Name, false, nil
}

// preventsTwo returns why a user cannot be that of a front; nil if it can.
func (c *Command) preventsTwo(s *settings, name string) error {
	user, err := userdb.System().User(name)
	switch {
	case errors.Is(err, userdb.ErrUnknown):
		return fmt.Errorf("there is no user %s", name)
	case err != nil:
		return err
	case user.UID == 0 || user.GID == 0:
		return fmt.Errorf("the user %s has rights of root", name)
	case user.UID > lastSystemUser:
		return fmt.Errorf("the user %s is not a system account: it has user ID %d, expected at most %d", name, user.UID, lastSystemUser)
	}
	for _, path := range []string{c.Executable, filepath.Join(filepath.Dir(c.Executable), launcherName)} {
		if err := (trust.Users{}).Program(path); err != nil {
			return err
		}
	}
	if err := launcher.CanRestrict(); err != nil {
		return err
	}
	if err := s.checkPorts(); err != nil {
		return err
	}
	needs := s.neededByFront(c.Executable)
	return asUser(user, func() error {
		for _, need := range needs {
			if err := need.check(); err != nil {
				return fmt.Errorf("the user %s has no access to %s: %w", name, need.path, err)
			}
		}
		return nil
	})
}

// need is a file that a front needs, and how (access(2)).
type need struct {
	path string
	mode uint32
	all  bool // with all that is below it
}

func (n need) check() error {
	if !n.all {
		return unix.Access(n.path, n.mode)
	}
	return filepath.WalkDir(n.path, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = unix.Access(path, n.mode)
		}
		return err
	})
}

// neededByFront returns the files that a front needs. Those in the spool directory become its own.
func (s *settings) neededByFront(executable string) []need {
	list := []need{
		{path: executable, mode: unix.R_OK | unix.X_OK},
		{path: existing(s.spool), mode: unix.X_OK},
	}
	if sockets := filepath.Dir(s.socket); existing(sockets) == sockets && sockets != filepath.Dir(paths.Socket(true, "")) {
		list = append(list, need{path: sockets, mode: unix.W_OK | unix.X_OK})
	} else {
		list = append(list, need{path: existing(sockets), mode: unix.X_OK})
	}
	if s.conf != "" {
		list = append(list, need{path: s.conf, mode: unix.R_OK, all: true})
	}
	for _, path := range []string{s.tlsCert, s.tlsKey, s.tlsCA, s.healthCheck} {
		if path != "" {
			list = append(list, need{path: path, mode: unix.R_OK})
		}
	}
	for _, path := range []string{s.accounting, s.audit} {
		switch {
		case path == "" || filepath.Dir(path) == s.spool: // the front has its own there
		case existing(path) == path:
			list = append(list, need{path: path, mode: unix.W_OK})
		default:
			list = append(list, need{path: filepath.Dir(path), mode: unix.W_OK | unix.X_OK})
		}
	}
	return list
}

// existing returns a path, or the last directory above it that exists.
func existing(path string) string {
	for {
		if _, err := os.Lstat(path); err == nil || path == filepath.Dir(path) {
			return path
		}
		path = filepath.Dir(path)
	}
}

// checkPorts refuses TCP ports that only root can use (ip_unprivileged_port_start of ip(7)).
func (s *settings) checkPorts() error {
	text, err := os.ReadFile("/proc/sys/net/ipv4/ip_unprivileged_port_start")
	if err != nil {
		return nil //nolint:nilerr // without it the front says what is wrong
	}
	first, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return nil //nolint:nilerr // as above
	}
	for _, address := range []string{s.web, s.metrics} {
		_, port, _ := net.SplitHostPort(address)
		if n, err := strconv.Atoi(port); err == nil && n > 0 && n < first {
			return fmt.Errorf("only root can use port %d of %s", n, address)
		}
	}
	return nil
}

// asUser calls f in a thread that has the identity of a user, without further groups and capabilities, as a front. The thread ends
// with the call.
func asUser(user *userdb.User, f func() error) error {
	done := make(chan error)
	var call func()
	call = func() {
		runtime.LockOSThread() // until the goroutine ends, and with it the thread
		if unix.Gettid() == unix.Getpid() {
			// The first thread does not end: another one has to be found, while this one is occupied.
			other := make(chan struct{})
			go func() {
				defer close(other)
				call()
			}()
			<-other
			runtime.UnlockOSThread()
			return
		}
		err := become(user)
		if err == nil {
			err = f()
		}
		done <- err
	}
	go call()
	return <-done
}

// become gives the calling thread the identity of a user. The functions of package unix would change all threads.
func become(user *userdb.User) error {
	if _, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, 0, uintptr(unsafe.Pointer(nil)), 0); errno != 0 {
		return os.NewSyscallError("setgroups", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(user.GID), uintptr(user.GID), uintptr(user.GID)); errno != 0 {
		return os.NewSyscallError("setresgid", errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(user.UID), uintptr(user.UID), uintptr(user.UID)); errno != 0 {
		return os.NewSyscallError("setresuid", errno)
	}
	return nil
}
