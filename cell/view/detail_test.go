package view_test

import (
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

// submitted is when the jobs of the recording were: 2026-11-21 08:52:46.
const submitted int64 = 1795251166

// cluster is that of the recordings in qstat/testdata/details.
var cluster = map[string]string{
	"complexes": "lic lic INT <= YES YES 0 10\nosn osn STRING == YES NO NONE 0\ntlim tlim TIME <= YES NO 0 0\nh_rt h_rt TIME <= YES NO 0:0:0 0\n" +
		"s_rt s_rt TIME <= YES NO 0:0:0 0\nslots s INT <= YES YES 1 1000\nseq_no seq INT == NO NO 0 0\nqname q STRING == YES NO NONE 0\n" +
		"hostname h HOST == YES NO NONE 0\nmem mem MEMORY <= YES NO 0 0\nex ex BOOL EXCL YES YES 0 0\nper per DOUBLE <= YES JOB 0 0",
	"queues/a.q":             "qname a.q\nhostlist n1 n2\nslots 4\npe_list fill\nckpt_list ck\nload_thresholds NONE\nqtype BATCH INTERACTIVE",
	"queues/b.q":             "qname b.q\nhostlist n3\nslots 2\npe_list NONE\nload_thresholds NONE\nqtype BATCH",
	"pes/fill":               "pe_name fill\nslots 100\nallocation_rule $fill_up\ncontrol_slaves TRUE\njob_is_first_task FALSE",
	"ckpts/ck":               "ckpt_name ck\ninterface userdefined\nwhen sx",
	"projects/p1":            "name p1",
	"usersets/deadlineusers": "name deadlineusers\ntype ACL\nentries alice",
	"hosts/n1":               "hostname n1",
	"hosts/n2":               "hostname n2",
	"hosts/n3":               "hostname n3",
	"hosts/global":           "hostname global\ncomplex_values lic=8,per=5",
}

type master struct {
	*cell.Cell
	t   *testing.T
	now int64
}

func newMaster(t *testing.T) *master {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range cluster {
		fsys[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	c, err := qconf.Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &master{cell.New(submitted, c, cell.Options{Up: []string{"n1", "n2", "n3"}}), t, submitted}
}

func caller(user string) cell.Caller { return cell.Caller{User: user, Group: user, Host: "master"} }

// qsub submits with a command line, which is split at blanks; %20 is a blank.
func (m *master) qsub(line string) uint32 {
	m.t.Helper()
	words := strings.Fields(line)
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "%20", " ")
	}
	r, err := submit.Parse(submit.Input{Args: words, Master: true, Cwd: "/home/alice"})
	if err != nil {
		m.t.Fatal(err)
	}
	a, err := m.Submit(m.now, caller("alice"), r)
	if err != nil {
		m.t.Fatal(err)
	}
	return a.ID
}

// run is a scheduling run; what starts is confirmed.
func (m *master) run() {
	m.t.Helper()
	for _, a := range m.Schedule(m.now).Actions {
		if a.Kind == cell.StartTask {
			if err := m.TaskStarted(m.now, a.Task.Job.ID(), a.Task.Number, a.Attempt); err != nil {
				m.t.Fatal(err)
			}
		}
	}
}

func (m *master) qalter(line string) {
	m.t.Helper()
	r, err := submit.ParseAlteration(submit.Input{Args: strings.Fields(line), Master: true})
	if err != nil {
		m.t.Fatal(err)
	}
	if a := m.Alter(m.now, caller("root"), r); a.Denied() {
		m.t.Fatal(a.Events)
	}
}

func (m *master) view() *view.View { return view.New(m.Cell, m.now) }

// detail returns a job with what only its submit host knows.
func (m *master) detail(id uint32) qstat.JobDetail {
	d := m.view().Detail(m.Job(id), caller("alice"))
	d.UID, d.GID = 2001, 2001
	d.Home, d.LogName, d.Shell, d.TimeZone, d.WorkDir = "/home/alice", "alice", "/bin/sh", "UTC", "/home/alice"
	d.Path = "/usr/bin:/bin:/usr/sbin:/sbin:/usr/lib/gridengine"
	return d
}

// fullJob is the command line of the recorded job that asks for everything.
const fullJob = `-b y -N full -h -dl 203112312359.59 -a 203001010000 -A myacct -c sx -ckpt ck -cwd -e /tmp/e1 -o /tmp/o -i /tmp/in -R y -j n
	-l lic=1,osn=linux,h_rt=100 -soft -l tlim=5 -q b.q -hard -q *.q,a.q@n1 -m abe -M alice@n1,bob -notify -p -5 -js 3 -r y
	-S /bin/bash,n1:/bin/sh -v A=1,B=2,C,D=<&"> -ac X=1,Y=2,Z -masterq a.q -pe fill 2-4,6 -hold_jid 2 -P p1 -t 1-9:2 -tc 2
	-binding linear:1 -w n /home/alice/scr.sh a b%20c <x>`

// TestDetailIsThatOfTheRecordedJob checks that a recorded job is shown with the options of its command
// line.
func TestDetailIsThatOfTheRecordedJob(t *testing.T) {
	m := newMaster(t)
	m.qsub("-b y -h x")
	m.qsub("-b y -h -N arr -t 1-20:3 x")
	for range 3 {
		m.qsub("-b y -h x")
	}
	id := m.qsub(fullJob)
	m.qalter("-ot 7 6")
	m.qalter("-p -6 6")
	m.run()
	d := m.detail(id)
	if len(d.Reasons) != 1 || d.Reasons[0] != (qstat.Reason{Text: "Job is in hold state", Number: 33}) {
		t.Errorf("%+v", d.Reasons)
	}
	if len(d.WaitingFor) != 3 || d.Progress == nil || d.Progress.Total != 5 {
		t.Errorf("%q, %+v", d.WaitingFor, d.Progress)
	}
	// What is ours was not recorded.
	d.Reasons, d.WaitingFor, d.Progress = nil, nil, nil
	for name, got := range map[string][]byte{
		"full.txt": qstat.AppendDetails(nil, []qstat.JobDetail{d}, qstat.DetailOptions{}),
		"full.xml": qstat.AppendDetailsXML(nil, []qstat.JobDetail{d}, qstat.DetailOptions{}),
	} {
		text, err := os.ReadFile("../../qstat/testdata/details/" + name)
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := strings.Cut(strings.ReplaceAll(string(text), "%lt;", "&lt;"), "scheduling info")
		want, _, _ = strings.Cut(want, "  <messages>")
		have, _, _ := strings.Cut(string(got), "  <messages>")
		if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(have, "\n")); diff != "" {
			t.Errorf("%s: - recorded, + shown\n%s", name, diff)
		}
	}
}

