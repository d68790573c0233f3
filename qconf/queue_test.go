package qconf

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

func TestAQueueWithoutParametersHasTheTemplatesDefaults(t *testing.T) {
	q := queue(t, "")
	got, err := q.Instance("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "instance", QueueInstance{
		Queue: "q", Host: "n1",
		LoadThresholds: []Setting{{"np_load_avg", "1.75"}}, NSuspend: 1, SuspendInterval: 5 * time.Minute,
		MinCPUInterval: 5 * time.Minute, Batch: true, Interactive: true, Slots: 1,
		Tmpdir: "/tmp", Shell: "/bin/csh", ShellStartMode: job.PosixCompliant, Notify: time.Minute,
		InitialState: InitialDefault, Limits: job.Unlimited(),
	}, got)
	if q.Line("slots") != 0 || q.Line("qname") != 1 {
		t.Error("lines", q.Line("slots"), q.Line("qname"))
	}
}

func TestAQueueGivesTypedValues(t *testing.T) {
	got, err := queue(t, `
seq_no 0x10
load_thresholds np_load_avg=1.75 , mem_free=1G
suspend_interval INFINITY
priority -20
processors 0x1-4, 008
qtype interactive
ckpt_list dmtcp
pe_list smp,make smp
rerun yes
slots 010
prolog root@/opt/prolog  $job_id
epilog None
shell_start_mode Script_From_Stdin
starter_method /opt/start
suspend_method SIGTSTP
resume_method 18
terminate_method /opt/kill $job_pid
notify 1:30:0
subordinate_list slots=4(low.q:2, mid.q:lr,x.q)
complex_values num_proc=2,h_vmem=4G
calendar night
initial_state Disabled
s_rt 1::1
h_cpu 0:0:100
h_vmem 4g
s_vmem 1.5G
h_stack infinity
`).Instance("n1", nil)
	if err != nil {
		t.Fatal(err)
	}
	want := QueueInstance{
		Queue: "q", Host: "n1", SeqNo: 16, LoadThresholds: []Setting{{"np_load_avg", "1.75"}, {"mem_free", "1G"}},
		NSuspend: 1, SuspendInterval: Forever, Priority: -20, MinCPUInterval: 5 * time.Minute, Processors: "1-4,8",
		Interactive: true, CkptList: []string{"dmtcp"}, PEList: []string{"smp", "make"}, Rerun: true, Slots: 10,
		Tmpdir: "/tmp", Shell: "/bin/csh", Prolog: "root@/opt/prolog  $job_id", ShellStartMode: job.ScriptFromStdin,
		StarterMethod: "/opt/start", SuspendMethod: "SIGTSTP", ResumeMethod: "18", TerminateMethod: "/opt/kill $job_pid",
		Notify: 90 * time.Minute,
		Subordinates: Subordination{Slots: 4, Queues: []Subordinate{
			{Queue: "low.q", SeqNo: 2, Action: ShortestRunning}, {Queue: "mid.q", Action: LongestRunning}, {Queue: "x.q", Action: ShortestRunning},
		}},
		ComplexValues: []Setting{{"num_proc", "2"}, {"h_vmem", "4G"}}, Calendar: "night", InitialState: InitialDisabled,
		Limits: job.Unlimited(),
	}
	want.Limits[job.RT].Soft = 3601
	want.Limits[job.CPU].Hard = 100
	want.Limits[job.Vmem] = job.Limit{Soft: 3 << 29, Hard: 4e9}
	want.Limits[job.Stack].Hard = quantity.Infinity
	same(t, "instance", want, got)
}

func TestAQueueRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"h_rt 1:2:3:4":                       `h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`,
		"h_rt -1":                            `h_rt: "-1" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		"h_rt NONE":                          `h_rt: "NONE" is not a time, expected seconds, hours:minutes:seconds or INFINITY`,
		"h_vmem -1":                          `h_vmem: "-1" is not a size, expected a number with an optional letter of k K m M g G t T, or INFINITY`,
		"s_vmem 4X":                          `s_vmem: "4X" is not a size, expected a number with an optional letter of k K m M g G t T, or INFINITY`,
		"slots -1":                           `slots: "-1" is out of range, expected a number from 0 to 9999999`,
		"slots 10000000":                     `slots: "10000000" is out of range, expected a number from 0 to 9999999`,
		"slots 1.5":                          `slots: "1.5" is not a number, expected one from 0 to 9999999`,
		"slots 1_0":                          `slots: "1_0" is not a number, expected one from 0 to 9999999`,
		"slots 99999999999999999999":         `slots: "99999999999999999999" is out of range, expected a number from 0 to 9999999`,
		"slots":                              `slots: has no value`,
		"priority 21":                        `priority: "21" is out of range, expected a number from -20 to 20`,
		"priority -21":                       `priority: "-21" is out of range, expected a number from -20 to 20`,
		"notify INFINITY":                    `notify: "INFINITY" is not possible here, expected a finite time`,
		"notify 10000000000":                 `notify: "10000000000" is too long, expected less than 292 years`,
		"rerun maybe":                        `rerun: "maybe" is neither true nor false, expected TRUE or FALSE`,
		"shell sh":                           `shell: "sh" is not an absolute path, expected one that begins with /`,
		"shell NONE":                         `shell: "NONE" is not an absolute path, expected one that begins with /`,
		"tmpdir tmp":                         `tmpdir: "tmp" is not an absolute path, expected one that begins with /`,
		"prolog rel/x y":                     `prolog: "rel/x y" is not a command, expected NONE or [user@] and an absolute path with arguments`,
		"prolog root@rel":                    `prolog: "root@rel" is not a command, expected NONE or [user@] and an absolute path with arguments`,
		"prolog @/x":                         `prolog: user before @: empty name`,
		"prolog /x $nosuch":                  `prolog: "/x $nosuch" has the unknown variable $nosuch, expected one of $host $ja_task_id $job_owner $job_id $job_name $processors $queue $sge_cell $sge_root $stdin_path $stdout_path $stderr_path $merge_stderr $fs_stdin_host $fs_stdin_path $fs_stdin_tmp_path $fs_stdin_file_staging $fs_stdout_host $fs_stdout_path $fs_stdout_tmp_path $fs_stdout_file_staging $fs_stderr_host $fs_stderr_path $fs_stderr_tmp_path $fs_stderr_file_staging`,
		"suspend_method FOO":                 `suspend_method: "FOO" is not a method, expected NONE, a signal name, a signal number from 1 to 64, or an absolute path with arguments`,
		"resume_method -9":                   `resume_method: "-9" is not a method, expected NONE, a signal name, a signal number from 1 to 64, or an absolute path with arguments`,
		"terminate_method rel/x":             `terminate_method: "rel/x" is not a method, expected NONE, a signal name, a signal number from 1 to 64, or an absolute path with arguments`,
		"shell_start_mode raw_exec":          `shell_start_mode: "raw_exec" is unknown, expected one of posix_compliant, unix_behavior, script_from_stdin`,
		"initial_state on":                   `initial_state: "on" is unknown, expected one of default, enabled, disabled`,
		"qtype PARALLEL":                     `qtype: "PARALLEL" is not a queue type any more, expected BATCH, INTERACTIVE or NONE: a queue with a pe_list or ckpt_list is one`,
		"qtype ,":                            `qtype: "," names no queue type, expected BATCH, INTERACTIVE or NONE`,
		"processors 4-1":                     `processors: "4-1" is not a range: it ends before it begins, or UNDEFINED`,
		"pe_list a@b":                        `pe_list: "a@b" is not a name: it contains "@", expected printing ASCII without blanks and / : ' \ [ ] { } | ( ) @ % , "`,
		"pe_list NONE,x":                     `pe_list: "NONE" is not a name: the word is reserved`,
		"load_thresholds np_load_avg":        `load_thresholds: "np_load_avg" has no value, expected name=value`,
		"complex_values a=1,a=2":             `complex_values: "a" is set twice`,
		"hostlist n1;n2":                     `hostlist: "n1;n2" is not a host name: it contains ";", expected letters, digits, - . _`,
		"hostlist @":                         `hostlist: empty name`,
		"subordinate_list slots(x.q)":        `subordinate_list: "slots(x.q)" is not a subordinate list, expected queue=slots,... or slots=N(queue:seq_no:action,...)`,
		"subordinate_list slots=0(x.q)":      `subordinate_list: threshold: "0" is out of range, expected a number from 1 to 9999999`,
		"subordinate_list slots=2(x.q:1:xx)": `subordinate_list: "xx" in "x.q:1:xx" is unknown, expected queue:seq_no:action with the action sr or lr`,
		"subordinate_list slots=2(x.q:sr:1)": `subordinate_list: "sr" in "x.q:sr:1" is unknown, expected queue:seq_no:action with the action sr or lr`,
		"subordinate_list slots=2(x.q:1:2)":  `subordinate_list: "2" in "x.q:1:2" is unknown, expected queue:seq_no:action with the action sr or lr`,
		"subordinate_list x.q=a":             `subordinate_list: "a" is not a number, expected one from 0 to 9999999`,
		"subordinate_list x.q, x.q=1":        `subordinate_list: "x.q" comes twice`,
		"slots [n1=2]":                       `slots: "[n1=2]" has no default setting before the first [`,
		"slots 1,[n1=2] [n2=3]":              `slots: expected a comma before "[n2=3]"`,
		"slots 1,[n1=2],":                    `slots: "1,[n1=2]," ends with a comma`,
		"slots 1,[n1=2],3":                   `slots: expected [host=value] or [@group=value] at "3"`,
		"slots 1,[n1=2":                      `slots: "[n1=2" has no closing bracket`,
		"slots 1,[n1]":                       `slots: "[n1]" sets no value, expected [host=value] or [@group=value]`,
		"slots 1,[n1=]":                      `slots: "[n1=]" sets no value, expected [host=value] or [@group=value]`,
		"slots 1,[n1=2],[N1=3]":              `slots: "N1" is set twice`,
		"slots 1,[n 1=2]":                    `slots: "n 1" is not a host name: it contains " ", expected letters, digits, - . _`,
		"slots 1,[n1=x]":                     `slots: [n1=...]: "x" is not a number, expected one from 0 to 9999999`,
		"prolog /x,[n1=/y a,[b]]":            `prolog: "[n1=/y a,[b]]" has a bracket after a comma in a value, which reads like the next setting`,
		"prolog /x\x01":                      `prolog: "/x\x01" contains the control byte 0x01`,
		"prolog /x\x00":                      `prolog: "/x\x00" contains the control byte 0x00`,
	} {
		t.Run(line, func(t *testing.T) {
			_, err := ParseQueue("queues/all.q", []byte("# a queue\nqname all.q\n"+line+"\n"))
			refused(t, err, "queues/all.q:3: "+want)
		})
	}
}

