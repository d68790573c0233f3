package launcher

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/qconf"
)

// valued is an object of a configuration.
type valued interface {
	Attributes() []string
	Value(attribute string) (string, bool)
}

// guarded are the attributes that only root may set, by the folder of their object: they name programs, or directories in
// which programs of root work. In the folder conf all other attributes are guarded than those of free.
var guarded = map[string][]string{
	"queues": {"prolog", "epilog", "starter_method", "suspend_method", "resume_method", "terminate_method"},
	"pes":    {"start_proc_args", "stop_proc_args"},
	"ckpts":  {"ckpt_command", "migr_command", "restart_command", "clean_command"},
}

// free are the attributes of sge_conf(5) that managers may change: the launcher does not need them, and they name neither
// programs nor users.
var free = []string{
	"administrator_mail", "mail_tag", "loglevel", "enforce_project", "enforce_user", "load_report_time", "max_unheard", "reschedule_unknown",
	"finished_jobs", "max_aj_instances", "max_aj_tasks", "max_u_jobs", "max_jobs", "max_advance_reservations", "projects", "xprojects",
	"auto_user_oticket", "auto_user_fshare", "auto_user_default_project", "auto_user_delete_time", "reporting_params", "delegated_file_staging",
	"login_shells", "jsv_allowed_mod", "token_extend_time",
}

// byRoot tells a manager what to do about a change that only root may make.
const byRoot = "with --front-user only root may set it, with qconf on this host"

// checkByFront refuses a change that root has not confirmed, if it concerns anything that the launcher takes from root's
// configuration. Managers make all other changes, and a captured front can make them, too.
func checkByFront(before, after *qconf.Cluster, host string) error {
	was, is := guardedValues(before, host), guardedValues(after, host)
	all := maps.Clone(was)
	maps.Copy(all, is)
	for _, a := range slices.SortedFunc(maps.Keys(all), func(a, b place) int {
		return strings.Compare(a.file+" "+a.attribute, b.file+" "+b.attribute)
	}) {
		if was[a] != is[a] {
			return fmt.Errorf("%s: %s would become %.200q: %s", a.file, a.attribute, notEmpty(is[a]), byRoot)
		}
	}
	if err := checkMethodsByFront(methodsOf(before, host), methodsOf(after, host)); err != nil {
		return err
	}
	return checkObjectsByFront(ObjectsOf(before, host), ObjectsOf(after, host))
}

func notEmpty(value string) string {
	if value == "" {
		return "NONE"
	}
	return value
}

// place is an attribute of an object.
type place struct{ file, attribute string }

// guardedValues returns the guarded attributes that have a value in a file, and those of sge_conf(5) that are in effect on
// the host. An object that does not exist is the same as one without a program.
func guardedValues(c *qconf.Cluster, host string) map[place]string {
	values := map[place]string{}
	note := func(file, attribute string, o valued) {
		if v, ok := o.Value(attribute); ok && v != "" && !strings.EqualFold(v, "none") {
			values[place{file, attribute}] = v
		}
	}
	each := func(folder, name string, o valued) {
		for _, attribute := range guarded[folder] {
			note(folder+"/"+name, attribute, o)
		}
	}
	for _, name := range c.QueueNames() {
		if q, err := c.Queue(name); err == nil {
			each("queues", name, q)
		}
	}
	for _, name := range c.PENames() {
		if pe, err := c.PE(name); err == nil {
			each("pes", name, pe)
		}
	}
	for _, name := range c.CheckpointNames() {
		if k, err := c.Checkpoint(name); err == nil {
			each("ckpts", name, k)
		}
	}
	conf := func(name string, o valued) {
		for _, attribute := range o.Attributes() {
			if !slices.Contains(free, attribute) {
				note("conf/"+name, attribute, o)
			}
		}
	}
	conf(qconf.GlobalName, c.Global())
	for _, name := range c.LocalNames() {
		l, err := c.Local(name)
		if err != nil {
			continue
		}
		conf(name, l)
		for _, attribute := range l.Attributes() {
			// NONE of a host overrides the value that the cluster has, or that root gives the cluster later.
			if v, _ := l.Value(attribute); !slices.Contains(free, attribute) && (v == "" || strings.EqualFold(v, "none")) {
				values[place{"conf/" + name, attribute}] = "NONE"
			}
		}
	}
	// A file of a host can take the place of one with another form of the name of the host.
	config := c.Config(host)
	for _, attribute := range config.Attributes() {
		if !slices.Contains(free, attribute) {
			note("configuration of the host "+host, attribute, config)
		}
	}
	return values
}

// methods are the programs of a queue instance that run for running jobs.
type methods struct{ suspend, resume, terminate string }

