package generate

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// makeQueues makes up the cluster queues, each on some of the hosts and with
// settings for some of these.
func (g *generator) makeQueues(values []string) {
	names := []string{"a.q", "b.q", "c.q", "d.q"}[:g.between(1, 4)]
	seq := g.Perm(len(names))
	for i, name := range names {
		q := &queue{g: g, set: map[string]string{}}
		q.hosts = g.hosts
		if i > 0 {
			q.hosts = some(g, 1, len(g.hosts), g.hosts)
		}
		q.set["hostlist"] = strings.Join(q.hosts, " ")
		if i == 0 && g.chance(30) && len(g.groups["@big"]) > 0 {
			rest := slices.DeleteFunc(slices.Clone(g.hosts), func(h string) bool { return slices.Contains(g.groups["@big"], h) })
			q.set["hostlist"] = strings.Join(append([]string{"@big"}, rest...), " ")
		}
		q.set["seq_no"] = strconv.Itoa(10 * (1 + seq[i]))
		q.set["slots"] = q.overridden(40, func() string { return strconv.Itoa(g.between(1, 3)) })
		q.set["qtype"] = pick(g, "BATCH INTERACTIVE", "BATCH INTERACTIVE", "BATCH INTERACTIVE", "BATCH")
		if len(g.pes) > 0 {
			q.set["pe_list"] = q.overridden(15, func() string { return orNone(some(g, max(0, len(g.pes)-2), len(g.pes), g.pes), " ") })
		}
		q.access()
		q.thresholds()
		q.suspension()
		q.calendar()
		if g.chance(15) {
			q.set["h_rt"] = q.overridden(40, func() string { return pick(g, "INFINITY", "00:10:00", "02:00:00") })
		}
		if own := q.values(values); len(own) > 0 {
			q.set["complex_values"] = strings.Join(own, ",")
		}
		if i > 0 && g.topic(10, "subordination") {
			q.set["subordinate_list"] = names[i-1] + pick(g, "", "=1", "=2")
		}
		g.queues = append(g.queues, name)
		g.files["input/queues/"+name] = q.text(name)
	}
}

// A queue is a cluster queue in the making.
type queue struct {
	g     *generator
	hosts []string
	set   map[string]string
}

func (q *queue) text(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%-20s  %s\n%-20s  %s\n", "qname", name, "hostlist", q.set["hostlist"])
	for line := range strings.Lines(queueTemplate) {
		attribute := strings.Fields(line)[0]
		if value, ok := q.set[attribute]; ok {
			line = fmt.Sprintf("%-20s  %s\n", attribute, value)
		}
		b.WriteString(line)
	}
	return b.String()
}

// overridden returns a value, with other ones for some hosts or a group in that many of
// a hundred cases.
func (q *queue) overridden(percent int, value func() string) string {
	text := value()
	if !q.g.chance(percent) {
		return text
	}
	for _, host := range some(q.g, 1, 2, q.hosts) {
		text += ",[" + host + "=" + value() + "]"
	}
	if q.g.chance(40) {
		groups := slices.Sorted(maps.Keys(q.g.groups))
		// Two groups with the same host make the instance ambiguous, which is fine.
		for _, group := range some(q.g, 1, 1+q.g.IntN(2), groups) {
			text += ",[" + group + "=" + value() + "]"
		}
	}
	return text
}

// access restricts who may use the queue.
func (q *queue) access() {
	for _, attribute := range []string{"user_lists", "xuser_lists"} {
		if q.g.chance(12) {
			q.set[attribute] = q.overridden(50, func() string { return pick(q.g, "NONE", "staff", "guests") })
		}
	}
	if !q.g.projects {
		return
	}
	for _, attribute := range []string{"projects", "xprojects"} {
		if q.g.chance(15) {
			q.set[attribute] = pick(q.g, "p1", "p2", "p1 p2")
		}
	}
}

