package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// object is an object of the configuration, of any kind.
type object interface {
	Format(style qconf.Style) string
	Attributes() []string
	Value(attribute string) (string, bool)
	File() string
}

// kind is a kind of object. Each object is a file of the configuration directory.
type kind struct {
	folder string // of the directory
	spec   string // its name in -mattr and similar options
	key    string // the attribute with the name of the object
	// what and list are words for messages, such as `WHAT "x" already exists` and `added "x" to
	// LIST`. gone and removed replace them in messages about deleting an object, or about changing
	// one that does not exist, if these messages use other words.
	what, list    string
	gone, removed string
	// unknown is the message about showing an object that does not exist, a format with the name.
	// none is the message about an empty list.
	unknown, none string
	stdout        bool // messages about changes go to standard output (tested)
	// The options: show an object, show the list, add with an editor, add from a file, modify with
	// an editor, modify from a file, delete.
	show, showAll, add, addFile, modify, modifyFile, remove string
	// lists are the attributes that are lists, each with the separator of its elements.
	lists map[string]string
	// replaced is the list that -mattr replaces as a whole (tested).
	replaced string

	names func(*qconf.Cluster) []string
	find  func(c *qconf.Cluster, name string) (object, bool)
	parse func(file string, data []byte) (object, error)
	with  func(o object, attribute, value string) (object, error)
	// template is the text of a new object.
	template string
}

// changedBy returns the role that a user needs to change objects of the kind: operators for access
// lists, managers for all other objects.
func (k *kind) changedBy() role {
	if k == userSetKind {
		return operators
	}
	return managers
}

// access adds the attributes with access lists and projects to a map of lists, and returns it.
func access(more map[string]string) map[string]string {
	for _, name := range []string{"user_lists", "xuser_lists", "projects", "xprojects"} {
		more[name] = " "
	}
	return more
}

// typed fills in the functions that depend on the type of the objects.
func typed[O object](
	k kind, names func(*qconf.Cluster) []string, find func(*qconf.Cluster, string) (O, error), parse func(string, []byte) (O, error),
	with func(O, string, string) (O, error),
) *kind {
	k.names = names
	k.find = func(c *qconf.Cluster, name string) (object, bool) {
		o, err := find(c, name)
		if err != nil {
			return nil, false
		}
		return o, true
	}
	k.parse = func(file string, data []byte) (object, error) {
		o, err := parse(file, data)
		if err != nil {
			return nil, err
		}
		return o, nil
	}
	k.with = func(o object, attribute, value string) (object, error) {
		next, err := with(o.(O), attribute, value)
		if err != nil {
			return nil, err
		}
		return next, nil
	}
	if k.gone == "" {
		k.gone = k.what
	}
	if k.removed == "" {
		k.removed = k.list
	}
	return &k
}