// methodsOf returns the methods of the queues of a host that have any.
func methodsOf(c *qconf.Cluster, host string) map[string]methods {
	all := map[string]methods{}
	for _, name := range c.QueueNames() {
		if q, err := c.Instance(name, host); err == nil {
			if m := (methods{q.SuspendMethod, q.ResumeMethod, q.TerminateMethod}); m != (methods{}) {
				all[name] = m
			}
		}
	}
	return all
}

// checkMethodsByFront refuses a change of methods that no attribute shows: a queue may have them for the hosts of a group.
func checkMethodsByFront(was, is map[string]methods) error {
	for _, list := range []map[string]methods{was, is} {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if was[name] != is[name] {
				return fmt.Errorf("the queue %s would have another suspend_method, resume_method or terminate_method on this host: %s", name, byRoot)
			}
		}
	}
	return nil
}

// checkObjectsByFront refuses changes of what the launcher needs of a configuration, except those that give a captured
// front nothing that it does not have anyway.
func checkObjectsByFront(was, is *Objects) error {
	plain := func(q *Queue) bool { return q.sameProcedures(&was.Default) }
	// Jobs in queues that root's configuration does not have get these, for example after the last queue was removed.
	switch {
	case !is.Default.sameProcedures(&was.Default):
		return fmt.Errorf("prolog and epilog of this host would become %.200q and %.200q: %s", notEmpty(is.Default.Prolog), notEmpty(is.Default.Epilog), byRoot)
	case is.Mailer != was.Mailer:
		return fmt.Errorf("the mailer of this host would become %.200q: %s", notEmpty(is.Mailer), byRoot)
	}
	own := slices.ContainsFunc(was.Queues, func(q Queue) bool { return !plain(&q) })
	// Procedures of other users get limits, names and directories of the job's objects.
	others := slices.ContainsFunc(was.Commands, func(c string) bool { return strings.Contains(c, "@/") })
	before := map[string]*Queue{}
	for i := range was.Queues {
		before[was.Queues[i].Name] = &was.Queues[i]
	}
	for i := range is.Queues {
		q := &is.Queues[i]
		old := before[q.Name]
		delete(before, q.Name)
		switch {
		case old == nil && (own || others || !plain(q)):
			return fmt.Errorf("the queue %s would be new on this host, where queues have a prolog, epilog or starter_method of root's: %s", q.Name, byRoot)
		case old != nil && !q.sameProcedures(old):
			return fmt.Errorf("the queue %s would have another prolog, epilog or starter_method on this host: %s", q.Name, byRoot)
		case old != nil && others && q.Limits != old.Limits:
			return fmt.Errorf("the limits of the queue %s would change, where procedures run as other users than the owner: %s", q.Name, byRoot)
		case q.Priority < 0 && (old == nil || q.Priority != old.Priority):
			return fmt.Errorf("the priority of the queue %s would be %d: below 0, %s", q.Name, q.Priority, byRoot)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		switch {
		case !plain(before[name]):
			return fmt.Errorf("the queue %s, which has a prolog, epilog or starter_method, would not be on this host any more: %s", name, byRoot)
		case others: // the limits of the queue apply to them
			return fmt.Errorf("the queue %s would not be on this host any more, where procedures run as other users than the owner: %s", name, byRoot)
		}
	}
	for _, c := range []struct {
		what    string
		was, is []string
	}{{"shell", was.Shells, is.Shells}, {"tmpdir", was.Tmpdirs, is.Tmpdirs}, {"program", was.Commands, is.Commands}} {
		for _, v := range c.is {
			if !slices.Contains(c.was, v) {
				return fmt.Errorf("the %s %.200q is not in root's configuration: %s", c.what, v, byRoot)
			}
		}
	}
	switch {
	case others && (!slices.Equal(was.PEs, is.PEs) || !slices.Equal(was.Ckpts, is.Ckpts)):
		return errors.New("a parallel or checkpointing environment would change, where procedures run as other users than the owner: " + byRoot)
	case !reflect.DeepEqual(was.Access, is.Access):
		return errors.New("user_lists or xuser_lists of the cluster or of this host would admit other users: " + byRoot)
	case !reflect.DeepEqual(was.Elements, is.Elements):
		return errors.New("the resource maps of this host would change: " + byRoot)
	}
	return nil
}

// needsStart returns the name of something that changes and that the launcher needs when it starts; empty if there is nothing.
func needsStart(before, after *qconf.Cluster, host string) string {
	was, is := before.Config(host), after.Config(host)
	for _, name := range Attributes {
		a, _ := was.Value(name)
		b, _ := is.Value(name)
		if a != b {
			return name
		}
	}
	a, _ := before.Complexes().Find(launch.GPUMap)
	b, _ := after.Complexes().Find(launch.GPUMap)
	if a.Type != b.Type || !slices.Equal(ObjectsOf(before, host).Elements[launch.GPUMap], ObjectsOf(after, host).Elements[launch.GPUMap]) {
		return "the resource map " + launch.GPUMap
	}
	return ""
}
