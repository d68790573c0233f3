package generate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/simulate/script"
)

// play makes up the script: a first round of submissions, its start, and often a
// second round after some jobs have gone.
func (g *generator) play() {
	g.short = g.topic(15, "jobs that end")
	g.root("qmod -d '*'")
	g.submissions(g.between(8, 18))
	g.changes()
	g.wait(2)
	g.capture("before")
	g.root("qmod -e '*'")
	g.wait(3)
	g.capture("first")
	if !g.chance(75) {
		return
	}
	g.root("qmod -d '*'")
	if g.short {
		g.wait(14)
	}
	for _, id := range some(g, 1, 4, numbers(g.jobs)) {
		g.root("qdel -f " + strconv.Itoa(id))
	}
	for _, id := range some(g, 0, 1, numbers(g.jobs)) {
		g.root(pick(g, "qrls ", "qhold ") + strconv.Itoa(id))
	}
	restore := g.changeLoad()
	g.wait(2)
	g.submissions(g.between(3, 8))
	g.wait(2)
	g.capture("between")
	g.root("qmod -e '*'")
	g.wait(3)
	g.capture("second")
	g.lines = append(g.lines, restore...)
}

// changeLoad raises a load value of a host above most thresholds, and returns the
// line that undoes it: input/load_values is what holds at the end.
func (g *generator) changeLoad() []script.Line {
	if !g.topic(25, "a change of the load") {
		return nil
	}
	line := pick(g, strings.Split(strings.TrimSpace(g.files["input/load_values"]), "\n")...)
	f := strings.Split(line, ":")
	to, ok := map[string]string{"np_load_avg": "1.951", "temp": "45", "free": "700M"}[f[1]]
	if !ok {
		return nil
	}
	g.lines = append(g.lines, script.Line{Kind: script.LoadChange, Load: &script.Load{Host: f[0], Attribute: f[1], Value: to}})
	return []script.Line{{Kind: script.LoadChange, Load: &script.Load{Host: f[0], Attribute: f[1], Value: f[2]}}}
}

