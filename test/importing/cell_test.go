package importing

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/test/gridengine"
)

// object is an object for a cell: the qconf option that accepts its file, its name and its text.
type object struct{ option, name, text string }

// objects is a configuration with objects of every kind, in an order in which each object follows
// those that it names.
var objects = []object{
	{"-Auser", "alice", "name alice\noticket 100\nfshare 20\ndelete_time 0\ndefault_project NONE\n"},
	{"-Auser", "carol", "name carol\noticket 0\nfshare 0\ndelete_time 0\ndefault_project NONE\n"},
	{"-Au", "staff", "name staff\ntype ACL DEPT\nfshare 10\noticket 5\nentries alice,@lab\n"},
	{"-Au", "guests", "name guests\ntype ACL\nfshare 0\noticket 0\nentries bob,carol\n"},
	{"-Au", "empty", "name empty\ntype DEPT\nfshare 3\noticket 0\nentries NONE\n"},
	{"-Aprj", "p1", "name p1\noticket 10\nfshare 30\nacl staff\nxacl guests\n"},
	{"-Aprj", "p2", "name p2\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"},
	{"-Acal", "nights", "calendar_name nights\nyear NONE\nweek mon-fri=8-18=off sat-sun=on\n"},
	{"-Acal", "holidays", "calendar_name holidays\nyear 24.12.2026-1.1.2027=suspended 1.5.2026=off\nweek NONE\n"},
	{"-Ahgrp", "@fast", "group_name @fast\nhostlist cellhost\n"},
	{"-Ahgrp", "@empty", "group_name @empty\nhostlist NONE\n"},
	{"-Ahgrp", "@every", "group_name @every\nhostlist @fast otherhost\n"},
}

// complexes are added to the complexes that every cell has.
const complexes = `lic        lic   INT      <=    YES  YES  0     10
gpu        gpu   INT     <=    YES  YES  0     0
feature    ft    RESTRING ==    YES  NO   NONE  0
excl       ex    BOOL     EXCL  YES  YES  0     1000
scratch    scr   MEMORY   <=    YES    JOB  1G    0.5
`

const quotas = `{
   name         users
   description  "slots of everybody: at most 20, and 5 for guests"
   enabled      TRUE
   limit        users {@guests} hosts {@fast} to slots=5,lic=2
   limit        hosts {*} to slots=$num_proc*2
}
{
   name         another
   description  NONE
   enabled      FALSE
   limit        name named projects p1,!p2 queues !long.q to lic=3
}
`

const shareTree = `id=0
name=Root
type=0
shares=1
childnodes=1,4,5
id=1
name=p1
type=1
shares=40
childnodes=2,3
id=2
name=alice
type=0
shares=3
childnodes=NONE
id=3
name=default
type=0
shares=1
childnodes=NONE
id=4
name=carol
type=0
shares=60
childnodes=NONE
id=5
name=p2
type=1
shares=10
childnodes=NONE
`

var queues = []gridengine.Queue{
	{Name: "all.q", Attributes: map[string]string{
		"hostlist": "@every", "slots": "4,[cellhost=8],[@fast=6]", "pe_list": "smp mpi", "load_thresholds": "np_load_avg=1.75,lic=1",
		"complex_values": "lic=4,[cellhost=lic=6,feature=big]", "user_lists": "NONE,[@fast=staff]", "calendar": "nights",
		"prolog": "/bin/sh -c true", "subordinate_list": "slots=4(long.q:1:sr)", "h_rt": "24:0:0", "s_rt": "INFINITY,[cellhost=3600]",
	}},
	{Name: "long.q", Attributes: map[string]string{
		"seq_no": "10", "projects": "p1 p2", "xuser_lists": "guests", "ckpt_list": "dmtcp", "priority": "10", "calendar": "holidays",
		"starter_method": "/usr/bin/env A=b,c a_very_long_argument_that_does_not_fit another_very_long_argument_that_does_not_fit and,more",
		"suspend_method": "SIGTSTP", "terminate_method": "/bin/kill -9 $job_pid", "owner_list": "alice bob", "min_cpu_interval": "00:01:00",
	}},
	{Name: "empty.q", Attributes: map[string]string{"hostlist": "NONE", "slots": "1", "tmpdir": "/var/tmp", "rerun": "TRUE", "initial_state": "disabled"}},
}

