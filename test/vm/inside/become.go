package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/execd-project/execd/test/vm/plan"
)

// become executes the program of a step in place of this one.
func become(p *plan.Plan, n int) error {
	s := p.Steps[n]
	env := environment(s)
	if s.User != "" {
		u, err := lookUp(s.User)
		if err != nil {
			return err
		}
		if err := enterDelegated(p.Cgroup, groupName(n), u); err != nil {
			return err
		}
		if err := u.assume(); err != nil {
			return err
		}
	}
	if err := os.Chdir(s.Dir); err != nil {
		return fmt.Errorf("cannot enter the step's directory: %w", err)
	}
	path := s.Argv[0]
	if !strings.Contains(path, "/") {
		if err := os.Setenv("PATH", systemPath); err != nil {
			return err
		}
		var err error
		if path, err = exec.LookPath(path); err != nil {
			return fmt.Errorf("cannot find the step's program: %w", err)
		}
	}
	return &fs.PathError{Op: "cannot execute", Path: path, Err: unix.Exec(path, s.Argv, env)}
}

// identity is the identity of a user.
type identity struct {
	name     string
	uid, gid int
	groups   []int
}

func lookUp(name string) (*identity, error) {
	u, err := user.Lookup(name)
	if err != nil {
		return nil, fmt.Errorf("cannot run a step as %q: %w", name, err)
	}
	i := &identity{name: name}
	ids, err := u.GroupIds()
	if err != nil {
		return nil, fmt.Errorf("cannot run a step as %q: %w", name, err)
	}
	for _, id := range ids {
		n, err := strconv.Atoi(id)
		if err != nil {
			return nil, fmt.Errorf("cannot run a step as %q: %w", name, err)
		}
		i.groups = append(i.groups, n)
	}
	var errUID, errGID error
	i.uid, errUID = strconv.Atoi(u.Uid)
	i.gid, errGID = strconv.Atoi(u.Gid)
	return i, errors.Join(errUID, errGID)
}

func (i *identity) assume() error {
	// Go's own calls change all threads.
	err := errors.Join(unix.Setgroups(i.groups), unix.Setresgid(i.gid, i.gid, i.gid), unix.Setresuid(i.uid, i.uid, i.uid))
	if err != nil {
		return fmt.Errorf("cannot become %q: %w", i.name, err)
	}
	return nil
}

// groupName returns the control group of step n. No two steps have the same one, since a
// step may leave it so that nothing can enter it any more.
func groupName(n int) string { return "step" + strconv.Itoa(n) }

// enterDelegated moves this process into a group that belongs to a user, and on v2
// can have all controllers: what systemd gives to a service with Delegate=yes. Of
// v1 systemd delegates nothing; here it is delegated, since sites do it by hand.
func enterDelegated(version, name string, u *identity) error {
	dirs, err := hierarchies()
	if err != nil {
		return err
	}
	for _, top := range dirs {
		dir := filepath.Join(top, name)
		if version == "v2" {
			if err := enableAll(top); err != nil {
				return err
			}
		}
		if err := os.Mkdir(dir, 0o755); err != nil {
			return fmt.Errorf("cannot delegate a control group: %w", err)
		}
		if err := fillCpuset(top, dir); err != nil {
			return err
		}
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control", "tasks"} {
			path := filepath.Join(dir, name)
			if !exists(path) { // each version has files that the other lacks
				continue
			}
			if err := os.Chown(path, u.uid, u.gid); err != nil {
				return fmt.Errorf("cannot delegate a control group: %w", err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte("0"), 0); err != nil {
			return fmt.Errorf("cannot enter a control group: %w", err)
		}
	}
	return nil
}

func enableAll(dir string) error {
	controllers, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return fmt.Errorf("cannot delegate a control group: %w", err)
	}
	for c := range strings.FieldsSeq(string(controllers)) {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
			return fmt.Errorf("cannot delegate the controller %q: %w", c, err)
		}
	}
	return nil
}

// fillCpuset gives a group of v1 the CPUs of the one above: a new one has none, and
// cannot be entered.
func fillCpuset(top, dir string) error {
	for _, name := range []string{"cpuset.cpus", "cpuset.mems"} {
		if !exists(filepath.Join(top, name)) { // the top of v2 has none, either
			continue
		}
		value, err := os.ReadFile(filepath.Join(top, name))
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), value, 0)
		}
		if err != nil {
			return fmt.Errorf("cannot delegate CPUs: %w", err)
		}
	}
	return nil
}
