package importer

import (
	"slices"
	"strings"
)

// kind is a kind of object: its place in a configuration directory, its names in other formats, and
// the qconf options that show it.
type kind struct {
	name string
	// others are its names in the directories of save_sge_config.sh and of classic spooling.
	others []string
	single bool // one object in a file
	names  bool // the file is a list of names, for which classic spooling may have one file per name
	// list and show are qconf options: for the names, and for an object. Without list, show prints
	// all objects.
	list, show string
	extra      string            // name of an object that is not listed
	state      []string          // attributes that are not configuration
	words      map[string]string // lines that a master writes in another form than qconf
	first      string            // the first attribute of an object
	skip       string            // name of an entry that is not an object
}

var kinds = []kind{
	{name: "complexes", others: []string{"centry"}, single: true, show: "-sc", first: "#name"},
	{name: "conf", others: []string{"configurations", "local_conf"}, list: "-sconfl", show: "-sconf", extra: "global", state: []string{"conf_name", "conf_version"}},
	{
		name: "sched_conf", others: []string{"schedconf", "sched_configuration"}, single: true, show: "-ssconf", first: "algorithm", state: []string{"weight_tickets_override"},
		words: map[string]string{"queue_sort_method 0": "queue_sort_method load", "queue_sort_method 1": "queue_sort_method seqno"},
	},
	{
		name: "hosts", others: []string{"execution", "exec_hosts"}, list: "-sel", show: "-se", extra: "global", first: "hostname", skip: "template",
		state: []string{"load_values", "processors", "reschedule_unknown_list"},
	},
	{name: "hostgroups", list: "-shgrpl", show: "-shgrp", first: "group_name"},
	{name: "calendars", list: "-scall", show: "-scal", first: "calendar_name"},
	{name: "ckpts", others: []string{"ckpt"}, list: "-sckptl", show: "-sckpt", first: "ckpt_name"},
	{name: "pes", others: []string{"pe"}, list: "-spl", show: "-sp", first: "pe_name"},
	{name: "usersets", list: "-sul", show: "-su"},
	{name: "users", list: "-suserl", show: "-suser", state: []string{"usage", "usage_time_stamp", "long_term_usage", "project", "debited_job_usage"}},
	{name: "projects", list: "-sprjl", show: "-sprj", state: []string{"usage", "usage_time_stamp", "long_term_usage", "project", "debited_job_usage"}},
	{name: "queues", others: []string{"cqueues"}, list: "-sql", show: "-sq", first: "qname", skip: "template"},
	{name: "rqs", others: []string{"resource_quotas"}, show: "-srqs", first: "{"},
	{name: "sharetree", single: true, show: "-sstree", first: "id=0"},
	{name: "managers", single: true, names: true, show: "-sm"},
	{name: "operators", single: true, names: true, show: "-so"},
	{name: "adminhosts", others: []string{"admin_hosts"}, single: true, names: true, show: "-sh"},
	{name: "submithosts", others: []string{"submit_hosts"}, single: true, names: true, show: "-ss"},
}

// elsewhere lists entries that are not part of the configuration: of a backup, of a master's spool
// directory, of the directory common. Entries with a reason are reported.
var elsewhere = map[string]string{
	"sge_request":          "copy it into the configuration directory: execd standalone reads it there",
	"host_aliases":         "there are no aliases of hosts",
	"sge_aliases":          "there are no aliases of paths",
	"qtask":                "qtcsh does not exist",
	"shadow_masters":       "there are no shadow masters",
	"jobs":                 "jobs are not imported",
	"jobseqnum":            "",
	"arseqnum":             "",
	"advance_reservations": "reservations are not imported",

	"accounting": "", "reporting": "", "act_qmaster": "", "backup_date": "", "bootstrap": "", "cell": "", "cluster_name": "", "heartbeat": "",
	"job_scripts": "", "messages": "", "ports": "", "qinstances": "", "qmaster.pid": "", "schedd": "", "settings.csh": "", "settings.sh": "",
	"sge.module": "", "sge_cell": "", "sge_root": "", "spooldb": "", "version": "", "zombies": "", "configuration": "", "dbwriter.conf": "", "jmx": "",
	"hadoop": "", "sgeexecd": "", "sgemaster": "", "sge_qstat": "", "sge_qquota": "", "sge_qrstat": "", "sge_ar_request": "", "lock": "", "shutdown": "",
}

// find returns the kind of an entry.
func find(entry string) (*kind, bool) {
	for i := range kinds {
		k := &kinds[i]
		if k.name == entry || slices.Contains(k.others, entry) {
			return k, true
		}
	}
	return nil, false
}

// identify returns the path for a file of qconf output, derived from its content.
func identify(text string) (string, bool) {
	if name, ok := strings.CutPrefix(firstLine(text, ""), "#"); ok && strings.HasSuffix(name, ":") {
		return "conf/" + strings.TrimSuffix(name, ":"), true
	}
	words := strings.Fields(firstLine(text, "#"))
	if strings.HasPrefix(text, "#name ") {
		return "complexes", true
	}
	if len(words) == 0 {
		return "", false
	}
	for _, k := range kinds {
		switch {
		case k.first != words[0]:
		case k.single || k.name == "rqs":
			return k.name, true
		case len(words) > 1:
			return k.name + "/" + words[1], true
		}
	}
	if words[0] == "name" && len(words) > 1 {
		for attribute, folder := range map[string]string{"entries": "usersets", "default_project": "users", "xacl": "projects"} {
			if strings.Contains(text, "\n"+attribute+" ") {
				return folder + "/" + words[1], true
			}
		}
	}
	return "", false
}

// firstLine returns the first line that is neither empty nor a comment.
func firstLine(text, comment string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line != "" && (comment == "" || !strings.HasPrefix(line, comment)) {
			return line
		}
	}
	return ""
}
