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

// ErrExists is returned by Create for a group that is there already: of a job
// that was started twice, or of one that was left behind.
var ErrExists = errors.New("the group exists already")

// Manager makes groups of jobs.
type Manager struct {
	config Config
	mu     sync.Mutex
	system *System
}

// Open makes ready for groups of jobs. It does not fail when groups cannot be
// made: then System says so, and Create returns a *group.NotSupportedError.
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

// Close removes the group that holds those of jobs, unless there are any, and
// nothing else. Jobs do not depend on a Manager.
func (m *Manager) Close() {
	for _, h := range m.System().Hierarchies {
		if h.Parent != "" {
			// EBUSY while there are groups in it.
			_ = os.Remove(filepath.Join(h.Parent, m.config.Name))
		}
	}
}

// Names lists the groups of jobs that exist, in order.
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

// Load returns a group that exists already, as far as it does, to read from it or
// to remove it. Its Paths do not know its limits.
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

// Sweep removes the groups that orphan names, with all processes in them: those
// of jobs whose supervisor is no more. It is asked for each group, and has to know
// of jobs that others run with the same Config.Name.
//
// Groups are given the time together. It returns the names of those that are
// removed; the error is about the others.
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

// Create makes the group of a job. What of the limits the host cannot enforce is
// in Unmet of the group, and no error; a value that the kernel refuses is one, and
// then no group is left.
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
		// Somebody else who uses the same name has just closed his Manager.
		if err := m.prepare(); err != nil {
			return nil, err
		}
	}
}

func (g *Group) create(l *Limits) error {
	for _, f := range l.need() {
		if e := g.system.places[f].err; e != nil {
			g.unmet = append(g.unmet, e)
		}
	}
	list := g.system.useful(l)
	if len(list) == 0 { // it was asked for nevertheless
		list = g.system.useful(&Limits{Counted: true, CPUCounted: true})
	}
	for _, i := range list {
		// Not MkdirAll, which the library uses: an existing group is another's.
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

// useful lists the hierarchies in which a job needs a group: v2 always, since a
// process is started in a group there at no cost. Those of v1 are for limits: that of memory
// makes each page that the job touches cost a little more, and before Linux 5.14 a process
// that enters one waits for an RCU grace period. Where a limit has one made, they are also for
// what v2 does not do here; but for pids, which costs next to nothing, and is for each job.
func (s *System) useful(l *Limits) []int {
	var list []int
	add := func(features []Feature) {
		for _, f := range features {
			if p := s.places[f]; p.err == nil && s.Hierarchies[p.hierarchy].Parent != "" && !slices.Contains(list, p.hierarchy) {
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
			add([]Feature{PidsLimit}) // stops forks while they are killed
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

// Wanted reports whether a job with these limits is to have a group: because a
// limit needs it, or because it costs next to nothing.
func (m *Manager) Wanted(l Limits) bool { return len(m.System().useful(&l)) > 0 }
