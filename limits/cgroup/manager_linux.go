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
	"time"

	"github.com/execd-project/execd/limits/group"
)

// ErrExists is the error of Create for a group that already exists: the job was started twice, or
// its previous group was not removed.
var ErrExists = errors.New("the group exists already")

// Manager makes groups of jobs.
type Manager struct {
	config Config
	mu     sync.Mutex
	system *System
}

// Open prepares the host for groups of jobs. It does not fail if groups cannot be created: System
// then says why, and Create returns a *group.NotSupportedError.
func Open(c Config) (*Manager, error) {
	m := &Manager{config: c.withDefaults()}
	if checkName(m.config.Name) != nil || m.config.Name == SelfName {
		return nil, fmt.Errorf("cannot use %q as the name of a group", m.config.Name)
	}
	return m, m.prepare()
}

func (m *Manager) prepare() error {
	s, _, err := prepare(m.config)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.system = s
	return nil
}

// System returns the control groups of this host and their abilities.
func (m *Manager) System() *System {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.system
}

// Close removes the group that contains the groups of jobs, unless there are any. It does not
// affect jobs.
func (m *Manager) Close() {
	for _, h := range m.System().Hierarchies {
		if h.Parent != "" {
			// EBUSY if there are groups in it.
			_ = os.Remove(filepath.Join(h.Parent, m.config.Name))
		}
	}
}

// Names lists the existing groups of jobs, sorted by name.
func (m *Manager) Names() ([]string, error) {
	found := map[string]bool{}
	for _, h := range m.System().Hierarchies {
		if h.Parent == "" {
			continue
		}
		dir := filepath.Join(h.Parent, m.config.Name)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("cannot list groups: %w", err)
		}
		for _, e := range entries {
			if e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
				found[e.Name()] = true
			}
		}
	}
	var names []string
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// Load returns an existing group, with the directories that still exist, for reading from it or
// removing it. Its Paths contain no limits.
func (m *Manager) Load(name string) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	g := m.group(name)
	for i, h := range g.system.Hierarchies {
		if h.Parent == "" {
			continue
		}
		if _, err := os.Stat(g.dir(i)); err == nil {
			g.used = append(g.used, i)
		}
	}
	if len(g.used) == 0 {
		return nil, fmt.Errorf("cannot find group %q: %w", name, fs.ErrNotExist)
	}
	g.paths = g.findPaths(&Limits{})
	return g, nil
}

// Sweep removes the groups for which orphan returns true, with all processes in them: the groups of
// jobs whose supervisor no longer exists. orphan is called with each group's name. It must
// recognize the jobs of other processes that use the same Config.Name.
//
// patience is the timeout for all groups together. Sweep returns the names of the removed groups;
// the error describes the others.
func (m *Manager) Sweep(patience time.Duration, orphan func(name string) bool) ([]string, error) {
	names, err := m.Names()
	if err != nil {
		return nil, err
	}
	deadline := time.Now().Add(patience)
	var removed []string
	var errs []error
	for _, name := range names {
		if !orphan(name) {
			continue
		}
		g, err := m.Load(name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = g.Remove(time.Until(deadline))
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		removed = append(removed, name)
	}
	return removed, errors.Join(errs...)
}

func (m *Manager) group(name string) *Group {
	return &Group{name: name, within: m.config.Name, system: m.System()}
}

func checkName(name string) error {
	if name == "" || name[0] == '.' || strings.ContainsAny(name, "/\n\x00") {
		return fmt.Errorf("cannot use %q as the name of a group", name)
	}
	return nil
}

// Create makes the group of a job. A limit that the host cannot enforce is no error, and listed in
// Unmet of the group. A value that the kernel refuses is an error, and no group remains.
func (m *Manager) Create(name string, l Limits) (*Group, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	const tries = 3
	for try := 1; ; try++ {
		g := m.group(name)
		err := g.create(&l)
		if err == nil {
			return g, nil
		}
		if !errors.Is(err, fs.ErrNotExist) || try == tries {
			return nil, err
		}
		// Another process that uses the same name may have called Close in the meantime.
		if err := m.prepare(); err != nil {
			return nil, err
		}
	}
}

func (g *Group) create(l *Limits) error {
	for _, f := range l.need() {
		if e := g.system.files[f].err; e != nil {
			g.unmet = append(g.unmet, e)
		}
	}
	list := g.system.useful(l)
	if len(list) == 0 { // the group was requested nevertheless
		list = g.system.useful(&Limits{Counted: true, CPUCounted: true})
	}
	for _, i := range list {
		// Unlike the library's MkdirAll, Mkdir fails for an existing group, which belongs to
		// another job.
		err := os.Mkdir(g.dir(i), 0o755)
		if errors.Is(err, fs.ErrExist) {
			err = ErrExists
		}
		if err != nil {
			return errors.Join(fmt.Errorf("cannot make group %q: %w", g.dir(i), err), removeDirs(g.dirs()))
		}
		g.used = append(g.used, i)
	}
	if len(g.used) == 0 {
		e := &group.NotSupportedError{What: "make a group", Needs: "a cgroup hierarchy that may be written to", Err: errNotMounted}
		for _, h := range g.system.Hierarchies {
			e.Err = h.Err
		}
		return e
	}
	if err := g.set(l); err != nil {
		return errors.Join(fmt.Errorf("cannot set the limits of group %q: %w", g.name, err), removeDirs(g.dirs()))
	}
	g.paths = g.findPaths(l)
	return nil
}

// useful lists the hierarchies in which a job needs a group. It always includes v2, since starting
// a process in a v2 group costs nothing. v1 hierarchies are included only for limits: a memory
// group makes each page that the job touches a little more expensive, and before Linux 5.14 a
// process that enters a v1 group waits for an RCU grace period. If a job has v1 groups, they also
// provide the features that v2 lacks on this host. The exception is pids, which costs almost
// nothing and is used for each job.
func (s *System) useful(l *Limits) []int {
	var list []int
	add := func(features []Feature) {
		for _, f := range features {
			if p := s.files[f]; p.err == nil && s.Hierarchies[p.hierarchy].Parent != "" && !slices.Contains(list, p.hierarchy) {
				list = append(list, p.hierarchy)
			}
		}
	}
	add(slices.DeleteFunc(l.need(), func(f Feature) bool { return f == PidsLimit }))
	if l.Counted {
		add([]Feature{MemoryLimit})
	}
	if l.CPUCounted {
		add([]Feature{CPUTime})
	}
	if slices.ContainsFunc(list, func(i int) bool { return !s.Hierarchies[i].Unified }) {
		add([]Feature{Kill, Emptied, Freeze, CPUTime, MemoryLimit})
		if s.Check(Kill) != nil {
			add([]Feature{PidsLimit}) // prevents forks while the processes are killed
		}
	}
	if l.Pids > 0 {
		add([]Feature{PidsLimit})
	}
	for i, h := range s.Hierarchies {
		if h.Unified && h.Parent != "" && !slices.Contains(list, i) {
			list = append(list, i)
		}
	}
	slices.Sort(list)
	return list
}

// Wanted reports whether a job with these limits should have a group: because a limit requires it,
// or because it costs almost nothing.
func (m *Manager) Wanted(l Limits) bool { return len(m.System().useful(&l)) > 0 }
