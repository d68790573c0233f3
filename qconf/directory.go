package qconf

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
)

// Cluster is everything that a configuration directory says.
type Cluster struct {
	queues map[string]*Queue
	pes    map[string]*ParallelEnvironment
	ckpts  map[string]*Checkpoint
	groups *HostGroups

	complexes *Complexes // nil without a file

	global *Configuration
	locals map[string]*Local         // by host in small letters
	merged map[string]*Configuration // the same with global below
}

// folderOrFile says what an entry of the directory is.
type folderOrFile int

const (
	folder folderOrFile = 1 << iota
	file
)

// layoutOf are the entries of a configuration directory, by the names of the
// documentation of the command line's --conf.
var layoutOf = map[string]folderOrFile{
	"queues": folder, "conf": folder, "hostgroups": folder, "pes": folder, "ckpts": folder,
	"complexes": file,
	// Accepted and not read yet.
	"hosts": folder, "calendars": folder, "usersets": folder, "users": folder, "projects": folder,
	"sched_conf": file, "sharetree": file, "rqs": folder | file,
}

// Load reads a configuration directory: files as qconf prints them, one object
// each, that are named like their object.
//
//	queues/NAME      qconf -sq NAME
//	conf/global      qconf -sconf
//	conf/HOST        qconf -sconf HOST
//	hostgroups/@NAME qconf -shgrp @NAME
//	pes/NAME         qconf -sp NAME
//	ckpts/NAME       qconf -sckpt NAME
//	complexes        qconf -sc
//
// What the directory lacks (a folder as a whole, or conf/global) is taken from
// base, usually Builtin; nil is an empty base. A queue of base offers the
// parallel environments that there are. Entries whose name begins with a dot
// or ends with ~ are skipped; every other entry that is not known is an error.
//
// Load is all or nothing: it returns every *Error that it found, joined, or a
// cluster in which each object is valid by itself and names only queues,
// parallel environments, checkpointing environments and host groups that
// exist. Parallel and checkpointing environments are not looked for when there
// is no folder of them.
func Load(fsys fs.FS, base *Cluster) (*Cluster, error) {
	l := &loader{fsys: fsys, present: map[string]bool{}, broken: map[string]bool{}}
	l.readTop()
	c := base.clone()
	if l.present["hostgroups"] {
		groups := objects(l, "hostgroups", ParseHostGroup, func(g *HostGroup) string { return g.Name })
		if !l.broken["hostgroups"] {
			resolved, err := NewHostGroups(slices.Collect(maps.Values(groups))...)
			l.fail("hostgroups", err)
			c.groups = resolved
		}
	}
	if l.present["pes"] {
		c.pes = objects(l, "pes", ParsePE, func(p *ParallelEnvironment) string { return p.Name })
	}
	if l.present["ckpts"] {
		c.ckpts = objects(l, "ckpts", ParseCheckpoint, func(c *Checkpoint) string { return c.Name })
	}
	if l.present["queues"] {
		c.queues = objects(l, "queues", ParseQueue, func(q *Queue) string { return q.Name })
	} else if l.present["pes"] {
		l.offer(c)
	}
	if l.present["complexes"] {
		l.readComplexes(c)
	}
	l.readConf(c)
	l.checkReferences(c)
	if err := errors.Join(l.errs...); err != nil {
		return nil, err
	}
	return c, nil
}

// loader collects the errors of a directory.
type loader struct {
	fsys    fs.FS
	present map[string]bool // entries of the directory
	broken  map[string]bool // folders with errors: what they miss may be there
	errs    []error
}

// fail records an error in a folder, if there is one.
func (l *loader) fail(dir string, err error) {
	if err != nil {
		l.broken[dir] = true
		l.errs = append(l.errs, err)
	}
}

// refuse records what is wrong with a file or folder as a whole.
func (l *loader) refuse(file, problem string, cause error) {
	dir, _, _ := strings.Cut(file, "/")
	l.fail(dir, &Error{File: file, Problem: problem, Err: cause})
}

// cannot is an error of the file system.
func (l *loader) cannot(file string, cause error) {
	l.refuse(file, "cannot read: "+cause.Error(), cause)
}

// skipped reports whether a name is that of a backup or of a hidden file.
func skipped(name string) bool {
	return strings.HasPrefix(name, ".") || strings.HasSuffix(name, "~")
}