// configure gives a cell this configuration.
func configure(t *testing.T, cell *gridengine.Cell) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		check(cell.Configure(o.option, o.name, o.text))
	}
	text, err := cell.Root("qconf", "-sc")
	check(err)
	check(cell.Configure("-Mc", "complexes", text+complexes))
	check(cell.AddPE("smp", map[string]string{"slots": "12", "user_lists": "staff", "urgency_slots": "avg"}))
	check(cell.AddPE("mpi", map[string]string{"allocation_rule": "$round_robin", "control_slaves": "TRUE", "start_proc_args": "/bin/true $pe_hostfile", "accounting_summary": "TRUE"}))
	check(cell.AddCkpt("dmtcp", map[string]string{"interface": "application-level", "ckpt_command": "/bin/true $job_id", "signal": "usr2", "when": "xsr", "migr_command": "NONE", "restart_command": "NONE", "clean_command": "NONE"}))
	check(cell.AddQueues(queues[1:]...))
	check(cell.AddQueues(queues[0]))
	check(cell.Configure("-Arqs", "rqs", quotas))
	check(cell.Configure("-Astree", "sharetree", shareTree))
	if tree, err := cell.Root("qconf", "-sstree"); err != nil || tree != shareTree {
		t.Fatalf("the share tree: %v %s", err, tree) // qconf refuses one without an exit status
	}
	check(cell.SetConf(map[string]string{"load_sensor": "/bin/true", "min_uid": "100", "execd_params": "KEEP_ACTIVE=ERROR,PDC_INTERVAL=00:00:05", "projects": "NONE"}))
	check(cell.SetSchedulerConf(map[string]string{"weight_tickets_share": "1000", "job_load_adjustments": "np_load_avg=0.25", "load_formula": "np_load_avg-lic"}))
	check(cell.Configure("-Aconf", "cellhost", "load_sensor /bin/false\nxterm /usr/bin/xterm\n"))
	host, err := cell.Root("qconf", "-se", "cellhost")
	check(err)
	host = strings.NewReplacer("complex_values        NONE", "complex_values lic=7,scratch=100G", "load_scaling          NONE", "load_scaling np_load_avg=0.5", "usage_scaling         NONE", "usage_scaling cpu=2.0").Replace(host)
	check(cell.Configure("-Me", "cellhost", dropped(host, "load_values", "processors")))
	global, err := cell.Root("qconf", "-se", "global")
	check(err)
	check(cell.Configure("-Me", "global", strings.Replace(dropped(global, "load_values", "processors"), "complex_values        NONE", "complex_values lic=9", 1)))
	for _, args := range [][]string{{"-am", "alice"}, {"-ao", "bob"}, {"-as", "otherhost"}, {"-aattr", "user", "default_project", "p1", "alice"}} {
		if out, err := cell.Root(append([]string{"qconf"}, args...)...); err != nil {
			t.Log(out, err)
		}
	}
}

// configureNewer adds what only Open Cluster Scheduler knows.
func configureNewer(t *testing.T, cell *gridengine.Cell) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	help, err := cell.Root("qstat", "-help")
	check(err)
	text, err := cell.Root("qconf", "-sc")
	check(err)
	check(cell.Configure("-Mc", "complexes", text+"device dev RSMAP <= YES YES 0 0\nseat seat INT <= YES HOST 0 0\n"))
	_, err = cell.Root("qconf", "-mattr", "exechost", "complex_values", "lic=7,scratch=100G,seat=3,device=4(dev0 dev1 dev2 dev3)", "cellhost")
	check(err)
	check(cell.AddPE("forks", map[string]string{"control_slaves": "TRUE", "master_forks_slaves": "TRUE", "ign_sreq_on_mhost": "TRUE"}))
	if strings.Contains(help, " 9.1") {
		check(cell.SetConf(map[string]string{
			"mail_tag": "[lab]", "port_range": "20000-20100", "execd_params": "KEEP_ACTIVE=ERROR,ENABLE_MEM_DETAILS=TRUE,USAGE_COLLECTION=HYBRID",
		}))
	}
}

// dropped returns an object without the attributes that qconf does not accept.
func dropped(text string, names ...string) string {
	var kept []string
	for line := range strings.Lines(text) {
		drop := false
		for _, n := range names {
			drop = drop || strings.HasPrefix(line, n)
		}
		if !drop {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}
