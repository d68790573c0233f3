package command

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/calendar"
)

// cluster returns the configuration with the changes of the command line so far.
func (x *call) cluster() *qconf.Cluster {
	if x.result.Cluster != nil {
		return x.result.Cluster
	}
	return x.cell.Cluster()
}

// write applies changes of files to the configuration, either all or none of them. If a file is the
// first in a folder that the directory did not have, so that its objects came from the base
// (qconf.Load), write also writes the other objects of the folder: from then on the directory
// provides them.
func (x *call) write(writes ...Write) error {
	current := x.cluster()
	base := current
	touched := map[string]bool{}
	for _, w := range writes {
		folder, _, _ := strings.Cut(w.Path, "/")
		touched[folder] = true
		if w.Path == shareTreeFile && w.Remove {
			base = current.WithoutShareTree()
		}
	}
	fsys := fstest.MapFS{}
	all := texts(current)
	for name, t := range all {
		folder, _, inFolder := strings.Cut(name, "/")
		if t.stored || touched[folder] {
			fsys[name] = &fstest.MapFile{Data: t.text}
		}
		if inFolder && touched[folder] && !t.stored {
			writes = append([]Write{{Path: name, Text: t.text}}, writes...)
		}
	}
	for folder := range touched {
		if isFolder[folder] {
			fsys[folder] = &fstest.MapFile{Mode: folderMode}
		}
	}
	before := problemsOf(load(fsys, base))
	for _, w := range writes {
		if w.Remove {
			delete(fsys, w.Path)
		} else {
			fsys[w.Path] = &fstest.MapFile{Data: w.Text}
		}
	}
	next, err := load(fsys, base)
	if err != nil {
		for _, e := range qconf.Errors(err) {
			if !before[e.Error()] {
				return e
			}
		}
		return err
	}
	for _, e := range next.Missing() {
		if !before[e.Error()] {
			return e
		}
	}
	if x.in.Restricted {
		if err := checkPrivileges(x.cell.Cluster(), next); err != nil {
			return err
		}
	}
	x.result.Cluster = next
	x.keep(writes)
	for _, w := range writes {
		if name, ok := strings.CutPrefix(w.Path, queueKind.path("")); ok && !w.Remove {
			x.cell.QueueModified(name)
		}
	}
	return nil
}

// keep adds files to the ones that the caller has to write. The last text of a file counts.
func (x *call) keep(writes []Write) {
	byPath := map[string]Write{}
	for _, w := range append(x.result.Writes, writes...) {
		byPath[w.Path] = w
	}
	x.result.Writes = nil
	for _, name := range slices.Sorted(maps.Keys(byPath)) {
		x.result.Writes = append(x.result.Writes, byPath[name])
	}
}

// load loads a configuration as qconf.Load does. Missing reports references to objects that do not
// exist.
func load(fsys fstest.MapFS, base *qconf.Cluster) (*qconf.Cluster, error) {
	return qconf.LoadWith(fsys, qconf.Options{
		Base: base, Dangling: true,
		Year: func(text string) error { _, err := calendar.Parse(text, ""); return err },
		Week: func(text string) error { _, err := calendar.Parse("", text); return err },
	})
}

// problemsOf returns the problems that a configuration has before a change, so that the change is
// not blamed for them.
func problemsOf(c *qconf.Cluster, err error) map[string]bool {
	known := map[string]bool{}
	for _, e := range qconf.Errors(err) {
		known[e.Error()] = true
	}
	if err == nil {
		for _, e := range c.Missing() {
			known[e.Error()] = true
		}
	}
	return known
}

// text is a file of the configuration directory.
type text struct {
	text []byte
	// stored says that the file is in the directory; otherwise it comes from the base.
	stored bool
}

// The files that are one object, and the configurations of hosts.
const (
	shareTreeFile = "sharetree"
	schedulerFile = "sched_conf"
	complexFile   = "complexes"
	quotaFile     = "rqs"
	confFolder    = "conf"
	folderMode    = 0o755 | 1<<31 // fs.ModeDir
)

// isFolder are the folders of the directory. rqs may be either.
var isFolder = func() map[string]bool {
	folders := map[string]bool{confFolder: true}
	for _, k := range kinds {
		folders[k.folder] = true
	}
	return folders
}()

// noteOld records in each write the previous contents of the file.
func (x *call) noteOld() {
	now := x.cell.Cluster()
	all := texts(now)
	names := map[string][]string{
		"managers": now.Managers(), "operators": now.Operators(), "adminhosts": now.AdminHosts(), "submithosts": now.SubmitHosts(),
	}
	for i := range x.result.Writes {
		w := &x.result.Writes[i]
		list, isList := names[w.Path]
		switch {
		case w.Path == schedulerFile:
			w.Old = []byte(now.Scheduler().Format(qconf.Wrapped))
		case isList:
			w.Old = []byte(strings.Join(list, "\n"))
		default:
			w.Old = all[w.Path].text
		}
	}
}

// Changed returns the writes of files whose contents change.
func (r *Result) Changed() (list []Write) {
	for _, w := range r.Writes {
		if w.Remove || w.Old == nil || !bytes.Equal(w.Text, w.Old) {
			list = append(list, w)
		}
	}
	return list
}