func TestAllErrorsOfAFileAreReported(t *testing.T) {
	_, err := ParseQueue("queues/all.q", []byte("slots x\nh_rt 1:2:3:4\nslots 3\nh_rtt 3\npriority 99 \\"))
	refused(t, err,
		"queues/all.q:5: the file ends in a continued line",
		"queues/all.q:3: slots comes twice, first in line 1",
		`queues/all.q:4: unknown attribute "h_rtt" of a queue, expected one of queue_conf(5), perhaps h_rt`,
		"queues/all.q: qname: is missing, a queue needs it",
		`queues/all.q:1: slots: "x" is not a number, expected one from 0 to 9999999`,
		`queues/all.q:2: h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`,
	)
	if _, ok := errors.AsType[*Error](err); !ok {
		t.Error("no *Error in it")
	}
}

func TestTheSettingOfAHostGoesBeforeThatOfItsGroup(t *testing.T) {
	g := groups(t, "group_name @top\nhostlist @sub n4", "group_name @sub\nhostlist n2 n3", "group_name @amb\nhostlist n3 n4")
	q := queue(t, `hostlist @top n1
slots 1,[@sub=3],[n3=5]
seq_no 7 , [@sub=4] , [@amb=5]
user_lists NONE,[n1=staff, admins]
h_rt INFINITY,[@top=1:0:0],[n4.example.org=60]
prolog NONE,[n1=root@/opt/a [x] y],[@sub=/opt/b]
`)
	type row struct {
		Slots, SeqNo int
		Users        []string
		HRT          uint64
		Prolog       string
	}
	for host, want := range map[string]row{
		"n1":             {1, 7, []string{"staff", "admins"}, quantity.Infinity, "root@/opt/a [x] y"},
		"N2":             {3, 4, nil, 3600, "/opt/b"},
		"n2.example.org": {3, 4, nil, 3600, "/opt/b"},
		"n4":             {1, 5, nil, 60, ""},
		"n4.example.org": {1, 5, nil, 60, ""},
		"n4.other.org":   {1, 5, nil, 3600, ""},
		"n9":             {1, 7, nil, quantity.Infinity, ""},
	} {
		i, err := q.Instance(host, g)
		if err != nil {
			t.Error(err)
		}
		same(t, host, want, row{i.Slots, i.SeqNo, i.UserLists, i.Limits[job.RT].Hard, i.Prolog})
	}
	i, err := q.Instance("n3", g)
	refused(t, err, `q:4: seq_no: host "n3" is in @sub and @amb, which set 4 and 5, and has no own setting`)
	if !errors.Is(err, ErrAmbiguous) || i.SeqNo != 7 || i.Slots != 5 {
		t.Error("ambiguous instance", err, i.SeqNo, i.Slots)
	}
}

