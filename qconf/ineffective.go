package qconf

import (
	"fmt"
	"strings"

	"github.com/execd-project/execd/job"
)

// isUnset reports whether a value switches its parameter off.
func isUnset(value string) bool {
	return isWord(value, "", none, "false") || strings.Trim(value, "0:") == ""
}

// idleAttributes are the attributes of sge_conf(5) that have no effect in execd, each with its
// replacement. Attributes that only concern programs of Grid Engine (execd_spool_dir, xterm,
// loglevel, libjvm_path) are not listed, because in every cluster they differ from the template.
var idleAttributes = []struct{ name, instead string }{
	{"shell_start_mode", "each queue has its own"},
	{"set_token_cmd", "jobs get no AFS token"},
	{"pag_cmd", "jobs get no AFS token"},
	{"token_extend_time", "jobs get no AFS token"},
	{"delegated_file_staging", "no files are staged"},
	{"qlogin_command", "interactive jobs are connected by execd itself"},
	{"qlogin_daemon", "interactive jobs are connected by execd itself"},
	{"rlogin_command", "interactive jobs are connected by execd itself"},
	{"rlogin_daemon", "interactive jobs are connected by execd itself"},
	{"rsh_daemon", "interactive jobs are connected by execd itself"},
}

// idle returns the finding about one parameter.
func (t Text) idle(attribute, value, instead string) *Error {
	problem := fmt.Sprintf("%q has no effect", value)
	if instead != "" {
		problem += ": " + instead
	}
	return t.errorAt(attribute, value, problem, nil)
}

// newerRelease returns the hint for an attribute or parameter that 8.1.9 does not have.
func newerRelease(release string) string {
	return "Open Cluster Scheduler " + release + " has introduced it"
}

// newerIn returns an error for each attribute of an object that has a value other than its default,
// and that only a release of Open Cluster Scheduler knows.
func newerIn[T any](t *table[T], text Text) []*Error {
	var found []*Error
	for _, r := range t.rows {
		if value, ok := text.Value(r.name); ok && r.since != "" && !isUnset(value) && value != r.def {
			found = append(found, text.idle(r.name, value, newerRelease(r.since)))
		}
	}
	return found
}

// idleIn returns an error for each setting of a configuration that has no effect. c has the
// parameters that t sets.
func (t Text) idleIn(c *Configuration) []*Error {
	found := newerIn(&confTable, t)
	for _, a := range idleAttributes {
		if value, ok := t.Value(a.name); ok && !isUnset(value) && !isWord(value, builtin, string(job.PosixCompliant)) {
			found = append(found, t.idle(a.name, value, a.instead))
		}
	}
	for _, list := range []struct {
		attribute, instead string
		newer              newer
		items              []string
	}{
		{"qmaster_params", "", qmasterParams.newer, c.QmasterParams.Ineffective},
		{"execd_params", "", execdParams.newer, c.ExecdParams.Ineffective},
		{"reporting_params", "no reporting file is written", reportingParams.newer, c.ReportingParams.Ineffective},
		{"cgroups_params", "", nil, c.CgroupsParams.Ineffective},
	} {
		if _, own := t.Value(list.attribute); !own {
			continue
		}
		for _, item := range list.items {
			name, _, _ := strings.Cut(item, "=")
			instead := list.instead
			if release := list.newer.release(name); release != "" {
				instead = newerRelease(release)
			}
			found = append(found, t.idle(list.attribute, item, instead))
		}
	}
	return found
}

// idle returns an error for each setting of sched_conf(5) that has no effect.
func (c *SchedulerConfig) idle() []*Error {
	var found []*Error
	say := func(set bool, attribute, value, instead string) {
		if set {
			found = append(found, c.Text.idle(attribute, value, instead))
		}
	}
	say(c.Algorithm != "default", "algorithm", c.Algorithm, "it is the same as default")
	for _, h := range c.HalflifeDecayList {
		known := usageName(h.Usage) == nil || h.Usage == "finished_jobs"
		say(!known, "halflife_decay_list", h.Usage, "usage is cpu, mem, io and finished_jobs")
	}
	say(c.Params.Profile, "params", "PROFILE", "")
	say(c.Params.Monitor, "params", "MONITOR", "no file schedule is written")
	say(c.Params.JCFilter, "params", "JC_FILTER", "all jobs are looked at")
	return found
}

// Ineffective returns an error for each setting of any file that has no effect in an agent, a
// master or execd run, in the order of the files. The settings are valid, and may be meant for
// another Grid Engine.
func (c *Cluster) Ineffective() []*Error {
	found := c.global.idleIn(c.global)
	for _, l := range sortedKeys(c.locals) {
		found = append(found, c.locals[l].idleIn(c.Config(l))...)
	}
	hosts := []*ExecHost{c.globalHost}
	for _, h := range sortedKeys(c.hosts) {
		hosts = append(hosts, c.hosts[h])
	}
	for _, h := range hosts {
		if h != nil && len(h.ReportVariables) > 0 {
			value, _ := h.Value("report_variables")
			found = append(found, h.idle("report_variables", value, "no reporting file is written"))
		}
	}
	for _, name := range sortedKeys(c.pes) {
		found = append(found, newerIn(&peTable, c.pes[name].Text)...)
		if pe := c.pes[name]; pe.QsortArgs != "" {
			found = append(found, pe.idle("qsort_args", pe.QsortArgs, "hosts are in the order of queue_sort_method"))
		}
	}
	found = append(found, c.scheduler.idle()...)
	if i := c.scheduler.ReprioritizeInterval; i > 0 && !c.global.Reprioritize {
		value, _ := c.scheduler.Value("reprioritize_interval")
		found = append(found, c.scheduler.Text.idle("reprioritize_interval", value, "reprioritize of the configuration is false"))
	}
	for _, u := range sortedKeys(c.users) {
		if user := c.users[u]; !user.DeleteTime.IsZero() {
			value, _ := user.Value("delete_time")
			found = append(found, user.idle("delete_time", value, "the user stays until qconf -duser"))
		}
	}
	return found
}
