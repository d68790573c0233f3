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
	// places says for each feature in which hierarchy it is, or why it is not.
	places [NumFeatures]place
	// core are files that each group of v2 has, or none, whatever controllers it has: it is
	// looked for them in the first group that is made.
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

// find reports whether a file of a group of v2 is there.
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

type place struct {
	hierarchy int
	file      string // in the directory of a group; empty for devices of v2
	err       *group.NotSupportedError
}

// Check returns nil if the host has a feature, and a *group.NotSupportedError
// with the reason and the remedy if it has not.
func (s *System) Check(f Feature) error {
	if err := s.places[f].err; err != nil {
		return err
	}
	return nil
}

// Where returns the hierarchy in which a feature is, nil if there is none.
func (s *System) Where(f Feature) *Hierarchy {
	if s.places[f].err != nil {
		return nil
	}
	return &s.Hierarchies[s.places[f].hierarchy]
}

// v1 and v2 report whether the feature is there, and of that version.
func (s *System) v2(f Feature) bool { h := s.Where(f); return h != nil && h.Unified }
func (s *System) v1(f Feature) bool { h := s.Where(f); return h != nil && !h.Unified }

// Config says where groups of jobs are made.
type Config struct {
	// Name is that of the group which holds those of the jobs; "execd" if empty.
	Name string
	// Within is the group in which Name is made, a path from the top of each
	// hierarchy like those of /proc/PID/cgroup. If it is empty it is the group
	// that systemd has delegated to us, the top, or our own, whichever can be
	// used first.
	Within string
	// Path confines it to the hierarchies that are mounted there or below. If it is
	// inside of one, groups are made in that group of it, and nowhere else. Empty
	// for all hierarchies.
	Path string
	// Devices has it looked whether v2 can keep groups from devices. That loads a
	// program into the kernel.
	Devices bool
	// MoveSelf allows to move the calling process into a group of its own in
	// Within. That is needed on v2 when it is there itself: then no controller can
	// be enabled for groups next to it.
	MoveSelf bool

	// Proc is where the proc file system is; "/proc" if empty.
	Proc string
}

const defaultName = "execd"

// SelfName is the group that a process moves itself to (Config.MoveSelf).
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

// Detect finds out what there is, and leaves everything as it was. The error is
// about /proc; that there are no groups, or none that we may use, is not one.
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
		// Refused when somebody else has begun to use it meanwhile.
		_ = writeFile(e.file, "-"+e.controller)
	}
	return s, nil
}

// probePrefix begins the names of groups that are made to look at, and removed.
const probePrefix = ".probe-"

// prepare makes the group that holds those of the jobs, in every hierarchy where
// that is possible, and looks what can be done there.
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
		// The last job of another process has ended just now, and that process
		// has removed the group of all: it is made again.
		if s.locate(c, refused) || n == tries {
			return s, enabled, nil
		}
	}
}

// locate finds for each feature the hierarchy where it works, v2 first. It returns
// false when the group that was made for it is gone.
func (s *System) locate(c Config, refused map[string]error) bool {
	probes := make([]string, len(s.Hierarchies))
	for i, h := range s.Hierarchies {
		if h.Parent == "" {
			continue
		}
		// Files of a controller are in a group when its parent hands it down.
		dir := filepath.Join(h.Parent, c.Name, probePrefix+itoa(os.Getpid()))
		switch err := os.Mkdir(dir, 0o755); {
		case err == nil:
			probes[i] = dir
			defer os.Remove(dir)
		case errors.Is(err, fs.ErrNotExist):
			return false
		}
	}
	for f := range s.places {
		s.places[f] = s.find(c, Feature(f), probes, refused)
	}
	return true
}

func (s *System) find(c Config, f Feature, probes []string, refused map[string]error) place {
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
					return place{hierarchy: i, file: want.name}
				}
			}
		}
	}
	e := &group.NotSupportedError{What: features[f].name, Needs: features[f].needs, Err: unnamed}
	if f == Devices && c.Devices {
		for i, h := range s.Hierarchies {
			if h.Unified && probes[i] != "" {
				if e.Err = tryDeviceFilter(probes[i]); e.Err == nil {
					return place{hierarchy: i}
				}
			}
		}
	}
	if e.Err == nil {
		e.Err = s.why(f, refused)
	}
	return place{err: e}
}

// why returns the reason for which a feature is missing, as far as it is known.
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
