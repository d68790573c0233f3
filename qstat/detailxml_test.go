package qstat

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// testdata/details was printed by qstat -j of Grid Engine 8.1.9, each file as text and as
// XML at one moment. What the XML says is all that the tests know; text and XML must
// follow.

type xmlDetails struct {
	Jobs     []xmlDetail `xml:"djob_info>element"`
	Messages xmlMessages `xml:"messages>element"`
}

type xmlMessages struct {
	Own    []xmlMessage `xml:"SME_message_list>element"`
	Shared []xmlMessage `xml:"SME_global_message_list>element"`
}

type xmlMessage struct {
	Jobs []struct {
		Number int `xml:"ULNG_value"`
	} `xml:"MES_job_number_list>ulong_sublist"`
	More []struct {
		Number int `xml:"ULNG_value"`
	} `xml:"MES_job_number_list>element"`
	Number int    `xml:"MES_message_number"`
	Text   string `xml:"MES_message"`
}

func (m *xmlMessage) jobs() []int {
	var ids []int
	for _, j := range append(m.Jobs, m.More...) {
		ids = append(ids, j.Number)
	}
	return ids
}

// list is a list whose entries have a name that does not matter.
type list[T any] struct {
	Entries []T `xml:",any"`
}

type xmlPath struct {
	Path     string `xml:"PN_path"`
	Host     string `xml:"PN_host"`
	FileHost string `xml:"PN_file_host"`
}

type xmlVariable struct {
	Name  string  `xml:"VA_variable"`
	Value *string `xml:"VA_value"`
}

type xmlRange struct {
	Min  int `xml:"RN_min"`
	Max  int `xml:"RN_max"`
	Step int `xml:"RN_step"`
}

type xmlQueueName struct {
	Name string `xml:"QR_name"`
}

type xmlRelated struct {
	Number int    `xml:"JRE_job_number"`
	Name   string `xml:"JRE_job_name"`
}

type xmlComplex struct {
	Name       string  `xml:"CE_name"`
	Type       int     `xml:"CE_valtype"`
	Value      string  `xml:"CE_stringval"`
	Number     float64 `xml:"CE_doubleval"`
	Consumable int     `xml:"CE_consumable"`
}

type xmlMeasure struct {
	Name  string  `xml:"UA_name"`
	Value float64 `xml:"UA_value"`
}

type xmlSubtask struct {
	ID     string `xml:"PET_id"`
	Queues list[struct {
		Name string `xml:"JG_qname"`
	}] `xml:"PET_granted_destin_identifier_list"`
	Usage  list[xmlMeasure] `xml:"PET_usage"`
	Scaled list[xmlMeasure] `xml:"PET_scaled_usage"`
	Start  int64            `xml:"PET_start_time"`
}

type xmlTask struct {
	Status   int              `xml:"JAT_status"`
	Number   int              `xml:"JAT_task_number"`
	Error    string           `xml:"JAT_message_list>ulong_sublist>QIM_message"`
	Usage    list[xmlMeasure] `xml:"JAT_scaled_usage_list"`
	Subtasks list[xmlSubtask] `xml:"JAT_task_list"`
	Started  int64            `xml:"JAT_start_time"`
	Tickets  float64          `xml:"JAT_ntix"`
}

type xmlBinding struct {
	Strategy string `xml:"BN_strategy"`
	Type     int    `xml:"BN_type"`
	Amount   int    `xml:"BN_parameter_n"`
	Socket   int    `xml:"BN_parameter_socket_offset"`
	Core     int    `xml:"BN_parameter_core_offset"`
	Step     int    `xml:"BN_parameter_striding_step_size"`
	Explicit string `xml:"BN_parameter_explicit"`
}

func (b *xmlBinding) text() string {
	text := []string{"", "pe ", "env ", "set "}[b.Type]
	switch strategy := strings.TrimSuffix(b.Strategy, "_automatic"); strategy {
	case "no_job_binding":
		return ""
	case "explicit":
		return text + b.Explicit
	default:
		text += strategy + ":" + strconv.Itoa(b.Amount)
		if b.Amount == 1<<31-1 {
			text = strings.TrimSuffix(text, strconv.Itoa(b.Amount)) + "slots"
		}
		if strategy == "striding" {
			text += ":" + strconv.Itoa(b.Step)
		}
		if strategy == b.Strategy {
			text += ":" + strconv.Itoa(b.Socket) + "," + strconv.Itoa(b.Core)
		}
		return text
	}
}

