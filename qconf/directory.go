package qconf

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
	"github.com/execd-project/execd/job"
)

// Cluster is everything that a configuration directory says.
type Cluster struct {
	queues map[string]*Queue
	pes    map[string]*ParallelEnvironment
	ckpts  map[string]*Checkpoint
	groups *HostGroups

	complexes *Complexes

	hosts      map[string]*ExecHost // by name in small letters
	globalHost *ExecHost
	calendars  map[string]*Calendar
	userSets   map[string]*UserSet
	users      map[string]*User
	projects   map[string]*Project
	quotas     []*ResourceQuotaSet
	shareTree  *ShareTree // nil without one
	scheduler  *SchedulerConfig
	people     map[string][]string // by the name of their file, see peopleFiles

	missing  []*Error
	doubtful []*Error // warnings about more than one object

	global *Configuration
	locals map[string]*Local         // by host in small letters
	merged map[string]*Configuration // the same with global below
}

// folderOrFile is the kind of an entry of the directory.
type folderOrFile int

const (
	folder folderOrFile = 1 << iota
	file
)

// layoutOf are the entries of a configuration directory, by the names of the
// documentation of the command line's --conf.
var layoutOf = map[string]folderOrFile{
	"queues": folder, "conf": folder, "hostgroups": folder, "pes": folder, "ckpts": folder,
	"hosts": folder, "calendars": folder, "usersets": folder, "users": folder, "projects": folder,
	"complexes": file, "sched_conf": file, "sharetree": file, "rqs": folder | file,
	"managers": file, "operators": file, "adminhosts": file, "submithosts": file,
}

// besides are files that may be in a configuration directory without being a part of the
// configuration: default options of the commands (sge_request(5), sge_qstat(5), qrstat(1)), and the
// receivers of messages about jobs.
var besides = map[string]bool{
	"sge_request": true, "sge_ar_request": true, "sge_qstat": true, "sge_qhost": true, "sge_qselect": true, "sge_qquota": true, "sge_qrstat": true,
	"messages": true,
}

// Options say how a configuration directory is read.
type Options struct {
	// Base provides the objects that the directory lacks. Nil is an empty base.
	Base *Cluster
	// Year and Week check the two attributes of a calendar (calendar_conf(5)), whose grammar this
	// package does not know. They may be nil.
	Year, Week func(text string) error
	// Dangling takes references to objects that do not exist, such as a quota on an unknown
	// complex, for Missing ones instead of errors: a scheduler can then use the valid part of a
	// contradictory configuration.
	Dangling bool
}

// Load reads a configuration directory: files as qconf prints them, one object
// each, that are named like their object.
//
//	queues/NAME      qconf -sq NAME
//	conf/global      qconf -sconf
//	conf/HOST        qconf -sconf HOST
//	hosts/global     qconf -se global
//	hosts/HOST       qconf -se HOST
//	hostgroups/@NAME qconf -shgrp @NAME
//	pes/NAME         qconf -sp NAME
//	ckpts/NAME       qconf -sckpt NAME
//	calendars/NAME   qconf -scal NAME
//	usersets/NAME    qconf -su NAME
//	users/NAME       qconf -suser NAME
//	projects/NAME    qconf -sprj NAME
//	rqs/NAME         qconf -srqs NAME
//	rqs              qconf -srqs, any number of sets in one file
//	complexes        qconf -sc
//	sched_conf       qconf -ssconf
//	sharetree        qconf -sstree
//	managers         qconf -sm
//	operators        qconf -so
//	adminhosts       qconf -sh
//	submithosts      qconf -ss
//
// Load takes a missing folder, and a missing conf/global or hosts/global, from base, usually
// Builtin; nil is an empty base. A queue of base offers the parallel environments of the directory,
// if it has any. Entries whose name begins with a dot or ends with ~ are skipped; every other
// unknown entry is an error.
//
// Load returns either a cluster in which each object is valid and refers only to existing objects,
// or every *Error that it found, joined, in the order of files and lines. References to kinds of
// objects without a folder are not checked, see Cluster.Missing.
func Load(fsys fs.FS, base *Cluster) (*Cluster, error) {
	return LoadWith(fsys, Options{Base: base})
}

