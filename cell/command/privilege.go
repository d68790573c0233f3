package command

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/execd-project/execd/qconf"
)

// privilege says when only root may set an attribute.
type privilege int

const (
	// switched attributes name a program, "[user@]path args": it runs as the job's owner
	// unless the value names another user.
	switched privilege = iota
	// always attributes name a program that the daemon runs with its own rights, or restrict the
	// use of these rights for jobs.
	always
)

// privileged lists the attributes with which a manager could make root act: by the first part
// of a file's path and by name. A manager of Grid Engine can become root by each of them;
// here only root sets them.
var privileged = map[string]map[string]privilege{
	queueKind.folder: {"prolog": switched, "epilog": switched},
	peKind.folder:    {"start_proc_args": switched, "stop_proc_args": switched},
	confFolder: {
		"prolog": switched, "epilog": switched,
		"mailer": always, "load_sensor": always, "shepherd_cmd": always, "jsv_url": always, "set_token_cmd": always, "pag_cmd": always,
		"qlogin_daemon": always, "rlogin_daemon": always, "rsh_daemon": always, "libjvm_path": always, "additional_jvm_args": always,
		// Which users and groups jobs may have, and where root makes directories.
		"min_uid": always, "min_gid": always, "gid_range": always, "execd_spool_dir": always,
		// INHERIT_ENV, SET_LIB_PATH and others change the environment with which root starts jobs;
		// cgroups_params limits the jobs' use of the host.
		"execd_params": always, "cgroups_params": always,
	},
}

// needsRoot reports whether a value of the attribute makes the daemon act as a user other than the
// owner of a job. qconf refuses a user before a path that is not absolute, so each such value
// contains "@/", including values for single hosts: "[node1=root@/opt/prolog]".
func (p privilege) needsRoot(value string) bool {
	return p == always || strings.Contains(value, "@/")
}

// checkPrivileges returns an error if a configuration has a privileged value that the current one
// does not have. It allows unchanged values, values that another object of the same kind already
// has, and NONE.
func checkPrivileges(current, next *qconf.Cluster) error {
	approved := map[privilegedValue]bool{}
	for _, v := range privilegedValues(current) {
		approved[v] = true
	}
	for file, v := range privilegedValues(next) {
		if !approved[v] && !strings.EqualFold(v.value, none) {
			return &qconf.Error{
				File: file, Attribute: v.attribute, Value: v.value,
				Problem: fmt.Sprintf("only root may set %q, which decides what runs with the rights of root or of other users", v.value),
			}
		}
	}
	return nil
}

// privilegedValue is a value of an attribute that needs root.
type privilegedValue struct{ folder, attribute, value string }

// privilegedValues yields each file of a configuration with its values that need root, sorted.
func privilegedValues(c *qconf.Cluster) iter.Seq2[string, privilegedValue] {
	objects := map[string]object{confFolder + "/" + qconf.GlobalName: c.Global()}
	for _, k := range []*kind{queueKind, peKind} {
		for _, name := range k.names(c) {
			if o, ok := k.find(c, name); ok {
				objects[k.path(name)] = o
			}
		}
	}
	for _, host := range c.LocalNames() {
		if l, err := c.Local(host); err == nil {
			objects[confFolder+"/"+host] = l
		}
	}
	return func(yield func(string, privilegedValue) bool) {
		for _, file := range slices.Sorted(maps.Keys(objects)) {
			folder, _, _ := strings.Cut(file, "/")
			attributes := privileged[folder]
			for _, name := range slices.Sorted(maps.Keys(attributes)) {
				value, ok := objects[file].Value(name)
				if ok && attributes[name].needsRoot(value) && !yield(file, privilegedValue{folder, name, value}) {
					return
				}
			}
		}
	}
}