type xmlDetail struct {
	ID           int                `xml:"JB_job_number"`
	AR           int                `xml:"JB_ar"`
	ExecFile     string             `xml:"JB_exec_file"`
	Submitted    int64              `xml:"JB_submission_time"`
	Owner        string             `xml:"JB_owner"`
	UID          int                `xml:"JB_uid"`
	Group        string             `xml:"JB_group"`
	GID          int                `xml:"JB_gid"`
	Account      string             `xml:"JB_account"`
	Merge        bool               `xml:"JB_merge_stderr"`
	Mail         list[xmlMail]      `xml:"JB_mail_list"`
	Project      string             `xml:"JB_project"`
	Notify       bool               `xml:"JB_notify"`
	Name         string             `xml:"JB_job_name"`
	Output       list[xmlPath]      `xml:"JB_stdout_path_list"`
	Error        list[xmlPath]      `xml:"JB_stderr_path_list"`
	Input        list[xmlPath]      `xml:"JB_stdin_path_list"`
	Shells       list[xmlPath]      `xml:"JB_shell_list"`
	JobShare     int                `xml:"JB_jobshare"`
	Hard         list[xmlComplex]   `xml:"JB_hard_resource_list"`
	Soft         list[xmlComplex]   `xml:"JB_soft_resource_list"`
	HardQueues   list[xmlQueueName] `xml:"JB_hard_queue_list"`
	SoftQueues   list[xmlQueueName] `xml:"JB_soft_queue_list"`
	MasterQueues list[xmlQueueName] `xml:"JB_master_hard_queue_list"`
	Environment  list[xmlVariable]  `xml:"JB_env_list"`
	Arguments    list[struct {
		Name string `xml:"ST_name"`
	}] `xml:"JB_job_args"`
	Script         string             `xml:"JB_script_file"`
	Tasks          list[xmlTask]      `xml:"JB_ja_tasks"`
	Context        list[xmlVariable]  `xml:"JB_context"`
	Directory      string             `xml:"JB_cwd"`
	Predecessors   list[xmlRelated]   `xml:"JB_jid_predecessor_list"`
	Asked          []list[xmlRelated] `xml:"JB_jid_request_list"`
	AD             list[xmlRelated]   `xml:"JB_ja_ad_predecessor_list"`
	ADAsked        list[xmlRelated]   `xml:"JB_ja_ad_request_list"`
	Successors     list[xmlRelated]   `xml:"JB_jid_successor_list"`
	ADSuccessors   list[xmlRelated]   `xml:"JB_ja_ad_successor_list"`
	Deadline       int64              `xml:"JB_deadline"`
	ExecutionTime  int64              `xml:"JB_execution_time"`
	Checkpoint     string             `xml:"JB_checkpoint_name"`
	CheckpointAttr int                `xml:"JB_checkpoint_attr"`
	Interval       int                `xml:"JB_checkpoint_interval"`
	Prefix         string             `xml:"JB_directive_prefix"`
	Reserve        bool               `xml:"JB_reserve"`
	MailOptions    int                `xml:"JB_mail_options"`
	Priority       int                `xml:"JB_priority"`
	Restart        int                `xml:"JB_restart"`
	PE             string             `xml:"JB_pe"`
	Range          list[xmlRange]     `xml:"JB_pe_range"`
	Verify         int                `xml:"JB_verify_suitable_queues"`
	Override       int                `xml:"JB_override_tickets"`
	Version        int                `xml:"JB_version"`
	Structure      list[xmlRange]     `xml:"JB_ja_structure"`
	Type           int                `xml:"JB_type"`
	Binding        list[xmlBinding]   `xml:"JB_binding"`
	Concurrency    int                `xml:"JB_ja_task_concurrency"`
	NUrg           float64            `xml:"JB_nurg"`
}

type xmlMail struct {
	User string `xml:"MR_user"`
	Host string `xml:"MR_host"`
}

// letters are those whose numbers are in a sum.
func letters(sum int, of string, numbers ...int) string {
	text := ""
	for i, n := range numbers {
		if sum&n != 0 {
			text += of[i : i+1]
		}
	}
	return text
}

