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
	errOutside    = errors.New("processes cannot be moved there from the group of this process")
	errElsewhere  = errors.New("groups are to be made in another directory")
)

// choose finds the directory in which the group named Config.Name can be created, and creates it.
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
		// The last directory is the most likely one, so its error is the most useful.
		h.Err = err
	}
}

// try creates a group in dir and checks whether processes may enter it.
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
		// This is the default since Linux 5.11. In other directories it cannot be enabled once they
		// contain groups.
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
			err = p.Err // the message already contains the path
		}
		return &fs.PathError{Op: "make groups in", Path: dir, Err: err}
	}
	return nil
}

// enterable reports whether processes of this process's group may be moved to groups in dir. v2
// requires the right to write to cgroup.procs of the nearest common ancestor (cgroup-v2.rst,
// "Delegation Containment").
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

// delegated reports whether systemd has delegated a group: Delegate= sets the attribute
// trusted.delegate (since version 236), or user.delegate (251), which users other than root can
// read.
func delegated(dir string) bool {
	for _, name := range []string{"trusted.delegate", "user.delegate"} {
		var b [8]byte
		if n, err := unix.Getxattr(dir, name, b[:]); err == nil && string(b[:n]) == "1" {
			return true
		}
	}
	return false
}

// enabling is a controller that this process has enabled.
type enabling struct{ file, controller string }

// enableAll enables the controllers in the parent for the group of that name, and in that group for
// the groups in it. It enables each one separately, and records which the kernel refused.
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

// enable enables a controller for the groups in dir. done is false if it was enabled before.
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

// makeRoom ensures that the parent contains no process. The kernel refuses to enable most
// controllers in a group with processes (EBUSY), but not all: with cpu or pids alone the group
// becomes a threaded domain, and the groups in it can no longer be entered (cgroup-v2.rst,
// "Threads").
func (h *Hierarchy) makeRoom(c Config) error {
	if _, err := os.Stat(filepath.Join(h.Parent, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil // the top of the hierarchy, for which there is no such rule
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

// tryDeviceFilter loads and attaches a program that allows everything, to check whether this
// process may. Removing the group also removes the program.
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

// writeFile writes to a file of the kernel. Without O_CREAT the error for a missing file is ENOENT;
// with O_CREAT it would be EACCES.
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
