package qstat

import (
	"strings"
	"testing"
)

// TestFieldsOfShares checks -f and -s with the output of Grid Engine 8.1.9.
func TestFieldsOfShares(t *testing.T) {
	rows := [][]ShareRow{{
		{Now: 5, Node: "/", Shares: 1, Level: 1}, {Now: 5, Node: "/alice", User: "alice", Shares: 30, Level: 0.6}, {Now: 5, Node: "/p1", Project: "p1", Shares: 20, Level: 0.4},
	}}
	for want, o := range map[string]ShareOptions{
		"\t1\t0.000000\t\nalice\t30\t0.000000\t\n\t20\t0.000000\t\n":                           {Fields: []string{"user_name", "shares", "cpu"}},
		"shares\tnode_name\t\n\n1\t/\t\n30\t/alice\t\n20\t/p1\t\n":                             {Header: true, Fields: []string{"shares", "node_name"}},
		"shares=1\tnode_name=/\t\nshares=30\tnode_name=/alice\t\nshares=20\tnode_name=/p1\t\n": {Names: true, Fields: []string{"shares", "node_name"}},
		"": {Header: true, Fields: []string{"nosuch"}},
		"shares\tcpu\t\n\n1\t0.000000\t\n30\t0.000000\t\n20\t0.000000\t\n": {Header: true, Fields: []string{"shares", "nosuch", "cpu"}},
		"1\t1\t\n30\t30\t\n20\t20\t\n":                                     {Fields: []string{"shares", "shares"}},
		"         /\t          \t5\t0.000000\t\n    /alice\t     alice\t5\t0.000000\t\n       /p1\t          \t5\t0.000000\t\n": {Text: "%10s", Fields: []string{"node_name", "user_name", "curr_time", "cpu"}},
		"/         |\t\n/alice    |\t\n/p1       |\t\n":                         {Text: "%-10s|", Fields: []string{"node_name"}},
		"node_name=</>\t\nnode_name=</alice>\t\nnode_name=</p1>\t\n":            {Names: true, Text: "<%s>", Fields: []string{"node_name"}},
		"level%\t\n\nlevel%=1.000000\t\nlevel%=0.600000\t\nlevel%=0.400000\t\n": {Header: true, Names: true, Fields: []string{"level%"}},
		"/\t\n/al\t\n/p1\t\n": {Text: "%.3s", Fields: []string{"node_name"}},
	} {
		same(t, want, string(AppendShares(nil, rows, o)))
	}
}

// TestRequestsWithoutBinding checks -r -ncb with testdata/ncb.
func TestRequestsWithoutBinding(t *testing.T) {
	c := recordedCell(t, "testdata/ncb/qstat-r.xml")
	for i := range c.Jobs {
		for k := range c.Jobs[i].Tasks {
			if task := &c.Jobs[i].Tasks[k]; task.ExtraMaster { // a line for each slot was not printed
				task.Grants[0].Slots++
			}
		}
	}
	same(t, repaired.Replace(read(t, "testdata/ncb/qstat-r.xml")), string(c.AppendXML(nil, Options{Requests: true, NoBinding: true})))
	with := string(c.AppendText(nil, Options{Requests: true}))
	if !strings.Contains(with, "       Binding:          NONE\n") {
		t.Errorf("no binding in\n%s", with)
	}
	same(t, strings.ReplaceAll(with, "       Binding:          NONE\n", ""), string(c.AppendText(nil, Options{Requests: true, NoBinding: true})))
}

// TestLoadColumnTitle checks that with SGE_LOAD_AVG the title is the name of the load value, cut to
// the column.
func TestLoadColumnTitle(t *testing.T) {
	c := &Cell{Queues: []QueueInstance{{Queue: "a.q", Host: "n1"}}}
	for name, want := range map[string]string{"": "load_avg", "np_load_avg": "np_load_", "nosuch": "nosuch  "} {
		line, _, _ := strings.Cut(string(c.AppendText(nil, Options{Full: true, LoadName: name})), "\n")
		same(t, "queuename                      qtype resv/used/tot. "+want+" arch          states", line)
	}
}

// TestErrorJobs checks that tasks at queue instances that do not exist are neither running nor pending
// (qstat(1), Full Format).
func TestErrorJobs(t *testing.T) {
	task := func(queue string) Task {
		return Task{Phase: Running, State: "r", Grants: []Grant{{Queue: queue, Slots: 1}}}
	}
	c := &Cell{
		Queues: []QueueInstance{{Queue: "a.q", Host: "n1"}},
		Jobs: []Job{
			{ID: 1, Name: "here", Tasks: []Task{task("a.q@n1")}},
			{ID: 2, Name: "lost", Tasks: []Task{task("gone.q@n1")}},
			{ID: 3, Name: "waits", Tasks: []Task{{State: "qw", Slots: 1}}},
		},
	}
	text := string(c.AppendText(nil, Options{Full: true}))
	_, tail, _ := strings.Cut(text, "PENDING JOBS\n")
	rule := strings.Repeat("#", 76) + "\n"
	same(t, rule+"      3 0.00000 waits                   qw    01/01/1970 00:00:00     1        \n\n"+
		rule+"  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -  ERROR JOBS  -\n"+rule+
		"      2 0.00000 lost                    r     01/01/1970 00:00:00     1        \n", tail)
	_, tail, _ = strings.Cut(string(c.AppendXML(nil, Options{Full: true})), "<job_info>\n")
	if strings.Count(text, " here ") != 1 || strings.Count(tail, "<JB_name>lost</JB_name>") != 1 || strings.Contains(tail, "here") {
		t.Errorf("%s\n%s", text, tail)
	}
}