// LoadWith loads a directory as Load does, with more options.
func LoadWith(fsys fs.FS, options Options) (*Cluster, error) {
	return whole(load(fsys, options))
}

// Findings holds the results of checking a configuration directory.
type Findings struct {
	// Errors are the errors of Load. If there are any, the other fields may be incomplete.
	Errors   []*Error
	Missing  []*Error // see Cluster.Missing
	Warnings []*Error // see Cluster.Warnings, Cluster.Ineffective; and each ambiguous queue instance, see Queue.Instance
	Sound    *Cluster // the objects without errors
}

// Check finds all errors of a configuration directory in one pass. It continues to check an object
// after its first error, and checks the valid part of it against the other objects.
func Check(fsys fs.FS, options Options) Findings {
	c, err := load(fsys, options)
	return Findings{Errors: Errors(err), Missing: c.Missing(), Warnings: slices.Concat(c.Warnings(), c.Ineffective(), c.ambiguous()), Sound: c}
}

// load returns the valid objects of a directory together with all errors.
func load(fsys fs.FS, options Options) (*Cluster, error) {
	l := &loader{fsys: fsys, options: options, present: map[string]bool{}, refused: refusals{}}
	l.readTop()
	c := options.Base.clone()
	if l.present["hostgroups"] {
		groups := objects(l, "hostgroups", readWith(&hostGroupTable, newHostGroup), func(g *HostGroup) *string { return &g.Name })
		resolved, err := newHostGroups(slices.Collect(maps.Values(groups)), func(name string) bool { return l.refused.has("hostgroups", name) })
		l.fail(err)
		c.groups = resolved
	}
	if l.present["pes"] {
		c.pes = objects(l, "pes", readWith(&peTable, newPE), func(p *ParallelEnvironment) *string { return &p.Name })
	}
	if l.present["ckpts"] {
		c.ckpts = objects(l, "ckpts", readWith(&ckptTable, newCheckpoint), func(c *Checkpoint) *string { return &c.Name })
	}
	if l.present["queues"] {
		l.unlike(c)
		c.queues = objects(l, "queues", readWith(&queueTable, newQueue), func(q *Queue) *string { return &q.Name })
	} else if l.present["pes"] {
		l.offer(c)
	}
	l.readForScheduler(c)
	l.readConf(c)
	l.readPeople(c)
	l.check(c)
	SortErrors(c.missing)
	return c, inOrder(Errors(errors.Join(l.errs...)))
}

// ambiguous returns the queues that have no definite settings on some host. Grid Engine accepts
// such a configuration, but does not use these instances.
func (c *Cluster) ambiguous() []*Error {
	var found []*Error
	for _, name := range c.QueueNames() {
		q := c.queues[name]
		for _, host := range c.groups.Resolve(q.Hosts) {
			_, err := q.Instance(host, c.groups)
			found = append(found, Errors(err)...)
		}
	}
	return found
}

// loader collects the errors of a directory.
type loader struct {
	fsys    fs.FS
	options Options
	present map[string]bool // entries of the directory
	size    int             // bytes of the files that were read
	refused refusals
	errs    []error
}

// refusals are the objects that have errors, by folder or file: a reference to one of them is not
// another error. The name "" stands for all objects.
type refusals map[string]map[string]bool

func (r refusals) add(folder, name string) {
	if r[folder] == nil {
		r[folder] = map[string]bool{}
	}
	r[folder][name] = true
}

func (r refusals) has(folder, name string) bool { return r[folder][name] || r[folder][""] }

// fail records an error, if there is one.
func (l *loader) fail(err error) {
	if err != nil {
		l.errs = append(l.errs, err)
	}
}

// refuse records an error of a file or folder as a whole.
func (l *loader) refuse(file, problem string, cause error) {
	dir, name, _ := strings.Cut(file, "/")
	l.refused.add(dir, name)
	l.fail(&Error{File: file, Problem: problem, Err: cause})
}

// cannot records an error of the file system.
func (l *loader) cannot(file string, cause error) {
	l.refuse(file, "cannot read: "+cause.Error(), cause)
}

