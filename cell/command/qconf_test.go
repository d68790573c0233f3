package command

import (
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
)

const (
	calendarText = "calendar_name c1\nyear NONE\nweek mon-fri=off\n"
	groupText    = "group_name @g1\nhostlist node1\n"
	projectText  = "name p1\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"
	aliceText    = "name alice\noticket 0\nfshare 10\ndelete_time 0\ndefault_project NONE\n"
	aclText      = "name acl1\ntype ACL\nfshare 0\noticket 0\nentries alice,@users\n"
	quotaText    = "{\n   name         r1\n   description  NONE\n   enabled      TRUE\n   limit        users {*} to slots=10\n}\n"
	treeText     = "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1\nid=1\nname=default\ntype=0\nshares=10\nchildnodes=NONE\n"
	ckptText     = "ckpt_name k1\ninterface userdefined\nckpt_command none\nmigr_command none\nrestart_command none\nclean_command none\nckpt_dir /tmp\nsignal none\nwhen sx\n"
	peText       = "pe_name pe1\nslots 10\nallocation_rule $pe_slots\n"
	queueText    = "qname two.q\nhostlist node1\nslots 2\npe_list NONE\nload_thresholds NONE\n"
)

func configured(t *testing.T) *world {
	w := newWorld(t)
	w.in.Files = map[string][]byte{
		"c1": []byte(calendarText), "g1": []byte(groupText), "p1": []byte(projectText), "alice": []byte(aliceText), "acl1": []byte(aclText),
		"r1": []byte(quotaText), "st": []byte(treeText), "k1": []byte(ckptText), "pe1": whole(t, peKind, peText), "q2": whole(t, queueKind, queueText),
		"bad": []byte("pe_name pe2\nslots x\n"), "e1": whole(t, hostKind, "hostname node1\ncomplex_values foo=3\n"), "none": whole(t, peKind, "pe_name nonex\nslots 1\n"),
		"q4":   whole(t, queueKind, "qname four.q\nhostlist node1\npe_list nopepe\n"),
		"part": []byte("# slots\npe_name pe1\nuser_lists NONE\n"), "empty": []byte("\n"), "job.sh": []byte("true\n"), "conf/node1": []byte("mailer /bin/mail\n"),
	}
	return w
}

// TestSeveralManagers checks that each name of a list is added or removed, also if the list was
// empty or becomes empty.
func TestSeveralManagers(t *testing.T) {
	w := configured(t)
	w.says("root", "qconf -am alice,bob", "", "root@node1 added \"alice\" to manager list\nroot@node1 added \"bob\" to manager list\n", 0)
	w.says("root", "qconf -sm", "alice\nbob\nroot\n", "", 0)
	w.says("root", "qconf -dm alice,bob", "", "root@node1 removed \"alice\" from manager list\nroot@node1 removed \"bob\" from manager list\n", 0)
	w.says("root", "qconf -sm", "root\n", "", 0)
	w.says("root", "qconf -ao alice,bob", "", "root@node1 added \"alice\" to operator list\nroot@node1 added \"bob\" to operator list\n", 0)
	w.says("root", "qconf -so", "alice\nbob\n", "", 0)
}

