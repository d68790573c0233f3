package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/containerd/cgroups/v3/cgroup2"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

var (
	errNotMounted = errors.New("no cgroup hierarchy is mounted")
	errOutside    = errors.New("processes cannot be moved there from our own group")
	errElsewhere  = errors.New("it is not where groups are to be made")
)

// choose finds the directory in which the group of that name can be made, and
// makes it.
func (h *Hierarchy) choose(c Config) {
	var candidates []string
	switch {
	case c.Path != "" && c.Path != h.Mount && within(c.Path, h.Mount):
		candidates = []string{c.Path}
	case c.Path != "" && !within(h.Mount, c.Path):
		h.Err = &fs.PathError{Op: "use", Path: h.Mount, Err: errElsewhere}
		return
	case c.Within != "":
		candidates = []string{filepath.Join(h.Mount, filepath.Join("/", c.Within))}
	default:
		own := h.Own
		if filepath.Base(own) == SelfName {
			own = filepath.Dir(own)
		}
		if own != "" && h.Unified && delegated(own) {
			candidates = append(candidates, own)
		}
		candidates = append(candidates, h.Mount)
		if own != "" && !slices.Contains(candidates, own) {
			candidates = append(candidates, own)
		}
	}
	for _, dir := range candidates {
		err := h.try(dir, c.Name)
		if err == nil {
			h.Parent, h.Err = dir, nil
			return
		}
		// The last is the one that is most likely ours.
		h.Err = err
	}
}

// try makes a group in dir and sees whether processes may enter it.
func (h *Hierarchy) try(dir, name string) error {
	if h.Unified && !h.enterable(dir) {
		return &fs.PathError{Op: "enter groups in", Path: dir, Err: errOutside}
	}
	path := filepath.Join(dir, name)
	err := os.Mkdir(path, 0o755)
	made := err == nil
	if errors.Is(err, fs.ErrExist) {
		err = unix.Access(path, unix.W_OK)
	}
	if err == nil && !h.Unified && slices.Contains(h.Controllers, "memory") {
		// Default since Linux 5.11, and nowhere else may it be switched on once
		// there are groups below.
		_ = writeFile(filepath.Join(path, "memory.use_hierarchy"), "1")
	}
	if err == nil {
		err = unix.Access(filepath.Join(path, "cgroup.procs"), unix.W_OK)
		if err != nil && made {
			_ = os.Remove(path)
		}
	}
	if err != nil {
		if p, ok := errors.AsType[*fs.PathError](err); ok {
			err = p.Err // the path has been said
		}
		return &fs.PathError{Op: "make groups in", Path: dir, Err: err}
	}
	return nil
}

// enterable reports whether processes of our group may be moved to groups in dir.
// v2 wants the right to write the cgroup.procs of the nearest group that both are
// in (cgroup-v2.rst, "Delegation Containment").
func (h *Hierarchy) enterable(dir string) bool {
	if h.Own == "" {
		return unix.Geteuid() == 0
	}
	common := dir
	for !within(h.Own, common) {
		common = filepath.Dir(common)
	}
	return unix.Access(filepath.Join(common, "cgroup.procs"), unix.W_OK) == nil
}

func within(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !hasPrefix(rel, "../")
}

func hasPrefix(s, prefix string) bool { return len(s) >= len(prefix) && s[:len(prefix)] == prefix }

// delegated reports whether systemd has given a group away: Delegate= sets the
// attribute trusted.delegate (since version 236), or user.delegate (251), which
// others than root can read.
func delegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var b [8]byte
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// enabling is a controller that was enabled by us.
type enabling struct{ file, controller string }

// enableAll hands the controllers down from the parent to the group of that name
// and on to the groups in it, each one on its own, and notes which were refused.
func (h *Hierarchy) enableAll(c Config, refused map[string]error) []enabling {
	var enabled []enabling
	h.Controllers = nil
	if err := h.makeRoom(c); err != nil {
		for _, name := range controllersV2 {
			refused[name] = err
		}
		return nil
	}
	offered := readFields(filepath.Join(h.Parent, "cgroup.controllers"))
	for _, name := range controllersV2 {
		if !slices.Contains(offered, name) {
			continue
		}
		done, err := enable(h.Parent, name)
		if done {
			enabled = append(enabled, enabling{filepath.Join(h.Parent, subtreeControl), name})
		}
		if err == nil {
			_, err = enable(filepath.Join(h.Parent, c.Name), name)
		}
		if err != nil {
			refused[name] = err
			continue
		}
		h.Controllers = append(h.Controllers, name)
	}
	return enabled
}

const subtreeControl = "cgroup.subtree_control"

// enable hands a controller down to the groups in dir. done is false when it had
// been before.
func enable(dir, controller string) (done bool, err error) {
	path := filepath.Join(dir, subtreeControl)
	if slices.Contains(readFields(path), controller) {
		return false, nil
	}
	if err := writeFile(path, "+"+controller); err != nil {
		return false, err
	}
	return true, nil
}

// makeRoom sees to it that the parent holds no process. The kernel refuses to
// enable most controllers in a group with processes, by EBUSY, but not all: with
// cpu or pids alone it becomes a threaded domain, and the groups in it can no
// longer be entered (cgroup-v2.rst, "Threads").
func (h *Hierarchy) makeRoom(c Config) error {
	if _, err := os.Stat(filepath.Join(h.Parent, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil // the top of the hierarchy, which has no such rule
	}
	missing := false
	on := readFields(filepath.Join(h.Parent, subtreeControl))
	for _, name := range controllersV2 {
		missing = missing || !slices.Contains(on, name)
	}
	procs := readFields(filepath.Join(h.Parent, "cgroup.procs"))
	if !missing || len(procs) == 0 {
		return nil
	}
	self := strconv.Itoa(os.Getpid())
	if !c.MoveSelf || !slices.Equal(procs, []string{self}) {
		return fmt.Errorf("processes are in group %q itself, the first is %s: %w", h.Parent, procs[0], unix.EBUSY)
	}
	leaf := filepath.Join(h.Parent, SelfName)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if err := writeFile(filepath.Join(leaf, "cgroup.procs"), self); err != nil {
		return err
	}
	h.Own = leaf
	return nil
}

// tryDeviceFilter loads and attaches a program that allows everything, to see
// whether we may. It goes with the group.
func tryDeviceFilter(dir string) error {
	all := int64(-1)
	insts, license, err := cgroup2.DeviceFilter([]specs.LinuxDeviceCgroup{
		{Allow: true, Type: "a", Major: &all, Minor: &all, Access: "rwm"},
	})
	if err != nil {
		return err
	}
	fd, err := unix.Open(dir, unix.O_DIRECTORY|unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	_, err = cgroup2.LoadAttachCgroupDeviceFilter(insts, license, fd)
	return err
}

// writeFile writes to a file of the kernel's. Without O_CREAT a file that is not
// there is ENOENT; with it the kernel says EACCES.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = f.WriteString(value)
	return err
}

func itoa(n int) string { return strconv.Itoa(n) }