// readWith reads an object of a table. It returns the valid part of the object together with the
// errors.
func readWith[T, O any](t *table[T], complete func(Text, T, error) (*O, error)) func(file string, data []byte) (*O, error) {
	return func(file string, data []byte) (*O, error) { return complete(t.parse(file, data)) }
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
		if skipped(name) || besides[name] {
			continue
		}
		want, known := layoutOf[name]
		if !known {
			l.refuse(name, "unknown entry of a configuration directory, expected one of "+strings.Join(sortedKeys(layoutOf), ", "), nil)
			continue
		}
		// Links are followed, because sites store parts of the configuration elsewhere.
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

// Limits in addition to those of package textfile.
const (
	maxDirectory = 64 << 20 // bytes of all files of a directory
	maxLines     = 500_000  // of a file: a share tree of 100,000 nodes
)

// read reads a file. ok is false after an error.
func (l *loader) read(path string) (data []byte, ok bool) {
	data, err := textfile.ReadFS(l.fsys, path, textfile.MaxConfig)
	if l.size += len(data); err == nil && l.size > maxDirectory {
		err = fmt.Errorf("the files of the directory have more than %d MiB together, which is the limit", maxDirectory>>20)
	}
	if err == nil && bytes.Count(data, []byte{'\n'}) > maxLines {
		err = fmt.Errorf("it has more than %d lines, which is the limit", maxLines)
	}
	switch {
	case errors.Is(err, textfile.ErrKind):
		l.refuse(path, "is not a regular file, expected one with an object", nil)
	case err != nil:
		if e, ok := errors.AsType[*textfile.SizeError](err); ok {
			e.Name = "" // which the error has anyway
		}
		l.cannot(path, err)
	}
	return data, err == nil
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
		if data, ok := l.read(path); ok {
			each(e.Name(), path, data)
		}
	}
}

// objects reads a folder in which each file has the name of its object. read returns the valid part
// of an object together with the errors, so that references from and to it can be checked.
func objects[O any](l *loader, dir string, read func(string, []byte) (*O, error), nameOf func(*O) *string) map[string]*O {
	all := map[string]*O{}
	l.files(dir, func(name, path string, data []byte) {
		o, err := read(path, data)
		l.fail(err)
		if o == nil {
			l.refused.add(dir, name)
			return
		}
		n := nameOf(o)
		if *n != name && *n != "" {
			l.refused.add(dir, *n)
			l.refuse(path, fmt.Sprintf("holds %q, expected the file to be named like its object", *n), nil)
		}
		*n = name
		all[name] = o
	})
	return all
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
			global, err := newConfiguration(GlobalName)(confTable.parse(path, data))
			l.fail(err)
			c.global = global
			return
		}
		local, err := readLocal(name, path, data)
		l.fail(err)
		if other := c.locals[strings.ToLower(name)]; other != nil {
			l.refuse(path, fmt.Sprintf("is for the same host as %q", other.file), nil)
			return
		}
		c.locals[strings.ToLower(name)] = local
	})
	// This is done after the loop, because the global configuration may follow a host's.
	for _, host := range sortedKeys(c.locals) {
		merged, err := c.global.merge(c.locals[host])
		if err != nil {
			l.fail(err)
			continue
		}
		c.merged[host] = merged
	}
}

// unlike sets the defaults of sge_conf(5) for the queues of a directory without a configuration:
// the configuration of Builtin only suits the queue of Builtin.
func (l *loader) unlike(c *Cluster) {
	if l.present["conf"] || c.global.ExecdParams.ScriptShell != job.Yes {
		return
	}
	global, err := c.global.With("execd_params", none)
	if err != nil {
		l.fail(err)
		return
	}
	c.global = global
}

// offer lets the queues of the base offer the parallel environments of the directory instead of the
// base's.
func (l *loader) offer(c *Cluster) {
	list := none
	if len(c.pes) > 0 {
		list = strings.Join(sortedKeys(c.pes), " ")
	}
	for name, q := range c.queues {
		offering, err := q.With("pe_list", list)
		if err != nil {
			l.fail(err)
			continue
		}
		offering.defaults.Builtin = q.defaults.Builtin
		c.queues[name] = offering
	}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