// whole returns the text of an object of which some attributes are given.
func whole(t *testing.T, k *kind, text string) []byte {
	t.Helper()
	o, err := k.parse("", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return []byte(o.Format(qconf.Wrapped))
}

// TestConfigure compares the messages and their streams with those of the original (tested).
func TestConfigure(t *testing.T) {
	w := configured(t)
	for _, c := range []struct {
		line, stdout, stderr string
		exit                 int
	}{
		{"-Acal c1", "", "root@node1 added \"c1\" to calendar list\n", 0},
		{"-Acal c1", "", "calendar \"c1\" already exists\n", 1},
		{"-Mcal c1", "", "root@node1 modified \"c1\" in calendar list\n", 0},
		{"-Acal nofile", "", "error: error opening file \"nofile\" for reading: No such file or directory\nerror reading in file\n", 1},
		{"-Ahgrp g1", "", "root@node1 added \"@g1\" to host group list\n", 0},
		{"-Aprj p1", "", "root@node1 added \"p1\" to project list\n", 0},
		{"-Auser alice", "root@node1 added \"alice\" to user list\n", "", 0},
		{"-Muser alice", "root@node1 modified \"alice\" in user list\n", "", 0},
		{"-Au acl1", "", "root@node1 added \"acl1\" to userset list\n", 0},
		{"-Arqs r1", "root@node1 added \"r1\" to resource quota set list\n", "", 0},
		{"-Mrqs r1", "", "root@node1 removed \"r1\" from resource quota set list\nroot@node1 added \"r1\" to resource quota set list\n", 0},
		{"-Mrqs r1 r1", "", "root@node1 modified \"r1\" in resource quota set list\n", 0},
		{"-Astree st", "", "changed sharetree\n", 0},
		{"-Me e1", "", "denied: attribute \"foo\" is not a complex attribute\n", 1},
		{"-Ap pe1", "", "root@node1 added \"pe1\" to parallel environment list\n", 0},
		{"-Mp part", "", "error: required attribute \"slots\" is missing\nerror reading in file\n", 1},
		{"-Mp empty", "", "error: error reading file: \"empty\"\nerror reading in file\n", 1},
		{"-Mp none", "", "denied: parallel environment \"nonex\" does not exist\n", 1},
		{"-Aq q4", "", "Parallel environment \"nopepe\" does not exist\n", 1},
		{"-Aq q2", "", "root@node1 added \"two.q\" to cluster queue list\n", 0},
		{"-Ackpt k1", "", "root@node1 added \"k1\" to checkpoint interface list\n", 0},
		{"-Aconf conf/node1", "", "root@node1 added \"node1\" to configuration list\n", 0},
		{"-sconf node1", "#node1:\nmailer                       /bin/mail\n\n", "", 0},
		{"-dconf node1", "", "root@node1 removed \"node1\" from configuration list\n", 0},
		{"-am alice", "", "root@node1 added \"alice\" to manager list\n", 0},
		{"-am alice", "", "manager \"alice\" already exists\n", 1},
		{"-sm", "alice\nroot\n", "", 0},
		{"-dm alice,root", "", "root@node1 removed \"alice\" from manager list\nmay not remove user \"root\" from manager list\n", 1},
		{"-so", "", "no operator defined\n", 1},
		{"-au alice,bob acl1", "", "\"alice\" is already in access list \"acl1\"\nadded \"bob\" to access list \"acl1\"\n", 1},
		{"-au alice newacl", "", "added \"alice\" to access list \"newacl\"\n", 0},
		{"-du bob acl1", "", "deleted user \"bob\" from access list \"acl1\"\n", 0},
		{"-dul newacl", "", "root@node1 removed \"newacl\" from userset list\n", 0},
		{"-aattr queue pe_list pe1 two.q", "root@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-aattr queue pe_list pe1 two.q", "No modification because \"pe1\" already exists in \"pe_list\" of \"two.q\"\nroot@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-dp pe1", "", "denied: Parallel environment \"pe1\" is still referenced in queue \"all.q\".\n", 1},
		{"-dattr queue pe_list pe1 two.q", "root@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-dattr queue pe_list pe1 all.q", "root@node1 modified \"all.q\" in cluster queue list\n", "", 0},
		{"-mattr queue slots 5 two.q", "root@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-mattr queue slots 7 two.q@node1", "root@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-sobjl queue slots 5", "two.q\n", "", 0},
		{"-sobjl queue_instance slots 7", "two.q@node1\n", "", 0},
		{"-purge queue slots two.q@node1", "root@node1 modified \"two.q\" in cluster queue list\n", "", 0},
		{"-mattr queue slots 5 nope.q", "", "denied: cluster queue \"nope.q\" does not exist\n", 1},
		{"-mattr queue nope 5 two.q", "", "The attribute name (\"nope\") and/or value (\"5\") is invalid\n", 1},
		{"-mattr foo slots 5 all.q", "", "Modification of object \"foo\" not supported\n", 1},
		{"-mattr queue slots 3", "", "qconf: missing object list\n", 1},
		{"-mattr queue user_lists noacl two.q", "", "Userset \"noacl\" does not exist\n", 1},
		{"-mattr resource_quota limit slots=20 r1/1", "root@node1 modified \"r1\" in resource quota set list\n", "", 0},
		{"-rattr exechost complex_values h_vmem=5G node1", "root@node1 modified \"node1\" in exechost list\n", "", 0},
		{"-srqs", strings.Replace(quotaText, "slots=10", "slots=20", 1), "", 0},
		{"-drqs r1", "", "root@node1 removed \"r1\" from resource quota set list\n", 0},
		{"-srqs", "", "No resource quota set found\n", 1},
		{"-astnode /p1=5", "", "setting \n/p1=5\nmodified sharetree\n", 0},
		{"-astnode /p/x=10", "", "Unable to locate /p in sharetree\nno modifications to sharetree\n", 1},
		{"-mstnode /p1=7", "", "setting \n/p1=7\nmodified sharetree\n", 0},
		{"-sst", "Root=1\n   default=10\n   p1=7\n", "", 0},
		{"-sstnode /p1", "/p1=7\n", "", 0},
		{"-sstnode /", "/=1\n/default=10\n/p1=7\n", "", 0},
		{"-dstnode /p1", "", "removing \n/p1\nmodified sharetree\n", 0},
		{"-dstree", "", "root@node1 removed sharetree list\n", 0},
		{"-dstree", "", "sharetree does not exist\n", 1},
		{"-shgrp_resolved @g1", "node1\n", "", 0},
		{"-shgrp_tree @g1", "@g1\n   node1\n", "", 0},
		{"-dprj p1", "", "root@node1 removed \"p1\" from project list\n", 0},
		{"-dcal c1", "", "root@node1 removed \"c1\" from calendar list\n", 0},
		{"-dckpt k1", "", "root@node1 removed \"k1\" from checkpointing environment list\n", 0},
		{"-dp pe1", "", "root@node1 removed \"pe1\" from parallel environment list\n", 0},
		{"-dq two.q", "", "root@node1 removed \"two.q\" from cluster queue list\n", 0},
		{"-dq two.q", "", "denied: cluster queue \"two.q\" does not exist\n", 1},
		{"-sql -spl", "all.q\nmake\nsmp\n", "", 0},
		{"-sq nope", "", "No cluster queue or queue instance matches the phrase \"nope\"\n", 1},
		{"-bogus", "", "error: invalid option argument \"-bogus\"\nUsage: qconf -help\n", 1},
		{"-ssconv", "", "error: invalid option argument \"-ssconv\"\nUsage: qconf -help\ndid you mean -ssconf?\n", 1},
	} {
		w.says("root", "qconf "+c.line, c.stdout, c.stderr, c.exit)
		if t.Failed() {
			t.FailNow()
		}
	}
	w.says("alice", "qconf -Acal c1", "", "denied: \"alice\" must be manager for this operation\n", 1)
}

// TestConfigureWhatIsInUse checks that a queue in which jobs run, and the objects that they use,
// cannot be removed.
func TestConfigureWhatIsInUse(t *testing.T) {
	w := configured(t)
	w.line("root", "qconf -Aq q2")
	w.line("alice", "qsub -q two.q job.sh")
	w.schedule()
	w.says("root", "qconf -dq two.q", "", "There are still running jobs in the queue. Deletion denied.\n", 1)
	w.line("alice", "qsub -pe smp 2 job.sh")
	w.schedule()
	if j := w.cell.Job(2); len(j.Tasks()) == 0 {
		t.Fatal("the parallel job does not run")
	}
	w.line("root", "qconf -dattr queue pe_list smp all.q")
	w.says("root", "qconf -dp smp", "", "denied: Parallel environment \"smp\" is still in use by job 2\n", 1)
	w.says("root", "qconf -de node1", "", "Host object \"node1\" is still referenced in cluster queue \"two.q\".\n", 1)
}

// TestEdit checks the two steps of a change with an editor.
func TestEdit(t *testing.T) {
	w := configured(t)
	r := w.line("root", "qconf -mq all.q")
	if r.Edit == nil || r.Writes != nil || r.Stdout+r.Stderr != "" {
		t.Fatalf("%+v", r)
	}
	text := string(r.Edit.Text)
	w.in.Edited = [][]byte{[]byte(strings.Replace(text, "slots                 4", "slots                 3", 1))}
	w.says("root", "qconf -mq all.q", "", "root@node1 modified \"all.q\" in cluster queue list\n", 0)
	if !strings.Contains(w.line("root", "qconf -sq all.q").Stdout, "slots                 3\n") {
		t.Error("the queue is as it was")
	}
	w.in.Edited = [][]byte{[]byte(strings.Replace(text, "slots                 4", "slots                 many", 1))}
	w.says("root", "qconf -mq all.q", "", "error: line 15: slots: \"many\" is not a number, expected one from 0 to 9999999\nerror reading in file\n", 1)
	for line, want := range map[string]struct {
		stdout, stderr string
		exit           int
	}{
		"qconf -msconf":        {"", "file unchanged\n", 1},
		"qconf -mconf":         {"", "configuration unchanged\n", 1},
		"qconf -mc":            {"", "Complex attribute configuration has not been changed\n", 0},
		"qconf -mstree":        {"", "file unchanged\n", 1},
		"qconf -mrqs":          {"", "file unchanged\n", 1},
		"qconf -arqs nrq":      {"", "file unchanged\n", 1},
		"qconf -ap newpe":      {"", "file unchanged\n", 1},
		"qconf -acal newcal":   {"", "file unchanged\n", 1},
		"qconf -auser":         {"", "file unchanged\n", 1},
		"qconf -ahgrp @hh":     {"", "root@node1 added \"@hh\" to host group list\n", 0},
		"qconf -mu newacl":     {"file unchanged\n", "", 0},
		"qconf -ae":            {"", "file unchanged\n", 1},
		"qconf -me node1":      {"", "file unchanged\n", 1},
		"qconf -mprj nope":     {"", "nope is not known as a project\n", 1},
		"qconf -aconf node1":   {"", "configuration unchanged\n", 1},
		"qconf -aq all.q":      {"", "cluster queue \"all.q\" already exists\n", 1},
		"qconf -mhgrp @nogrp":  {"", "Host group \"@nogrp\" does not exist\n", 1},
		"qconf -aconf noghost": {"", "can't resolve hostname \"noghost\": can't resolve host name\nconfiguration unchanged\n", 1},
	} {
		w := configured(t)
		if r := w.line("root", line); r.Edit != nil {
			w.in.Edited = [][]byte{r.Edit.Text}
		}
		w.says("root", line, want.stdout, want.stderr, want.exit)
	}
}

// TestTemplates checks that the output of each option that shows an object can be read again.
func TestTemplates(t *testing.T) {
	for _, k := range kinds {
		text := k.newText("", 0)
		if !strings.Contains(text, "template") || strings.Contains(text, sampleName) {
			t.Errorf("the template of %s is\n%s", k.what, text)
		}
	}
	if got := groupKind.newText("@hhh", 0); got != "group_name @hhh\nhostlist NONE\n" {
		t.Errorf("a host group is %q", got)
	}
}

// TestActions checks that each option has a row in the table, and that the options that take a file
// require it.
func TestActions(t *testing.T) {
	seen := map[string]bool{}
	for _, a := range actions() {
		if seen[a.name] {
			t.Errorf("%s is there twice", a.name)
		}
		seen[a.name] = true
		if a.help == "" || a.run == nil {
			t.Errorf("%s has no help, or does nothing", a.name)
		}
		if strings.ToUpper(a.name[1:2]) == a.name[1:2] && a.file == 0 {
			t.Errorf("%s names no file", a.name)
		}
	}
	in := &Input{Name: "qconf", Args: strings.Fields("-Aq a -Mrqs b r1 -Mconf c,d -sq e -Aattr queue f all.q")}
	if files, _ := Needs(in); !slices.Equal(files, []NeededFile{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}, {Name: "f"}}) {
		t.Errorf("needs %v", files)
	}
}

