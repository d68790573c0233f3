package generate

import (
	"fmt"
	"strconv"
	"strings"
)

// scheduler makes up sched_conf and, for the share tree policy, the tree.
func (g *generator) scheduler() {
	functional, tree := "0", "0"
	if g.topic(30, "functional policy") {
		functional = "10000"
	}
	if g.topic(30, "share tree") {
		tree = "10000"
		g.files["input/sharetree"] = g.shareTree()
	}
	adjustments := "NONE"
	if g.topic(40, "load adjustments") {
		adjustments = "np_load_avg=" + pick(g, "0.50", "0.33")
	}
	reservations := "0"
	if g.reserve = g.topic(25, "reservations"); g.reserve {
		reservations = strconv.Itoa(g.between(1, 4))
	}
	formula := pick(g, "np_load_avg", "np_load_avg", "np_load_avg", "-np_load_avg", "np_load_avg*2")
	maxUserJobs := "0"
	if g.topic(15, "maxujobs") {
		maxUserJobs = strconv.Itoa(g.between(2, 4))
	}
	g.object("sched_conf",
		"algorithm", "default",
		"schedule_interval", "0:0:1",
		"maxujobs", maxUserJobs,
		"queue_sort_method", pick(g, "load", "load", "seqno"),
		"job_load_adjustments", adjustments,
		"load_adjustment_decay_time", "24:0:0",
		"load_formula", formula,
		"schedd_job_info", "true",
		"flush_submit_sec", "0",
		"flush_finish_sec", "0",
		"params", "none",
		"reprioritize_interval", "0:0:0",
		"halftime", "0",
		"usage_weight_list", "cpu=1.000000,mem=0.000000,io=0.000000",
		"compensation_factor", "5.000000",
		"weight_user", pick(g, "0.250000", "0.400000"),
		"weight_project", pick(g, "0.250000", "0.300000"),
		"weight_department", pick(g, "0.250000", "0.100000"),
		"weight_job", pick(g, "0.250000", "0.000000"),
		"weight_tickets_functional", functional,
		"weight_tickets_share", tree,
		"share_override_tickets", pick(g, "TRUE", "TRUE", "FALSE"),
		"share_functional_shares", pick(g, "TRUE", "TRUE", "FALSE"),
		"max_functional_jobs_to_schedule", pick(g, "200", "200", "4"),
		"report_pjob_tickets", "TRUE",
		"max_pending_tasks_per_job", pick(g, "50", "50", "2"),
		"halflife_decay_list", "none",
		"policy_hierarchy", pick(g, "OFS", "OFS", "SOF", "FS", "OS", "NONE"),
		"weight_ticket", pick(g, "0.500000", "1.000000", "0.010000"),
		"weight_waiting_time", "0.000000",
		"weight_deadline", "3600000.000000",
		"weight_urgency", pick(g, "0.500000", "0.100000", "0.000000"),
		"weight_priority", pick(g, "0.000000", "1.000000", "1.000000"),
		"max_reservation", reservations,
		"default_duration", pick(g, "INFINITY", "1:0:0"))
}

// shareTree makes up a tree of users, of a default user, or of projects.
func (g *generator) shareTree() string {
	type node struct {
		name     string
		kind     int
		shares   int
		children []int
	}
	nodes := []node{{name: "Root", shares: 1}}
	add := func(parent int, name string, kind int) int {
		nodes = append(nodes, node{name: name, kind: kind, shares: g.between(1, 10) * 10})
		id := len(nodes) - 1
		nodes[parent].children = append(nodes[parent].children, id)
		return id
	}
	switch kind := g.IntN(3); {
	case kind == 0 && g.projects:
		for _, name := range []string{"p1", "p2"} {
			add(add(0, name, 1), "default", 0)
		}
		add(0, "default", 0)
	case kind == 1:
		group := add(0, "group", 0)
		for _, name := range some(g, 1, 3, users[:3]) {
			add(group, name, 0)
		}
		add(0, "default", 0)
	default:
		for _, name := range some(g, 2, len(users), users) {
			add(0, name, 0)
		}
	}
	var b strings.Builder
	for id, n := range nodes {
		var children []string
		for _, c := range n.children {
			children = append(children, strconv.Itoa(c))
		}
		fmt.Fprintf(&b, "id=%d\nname=%s\ntype=%d\nshares=%d\nchildnodes=%s\n", id, n.name, n.kind, n.shares, orNone(children, ","))
	}
	return b.String()
}