func TestGroupsThatAgreeAreAmbiguousAsInTheOriginal(t *testing.T) {
	g := groups(t, "group_name @a\nhostlist n1", "group_name @b\nhostlist n1")
	if _, err := queue(t, "slots 1,[@a=2],[@b=2]").Instance("n1", g); !errors.Is(err, ErrAmbiguous) {
		t.Error(err)
	}
}

func TestInstancesDoNotChangeTheQueue(t *testing.T) {
	q := queue(t, "slots 1,[n1=9]\nh_rt 60,[n1=9]\npe_list a,[n1=b]")
	before := q.Format(SingleLine)
	if i, _ := q.Instance("n1", nil); i.Slots != 9 {
		t.Error(i.Slots)
	}
	i, _ := q.Instance("n2", nil)
	if i.Slots != 1 || i.Limits[job.RT].Hard != 60 || i.PEList[0] != "a" || q.Format(SingleLine) != before {
		t.Errorf("%+v", i)
	}
}

func TestWithChangesOneAttribute(t *testing.T) {
	q := queue(t, "slots 3\nnotify 00:00:60\n")
	changed, err := q.With("slots", " 4,[n1=5] ")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "slots", "4,[n1=5]", value(t, changed.Text, "slots"))
	same(t, "notify", "00:00:60", value(t, changed.Text, "notify"))
	same(t, "the old one", "3", value(t, q.Text, "slots"))
	for _, c := range [][3]string{
		{"slots", "-1", `q: slots: "-1" is out of range, expected a number from 0 to 9999999`},
		{"slots", "", `q: slots: has no value`},
		{"slots", "1\nprolog /evil", `q: slots: "1\nprolog /evil" contains the control byte 0x0a`},
		{"prolog", `/x \`, `q: prolog: "/x \\" ends with a backslash, which would continue the line`},
		{"sloots", "1", `q: unknown attribute "sloots" of a queue, expected one of queue_conf(5), perhaps slots`},
	} {
		_, err := q.With(c[0], c[1])
		refused(t, err, c[2])
	}
}

func TestACommandBrokenAtACommaIsAWarning(t *testing.T) {
	q := queue(t, "prolog /x a, \\\n   b\nowner_list a, \\\n b\nepilog /x, \\\n [n1=/y]\n")
	w := q.Warnings()
	if len(w) != 1 || w[0].Line != 2 || !strings.Contains(w[0].Error(), "SGE_SINGLE_LINE") {
		t.Error(w)
	}
}
