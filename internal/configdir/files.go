package configdir

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// folders and single are the kinds of files, see qconf.Load.
var (
	folders = []string{
		"calendars", "ckpts", "conf", "hostgroups", "hosts", "pes", "projects", quotas, "queues", "users", "usersets",
	}
	single = []string{"adminhosts", "complexes", "managers", "operators", quotas, "sched_conf", "sharetree", "submithosts"}
)

// Folders returns the names of the folders of a configuration directory.
func Folders() []string { return slices.Clone(folders) }

// mostName is the maximum length of a name, in bytes. File systems permit 255, and the temporary name of a new file is longer: see write.
const mostName = 240

// check refuses names that the directory cannot contain, and names that readers skip.
func check(file string) error {
	kind, name, inFolder := strings.Cut(file, "/")
	switch {
	case !inFolder && slices.Contains(single, kind):
		return nil
	case !inFolder:
		return fmt.Errorf("%q is not a file of a configuration directory, expected one of %s, or one in a folder", kind, strings.Join(single, ", "))
	case !slices.Contains(folders, kind):
		return fmt.Errorf("%q is not a folder of a configuration directory, expected one of %s", kind, strings.Join(folders, ", "))
	case name == "":
		return errors.New("the name of the object is empty")
	case len(name) > mostName:
		return fmt.Errorf("the name %.20q... has %d bytes, at most %d are possible", name, len(name), mostName)
	case strings.ContainsAny(name, "/\x00\n"):
		return fmt.Errorf("%q is not a name of a file", name)
	case strings.HasPrefix(name, "."), strings.HasSuffix(name, "~"):
		return fmt.Errorf("a file with the name %q would be skipped: it begins with a dot or ends with ~", name)
	}
	return nil
}

// Files returns all objects of a cluster as files, by path, in the format of qconf. All resource
// quota sets are in one file, because their order matters. Reading the files gives an equal
// cluster, provided that there is a folder for each kind.
func Files(c *qconf.Cluster) map[string][]byte {
	files := map[string][]byte{}
	object := func(folder, name string, o interface {
		Format(style qconf.Style) string
	},
	) {
		files[folder+"/"+name] = []byte(o.Format(qconf.Wrapped))
	}
	each(c.QueueNames(), c.Queue, func(name string, q *qconf.Queue) { object("queues", name, q) })
	each(c.PENames(), c.PE, func(name string, p *qconf.ParallelEnvironment) { object("pes", name, p) })
	each(c.CheckpointNames(), c.Checkpoint, func(name string, k *qconf.Checkpoint) { object("ckpts", name, k) })
	each(c.CalendarNames(), c.Calendar, func(name string, k *qconf.Calendar) { object("calendars", name, k) })
	each(c.UserSetNames(), c.UserSet, func(name string, u *qconf.UserSet) { object("usersets", name, u) })
	each(c.UserNames(), c.User, func(name string, u *qconf.User) { object("users", name, u) })
	each(c.ProjectNames(), c.Project, func(name string, p *qconf.Project) { object("projects", name, p) })
	each(c.HostNames(), c.Host, func(_ string, h *qconf.ExecHost) { object("hosts", h.Name, h) })
	each(c.LocalNames(), c.Local, func(name string, l *qconf.Local) { object("conf", name, l) })
	for _, name := range c.HostGroups().Names() {
		object("hostgroups", name, c.HostGroups().Group(name))
	}
	object("hosts", qconf.GlobalHost, c.GlobalHost())
	object("conf", qconf.GlobalName, c.Global())
	files["sched_conf"] = []byte(c.Scheduler().Format(qconf.Wrapped))
	files["complexes"] = []byte(c.Complexes().Format())
	if t := c.ShareTree(); t != nil {
		files["sharetree"] = []byte(t.Format())
	}
	for name, people := range map[string][]string{
		"managers": c.Managers(), "operators": c.Operators(), "adminhosts": c.AdminHosts(), "submithosts": c.SubmitHosts(),
	} {
		if len(people) > 0 {
			files[name] = []byte(strings.Join(people, "\n") + "\n")
		}
	}
	if sets := c.ResourceQuotas(); len(sets) > 0 {
		files[quotas] = []byte(qconf.FormatResourceQuotas(sets, qconf.Wrapped))
	}
	return files
}

func each[O any](names []string, find func(string) (*O, error), do func(string, *O)) {
	for _, name := range names {
		if o, err := find(name); err == nil {
			do(name, o)
		}
	}
}

func sortedNames(files map[string][]byte) []string { return slices.Sorted(maps.Keys(files)) }