// texts returns the files of a configuration, by their names. Single files that have never been
// written are left out.
func texts(c *qconf.Cluster) map[string]text {
	all := map[string]text{}
	put := func(path string, o object) {
		all[path] = text{[]byte(o.Format(qconf.Wrapped)), o.File() != ""}
	}
	for _, k := range kinds {
		for _, name := range k.names(c) {
			if o, ok := k.find(c, name); ok {
				put(k.path(k.name(o)), o)
			}
		}
	}
	put(hostKind.path(qconf.GlobalHost), c.GlobalHost())
	put(confFolder+"/"+qconf.GlobalName, c.Global())
	for _, host := range c.LocalNames() {
		if l, err := c.Local(host); err == nil {
			put(confFolder+"/"+host, l)
		}
	}
	if s := c.Scheduler(); s.File() != "" {
		put(schedulerFile, s)
	}
	if t := c.ShareTree(); t != nil {
		all[shareTreeFile] = text{[]byte(t.Format()), true}
	}
	all[complexFile] = text{[]byte(c.Complexes().Format()), true}
	quotaTexts(c, all)
	return all
}

// quotaTexts are the resource quota sets: in one file, or a file for each where the
// directory has it so.
func quotaTexts(c *qconf.Cluster, all map[string]text) {
	sets := c.ResourceQuotas()
	if !inQuotaFolder(sets) {
		if len(sets) > 0 {
			all[quotaFile] = text{[]byte(qconf.FormatResourceQuotas(sets, qconf.Wrapped)), true}
		}
		return
	}
	for _, s := range sets {
		all[quotaFile+"/"+s.Name] = text{[]byte(qconf.FormatResourceQuotas([]*qconf.ResourceQuotaSet{s}, qconf.Wrapped)), true}
	}
}

func inQuotaFolder(sets []*qconf.ResourceQuotaSet) bool {
	return slices.ContainsFunc(sets, func(s *qconf.ResourceQuotaSet) bool { return strings.HasPrefix(s.File(), quotaFile+"/") })
}

// who returns user@host for messages.
func (x *call) who() string { return x.in.By.User + "@" + x.hostName() }

// changed prints the change of an object: to standard error, or for some kinds to standard output.
func (x *call) changed(k *kind, format string, args ...any) {
	text := x.who() + " " + fmt.Sprintf(format, args...)
	if k != nil && k.stdout {
		x.say("%s", text)
	} else {
		x.warn("%s", text)
	}
}

// dangling holds the messages for attributes that name objects which do not exist (tested).
var dangling = map[string]string{
	"pe_list": "Parallel environment %q does not exist", "ckpt_list": "Ckpt %q does not exist", "calendar": "Calendar %q does not exist",
	"user_lists": "Userset %q does not exist", "xuser_lists": "Userset %q does not exist", "acl": "Userset %q does not exist", "xacl": "Userset %q does not exist",
	"projects": "Project %q does not exist", "xprojects": "Project %q does not exist", "default_project": "denied: project %q does not exist",
	"hostlist": "denied: host group %q does not exist",
}

// isDangling reports whether a change was refused because it names an object that does not exist.
func isDangling(err error) bool {
	found := qconf.Errors(err)
	return len(found) > 0 && dangling[found[0].Attribute] != "" && found[0].Err != nil && strings.Contains(found[0].Err.Error(), qconf.ErrNotFound.Error())
}

// refuseChange prints why a change was refused.
func (x *call) refuseChange(k *kind, name string, err error) {
	found := qconf.Errors(err)
	if len(found) == 0 {
		x.fail(1, "denied: %s", err)
		return
	}
	e := found[0]
	format, ok := dangling[e.Attribute]
	missing := e.Err != nil && strings.Contains(e.Err.Error(), qconf.ErrNotFound.Error())
	switch {
	case missing && k == queueKind && e.Attribute != "hostlist" && strings.HasPrefix(e.Value, "@"):
		x.fail(1, "Did not modify %q for host group %q which does not exist.", e.Attribute, e.Value)
	case missing && ok:
		x.fail(1, format, e.Value)
	case missing && e.Attribute == "subordinate_list":
		x.fail(1, "Subordinated cluster queue %q referenced in %q does not exist", e.Value, name)
	case missing && k == queueKind && e.Attribute == "complex_values":
		x.fail(1, "Complex attribute %q does not exist", e.Value)
	case missing && e.Attribute == "complex_values":
		x.fail(1, "denied: attribute %q is not a complex attribute", e.Value)
	case missing && e.File == shareTreeFile:
		x.fail(1, "denied: share tree contains reference to unknown user/project %q", e.Value)
	default:
		x.fail(1, "denied: %s", problem(e))
	}
}

// problem returns an error without the name of the file, because users of qconf do not see the
// files.
func problem(e *qconf.Error) string {
	if e.Attribute == "" {
		return e.Problem
	}
	return e.Attribute + ": " + e.Problem
}

// style returns the layout of values: on one line with SGE_SINGLE_LINE (qconf(1)).
func (x *call) style() qconf.Style {
	for _, v := range x.in.Environment {
		if strings.HasPrefix(v, "SGE_SINGLE_LINE=") {
			return qconf.SingleLine
		}
	}
	return qconf.Wrapped
}

// userList is a comma separated list, each name once.
func distinct(names []string) []string {
	names = slices.Clone(names)
	slices.SortFunc(names, cmp.Compare[string])
	return slices.Compact(names)
}