func none(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

func paths(l list[xmlPath]) (texts []string) {
	for _, p := range l.Entries {
		texts = append(texts, none(p.Host)+":"+none(p.FileHost)+":"+p.Path)
	}
	return texts
}

func variables(l list[xmlVariable]) (texts []string) {
	for _, v := range l.Entries {
		if v.Value != nil {
			v.Name += "=" + *v.Value
		}
		texts = append(texts, v.Name)
	}
	return texts
}

func ranges(l list[xmlRange]) (r []Range) {
	for _, x := range l.Entries {
		r = append(r, Range{x.Min, x.Max, x.Step})
	}
	return r
}

func related(l list[xmlRelated]) (ids []int) {
	for _, r := range l.Entries {
		ids = append(ids, r.Number)
	}
	return ids
}

func queueNames(l list[xmlQueueName]) (names []string) {
	for _, q := range l.Entries {
		names = append(names, q.Name)
	}
	return names
}

func complexes(l list[xmlComplex]) (requests []Request) {
	for _, c := range l.Entries {
		requests = append(requests, Request{Name: c.Name, Value: c.Value, Type: c.Type, Number: c.Number, Consumable: c.Consumable})
	}
	return requests
}

func (x *xmlDetail) detail(own, shared []Reason) JobDetail {
	d := JobDetail{
		ExecFile: x.ExecFile, UID: x.UID, GID: x.GID, Group: x.Group, Reservation: x.AR, ExecutionTime: x.ExecutionTime, Account: x.Account,
		CheckpointWhen: letters(x.CheckpointAttr, "nmsxr", 8, 1, 2, 4, 16), CheckpointInterval: x.Interval, Directory: x.Directory,
		DirectivePrefix: x.Prefix, Verification: letters(x.Verify, "we", 1, 2), Output: paths(x.Output), Error: paths(x.Error), Input: paths(x.Input),
		Reserve: x.Reserve, Merge: x.Merge, Notify: x.Notify, Restart: letters(x.Restart, "yn", 1, 2),
		MailOptions: letters(x.MailOptions, "abes", 1<<18, 1<<19, 1<<20, 1<<22), Context: variables(x.Context), Script: x.Script,
		Successors: related(x.Successors), ArraySuccessors: related(x.ADSuccessors), Version: x.Version, Concurrency: x.Concurrency,
		Reasons: slices.Concat(shared, own),
	}
	d.Job = Job{
		ID: x.ID, Name: x.Name, Owner: x.Owner, Project: x.Project, Submitted: x.Submitted, Deadline: x.Deadline, POSIXPriority: x.Priority - 1024,
		NormalizedUrgency: x.NUrg, OverrideTickets: x.Override, JobShare: x.JobShare, Checkpoint: x.Checkpoint, Hard: complexes(x.Hard), Soft: complexes(x.Soft),
		HardQueues: queueNames(x.HardQueues), SoftQueues: queueNames(x.SoftQueues), MasterQueues: queueNames(x.MasterQueues),
		Predecessors: related(x.Predecessors), ArrayPredecessors: related(x.AD),
	}
	for _, b := range x.Binding.Entries {
		d.Binding = b.text()
	}
	if x.PE != "" {
		d.PE = &PE{Name: x.PE, Slots: ranges(x.Range)}
	}
	if len(x.Asked) > 0 {
		for _, r := range x.Asked[0].Entries {
			d.PredecessorsAsked = append(d.PredecessorsAsked, r.Name)
		}
	}
	d.ArrayPredecessorsAsked = make([]string, len(x.ADAsked.Entries))
	var kinds []string
	for i, n := range []int{64, 256, 1} {
		if x.Type&n != 0 {
			kinds = append(kinds, []string{"binary", "noshell", "immediate"}[i])
		}
	}
	d.Type = strings.Join(kinds, ",")
	if x.Type&128 != 0 {
		d.TaskIDs = ranges(x.Structure)
	}
	for _, m := range x.Mail.Entries {
		d.MailList = append(d.MailList, Mail(m))
	}
	for _, p := range x.Shells.Entries {
		d.Shells = append(d.Shells, none(p.Host)+":"+p.Path)
	}
	for _, a := range x.Arguments.Entries {
		d.Arguments = append(d.Arguments, a.Name)
	}
	for _, v := range variables(x.Environment) {
		if rest, ok := strings.CutPrefix(v, "__SGE_PREFIX__O_"); ok {
			name, value, _ := strings.Cut(rest, "=")
			*map[string]*string{
				"HOME": &d.Home, "LOGNAME": &d.LogName, "PATH": &d.Path, "SHELL": &d.Shell, "TZ": &d.TimeZone, "MAIL": &d.Mail, "HOST": &d.Host, "WORKDIR": &d.WorkDir,
			}[name] = value
			continue
		}
		d.Environment = append(d.Environment, v)
	}
	for _, t := range x.Tasks.Entries {
		d.Details = append(d.Details, t.detail())
	}
	return d
}

func (x *xmlTask) detail() TaskDetail {
	t := TaskDetail{
		Task: x.Number, Running: x.Status != 0, Transferring: x.Status == 512, Started: x.Started, NormalizedTickets: x.Tickets, ErrorReason: x.Error,
	}
	var rest map[string]float64
	t.Usage, rest = usageOf(x.Usage)
	t.IOWait, t.VirtualMemory, t.MaxVirtualMemory = rest["iow"], rest["vmem"], rest["maxvmem"]
	for _, s := range x.Subtasks.Entries {
		if s.ID == "past_usage" {
			for _, m := range s.Scaled.Entries {
				t.PastUsage = append(t.PastUsage, Measure(m))
			}
			continue
		}
		sub := Subtask{ID: s.ID, Queue: s.Queues.Entries[0].Name, Started: s.Start}
		sub.Usage, rest = usageOf(s.Usage)
		sub.Submitted, sub.IOWait, sub.VirtualMemory, sub.MaxVirtualMemory = int64(rest["submission_time"]), rest["iow"], rest["vmem"], rest["maxvmem"]
		t.Subtasks = append(t.Subtasks, sub)
	}
	return t
}

func usageOf(l list[xmlMeasure]) (*Usage, map[string]float64) {
	all := map[string]float64{}
	for _, m := range l.Entries {
		all[m.Name] = m.Value
	}
	if len(all) == 0 {
		return nil, all
	}
	return &Usage{all["cpu"], all["mem"], all["io"]}, all
}

func recordedDetails(t *testing.T, name string) []JobDetail {
	t.Helper()
	var x xmlDetails
	readXML(t, name, &x)
	var shared []Reason
	for _, m := range x.Messages.Shared {
		shared = append(shared, Reason{Text: m.Text, Number: m.Number, Shared: true})
	}
	var jobs []JobDetail
	for i := range x.Jobs {
		var own []Reason
		for _, m := range x.Messages.Own {
			if slices.Contains(m.jobs(), x.Jobs[i].ID) {
				own = append(own, Reason{Text: m.Text, Number: m.Number})
			}
		}
		jobs = append(jobs, x.Jobs[i].detail(own, shared))
	}
	return jobs
}

func TestRecordedDetails(t *testing.T) {
	names, err := filepath.Glob("testdata/details/*.xml")
	if err != nil || len(names) < 8 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		base := strings.TrimSuffix(name, ".xml")
		if base == "testdata/details/all" {
			continue
		}
		t.Run(filepath.Base(base), func(t *testing.T) {
			jobs := recordedDetails(t, name)
			same(t, read(t, base+".txt"), string(AppendDetails(nil, jobs, DetailOptions{})))
			want, got := repaired.Replace(read(t, name)), string(AppendDetailsXML(nil, jobs, DetailOptions{}))
			wantJobs, wantMessages, _ := strings.Cut(want, "  <messages>\n")
			gotJobs, gotMessages, _ := strings.Cut(got, "  <messages>\n")
			same(t, wantJobs, gotJobs)
			if len(jobs) == 1 {
				same(t, wantMessages, gotMessages)
				return
			}
			// The original has the messages of several jobs in the order in which it
			// tried to place them.
			if diff := cmp.Diff(messagesIn(t, want), messagesIn(t, got)); diff != "" {
				t.Errorf("- recorded, + got\n%s", diff)
			}
		})
	}
}