// readTop looks at the entries of the directory itself.
func (l *loader) readTop() {
	entries, err := fs.ReadDir(l.fsys, ".")
	if err != nil {
		l.cannot(".", err)
		return
	}
	for _, e := range entries {
		name := e.Name()
		if skipped(name) {
			continue
		}
		want, known := layoutOf[name]
		if !known {
			l.refuse(name, "unknown entry of a configuration directory, expected one of "+strings.Join(sortedKeys(layoutOf), ", "), nil)
			continue
		}
		// Through a link, too: sites keep parts of it elsewhere.
		info, err := fs.Stat(l.fsys, name)
		switch {
		case err != nil:
			l.cannot(name, err)
		case info.IsDir() && want&folder == 0:
			l.refuse(name, "is a folder, expected a file", nil)
		case !info.IsDir() && want&file == 0:
			l.refuse(name, "is a file, expected a folder", nil)
		default:
			l.present[name] = true
		}
	}
}

// files calls each for every file of a folder, with its name and its content.
func (l *loader) files(dir string, each func(name, path string, data []byte)) {
	entries, err := fs.ReadDir(l.fsys, dir)
	if err != nil {
		l.cannot(dir, err)
		return
	}
	for _, e := range entries {
		if skipped(e.Name()) {
			continue
		}
		path := dir + "/" + e.Name()
		// A fifo would keep the reader waiting.
		if info, err := fs.Stat(l.fsys, path); err == nil && !info.Mode().IsRegular() {
			l.refuse(path, "is no regular file, expected one with an object", nil)
			continue
		}
		data, err := fs.ReadFile(l.fsys, path)
		if err != nil {
			l.cannot(path, err)
			continue
		}
		each(e.Name(), path, data)
	}
}

// objects reads a folder in which each file is named like its object.
func objects[O any](l *loader, dir string, parse func(string, []byte) (O, error), nameOf func(O) string) map[string]O {
	all := map[string]O{}
	l.files(dir, func(name, path string, data []byte) {
		o, err := parse(path, data)
		if err != nil {
			l.fail(dir, err)
			return
		}
		if n := nameOf(o); n != name {
			l.refuse(path, fmt.Sprintf("holds %q, expected the file to be named like its object", n), nil)
			return
		}
		all[name] = o
	})
	return all
}

// readComplexes reads the file complexes.
func (l *loader) readComplexes(c *Cluster) {
	const file = "complexes"
	data, err := fs.ReadFile(l.fsys, file)
	if err != nil {
		l.cannot(file, err)
		return
	}
	complexes, err := ParseComplexes(file, data)
	l.fail(file, err)
	c.complexes = complexes
}

// readConf reads the folder conf and merges the configurations of the hosts.
func (l *loader) readConf(c *Cluster) {
	if !l.present["conf"] {
		return
	}
	c.locals = map[string]*Local{}
	c.merged = map[string]*Configuration{}
	l.files("conf", func(name, path string, data []byte) {
		if name == GlobalName {
			global, err := ParseConfiguration(path, data)
			if err != nil {
				l.fail("conf", err)
				return
			}
			c.global = global
			return
		}
		local, err := ParseLocal(name, path, data)
		if err != nil {
			l.fail("conf", err)
			return
		}
		if other := c.locals[strings.ToLower(name)]; other != nil {
			l.refuse(path, fmt.Sprintf("is for the same host as %q", other.file), nil)
			return
		}
		c.locals[strings.ToLower(name)] = local
	})
	// After the loop: the global configuration may come after a host's.
	for _, host := range sortedKeys(c.locals) {
		merged, err := c.global.merge(c.locals[host])
		if err != nil {
			l.fail("conf", err)
			continue
		}
		c.merged[host] = merged
	}
}

// offer lets the queues of the base offer the parallel environments of the
// directory, instead of those that came with them.
func (l *loader) offer(c *Cluster) {
	list := none
	if len(c.pes) > 0 {
		list = strings.Join(sortedKeys(c.pes), " ")
	}
	for name, q := range c.queues {
		offering, err := q.With("pe_list", list)
		if err != nil {
			l.fail("queues", err)
			continue
		}
		c.queues[name] = offering
	}
}

// sortedKeys are the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