// TestValuesForAHost checks that a change of the value for one host does not change the values for
// other hosts, and the other way round.
func TestValuesForAHost(t *testing.T) {
	w := configured(t)
	w.says("root", "qconf -Aq q2", "", "root@node1 added \"two.q\" to cluster queue list\n", 0)
	for _, c := range []struct{ line, attribute, want string }{
		{"-mattr queue slots [node1=3]", "slots", "2,[node1=3]"},
		{"-rattr queue slots 4,[node1=5]", "slots", "4,[node1=5]"},
		{"-aattr queue slots 6", "slots", "6,[node1=5]"},
		{"-mattr queue slots [node1=x]", "slots", "6,[node1=5]"},
		{"-mattr queue slots [node1", "slots", "6,[node1=5]"},
		{"-mattr queue complex_values [node1=slots=2]", "complex_values", "NONE,[node1=slots=2]"},
		{"-aattr queue complex_values slots=3,[node1=num_proc=1]", "complex_values", "slots=3,[node1=slots=2,num_proc=1]"},
		{"-mattr queue complex_values [node1=NONE]", "complex_values", "slots=3,[node1=slots=2,num_proc=1]"},
		{"-dattr queue complex_values [node1=slots=2]", "complex_values", "slots=3,[node1=num_proc=1]"},
		{"-rattr queue complex_values NONE", "complex_values", "NONE,[node1=num_proc=1]"},
	} {
		w.line("root", "qconf "+c.line+" two.q")
		if got := w.line("root", "qconf -sq two.q").Stdout; !strings.Contains(got, "\n"+c.attribute+strings.Repeat(" ", 22-len(c.attribute))+c.want+"\n") {
			t.Errorf("%s: no %s in\n%s", c.line, c.want, got)
		}
	}
}