func numbers(n int) []int {
	var all []int
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func (g *generator) root(command string) {
	g.lines = append(g.lines, script.Line{Kind: script.Command, User: "root", Command: command})
}

func (g *generator) wait(seconds int) {
	g.lines = append(g.lines, script.Line{Kind: script.Wait, Wait: time.Duration(seconds) * time.Second})
}

func (g *generator) capture(step string) {
	g.lines = append(g.lines, script.Line{Kind: script.Capture, Capture: step})
}

// submissions adds jobs. Now and then several are equal, as they are on real
// clusters, so that they share a category.
func (g *generator) submissions(n int) {
	var user, options string
	for range n {
		if options == "" || g.chance(75) {
			user, options = pick(g, users...), g.options()
		}
		g.jobs++
		seconds := "900"
		if g.short && g.chance(30) {
			seconds = "8"
		}
		command := fmt.Sprintf("qsub -b y -N j%d %s/bin/sleep %s", g.jobs, options, seconds)
		g.lines = append(g.lines, script.Line{Kind: script.Command, User: user, Command: command})
	}
}

// changes adds commands of an administrator about pending jobs.
func (g *generator) changes() {
	for _, id := range some(g, 0, 3, numbers(g.jobs)) {
		switch g.IntN(4) {
		case 0:
			g.root(fmt.Sprintf("qalter -ot %d %d", g.between(1, 50), id))
		case 1:
			g.root(fmt.Sprintf("qalter -p %d %d", g.between(1, 10)*50, id))
		}
	}
}

// options makes up the options of a job, with a blank behind each.
func (g *generator) options() string {
	var b strings.Builder
	add := func(percent int, option func() string) {
		if g.chance(percent) {
			if text := option(); text != "" {
				b.WriteString(text + " ")
			}
		}
	}
	if g.projects {
		add(40, func() string { return "-P " + pick(g, "p1", "p2") })
	}
	add(20, func() string { return "-p -" + strconv.Itoa(g.between(1, 100)) })
	add(10, func() string { return "-js " + strconv.Itoa(g.between(1, 20)) })
	add(15, g.array)
	add(35, g.parallel)
	add(25, func() string { return "-q " + g.queueReference() })
	add(8, func() string { return "-h" })
	add(8, g.dependency)
	if g.reserve {
		add(40, func() string { return "-R y" })
		add(70, func() string { return "-l h_rt=" + pick(g, "100", "300", "700", "1500") })
	}
	add(50, g.request)
	add(20, g.request)
	if !g.reserve {
		add(10, func() string { return "-l h_rt=" + pick(g, "100", "700", "1:0:0") })
	}
	add(10, g.soft)
	add(4, func() string { return "-w " + pick(g, "e", "w", "p", "v") })
	return b.String()
}

func (g *generator) array() string {
	text := fmt.Sprintf("-t 1-%d", g.between(2, 6))
	if g.chance(25) {
		text += ":2"
	}
	if g.chance(40) {
		text += " -tc " + strconv.Itoa(g.between(1, 3))
	}
	return text
}

func (g *generator) parallel() string {
	if len(g.pes) == 0 {
		return ""
	}
	name := pick(g, g.pes...)
	if g.chance(10) {
		name = pick(g, "'f*'", "'*'", "'[rs]*'")
	}
	low := g.between(1, 5)
	amount := pick(g, strconv.Itoa(low), strconv.Itoa(low), fmt.Sprintf("%d-%d", low, low+g.between(1, 4)), fmt.Sprintf("%d-", low))
	text := "-pe " + name + " " + amount
	if g.chance(10) {
		text += " -masterq " + g.queueReference()
	}
	return text
}

func (g *generator) queueReference() string {
	queue, host := pick(g, g.queues...), pick(g, g.hosts...)
	reference := pick(g, queue, queue, queue, queue+"@"+host, "*@"+host, "*@@big", queue+"@@big", "[ab].q", "!"+queue, "*.q@n[12]")
	if g.chance(20) {
		reference += "," + pick(g, g.queues...)
	}
	return "'" + reference + "'"
}

// dependency names another job of the same user or of nobody.
func (g *generator) dependency() string {
	if g.jobs == 0 {
		return ""
	}
	id := strconv.Itoa(g.between(1, g.jobs))
	return "-hold_jid " + pick(g, id, id, "j"+id, "'j[12]'")
}

// requests are resource requests, by attribute.
var requests = []struct {
	name   string
	values []string
}{
	{"lic", []string{"1", "2", "3"}},
	{"mem", []string{"256M", "1G", "1.5G", "3G"}},
	{"tok", []string{"1", "2"}},
	{"scr", []string{"1G", "2G"}},
	{"frc", []string{"1"}},
	{"exclusive", []string{"true", "true", "false"}},
	{"osn", []string{"lx", "lx*", "!lx*", "sol|lx", "*64&!sol*", "hp?x"}},
	{"color", []string{"red", "RED", "b*", "!red", "green|blue"}},
	{"gpu", []string{"v100", "p100", "k80", "*100"}},
	{"rank", []string{"1", "2", "3"}},
	{"temp", []string{"8", "12", "40"}},
	{"free", []string{"500M", "2G", "5G"}},
	{"big", []string{"true", "false"}},
}

func (g *generator) request() string {
	var known []string
	for _, r := range requests {
		if g.has[r.name] {
			known = append(known, r.name+"="+pick(g, r.values...))
		}
	}
	known = append(known, "h="+pick(g, "n1", "n[1-3]", "!n1", "n1|n2"))
	return "-l '" + strings.Join(some(g, 1, 1+g.IntN(2), known), ",") + "'"
}

// soft makes up soft requests: of what is not consumable, and of queues.
func (g *generator) soft() string {
	var parts []string
	for _, r := range requests {
		if slices.Contains([]string{"osn", "color", "gpu", "big"}, r.name) && g.has[r.name] && g.chance(50) {
			parts = append(parts, "-l '"+r.name+"="+pick(g, r.values...)+"'")
		}
	}
	if len(parts) == 0 || g.chance(30) {
		parts = append(parts, "-q "+pick(g, g.queues...))
	}
	return "-soft " + strings.Join(parts, " ") + " -hard"
}
