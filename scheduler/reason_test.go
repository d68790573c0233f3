package scheduler_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/scheduler"
)

// scene is a small cluster: two hosts, and a queue on both of them, with what a test
// changes.
type scene struct {
	files map[string]string            // in the place of the usual ones
	load  map[string]map[string]string // by host
	state map[string]scheduler.Status  // by instance
	// before are jobs that run when the one that is looked at waits.
	before []scheduler.Requests
}

func (c scene) make(t fatal) *scheduler.State {
	t.Helper()
	files := map[string]string{
		"complexes": "mem mem MEMORY <= YES YES 0 0\nlic lic INT <= YES YES 0 0\ndflt dflt INT <= YES YES 2 0\n" +
			"frc frc INT <= FORCED YES 0 0\nexcl excl BOOL EXCL YES YES 0 0\nos os STRING == YES NO NONE 0\n" +
			"limit limit TIME <= YES NO 0 0\nhot hot DOUBLE >= YES NO 0 0\nflag flag BOOL == YES NO 0 0\ncap cap INT <= YES NO 0 0\n",
		"hosts/global":      "hostname global\n",
		"hosts/n1":          "hostname n1\n",
		"hosts/n2":          "hostname n2\n",
		"queues/a.q":        "qname a.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\npe_list fill\nckpt_list NONE\nqtype BATCH INTERACTIVE\n",
		"pes/fill":          "pe_name fill\nslots 3\nallocation_rule $fill_up\n",
		"pes/round":         "pe_name round\nslots 100\nallocation_rule $round_robin\n",
		"ckpts/ck":          "ckpt_name ck\ninterface userdefined\n",
		"usersets/staff":    "name staff\ntype ACL\nentries bob\n",
		"usersets/me":       "name me\ntype ACL\nentries alice\n",
		"projects/p1":       "name p1\n",
		"projects/p2":       "name p2\n",
		"hostgroups/@first": "group_name @first\nhostlist n1\n",
		"sched_conf":        "job_load_adjustments NONE\n",
	}
	maps.Copy(files, c.files)
	m := modelOf(t, directory(files), "a.q")
	s := scheduler.NewState(m)
	for _, host := range []string{"global", "n1", "n2", "n3", "n4"} {
		if values := c.load[host]; values != nil {
			if err := s.SetLoad(host, values); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range m.Instances() {
		id := scheduler.InstanceID(i)
		s.SetStatus(id, c.state[m.InstanceName(id)])
	}
	for i := range c.before {
		j := serialJob(t, m, uint32(100+i), &c.before[i])
		submit(t, s, j)
		d := s.Run(900)
		s.Dequeue(j)
		if len(d.Starts) != 1 {
			t.Fatalf("what is to run before does not start: %q", texts(d.Reasons(j)))
		}
		x := d.Starts[0]
		if err := s.Start(&scheduler.Running{Job: j, Task: x.Task, Started: 900, PE: x.PE, Grants: x.Grants}); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func texts(reasons []scheduler.Reason) (list []string) {
	for i := range reasons {
		list = append(list, reasons[i].Text())
	}
	return list
}

func hard(pairs ...string) scheduler.Requests {
	return scheduler.Requests{Hard: settings(asMap(pairs))}
}

func asMap(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// queueFile returns the queue with other lines.
func queueFile(lines string) map[string]string {
	text := "qname a.q\nhostlist n1 n2\n" + lines
	for _, usual := range []string{"slots 2\n", "load_thresholds NONE\n", "pe_list fill\n"} {
		if name, _, _ := strings.Cut(usual, " "); !strings.Contains(lines, name+" ") {
			text += usual
		}
	}
	return map[string]string{"queues/a.q": text}
}

func hostFile(lines string) map[string]string {
	return map[string]string{"hosts/n1": "hostname n1\n" + lines}
}

func globalFile(lines string) map[string]string {
	return map[string]string{"hosts/global": "hostname global\n" + lines}
}

func merged(list ...map[string]string) map[string]string {
	all := map[string]string{}
	for _, m := range list {
		maps.Copy(all, m)
	}
	return all
}

// onN1 keeps a job on one host.
const onN1 = "a.q@n1"

// TestReasons checks the reasons that qstat -j shows for a job that does not start.
func TestReasons(t *testing.T) {
	for _, c := range []struct {
		name string
		scene
		ask  scheduler.Requests
		want []string
	}{
		{name: "host resource", scene: scene{files: hostFile("complex_values mem=1G\n")}, ask: hard("mem", "2G"), want: []string{
			`(-l mem=2G) cannot run at host "n1" because it offers only hc:mem=1.000G`,
			`(-l mem=2G) cannot run in queue "a.q@n2" because job requests unknown resource (mem)`,
		}},
		{name: "queue resource", scene: scene{files: queueFile("complex_values lic=1\n")}, ask: hard("lic", "2"), want: []string{
			`(-l lic=2) cannot run in queue "a.q" because of cluster queue`,
		}},
		{
			name: "what is left in a queue", scene: scene{files: queueFile("complex_values lic=3\nslots 2,[n2=0]\n"), before: []scheduler.Requests{hard("lic", "2")}},
			ask: hard("lic", "2"), want: []string{`(-l lic=2) cannot run in queue "a.q@n1" because it offers only qc:lic=1.000000`},
		},
		{name: "global resource", scene: scene{files: globalFile("complex_values lic=1\n")}, ask: hard("lic", "2"), want: []string{
			`(-l lic=2) cannot run globally because it offers only gc:lic=1.000000`,
		}},
		{
			name: "what is left", scene: scene{files: globalFile("complex_values lic=3\n"), before: []scheduler.Requests{hard("lic", "2")}},
			ask: hard("lic", "2"), want: []string{`(-l lic=2) cannot run globally because it offers only gc:lic=1.000000`},
		},
		{name: "text", scene: scene{files: globalFile("complex_values os=sol\n")}, ask: hard("os", "lx*"), want: []string{
			`(-l os=lx*) cannot run globally because it offers only gf:os=sol`,
		}},
		{
			name: "load value", scene: scene{load: map[string]map[string]string{"n1": {"hot": "3"}, "n2": {"hot": "2.5"}}}, ask: hard("hot", "1"),
			want: []string{
				`(-l hot=1) cannot run at host "n1" because it offers only hl:hot=3.000000`,
				`(-l hot=1) cannot run at host "n2" because it offers only hl:hot=2.500000`,
			},
		},
		{
			name: "load value with correction", scene: scene{
				files: map[string]string{"sched_conf": "job_load_adjustments hot=1\nload_adjustment_decay_time 1000\n"},
				load:  map[string]map[string]string{"global": {"hot": "0.5"}}, before: []scheduler.Requests{{}},
			}, ask: hard("hot", "1"),
			want: []string{`(-l hot=1) cannot run globally because it offers only gL:hot=1.400000`},
		},
		{name: "time", scene: scene{files: queueFile("h_rt INFINITY,[n1=100]\nslots 2,[n2=0]\n")}, ask: hard("h_rt", "1:0:0"), want: []string{
			`(-l h_rt=3600) cannot run in queue "a.q@n1" because it offers only qf:h_rt=00:01:40`,
		}},
		{name: "truth", scene: scene{files: globalFile("complex_values flag=FALSE\n")}, ask: hard("flag", "TRUE"), want: []string{
			`(-l flag=TRUE) cannot run globally because it offers only gf:flag=false`,
		}},
		{name: "several requests, by name", scene: scene{files: globalFile("complex_values lic=1,cap=1\n")}, ask: hard("lic", "2", "cap", "1"), want: []string{
			`(-l cap=1,lic=2) cannot run globally because it offers only gc:lic=1.000000`,
		}},
		{name: "default request", scene: scene{files: globalFile("complex_values dflt=3\n"), before: []scheduler.Requests{{}}}, want: []string{
			`(-l NONE) cannot run globally because for default request it offers only gc:dflt=1.000000`,
		}},
		{name: "shared by default with an exclusive job", scene: scene{
			files:  merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 0,[n1=2]\n")),
			before: []scheduler.Requests{hard("excl", "TRUE")},
		}, want: []string{
			`(-l NONE) cannot run at host "n1" because for default request exclusive resource (excl) is already in use`,
		}},
		{name: "exclusive beside others", scene: scene{
			files:  merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 0,[n1=2]\n")),
			before: []scheduler.Requests{{}},
		}, ask: hard("excl", "TRUE"), want: []string{
			`(-l excl=TRUE) cannot run at host "n1" because exclusive resource (excl) is already in use`,
		}},
		{name: "exclusive beside exclusive", scene: scene{
			files:  merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 0,[n1=2]\n")),
			before: []scheduler.Requests{hard("excl", "TRUE")},
		}, ask: hard("excl", "TRUE"), want: []string{
			`(-l excl=TRUE) cannot run at host "n1" because it offers only hc:excl=false`,
		}},
		{name: "no permission for a queue", scene: scene{files: queueFile("user_lists staff\n")}, want: []string{
			`has no permission for cluster queue "a.q"`,
		}},
		{name: "no permission for an instance", scene: scene{files: queueFile("xuser_lists NONE,[n1=me]\nslots 2,[n2=0]\n")}, want: []string{
			`has no permission for queue "a.q@n1"`,
		}},
		{name: "no permission for a host", scene: scene{files: hostFile("user_lists staff\n")}, ask: scheduler.Requests{Queues: onN1}, want: []string{
			`has no permission for host "n1"`,
			`cannot run in queue "n2" because it is not contained in its hard queue list (-q)`,
		}},
		{name: "no project for a queue", scene: scene{files: queueFile("projects p1\n")}, want: []string{
			`(no project) does not have the correct project to run in cluster queue "a.q"`,
		}},
		{name: "excluded by a queue", scene: scene{files: queueFile("xprojects p1\n")}, ask: scheduler.Requests{Project: "p1"}, want: []string{
			`(no project) does not have the correct project to run in cluster queue "a.q"`,
		}},
		{name: "wrong project for an instance", scene: scene{files: queueFile("projects NONE,[n1=p2]\nslots 2,[n2=0]\n")}, ask: scheduler.Requests{Project: "p1"}, want: []string{
			`(project p1) does not have the correct project to run in queue "a.q@n1"`,
		}},
		{name: "excluded by a host", scene: scene{files: merged(hostFile("xprojects p1\n"), queueFile("slots 2,[n2=0]\n"))}, ask: scheduler.Requests{Project: "p1"}, want: []string{
			`(project p1) is not allowed to run in host "n1" based on the excluded project list`,
		}},
		{name: "not in the queue list", scene: scene{files: map[string]string{"queues/b.q": "qname b.q\nhostlist n1\nslots 0\n"}}, ask: scheduler.Requests{Queues: "b.q"}, want: []string{
			`cannot run in queue "a.q" because it is not contained in its hard queue list (-q)`,
		}},
		{name: "not interactive", scene: scene{files: queueFile("qtype BATCH\n")}, ask: scheduler.Requests{Immediate: true}, want: []string{
			`cannot run in queue "a.q" because it is not of type interactive`,
		}},
		{name: "not batch", scene: scene{files: queueFile("qtype INTERACTIVE\nslots 2,[n2=0]\n")}, want: []string{
			`cannot run in queue instance "a.q@n1" because it is not of type batch`,
		}},
		{name: "no checkpointing", scene: scene{files: queueFile("ckpt_list NONE\nslots 2,[n2=0]\n")}, ask: scheduler.Requests{Checkpoint: "ck"}, want: []string{
			`cannot run in queue instance "a.q@n1" because it is not of type checkpointing`,
		}},
		{name: "other checkpointing", scene: scene{files: merged(queueFile("ckpt_list other\nslots 2,[n2=0]\n"), map[string]string{"ckpts/other": "ckpt_name other\n"})}, ask: scheduler.Requests{Checkpoint: "ck"}, want: []string{
			`cannot run in queue instance "a.q@n1" because ckpt object "ck" is not in ckpt list of queue`,
		}},
		{name: "forced by a queue", scene: scene{files: queueFile("complex_values frc=2\nslots 2,[n2=0]\n")}, want: []string{
			`does not request 'forced' resource "frc" of queue instance a.q@n1`,
		}},
		{name: "forced by a host", scene: scene{files: merged(hostFile("complex_values frc=2\n"), queueFile("slots 2,[n2=0]\n"))}, want: []string{
			`does not request 'forced' resource "frc" of host n1`,
		}},
		{name: "quota", scene: scene{
			files:  map[string]string{"rqs": "{\n name few\n enabled TRUE\n limit users {*} to slots=1\n limit users * to slots=5\n}\n"},
			before: []scheduler.Requests{{}},
		}, want: []string{`cannot run because it exceeds limit "alice/////" in rule "few/1"`}},
		{name: "named quota on a host", scene: scene{files: map[string]string{"rqs": "{\n name few\n enabled TRUE\n limit name nodes hosts {n*} to slots=0\n}\n"}}, want: []string{
			`cannot run because it exceeds limit "////n1/" in rule "few/nodes"`, `cannot run because it exceeds limit "////n2/" in rule "few/nodes"`,
		}},
		{name: "not in a list of environments", ask: scheduler.Requests{PE: "round", Slots: slotsOf(t, "2")}, want: []string{
			`cannot run in queue "a.q" because PE "round" is not in PE list`, `cannot run in PE "round" because it only offers 0 slots`,
		}},
		{
			name: "a number, and no single slot", scene: scene{files: queueFile("complex_values cap=1\n")},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("cap", "2")}, want: []string{
				`(-l cap=2) cannot run in queue "a.q@n1" because it offers only qf:cap=1.000000`,
				`(-l cap=2) cannot run in queue "a.q@n2" because it offers only qf:cap=1.000000`,
				`cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a number, and perhaps a single slot", scene: scene{files: queueFile("complex_values cap=1\n")},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1-2"), Hard: setting("cap", "2")}, want: []string{
				`(-l cap=2) cannot run in queue "a.q" because of cluster queue`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a text, and no single slot", scene: scene{files: queueFile("complex_values os=sol\n")},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("os", "lx")}, want: []string{
				`(-l os=lx) cannot run in queue "a.q" because of cluster queue`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "requests come before projects and permissions", scene: scene{files: queueFile("projects p1\nuser_lists staff\ncomplex_values cap=1\n")},
			ask: hard("cap", "2"), want: []string{`(-l cap=2) cannot run in queue "a.q" because of cluster queue`},
		},
		{
			name: "an unknown resource, which is no reason of a parallel job", ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("mem", "1G")},
			want: []string{`cannot run in PE "fill" because it only offers 0 slots`},
		},
		{
			name: "an instance without any environment", scene: scene{files: queueFile("pe_list fill,[n1=NONE]\nslots 2,[n2=0]\n")},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
				`cannot run in queue instance "a.q@n1" because it is not of parallel type`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a quota that nobody passes, and the other instances of the host", scene: scene{files: map[string]string{
				"queues/b.q": "qname b.q\nhostlist n1 n2\nslots 1\nload_thresholds NONE\npe_list fill,[n1=round],[n2=round]\n",
				"rqs":        "{\n name few\n enabled TRUE\n limit users * to slots=0\n}\n",
			}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}, want: []string{
				`cannot run because it exceeds limit "/////" in rule "few/1"`, `cannot run in queue "b.q@n1" because PE "fill" is not in PE list`,
				`cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "no access, and no number of slots that the rule allows", scene: scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 100\nallocation_rule 2\nuser_lists staff\n"}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "3")}, want: []string{`cannot run in PE "fill" because it only offers 0 slots`},
		},
		{
			name: "the first number of slots that the rule allows", scene: scene{
				files:  merged(queueFile("slots 6\n"), map[string]string{"pes/fill": "pe_name fill\nslots 5\nallocation_rule 2\n"}),
				before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "4")}},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1-6")}, want: []string{`cannot run in PE "fill" because it only offers 1 slots`},
		},
		{
			name: "a quota that leaves something, and nothing is looked at behind", scene: scene{
				files: map[string]string{
					"rqs":        "{\n name few\n enabled TRUE\n limit users {*} to slots=2\n}\n",
					"queues/a.q": "qname a.q\nhostlist n2 n1\nslots 1,[n1=2]\nload_thresholds NONE\npe_list fill\n",
				},
				before: []scheduler.Requests{{Queues: "a.q@n1"}},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Queues: "a.q@n1"}, want: []string{
				`cannot run in queue "a.q@n2" because it is not contained in its hard queue list (-q)`, `cannot run in PE "fill" because it only offers 1 slots`,
			},
		},
		{
			name: "a quota that leaves something, and is exhausted behind", scene: scene{
				files: map[string]string{"rqs": "{\n name few\n enabled TRUE\n limit users {*} to slots=2\n}\n"}, before: []scheduler.Requests{{Queues: "a.q@n1"}},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
				`cannot run because it exceeds limit "alice/////" in rule "few/1"`, `cannot run in PE "fill" because it only offers 1 slots`,
			},
		},
		{
			name: "hosts whose queues are all ruled out come last", scene: scene{files: map[string]string{
				"rqs": "{\n name few\n enabled TRUE\n limit users {*} to slots=0\n}\n", "hosts/n1": "hostname n1\nxuser_lists me\n",
				"queues/a.q": "qname a.q\nhostlist n1\nslots 2\nload_thresholds NONE\npe_list round\n",
				"queues/b.q": "qname b.q\nhostlist n2\nslots 2\nload_thresholds NONE\npe_list fill\n",
			}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
				`cannot run in queue "a.q" because PE "fill" is not in PE list`,
				`cannot run because it exceeds limit "alice/////" in rule "few/1"`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "hosts that a rule before names for somebody else", scene: scene{files: map[string]string{
				"rqs": "{\n name few\n enabled TRUE\n limit users bob hosts n1 to slots=9\n limit users {*} to slots=0\n}\n", "hosts/n1": "hostname n1\nxuser_lists me\n",
				"queues/a.q": "qname a.q\nhostlist n1\nslots 2\nload_thresholds NONE\npe_list round\n",
				"queues/b.q": "qname b.q\nhostlist n2\nslots 2\nload_thresholds NONE\npe_list fill\n",
			}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
				`cannot run in queue "a.q" because PE "fill" is not in PE list`,
				`cannot run because it exceeds limit "alice/////" in rule "few/2"`, `has no permission for host "n1"`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "all hosts, where a rule before names queues for somebody else", scene: scene{files: map[string]string{
				"rqs": "{\n name few\n enabled TRUE\n limit pes round queues b.q to slots=9\n limit users {*} to slots=0\n}\n", "hosts/n1": "hostname n1\nxuser_lists me\n",
				"queues/a.q": "qname a.q\nhostlist n1\nslots 2\nload_thresholds NONE\npe_list round\n",
				"queues/b.q": "qname b.q\nhostlist n2\nslots 2\nload_thresholds NONE\npe_list fill\n",
			}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
				`cannot run in queue "a.q" because PE "fill" is not in PE list`,
				`cannot run because it exceeds limit "alice/////" in rule "few/2"`, `has no permission for host "n1"`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a host that others use, and its queues", scene: scene{
				files: merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 2,[n2=0]\n")), before: []scheduler.Requests{{}},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("excl", "TRUE"), Queues: "a.q@n2"}, want: []string{
				`(-l excl=TRUE) cannot run in queue "n1" because exclusive resource (excl) is already in use`,
				`cannot run in queue "a.q@n1" because it is not contained in its hard queue list (-q)`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a host that has too little left for the rule, and its queues", scene: scene{
				files:  merged(hostFile("complex_values slots=3\n"), queueFile("slots 9,[n2=0]\n"), map[string]string{"pes/fill": "pe_name fill\nslots 100\nallocation_rule 2\n"}),
				before: []scheduler.Requests{{}, {}},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Queues: "a.q@n2"}, want: []string{
				`cannot run in queue "a.q@n1" because it is not contained in its hard queue list (-q)`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a host that never has enough for the rule, and not its queues", scene: scene{
				files: merged(hostFile("complex_values slots=1\n"), queueFile("slots 9,[n2=0]\n"), map[string]string{"pes/fill": "pe_name fill\nslots 100\nallocation_rule 2\n"}),
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Queues: "a.q@n2"}, want: []string{
				`cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{
			name: "a host that somebody has for himself, and not its queues", scene: scene{
				files: merged(hostFile("complex_values excl=TRUE\n"), queueFile("slots 2,[n2=0]\n")), before: []scheduler.Requests{hard("excl", "TRUE")},
			},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2"), Hard: setting("excl", "TRUE"), Queues: "a.q@n2"}, want: []string{
				`(-l excl=TRUE) cannot run in queue "n1" because it offers only hc:excl=false`, `cannot run in PE "fill" because it only offers 0 slots`,
			},
		},
		{name: "environment with too few slots", ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "4")}, want: []string{
			`cannot run in PE "fill" because it only offers 0 slots`,
		}},
		{name: "environment in use", scene: scene{before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "2")}}}, ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "2")}, want: []string{
			`cannot run in PE "fill" because it only offers 1 slots`,
		}},
		{
			name: "no access to an environment", scene: scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 3\nallocation_rule $fill_up\nuser_lists staff\n"}},
			ask: scheduler.Requests{PE: "fill", Slots: slotsOf(t, "1")}, want: []string{`cannot run because no access to PE "fill"`, `cannot run in PE "fill" because it only offers 0 slots`},
		},
		{name: "nothing to say", scene: scene{state: map[string]scheduler.Status{"a.q@n1": scheduler.Unknown, "a.q@n2": scheduler.Unknown}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make(t)
			j := serialJob(t, s.Model(), 1, &c.ask)
			submit(t, s, j)
			d := s.Run(1000)
			if len(d.Starts) > 0 {
				t.Fatalf("it starts: %s", startText(s.Model(), &d.Starts[0]))
			}
			if diff := cmp.Diff(c.want, texts(d.Reasons(j))); diff != "" {
				t.Error(diff)
			}
			checkNumbers(t, d.Reasons(j))
		})
	}
}

// TestReasonsOfDroppedInstances checks the reasons, shown for all jobs, why queue instances cannot
// be used.
func TestReasonsOfDroppedInstances(t *testing.T) {
	two := func(s scheduler.Status) map[string]scheduler.Status { return map[string]scheduler.Status{"a.q@n1": s} }
	for _, c := range []struct {
		name string
		scene
		want []string
	}{
		{name: "unknown", scene: scene{state: two(scheduler.Unknown)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "error", scene: scene{state: two(scheduler.Failed)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "suspended", scene: scene{state: two(scheduler.SuspendedByUser)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "subordinated", scene: scene{state: two(scheduler.Subordinated)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "suspended by a calendar", scene: scene{state: two(scheduler.SuspendedByCalendar)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "orphaned", scene: scene{state: two(scheduler.Orphaned)}, want: []string{`queue instance "a.q@n1" dropped because it is temporarily not available`}},
		{name: "disabled", scene: scene{state: two(scheduler.DisabledByUser)}, want: []string{`queue instance "a.q@n1" dropped because it is disabled`}},
		{name: "disabled by a calendar", scene: scene{state: two(scheduler.DisabledByCalendar)}, want: []string{`queue instance "a.q@n1" dropped because it is disabled`}},
		{name: "unavailable before disabled", scene: scene{state: two(scheduler.DisabledByUser | scheduler.Unknown)}, want: []string{
			`queue instance "a.q@n1" dropped because it is temporarily not available`,
		}},
		{name: "full", scene: scene{files: queueFile("slots 1,[n2=5]\n"), before: []scheduler.Requests{{}}}, want: []string{`queue instance "a.q@n1" dropped because it is full`}},
		{name: "all", scene: scene{state: map[string]scheduler.Status{"a.q@n1": scheduler.DisabledByUser, "a.q@n2": scheduler.Unknown}}, want: []string{
			`queue instance "a.q@n2" dropped because it is temporarily not available`, `queue instance "a.q@n1" dropped because it is disabled`,
			`All queues dropped because of overload or full`,
		}},
		{name: "overloaded", scene: scene{files: queueFile("load_thresholds hot=2\n"), load: map[string]map[string]string{"n1": {"hot": "2"}, "n2": {"hot": "1"}}}, want: []string{
			`queue instance "a.q@n1" dropped because it is overloaded: hot=2.000000 (no load adjustment) >= 2`,
		}},
		{name: "nobody reports it", scene: scene{files: queueFile("load_thresholds NONE,[n1=hot=2]\n")}, want: []string{
			`queue instance "a.q@n1" dropped because it is overloaded: no value for complex attribute "hot"`,
		}},
		{name: "suspend alarm", scene: scene{files: queueFile("suspend_thresholds hot=2\n"), load: map[string]map[string]string{"n1": {"hot": "2"}, "n2": {"hot": "1"}}}, want: []string{
			`queue instance "a.q@n1" is in suspend alarm: hot=2.000000 (no load adjustment) >= 2`,
		}},
		{name: "configured value", scene: scene{files: queueFile("load_thresholds NONE,[n1=cap=2]\ncomplex_values cap=2\n")}, want: []string{
			`queue instance "a.q@n1" dropped because it is overloaded: cap=2.000000 (no load value) <= 2`,
		}},
		{name: "text", scene: scene{files: queueFile("load_thresholds NONE,[n1=os=lx*]\n"), load: map[string]map[string]string{"n1": {"os": "sol"}}}, want: []string{
			`queue instance "a.q@n1" dropped because it is overloaded: os=sol (no load adjustment) != lx*`,
		}},
		{name: "suspended by its superordinate queue", scene: scene{files: map[string]string{
			"queues/b.q": "qname b.q\nhostlist n1\nslots 1\nload_thresholds NONE\nsubordinate_list a.q=1\nseq_no 0\n",
			"queues/a.q": "qname a.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\nseq_no 1\n",
		}}, want: []string{
			`queue instance "a.q@n1" dropped because it is suspended`, `queue instance "b.q@n1" dropped because it is full`,
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := c.make(t)
			j := serialJob(t, s.Model(), 1, &scheduler.Requests{})
			submit(t, s, j)
			dropped := s.Run(1000).Dropped
			if diff := cmp.Diff(c.want, texts(dropped)); diff != "" {
				t.Error(diff)
			}
			checkNumbers(t, dropped)
		})
	}
}

// TestLoadAdjustmentDecays checks the correction of a load value for jobs that started a while ago:
// it decays in whole hundredths.
func TestLoadAdjustmentDecays(t *testing.T) {
	for _, c := range []struct {
		age  int64
		want string
	}{
		{0, "hot=3.000000 (= 1 + 1.00 * 2.000000) >= 1"},
		{100, "hot=2.550000 (= 1 + 1.00 * 1.550000) >= 1"}, // 2 - 2*100/450 is 1.5555
		{449, "hot=1.000000 (= 1 + 1.00 * 0.000000) >= 1"},
		{450, "hot=1.000000 (= 1 + 1.00 * 0.000000) >= 1"},
	} {
		s := scene{
			files: merged(queueFile("load_thresholds hot=1\n"), map[string]string{"sched_conf": "job_load_adjustments hot=1\nload_adjustment_decay_time 450\n"}),
			load:  map[string]map[string]string{"n1": {"hot": "0"}}, before: []scheduler.Requests{{PE: "fill", Slots: slotsOf(t, "2")}},
		}.make(t)
		if err := s.SetLoad("n1", map[string]string{"hot": "1"}); err != nil {
			t.Fatal(err)
		}
		id, _ := s.Model().Instance("a.q", "n1")
		if text, alarm := s.LoadAlarm(id, 900+c.age); !alarm || text != c.want {
			t.Errorf("after %d s: %q, want %q", c.age, text, c.want)
		}
	}
}