// thresholds sets load thresholds. Hosts have loads below 1.
func (q *queue) thresholds() {
	if !q.g.chance(35) {
		return
	}
	threshold := "np_load_avg=" + pick(q.g, "0.4", "0.7", "1.0", "1.75")
	if q.g.has["temp"] && q.g.chance(30) {
		threshold = "temp=" + pick(q.g, "20", "40")
	}
	q.set["load_thresholds"] = threshold
}

// suspension sets suspend thresholds, which act once: the next time is in an hour.
func (q *queue) suspension() {
	if !q.g.topic(10, "suspend thresholds") {
		return
	}
	q.set["suspend_thresholds"] = pick(q.g, "np_load_avg=1.5", "np_load_avg=0.5")
	q.set["nsuspend"] = strconv.Itoa(q.g.between(1, 2))
	q.set["suspend_interval"] = "01:00:00"
}

// calendar closes or suspends the queue, at all times: cases do not depend on when
// they are run.
func (q *queue) calendar() {
	if !q.g.topic(5, "calendars") {
		return
	}
	name := pick(q.g, "closed", "stopped", "open")
	week := map[string]string{"closed": "mon-sun=0-24=off", "stopped": "suspended", "open": "mon-sun=0-24=on off"}[name]
	q.g.object("calendars/"+name, "calendar_name", name, "year", "NONE", "week", week)
	q.set["calendar"] = q.overridden(40, func() string { return pick(q.g, name, "NONE") })
}

// values picks values for the queue's attributes, one of each attribute.
func (q *queue) values(all []string) []string {
	byName := map[string][]string{}
	for _, v := range all {
		name, _, _ := strings.Cut(v, "=")
		byName[name] = append(byName[name], v)
	}
	var own []string
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		if q.g.chance(60) {
			own = append(own, pick(q.g, byName[name]...))
		}
	}
	return own
}

// quotas makes up one to three resource quota sets.
func (g *generator) quotas() string {
	var b strings.Builder
	for i := range g.between(1, 3) {
		enabled := "TRUE"
		if g.chance(8) {
			enabled = "FALSE"
		}
		fmt.Fprintf(&b, "{\n   name         set%d\n   description  NONE\n   enabled      %s\n", i+1, enabled)
		for k := range g.between(1, 3) {
			name := ""
			if g.chance(25) {
				name = fmt.Sprintf("name r%d ", k+1)
			}
			b.WriteString("   limit        " + name + g.rule() + "\n")
		}
		b.WriteString("}\n")
	}
	return b.String()
}

// rule makes up a rule: filters, and a limit or two.
func (g *generator) rule() string {
	filters := []struct {
		key     string
		percent int
		values  []string
	}{
		{"users", 60, []string{"{*}", "{*}", "*", "alice,bob", "{alice,bob}", "@staff", "{@staff}", "!alice", "{!@guests}"}},
		{"projects", 15, []string{"{*}", "*", "p1", "!p1", "{p1,p2}"}},
		{"pes", 15, []string{"{*}", "*", "rr", "{fill,rr}", "!smp"}},
		{"queues", 25, []string{"{*}", "a.q", "{a.q,b.q}", "!a.q", "*"}},
		{"hosts", 35, []string{"{*}", "{*}", "@big", "{@big}", "n1,n2", "{n1,n2,n3}", "{!n1}"}},
	}
	text, perHost := "", false
	for _, f := range filters {
		if !g.chance(f.percent) || f.key == "projects" && !g.projects || f.key == "pes" && len(g.pes) == 0 {
			continue
		}
		value := pick(g, f.values...)
		text += f.key + " " + value + " "
		perHost = f.key == "hosts" && strings.HasPrefix(value, "{")
	}
	limit := "slots=" + strconv.Itoa(g.between(1, 8))
	if perHost && g.chance(30) {
		limit = "slots=" + pick(g, "$num_proc", "$num_proc*2")
	}
	for _, name := range []string{"lic", "tok"} {
		if g.has[name] && g.chance(30) {
			limit += "," + name + "=" + strconv.Itoa(g.between(1, 4))
		}
	}
	return text + "to " + limit
}