func TestDetailOfRequests(t *testing.T) {
	m := newMaster(t)
	id := m.qsub("-b y -shell n -h -l mem=1.5G,ex=true,per=1.5,h=n*,h_rt=INFINITY -w w -r n -m beas -c 00:10:00 -ckpt ck -binding env%20striding:2:1 x")
	d := m.view().Detail(m.Job(id), caller("alice"))
	want := []qstat.Request{
		{Name: "mem", Value: "1.5G", Type: 4, Number: 1.5 * (1 << 30)},
		{Name: "ex", Value: "true", Type: 5, Number: 1, Consumable: 1},
		{Name: "per", Value: "1.5", Type: 8, Number: 1.5, Consumable: 2},
		{Name: "hostname", Value: "n*", Type: 7},
		{Name: "h_rt", Value: "INFINITY", Type: 3, Number: 1.7976931348623157e308},
	}
	if diff := cmp.Diff(want, d.Hard); diff != "" {
		t.Error(diff)
	}
	if d.Verification != "w" || d.Restart != "n" || d.MailOptions != "abes" || d.CheckpointWhen != "sx" || d.CheckpointInterval != 600 ||
		d.Type != "binary,noshell" || d.Binding != "env striding:2:1" {
		t.Errorf("%+v", d)
	}
}

// TestDetailOfTasks checks that tasks that run, have failed or are ordered to start have their
// details, and that jobs name the jobs that wait for them.
func TestDetailOfTasks(t *testing.T) {
	m := newMaster(t)
	m.qsub("-b y -N arr -t 1-3 -q b.q x")
	m.qsub("-b y -N after -hold_jid arr -hold_jid_ad arr -t 1-3 x")
	m.run()
	if err := m.UsageReport(m.now, 1, 1, tickets.Amounts{tickets.CPU: 5, tickets.Mem: 2, tickets.IO: 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := m.TaskEnded(m.now, 1, 2, 0, cell.End{Failure: cell.JobFailure, Reason: "no such file"}); err != nil {
		t.Fatal(err)
	}
	live := cell.Live{Refused: 3, IdleGPUs: []string{"0", "2"}, GPU: job.GPUUsage{Count: 2, Seconds: 7200, Measured: 1000, Busy: 250, MaxMemory: 3 << 30}}
	if err := m.LiveReport(1, 1, live); err != nil {
		t.Fatal(err)
	}
	d := m.view().Detail(m.Job(1), caller("alice"))
	want := []qstat.TaskDetail{
		{
			Task: 1, Running: true, Started: m.now, NormalizedTickets: 0.5, Usage: &qstat.Usage{CPU: 5, Memory: 2, IO: 1},
			GPUUsage: "gpus=2, time=02:00:00, utilisation=25%, maxmem=3072M",
			Notice: "the kernel refused it 3 processes and threads beyond its limit (pids_limit); " +
				"it has not used GPU 0, 2 for ten minutes or longer",
		},
		{Task: 2, NormalizedTickets: 0.5, ErrorReason: "no such file"},
	}
	if diff := cmp.Diff(want, d.Details); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]int{{2}, {2}}, [][]int{d.Successors, d.ArraySuccessors}); diff != "" {
		t.Error(diff)
	}
	m.Schedule(m.now) // and nobody confirms it
	if d := m.view().Detail(m.Job(1), caller("alice")); !d.Details[2].Transferring || !d.Details[2].Running {
		t.Errorf("%+v", d.Details)
	}
}

// TestReasonsOfAllJobs checks that jobs with the same reasons are shown together, as qstat -j without
// a list shows them.
func TestReasonsOfAllJobs(t *testing.T) {
	m := newMaster(t)
	m.qsub("-b y -l osn=linux x")
	m.qsub("-b y -h x")
	m.qsub("-b y -l osn=linux x")
	m.qsub("-b y -h x")
	m.qsub("-b y -hold_jid 1 x")
	m.qsub("-b y -a 203001010000 x")
	m.ModifyQueues(m.now, caller("root"), cell.DisableQueue, []string{"b.q"}, false)
	if shared, groups := m.view().Reasons(); shared != nil || groups != nil {
		t.Error("there are reasons before anything was scheduled")
	}
	m.run()
	shared, groups := m.view().Reasons()
	got := string(qstat.AppendReasons(nil, shared, groups))
	want := `scheduling info:            queue instance "b.q@n3" dropped because it is disabled

Jobs can not run because the resource requirements can not be satisfied
	1,	3

Jobs dropped because of hold state
	2,	4

Job dropped because of job dependencies
	5

Jobs can not run because execution time not reached
	6
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if id, _ := m.Model().Instance("a.q", "n1"); m.State().Status(id)&scheduler.DisabledByUser != 0 {
		t.Error("the other queue is disabled")
	}
}
