package generate

import (
	_ "embed"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

//go:embed complexes
var defaultComplexes string

//go:embed queue
var queueTemplate string

// An attribute of complex(5) that the cases add: where objects have it, and which
// values.
type attribute struct {
	name, line string // the line without its urgency
	global     string // values that fit there, each picked as often as it occurs
	host       string
	queue      string
	load       string // load values
	percent    int
}

// attributes has one of each kind.
var attributes = []attribute{
	{name: "lic", line: "lic lic INT <= YES YES 0", global: "3 5 8", host: "2 4", percent: 50},
	{name: "mem", line: "mem mem MEMORY <= YES YES DEFAULT", host: "1G 2G 4G", percent: 50},
	{name: "tok", line: "tok tok INT <= YES JOB 0", global: "2 4", host: "1 2", percent: 40},
	{name: "scr", line: "scr scr MEMORY <= YES YES 0", queue: "2G 4G", host: "4G 6G", percent: 25},
	{name: "frc", line: "frc frc INT <= FORCED YES 0", queue: "1 2", percent: 15},
	{name: "exclusive", line: "exclusive excl BOOL EXCL YES YES 0", host: "true", percent: 25},
	{name: "osn", line: "osn osn RESTRING == YES NO NONE", host: "lx lx64 sol sol64 hpux", percent: 40},
	{name: "color", line: "color color CSTRING == YES NO NONE", queue: "red Blue GREEN", host: "red blue", percent: 25},
	{name: "gpu", line: "gpu gpu STRING == YES NO NONE", host: "v100 k80", load: "v100 p100", percent: 25},
	{name: "rank", line: "rank rank INT >= YES NO 0", host: "1 2 3", queue: "2 4", percent: 25},
	{name: "temp", line: "temp temp DOUBLE >= YES NO 0", global: "10", load: "5 15 30", percent: 25},
	{name: "free", line: "free free MEMORY <= YES NO 0", host: "2G 4G 8G", load: "1G 3G 6G 9G", percent: 25},
	{name: "big", line: "big big BOOL == YES NO 0", host: "true false", queue: "true", percent: 25},
}

// cluster makes up hosts, groups, complexes, lists, projects, parallel environments
// and queues.
func (g *generator) cluster() {
	g.has = map[string]bool{}
	g.groups = map[string][]string{}
	for i := range g.between(3, pick(g, 3, 4, 5, 6, 12)) {
		g.hosts = append(g.hosts, "n"+strconv.Itoa(i+1))
	}
	g.people()
	g.hostGroups()
	queueValues := g.resources()
	g.environments()
	g.makeQueues(queueValues)
	if g.topic(50, "quotas") {
		g.files["input/rqs"] = g.quotas()
	}
}

// people makes up users, lists, departments and projects.
func (g *generator) people() {
	override := g.topic(25, "override tickets")
	ticket := func() string {
		if override && g.chance(50) {
			return strconv.Itoa(g.between(1, 20) * 10)
		}
		return "0"
	}
	share := func() string { return strconv.Itoa(g.between(0, 5) * 10) }
	for _, name := range users {
		g.object("users/"+name, "name", name, "oticket", ticket(), "fshare", share(), "delete_time", "0", "default_project", "NONE")
	}
	members := some(g, 2, 3, users)
	g.object("usersets/staff", "name", "staff", "type", "ACL", "fshare", "0", "oticket", "0", "entries", strings.Join(members, ","))
	others := slices.DeleteFunc(slices.Clone(users), func(u string) bool { return slices.Contains(members, u) })
	guests := some(g, 1, 2, others)
	if g.chance(30) {
		guests = append(guests, pick(g, "@lab", "@users")) // which are no primary groups
	}
	g.object("usersets/guests", "name", "guests", "type", "ACL", "fshare", "0", "oticket", "0", "entries", strings.Join(guests, ","))
	if g.chance(40) {
		in := some(g, 1, 3, users)
		g.object("usersets/dep1", "name", "dep1", "type", "DEPT", "fshare", share(), "oticket", ticket(), "entries", strings.Join(in, ","))
	}
	if g.projects = g.topic(45, "projects"); g.projects {
		for _, name := range []string{"p1", "p2"} {
			acl := "NONE"
			if g.chance(15) {
				acl = "staff"
			}
			g.object("projects/"+name, "name", name, "oticket", ticket(), "fshare", share(), "acl", acl, "xacl", "NONE")
		}
	}
}

// hostGroups makes up one or two groups, the second of which may hold the first.
func (g *generator) hostGroups() {
	g.groups["@big"] = some(g, 1, len(g.hosts)-1, g.hosts)
	if g.chance(50) {
		g.groups["@wide"] = append([]string{"@big"}, some(g, 1, 2, g.hosts)...)
	}
	for _, name := range slices.Sorted(maps.Keys(g.groups)) {
		g.object("hostgroups/"+name, "group_name", name, "hostlist", strings.Join(g.groups[name], " "))
	}
}

// resources gives attributes to the global host, to hosts and as load values, and
// returns those of queues.
func (g *generator) resources() []string {
	var complexes, global, queueValues []string
	values := map[string][]string{}
	var load strings.Builder
	load.WriteString(g.basicLoad())
	for _, a := range attributes {
		if !g.topic(a.percent, a.name) {
			continue
		}
		g.has[a.name] = true
		urgency := "0"
		if g.chance(40) {
			urgency = pick(g, "100", "1000", "2000", "-500", "0.5")
		}
		if strings.Contains(a.line, "MEMORY") && urgency != "0" {
			urgency = "0.000001"
		}
		line := strings.Replace(a.line, "DEFAULT", pick(g, "0", "0", "512M"), 1)
		complexes = append(complexes, line+" "+urgency)
		at := some(g, 1, 2, levels(a))
		if slices.Contains(at, "global") {
			global = append(global, a.name+"="+pick(g, strings.Fields(a.global)...))
		}
		for _, host := range g.hosts {
			if slices.Contains(at, "host") && g.chance(75) {
				values[host] = append(values[host], a.name+"="+pick(g, strings.Fields(a.host)...))
			}
			if slices.Contains(at, "load") && g.chance(75) {
				fmt.Fprintf(&load, "%s:%s:%s\n", host, a.name, pick(g, strings.Fields(a.load)...))
			}
		}
		if slices.Contains(at, "queue") {
			for v := range strings.FieldsSeq(a.queue) {
				queueValues = append(queueValues, a.name+"="+v)
			}
		}
	}
	g.files["input/complexes"] = defaultComplexes + strings.Join(complexes, "\n") + "\n"
	g.files["input/load_values"] = load.String()
	g.makeHost("global", global)
	for _, host := range g.hosts {
		if g.chance(10) {
			values[host] = append(values[host], "slots="+strconv.Itoa(g.between(2, 6)))
		}
		g.makeHost(host, values[host])
	}
	return queueValues
}

// levels returns the places where an attribute may be.
func levels(a attribute) []string {
	var all []string
	for _, l := range []struct{ name, values string }{{"global", a.global}, {"host", a.host}, {"queue", a.queue}, {"load", a.load}} {
		if l.values != "" {
			all = append(all, l.name)
		}
	}
	return all
}

// basicLoad gives each host a load of its own and sometimes processors.
func (g *generator) basicLoad() string {
	var b strings.Builder
	for i, order := range g.Perm(len(g.hosts)) {
		// No sum of these and of corrections of 0.5, 0.33 or their parts comes close to
		// another.
		fmt.Fprintf(&b, "%s:np_load_avg:0.%02d%d\n", g.hosts[i], 3+7*order, 1+g.IntN(5))
		if g.chance(60) {
			fmt.Fprintf(&b, "%s:num_proc:%d\n", g.hosts[i], pick(g, 1, 2, 4))
		}
	}
	return b.String()
}

func (g *generator) makeHost(name string, values []string) {
	scaling, list, xlist, xprojects := "NONE", "NONE", "NONE", "NONE"
	if name == "global" {
		if g.chance(4) {
			xlist = "guests"
		}
	} else {
		if g.chance(10) {
			scaling = "np_load_avg=" + pick(g, "2.000000", "0.500000")
		}
		if g.chance(8) {
			list = "staff"
		}
		if g.chance(8) {
			xlist = "guests"
		}
		if g.projects && g.chance(10) {
			xprojects = pick(g, "p1", "p2")
		}
	}
	g.object("hosts/"+name, "hostname", name, "load_scaling", scaling, "complex_values", orNone(values, ","),
		"user_lists", list, "xuser_lists", xlist, "projects", "NONE", "xprojects", xprojects,
		"usage_scaling", "NONE", "report_variables", "NONE")
}

// environments makes up parallel environments, with each allocation rule.
func (g *generator) environments() {
	if !g.topic(65, "parallel jobs") {
		return
	}
	rules := []struct{ name, rule, slots string }{
		{"fill", "$fill_up", "100"}, {"rr", "$round_robin", "100"}, {"smp", "$pe_slots", "100"}, {"two", "2", "100"}, {"few", "$fill_up", "5"},
	}
	for _, r := range some(g, 2, len(rules), rules) {
		list := "NONE"
		if g.chance(10) {
			list = pick(g, lists...)
		}
		g.object("pes/"+r.name, "pe_name", r.name, "slots", r.slots, "user_lists", list, "xuser_lists", "NONE",
			"start_proc_args", "NONE", "stop_proc_args", "NONE", "allocation_rule", r.rule, "control_slaves", "TRUE",
			"job_is_first_task", pick(g, "TRUE", "FALSE"), "urgency_slots", pick(g, "min", "min", "max", "avg", "3"),
			"accounting_summary", "FALSE", "qsort_args", "NONE")
		g.pes = append(g.pes, r.name)
	}
}