// messagesIn are the messages of a document, and those of jobs sorted.
func messagesIn(t *testing.T, document string) []string {
	t.Helper()
	var x xmlDetails
	if err := xml.Unmarshal([]byte(document), &x); err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range x.Messages.Own {
		ids := m.jobs()
		slices.Sort(ids)
		list = append(list, fmt.Sprint(m.Number, m.Text, ids, len(m.More) > 0))
	}
	slices.Sort(list)
	for _, m := range x.Messages.Shared {
		list = append(list, fmt.Sprint("all: ", m.Number, m.Text))
	}
	return list
}

func TestDetailsWithoutBinding(t *testing.T) {
	jobs := recordedDetails(t, "testdata/details/running.xml")
	o := DetailOptions{NoBinding: true}
	same(t, read(t, "testdata/details/running-ncb.txt"), string(AppendDetails(nil, jobs, o)))
	binding := regexp.MustCompile(`(?s)      <JB_binding>.*?</JB_binding>\n`)
	want := binding.ReplaceAllString(string(AppendDetailsXML(nil, jobs, DetailOptions{})), "")
	same(t, want, string(AppendDetailsXML(nil, jobs, o)))
}

func TestRecordedReasons(t *testing.T) {
	var x struct {
		Messages xmlMessages `xml:"element"`
	}
	readXML(t, "testdata/details/all.xml", &x)
	var shared []Reason
	for _, m := range x.Messages.Shared {
		shared = append(shared, Reason{Text: m.Text, Number: m.Number, Shared: true})
	}
	var groups []ReasonGroup
	for _, m := range x.Messages.Own {
		groups = append(groups, ReasonGroup{GeneralReason(Reason{Number: m.Number}), m.Number, m.jobs()})
	}
	same(t, read(t, "testdata/details/all.txt"), string(AppendReasons(nil, shared, groups)))
	same(t, "scheduling info:            There are no messages available\n\n", string(AppendReasons(nil, nil, nil)))
	same(t, "Jobs dropped because of hold state\n\t1\n", string(AppendReasons(nil, nil, []ReasonGroup{{"Jobs dropped because of hold state", 33, []int{1}}})))
	same(t, read(t, "testdata/details/all.xml"), string(AppendReasonsXML(nil, shared, groups)))
}