// The kinds of objects.
var (
	queueKind = typed(kind{
		folder: "queues", spec: "queue", key: "qname", what: "cluster queue", list: "cluster queue list",
		unknown: "No cluster queue or queue instance matches the phrase %q", none: "no cluster queue defined",
		show: "-sq", showAll: "-sql", add: "-aq", addFile: "-Aq", modify: "-mq", modifyFile: "-Mq", remove: "-dq",
		lists: access(map[string]string{
			"hostlist": " ", "load_thresholds": ",", "suspend_thresholds": ",", "ckpt_list": " ", "pe_list": " ", "owner_list": " ",
			"subordinate_list": ",", "complex_values": ",", "qtype": " ",
		}),
		replaced: "qtype",
		template: "qname template\nhostlist NONE\n",
	}, (*qconf.Cluster).QueueNames, (*qconf.Cluster).Queue, qconf.ParseQueue, (*qconf.Queue).With)
	peKind = typed(kind{
		folder: "pes", spec: "pe", key: "pe_name", what: "parallel environment", list: "parallel environment list",
		unknown: "%s is not a parallel environment", none: "no parallel environment defined",
		show: "-sp", showAll: "-spl", add: "-ap", addFile: "-Ap", modify: "-mp", modifyFile: "-Mp", remove: "-dp",
		lists: access(map[string]string{}), template: "pe_name template\n",
	}, (*qconf.Cluster).PENames, (*qconf.Cluster).PE, qconf.ParsePE, (*qconf.ParallelEnvironment).With)
	ckptKind = typed(kind{
		folder: "ckpts", spec: "ckpt", key: "ckpt_name", what: "checkpoint interface", list: "checkpoint interface list",
		gone: "checkpointing environment", removed: "checkpointing environment list",
		unknown: "%s is not a checkpointing interface definition", none: "no ckpt interface definition defined",
		show: "-sckpt", showAll: "-sckptl", add: "-ackpt", addFile: "-Ackpt", modify: "-mckpt", modifyFile: "-Mckpt", remove: "-dckpt",
		template: "ckpt_name template\n",
	}, (*qconf.Cluster).CheckpointNames, (*qconf.Cluster).Checkpoint, qconf.ParseCheckpoint, (*qconf.Checkpoint).With)
	calendarKind = typed(kind{
		folder: "calendars", spec: "calendar", key: "calendar_name", what: "calendar", list: "calendar list",
		unknown: "%s is not a calendar", none: "no calendar defined",
		show: "-scal", showAll: "-scall", add: "-acal", addFile: "-Acal", modify: "-mcal", modifyFile: "-Mcal", remove: "-dcal",
		template: "calendar_name template\n",
	}, (*qconf.Cluster).CalendarNames, (*qconf.Cluster).Calendar, qconf.ParseCalendar, (*qconf.Calendar).With)
	groupKind = typed(kind{
		folder: "hostgroups", spec: "hostgroup", key: "group_name", what: "host group", list: "host group list", removed: "host group entry list",
		unknown: "Host group %q does not exist", none: "no host group list defined",
		show: "-shgrp", showAll: "-shgrpl", add: "-ahgrp", addFile: "-Ahgrp", modify: "-mhgrp", modifyFile: "-Mhgrp", remove: "-dhgrp",
		lists: map[string]string{"hostlist": " "}, template: "group_name @template\nhostlist NONE\n",
	}, func(c *qconf.Cluster) []string { return c.HostGroups().Names() }, findGroup, qconf.ParseHostGroup, (*qconf.HostGroup).With)
	projectKind = typed(kind{
		folder: "projects", spec: "project", key: "name", what: "project", list: "project list",
		unknown: "%s is not known as a project", none: "no project list defined",
		show: "-sprj", showAll: "-sprjl", add: "-aprj", addFile: "-Aprj", modify: "-mprj", modifyFile: "-Mprj", remove: "-dprj",
		lists: map[string]string{"acl": " ", "xacl": " "}, template: "name template\n",
	}, (*qconf.Cluster).ProjectNames, (*qconf.Cluster).Project, qconf.ParseProject, (*qconf.Project).With)
	userKind = typed(kind{
		folder: "users", spec: "user", key: "name", what: "user", list: "user list", stdout: true,
		unknown: "%s is not known as a user", none: "no user list defined",
		show: "-suser", showAll: "-suserl", add: "-auser", addFile: "-Auser", modify: "-muser", modifyFile: "-Muser", remove: "-duser",
		template: "name template\n",
	}, (*qconf.Cluster).UserNames, (*qconf.Cluster).User, qconf.ParseUser, (*qconf.User).With)
	userSetKind = typed(kind{
		folder: "usersets", spec: "userset", key: "name", what: "userset", list: "userset list",
		unknown: "denied: access list %q does not exist", none: "no userset list defined",
		show: "-su", showAll: "-sul", addFile: "-Au", modify: "-mu", modifyFile: "-Mu", remove: "-dul",
		lists: map[string]string{"entries": ","}, template: "name template\ntype ACL DEPT\n",
	}, (*qconf.Cluster).UserSetNames, (*qconf.Cluster).UserSet, qconf.ParseUserSet, (*qconf.UserSet).With)
	hostKind = typed(kind{
		folder: "hosts", spec: "exechost", key: "hostname", what: "exechost", list: "exechost list", gone: "execution host",
		unknown: "can't resolve hostname %q", none: "no execution host defined",
		show: "-se", showAll: "-sel", add: "-ae", addFile: "-Ae", modify: "-me", modifyFile: "-Me", remove: "-de",
		lists:    access(map[string]string{"load_scaling": ",", "complex_values": ",", "usage_scaling": ",", "report_variables": ","}),
		template: "hostname template\n",
	}, (*qconf.Cluster).HostNames, findHost, qconf.ParseHost, (*qconf.ExecHost).With)

	kinds = []*kind{queueKind, peKind, ckptKind, calendarKind, groupKind, projectKind, userKind, userSetKind, hostKind}
)

func findGroup(c *qconf.Cluster, name string) (*qconf.HostGroup, error) {
	if g := c.HostGroups().Group(name); g != nil {
		return g, nil
	}
	return nil, qconf.ErrNotFound
}

func findHost(c *qconf.Cluster, name string) (*qconf.ExecHost, error) {
	if name == qconf.GlobalHost {
		return c.GlobalHost(), nil
	}
	return c.Host(name)
}

// find returns an object of a kind. It also finds users that a job created (enforce_user auto).
func (x *call) find(k *kind, name string) (object, bool) {
	o, ok := k.find(x.cluster(), name)
	if ok || k != userKind {
		return o, ok
	}
	for _, u := range x.cell.AutomaticUsers() {
		if u.Name == name {
			o, err := k.parse("", []byte(fmt.Sprintf("name %s\noticket %d\nfshare %d\ndelete_time %d\ndefault_project %s\n",
				u.Name, u.OverrideTickets, u.FunctionalShare, u.Expires, cmp.Or(u.DefaultProject, none))))
			return o, err == nil
		}
	}
	return nil, false
}

// allNames returns the names of the objects of a kind, including users that jobs created.
func (x *call) allNames(k *kind) []string {
	names := k.names(x.cluster())
	if k != userKind {
		return names
	}
	names = slices.Clone(names)
	for _, u := range x.cell.AutomaticUsers() {
		names = append(names, u.Name)
	}
	return distinct(names)
}

// name returns the name of an object.
func (k *kind) name(o object) string {
	name, _ := o.Value(k.key)
	return name
}

// path returns the file of an object.
func (k *kind) path(name string) string {
	if k == hostKind {
		name = strings.ToLower(name)
	}
	return k.folder + "/" + name
}

// newText returns the text to edit for a new object: the template with its name. It is empty if the
// object must exist already.
func (k *kind) newText(name string, style qconf.Style) string {
	o, err := k.sample()
	if err != nil {
		return k.template
	}
	if name == "" {
		name = "template"
	}
	return strings.Replace(o.Format(style), strings.Repeat("@", strings.Count(k.template, "@"))+sampleName, name, 1)
}

// sampleName is the name of samples.
const sampleName = "objectname"

// sample returns the object of the template under the name sampleName, because "template" itself is
// not a valid name.
func (k *kind) sample() (object, error) {
	return k.parse("", []byte(strings.Replace(k.template, "template", sampleName, 1)))
}

// ofSpec returns the kind with this name in -mattr and similar options, or nil.
func ofSpec(spec string) *kind {
	if i := slices.IndexFunc(kinds, func(k *kind) bool { return k.spec == spec }); i >= 0 {
		return kinds[i]
	}
	return nil
}
