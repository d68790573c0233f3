package scope

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"github.com/coreos/go-systemd/v22/dbus"
	godbus "github.com/godbus/dbus/v5"
	"golang.org/x/sys/unix"
)

// Mount is the path at which systemd has mounted cgroup v2.
const Mount = "/sys/fs/cgroup"

// ErrNoManager is wrapped by errors that say that there is no systemd to ask, or
// that it does not use cgroup v2.
var ErrNoManager = errors.New("no systemd manager is running")

// Booted reports whether systemd is process 1 (sd_booted(3)).
func Booted() bool {
	info, err := os.Lstat("/run/systemd/system")
	return err == nil && info.IsDir()
}

// Unified reports whether cgroup v2 alone is mounted where systemd does.
func Unified() bool {
	var st unix.Statfs_t
	return unix.Statfs(Mount, &st) == nil && st.Type == unix.CGROUP2_SUPER_MAGIC
}

// socket returns the address of the service manager that this process may ask: the system's or the
// user's own.
func socket() (string, error) {
	if !Booted() || !Unified() {
		return "", ErrNoManager
	}
	path := "/run/systemd/private"
	if os.Geteuid() != 0 {
		dir := os.Getenv("XDG_RUNTIME_DIR")
		if !filepath.IsAbs(dir) {
			dir = "/run/user/" + strconv.Itoa(os.Geteuid())
		}
		path = dir + "/systemd/private"
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return "", fmt.Errorf("%w: %w", ErrNoManager, &fs.PathError{Op: "stat", Path: path, Err: err})
	}
	// A socket that another user has put there is not the manager's.
	if st.Mode&unix.S_IFMT != unix.S_IFSOCK || int(st.Uid) != os.Geteuid() {
		return "", fmt.Errorf("%w: %q is not a socket of this user", ErrNoManager, path)
	}
	return path, nil
}

// connect opens a connection to the manager.
func connect(ctx context.Context) (*dbus.Conn, error) {
	path, err := socket()
	if err != nil {
		return nil, err
	}
	conn, err := dbus.NewConnection(func() (*godbus.Conn, error) {
		conn, err := godbus.Dial("unix:path="+path, godbus.WithContext(ctx))
		if err != nil {
			return nil, err
		}
		// No Hello message: this is a direct connection to the manager, without a bus.
		if err := conn.Auth([]godbus.Auth{godbus.AuthExternal(strconv.Itoa(os.Geteuid()))}); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot talk to systemd at %q: %w", path, err)
	}
	return conn, nil
}

// start makes a scope of processes that run already. errExists tells that there
// is one of that name.
func start(ctx context.Context, conn *dbus.Conn, name, description string, pids ...int) error {
	list := make([]uint32, len(pids))
	for i, pid := range pids {
		list[i] = uint32(pid)
	}
	property := func(name string, value any) dbus.Property {
		return dbus.Property{Name: name, Value: godbus.MakeVariant(value)}
	}
	done := make(chan string, 1)
	_, err := conn.StartTransientUnitContext(ctx, name, "fail", []dbus.Property{
		property("Description", description),
		property("PIDs", list),
		property("Delegate", true),
		// Jobs have limits of their own, and DefaultTasksMax would be one for
		// all of them together.
		property("TasksMax", ^uint64(0)),
		property("CollectMode", "inactive-or-failed"),
	}, done)
	if e, ok := errors.AsType[godbus.Error](err); ok && e.Name == "org.freedesktop.systemd1.UnitExists" {
		return errExists
	}
	if err != nil {
		return fmt.Errorf("cannot make the scope %q: %w", name, err)
	}
	select {
	case result := <-done:
		if result != "done" {
			return fmt.Errorf("cannot make the scope %q: its job was %q", name, result)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("cannot make the scope %q: %w", name, ctx.Err())
	}
}

var errExists = errors.New("the scope exists already")

// groupOf returns the control group of a scope, as a path from the top; empty
// while the scope is not active.
func groupOf(ctx context.Context, conn *dbus.Conn, name string) (string, error) {
	state, err := conn.GetUnitPropertyContext(ctx, name, "ActiveState")
	if err != nil {
		return "", fmt.Errorf("cannot query the scope %q: %w", name, err)
	}
	if s, _ := state.Value.Value().(string); s != "active" {
		return "", nil
	}
	group, err := conn.GetUnitTypePropertyContext(ctx, name, "Scope", "ControlGroup")
	if err != nil {
		return "", fmt.Errorf("cannot query the control group of the scope %q: %w", name, err)
	}
	path, _ := group.Value.Value().(string)
	return path, nil
}
