package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/execd-project/execd/limits/group"
)

// System describes the control groups of this host that this process can use for jobs.
type System struct {
	Version     Version
	Hierarchies []Hierarchy
	// files holds, for each feature, the hierarchy that provides it, or the reason why none does.
	files [NumFeatures]interfaceFile
	// core describes the files that a v2 group has with or without controllers. It is filled in
	// when the first group is created.
	core *coreFiles
}

type coreFiles struct {
	mu    sync.Mutex
	there [group.NumFiles]presence
}

type presence int

const (
	notLookedFor presence = iota
	missing
	present
)

// find reports whether a file of a v2 group exists.
func (c *coreFiles) find(f group.File, path string) bool {
	switch f {
	case group.CPUStat, group.CgroupEvents, group.CgroupKill, group.CgroupFreeze, group.IOPressure:
	default:
		return exists(path)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.there[f] == notLookedFor {
		c.there[f] = missing
		if exists(path) {
			c.there[f] = present
		}
	}
	return c.there[f] == present
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// interfaceFile says where the kernel offers a feature, or why it does not.
type interfaceFile struct {
	hierarchy int
	file      string // in the directory of a group; empty for devices of v2
	err       *group.NotSupportedError
}

// Check returns nil if the host has a feature, and otherwise a *group.NotSupportedError with the
// reason and the remedy.
func (s *System) Check(f Feature) error {
	if err := s.files[f].err; err != nil {
		return err
	}
	return nil
}

// Where returns the hierarchy that provides a feature; nil if none does.
func (s *System) Where(f Feature) *Hierarchy {
	if s.files[f].err != nil {
		return nil
	}
	return &s.Hierarchies[s.files[f].hierarchy]
}

// v1 and v2 report whether that version provides the feature.
func (s *System) v2(f Feature) bool { h := s.Where(f); return h != nil && h.Unified }
func (s *System) v1(f Feature) bool { h := s.Where(f); return h != nil && !h.Unified }

// Config selects where groups of jobs are created.
type Config struct {
	// Name is the name of the group that contains the groups of jobs; empty means "execd".
	Name string
	// Within is the group in which Name is created: a path from the top of each hierarchy, as in
	// /proc/PID/cgroup. If it is empty, it is the first usable one of: the group that systemd has
	// delegated to this process, the top, and the group of this process.
	Within string
	// Path restricts the hierarchies to those mounted at Path or below. If Path is a group inside
	// one hierarchy, groups are created in that group only. Empty allows all hierarchies.
	Path string
	// Devices requests a check whether v2 can restrict access to devices. The check loads a program
	// into the kernel.
	Devices bool
	// MoveSelf allows moving this process into a group of its own in Within. v2 requires this if
	// this process is in Within itself: otherwise no controller can be enabled for the groups in
	// it.
	MoveSelf bool

	// Proc is the mount point of the proc file system; empty means "/proc".
	Proc string
}

const defaultName = "execd"

// SelfName is the name of the group that a process moves itself to (Config.MoveSelf).
const SelfName = "execd.self"

func (c Config) withDefaults() Config {
	if c.Name == "" {
		c.Name = defaultName
	}
	if c.Proc == "" {
		c.Proc = "/proc"
	}
	return c
}

// Detect examines the control groups of the host, and undoes its changes. An error concerns /proc.
// It is no error if there are no groups, or none that this process may use.
func Detect(c Config) (*System, error) {
	c = c.withDefaults()
	c.Name = probePrefix + c.Name + "-" + itoa(os.Getpid())
	c.MoveSelf = false
	c.Devices = true
	s, enabled, err := prepare(c)
	if err != nil {
		return nil, err
	}
	for _, h := range s.Hierarchies {
		if h.Parent != "" {
			_ = os.Remove(filepath.Join(h.Parent, c.Name))
		}
	}
	for _, e := range enabled {
		// The kernel refuses if another process has begun to use it.
		_ = writeFile(e.file, "-"+e.controller)
	}
	return s, nil
}

// probePrefix is the prefix of temporary groups that are created for inspection.
const probePrefix = ".probe-"

// prepare creates the group that contains the groups of jobs, in every hierarchy where that is
// possible, and determines the available features.
func prepare(c Config) (*System, []enabling, error) {
	mountinfo, err := os.ReadFile(c.Proc + "/self/mountinfo")
	if err != nil {
		return nil, nil, &group.Error{Op: "read", Path: c.Proc + "/self/mountinfo", Err: err}
	}
	self, err := os.ReadFile(c.Proc + "/self/cgroup")
	if err != nil {
		return nil, nil, &group.Error{Op: "read", Path: c.Proc + "/self/cgroup", Err: err}
	}
	var enabled []enabling
	const tries = 20
	for n := 1; ; n++ {
		s := &System{Hierarchies: survey(string(mountinfo), string(self)), core: &coreFiles{}}
		s.Version = version(s.Hierarchies)
		refused := map[string]error{}
		for i := range s.Hierarchies {
			h := &s.Hierarchies[i]
			h.choose(c)
			if h.Parent != "" && h.Unified {
				enabled = append(enabled, h.enableAll(c, refused)...)
			}
		}
		// If the last job of another process has just finished, that process may have removed the
		// group. It is created again.
		if s.locate(c, refused) || n == tries {
			return s, enabled, nil
		}
	}
}

// locate finds, for each feature, the hierarchy that provides it, v2 first. It returns false if the
// group that was created for this no longer exists.
func (s *System) locate(c Config, refused map[string]error) bool {
	probes := make([]string, len(s.Hierarchies))
	for i, h := range s.Hierarchies {
		if h.Parent == "" {
			continue
		}
		// A group has the files of a controller if its parent has enabled the controller.
		dir := filepath.Join(h.Parent, c.Name, probePrefix+itoa(os.Getpid()))
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			probes[i] = dir
			defer os.Remove(dir)
		case errors.Is(err, fs.ErrNotExist):
			return false
		}
	}
	for f := range s.files {
		s.files[f] = s.find(c, Feature(f), probes, refused)
	}
	return true
}

func (s *System) find(c Config, f Feature, probes []string, refused map[string]error) interfaceFile {
	var unnamed error
	for _, unified := range []bool{true, false} {
		want := features[f].v1
		if unified {
			want = features[f].v2
		}
		for i, h := range s.Hierarchies {
			if h.Unified != unified || probes[i] == "" {
				continue
			}
			if want.name != "" && (unified || slices.Contains(h.Controllers, want.controller)) {
				if !unified && !h.named(want.controller) {
					unnamed = fmt.Errorf("controller %s is mounted at %q, and %q is not that", want.controller,
						h.Mount, filepath.Join(filepath.Dir(h.Mount), want.controller))
					continue
				}
				if _, err := os.Stat(filepath.Join(probes[i], want.name)); err == nil {
					return interfaceFile{hierarchy: i, file: want.name}
				}
			}
		}
	}
	e := &group.NotSupportedError{What: features[f].name, Needs: features[f].needs, Err: unnamed}
	if f == Devices && c.Devices {
		for i, h := range s.Hierarchies {
			if h.Unified && probes[i] != "" {
				if e.Err = tryDeviceFilter(probes[i]); e.Err == nil {
					return interfaceFile{hierarchy: i}
				}
			}
		}
	}
	if e.Err == nil {
		e.Err = s.why(f, refused)
	}
	return interfaceFile{err: e}
}

// why returns the reason why a feature is missing, if it is known.
func (s *System) why(f Feature, refused map[string]error) error {
	if len(s.Hierarchies) == 0 {
		return errNotMounted
	}
	for _, controller := range []string{features[f].v2.controller, features[f].v1.controller} {
		if err := refused[controller]; controller != "" && err != nil {
			return err
		}
	}
	for _, h := range s.Hierarchies {
		concerned := h.Unified || slices.Contains(h.Controllers, features[f].v1.controller)
		if concerned && h.Err != nil {
			return h.Err
		}
	}
	return nil
}

func readFields(path string) []string {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	return strings.Fields(string(b))
}