func TestUnknownJobs(t *testing.T) {
	names := []string{"999", "no<such"}
	same(t, "Following jobs do not exist: \n999, no<such\n", string(AppendUnknownJobs(nil, names)))
	same(t, "<?xml version='1.0'?>\n<unknown_jobs >\n    <ST_name>999</ST_name>\n    <ST_name>no&lt;such</ST_name>\n</unknown_jobs>\n",
		string(AppendUnknownJobsXML(nil, names)))
}

// TestDetailsHaveTheNamesOfTheSchema checks that the elements of the schemas in Debian's package
// gridengine-common have no other names. The schemas describe less than the original prints.
func TestDetailsHaveTheNamesOfTheSchema(t *testing.T) {
	testenv.Require(t, testenv.GridEngine)
	text, err := os.ReadFile("/usr/share/gridengine/util/resources/schemas/qstat/detailed_job_info.xsd")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, m := range regexp.MustCompile(`element name="(\w+)"`).FindAllSubmatch(text, -1) {
		known[string(m[1])] = true
	}
	// Names that the original has beside the schema.
	for name := range strings.FieldsSeq(`BN_type BN_parameter_explicit JAT_start_time JAT_ntix JAT_message_list QIM_type QIM_message JAT_task_list
		JB_ja_ad_predecessor_list JB_ja_ad_request_list JB_ja_ad_successor_list JB_nurg job_predecessors_ad job_sublist mail_list scaled reported_usage
		SME_message_list MES_job_number_list ULNG_value reported_usage JG_jcoticket JG_jcfticket JG_oticket JG_fticket JG_sticket JG_ticket
		JG_qname JG_qversion JG_qhostname JG_slots JG_queue JG_tag_slave_job JG_task_id_range PET_id PET_status PET_pid PET_usage PET_scaled_usage
		PET_granted_destin_identifier_list PET_submission_time PET_start_time PET_end_time PET_do_contact`) {
		known[name] = true
	}
	for _, name := range []string{"many", "running", "subtasks"} {
		d := xml.NewDecoder(bytes.NewReader(AppendDetailsXML(nil, recordedDetails(t, "testdata/details/"+name+".xml"), DetailOptions{})))
		for {
			token, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if e, ok := token.(xml.StartElement); ok && !known[e.Name.Local] {
				t.Errorf("%s: the schema has no element %s", name, e.Name.Local)
			}
		}
	}
}
