package generate

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/execd-project/execd/simulate/script"
)

// Extended makes up the case of a seed as New does, with kinds of objects and requests that New lacks:
// advance reservations, slot-wise subordination, a consumable in the load formula, and resource quotas with
// further filters and limits. They come from random numbers of their own, so that the cases of New stay as
// they are.
func Extended(seed uint64) *Case {
	g := &generator{
		Rand:  rand.New(rand.NewPCG(seed, 0x5ca1ab1e)),
		files: map[string]string{},
	}
	g.cluster()
	g.scheduler()
	g.play()
	g.Rand = rand.New(rand.NewPCG(seed, 0xe87e2ded))
	g.slotWise()
	g.formula()
	g.moreQuotas()
	g.advanceReservations()
	g.files["TITLE"] = fmt.Sprintf("Made up from seed %d, extended: %s\n", seed, strings.Join(g.topics, ", "))
	return &Case{Files: g.files, Script: g.lines}
}

// replace sets an attribute of an object.
func (g *generator) replace(path, attribute, value string) {
	var b strings.Builder
	for line := range strings.Lines(g.files["input/"+path]) {
		if strings.Fields(line)[0] == attribute {
			line = fmt.Sprintf("%-20s  %s\n", attribute, value)
		}
		b.WriteString(line)
	}
	g.files["input/"+path] = b.String()
}

// slotWise makes the last queue the superordinate one of one or two others, slot by slot.
func (g *generator) slotWise() {
	if len(g.queues) < 2 || !g.topic(35, "slot-wise subordination") {
		return
	}
	last := g.queues[len(g.queues)-1]
	var below []string
	for i, name := range some(g, 1, 2, g.queues[:len(g.queues)-1]) {
		below = append(below, fmt.Sprintf("%s:%d:%s", name, i+1, pick(g, "sr", "lr")))
	}
	g.replace("queues/"+last, "subordinate_list", fmt.Sprintf("slots=%d(%s)", g.between(1, 4), strings.Join(below, ",")))
}

// formula adds a consumable to the load formula, so that each start moves hosts.
func (g *generator) formula() {
	for _, name := range []string{"lic", "tok"} {
		if g.has[name] && g.topic(25, "a consumable in the load formula") {
			g.replace("sched_conf", "load_formula", "np_load_avg-"+name+"*0.1")
			return
		}
	}
}

// moreQuotas adds a set with patterns, groups and exclusions in its filters, and with limits on attributes
// that the rules of New do not have.
func (g *generator) moreQuotas() {
	if !g.topic(40, "further quotas") {
		return
	}
	limits := []string{"slots=" + strconv.Itoa(g.between(1, 6))}
	for _, l := range []struct{ name, value string }{{"mem", "2G"}, {"scr", "2G"}, {"rank", "2"}, {"exclusive", "1"}, {"lic", "2"}} {
		if g.has[l.name] && g.chance(35) {
			limits = append(limits, l.name+"="+l.value)
		}
	}
	var text strings.Builder
	for _, f := range []struct {
		key     string
		percent int
		values  []string
	}{
		{"users", 50, []string{"{@staff,dave}", "!@staff", "{*,!bob}", "a*", "{[a-c]*}"}},
		{"queues", 40, []string{"{*}", "[ab].q", "{[ab].q}", "!a*"}},
		{"hosts", 50, []string{"@b*", "{@big,n1}", "!@big", "{*,!n2}", "n*"}},
	} {
		if g.chance(f.percent) {
			text.WriteString(f.key + " " + pick(g, f.values...) + " ")
		}
	}
	g.files["input/rqs"] += fmt.Sprintf("{\n   name         more\n   description  NONE\n   enabled      TRUE\n   limit        %sto %s\n}\n", text.String(), strings.Join(limits, ","))
}

// advanceReservations lets some users reserve places for an hour before the queues are disabled, and some of
// their jobs run in them.
func (g *generator) advanceReservations() {
	if !g.topic(40, "advance reservations") {
		return
	}
	g.object("usersets/arusers", "name", "arusers", "type", "ACL", "fshare", "0", "oticket", "0", "entries", "alice,bob")
	var requests []script.Line
	n := g.between(1, 2)
	for i := range n {
		command := "qrsub -d 1:0:0"
		if len(g.pes) > 0 && g.chance(50) {
			command += fmt.Sprintf(" -pe %s %d", pick(g, g.pes...), g.between(1, 3))
		}
		if g.chance(40) {
			command += " -q '" + pick(g, g.queues...) + "'"
		}
		if g.chance(30) {
			command += " -l h=" + pick(g, g.hosts...)
		}
		requests = append(requests, script.Line{Kind: script.Command, User: []string{"alice", "bob"}[i], Command: command})
	}
	for k := range g.lines {
		l := &g.lines[k]
		i := slices.Index([]string{"alice", "bob"}[:n], l.User)
		if i >= 0 && strings.HasPrefix(l.Command, "qsub ") && g.chance(40) {
			l.Command = strings.Replace(l.Command, "/bin/sleep", fmt.Sprintf("-ar %d /bin/sleep", i+1), 1)
		}
	}
	g.lines = append(append(requests, script.Line{Kind: script.Wait, Wait: 2 * time.Second}), g.lines...)
}
