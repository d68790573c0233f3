package qstat

import (
	"encoding/xml"
	"math"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// testdata/cluster was printed by the commands of Grid Engine 8.1.9 at one moment of
// one cell, in which nothing was scheduled meanwhile. What one command says in XML is
// all that the tests know; what all others say, as text and as XML, must follow.

// The elements of qstat -f -F -ext -urg -pri -r -g t -explain aAcE -xml.
type xmlView struct {
	Queues  []xmlQueue `xml:"queue_info>Queue-List"`
	Running []xmlJob   `xml:"queue_info>job_list"`
	Other   []xmlJob   `xml:"job_info>job_list"`
}

type xmlQueue struct {
	Name          string        `xml:"name"`
	Type          string        `xml:"qtype"`
	Used          int           `xml:"slots_used"`
	Reserved      int           `xml:"slots_resv"`
	Total         int           `xml:"slots_total"`
	Load          *float64      `xml:"load_avg"`
	Arch          string        `xml:"arch"`
	State         string        `xml:"state"`
	LoadAlarms    string        `xml:"load-alarm-reason"`
	SuspendAlarms string        `xml:"suspend-alarm-reason"`
	Messages      []string      `xml:"message"`
	Resources     []xmlResource `xml:"resource"`
	Jobs          []xmlJob      `xml:"job_list"`
}

type xmlResource struct {
	Name  string `xml:"name,attr"`
	Type  string `xml:"type,attr"`
	Value string `xml:",chardata"`
}

type xmlRequest struct {
	Name    string  `xml:"name,attr"`
	Urgency float64 `xml:"resource_contribution,attr"`
	Value   string  `xml:",chardata"`
}

type xmlJob struct {
	List         string       `xml:"state,attr"`
	ID           int          `xml:"JB_job_number"`
	Priority     float64      `xml:"JAT_prio"`
	Normalized   float64      `xml:"JAT_ntix"`
	NPPri        float64      `xml:"JB_nppri"`
	NUrg         float64      `xml:"JB_nurg"`
	RR           float64      `xml:"JB_rrcontr"`
	WT           float64      `xml:"JB_wtcontr"`
	DL           float64      `xml:"JB_dlcontr"`
	POSIX        int          `xml:"JB_priority"`
	Name         string       `xml:"JB_name"`
	Owner        string       `xml:"JB_owner"`
	Project      string       `xml:"JB_project"`
	Department   string       `xml:"JB_department"`
	State        string       `xml:"state"`
	Submitted    string       `xml:"JB_submission_time"`
	Started      string       `xml:"JAT_start_time"`
	Deadline     string       `xml:"JB_deadline"`
	CPU          *float64     `xml:"cpu_usage"`
	Memory       float64      `xml:"mem_usage"`
	IO           float64      `xml:"io_usage"`
	Tickets      float64      `xml:"tickets"`
	Override     int          `xml:"JB_override_tickets"`
	OTickets     float64      `xml:"otickets"`
	FTickets     float64      `xml:"ftickets"`
	STickets     float64      `xml:"stickets"`
	Share        float64      `xml:"JAT_share"`
	Queue        string       `xml:"queue_name"`
	Master       string       `xml:"master"`
	Slots        int          `xml:"slots"`
	Tasks        string       `xml:"tasks"`
	PE           *xmlRequest  `xml:"requested_pe"`
	Granted      xmlRequest   `xml:"granted_pe"`
	Hard         []xmlRequest `xml:"hard_request"`
	Soft         []xmlRequest `xml:"soft_request"`
	HardQueues   []string     `xml:"hard_req_queue"`
	SoftQueues   []string     `xml:"soft_req_queue"`
	MasterQueues []string     `xml:"master_hard_req_queue"`
	Asked        []string     `xml:"predecessor_jobs_req"`
	Predecessors []int        `xml:"predecessor_jobs"`
	AskedAD      []string     `xml:"ad_predecessor_jobs_req"`
	AD           []int        `xml:"ad_predecessor_jobs"`
	Binding      string       `xml:"binding"`
}

// repaired mends what is not XML in the documents of the original.
var repaired = strings.NewReplacer("%lt;", "&lt;", "master hard queue_list>", "master_hard_queue_list>")

func readXML(t *testing.T, name string, to any) {
	t.Helper()
	if err := xml.Unmarshal([]byte(repaired.Replace(read(t, name))), to); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func xmlTime(s string) int64 {
	if s == "" {
		return 0
	}
	at, _ := time.Parse("2006-01-02T15:04:05", s)
	return at.Unix()
}

// The parallel environments of the recorded cell with control_slaves TRUE, and whether
// job_is_first_task is.
var controlsSlaves = map[string]bool{"fill": false, "averyverylongpename": true}

// recordedCell reads the view with everything in it.
func recordedCell(t *testing.T, name string) *Cell {
	t.Helper()
	var view xmlView
	readXML(t, name, &view)
	b := cellBuilder{listParser: listParser{t: t, o: Options{EachSlot: true}, cell: &Cell{}, jobs: map[int]int{}}}
	for _, q := range view.Queues {
		b.addQueue(q)
	}
	for _, j := range slices.Concat(view.Running, view.Other) {
		b.addJob(j, j.Queue)
	}
	for i := range b.cell.Jobs {
		j := &b.cell.Jobs[i]
		for k := range j.Tasks {
			if first, controls := controlsSlaves[j.Tasks[k].GrantedPE]; controls && !first {
				j.Tasks[k].ExtraMaster = true
				j.Tasks[k].Grants[0].Slots--
			}
		}
		// The list in XML does not say it.
		if j.Name == "ckj" || j.Name == "full" {
			j.Checkpoint = "ck"
		}
	}
	return b.cell
}

type cellBuilder struct{ listParser }

func (b *cellBuilder) addQueue(q xmlQueue) {
	name, host, _ := strings.Cut(q.Name, "@")
	queue := QueueInstance{
		Queue: name, Host: host, Type: strings.Trim(q.Type, "N"), Reserved: q.Reserved, Used: q.Used, Total: q.Total,
		Load: q.Load, Arch: q.Arch, State: q.State, LoadAlarms: alarms(q.LoadAlarms), SuspendAlarms: alarms(q.SuspendAlarms),
	}
	for _, r := range q.Resources {
		if r.Name == "seq_no" {
			queue.SequenceNumber = atoi(r.Value)
		}
		queue.Resources = append(queue.Resources, Resource{Dominance: r.Type, Name: r.Name, Value: r.Value})
	}
	if strings.Contains(q.State, "E") {
		queue.Errors = q.Messages
	} else {
		queue.Ambiguities = q.Messages
	}
	b.cell.Queues = append(b.cell.Queues, queue)
	for _, j := range q.Jobs {
		b.addJob(j, q.Name)
	}
}

func alarms(text string) []Alarm {
	var list []Alarm
	for line := range strings.SplitSeq(text, "\n") {
		line, isAlarm := strings.CutPrefix(strings.TrimSpace(line), "alarm ")
		if !isAlarm {
			continue
		}
		rest, threshold, _ := strings.Cut(line, "-threshold=")
		rest = rest[:strings.LastIndexByte(rest, ' ')]
		name, value, _ := strings.Cut(rest[3:], "=")
		list = append(list, Alarm{Resource: Resource{Dominance: rest[:2], Name: name, Value: value}, Threshold: threshold})
	}
	return list
}

func (b *cellBuilder) addJob(x xmlJob, queue string) {
	i, known := b.jobs[x.ID]
	if !known {
		i = len(b.cell.Jobs)
		b.jobs[x.ID] = i
		b.cell.Jobs = append(b.cell.Jobs, b.job(x))
	}
	j := &b.cell.Jobs[i]
	if x.Submitted != "" {
		j.Submitted = xmlTime(x.Submitted)
	}
	task := Task{
		State: x.State, Started: xmlTime(x.Started), Priority: x.Priority, NormalizedTickets: x.Normalized,
		Tickets: Tickets{x.Tickets, x.OTickets, x.FTickets, x.STickets}, Share: x.Share, GrantedPE: x.Granted.Name,
	}
	task.Phase = map[string]Phase{"pending": Pending, "running": Running, "zombie": Finished}[x.List]
	if x.CPU != nil {
		task.Usage = &Usage{*x.CPU, x.Memory, x.IO}
	}
	if x.Tasks != "" {
		task.IDs = b.ranges(x.Tasks)
	}
	if task.Phase != Running {
		task.Slots = x.Slots
		j.Tasks = append(j.Tasks, task)
		return
	}
	n := slices.IndexFunc(j.Tasks, func(t Task) bool { return t.Phase == Running && slices.Equal(t.IDs, task.IDs) })
	if n < 0 {
		n = len(j.Tasks)
		j.Tasks = append(j.Tasks, task)
	}
	have := &j.Tasks[n]
	before := len(have.Grants)
	b.grant(have, queue, x.Master, x.Slots)
	if _, controls := controlsSlaves[task.GrantedPE]; controls && len(have.Grants) > before {
		g := slices.IndexFunc(have.Grants, func(g Grant) bool { return g.Queue == queue })
		have.Grants[g].Tickets = &Tickets{x.Tickets, x.OTickets, x.FTickets, x.STickets}
	}
}

func (b *cellBuilder) job(x xmlJob) Job {
	j := Job{
		ID: x.ID, Name: x.Name, Owner: x.Owner, Project: x.Project, Department: x.Department, Deadline: xmlTime(x.Deadline),
		POSIXPriority: x.POSIX, NormalizedUrgency: x.NUrg, NormalizedPriority: x.NPPri,
		Urgency: Urgency{x.RR + x.WT + x.DL, x.RR, x.WT, x.DL}, OverrideTickets: x.Override,
		HardQueues: x.HardQueues, SoftQueues: x.SoftQueues, MasterQueues: x.MasterQueues,
		PredecessorsAsked: x.Asked, Predecessors: x.Predecessors,
		ArrayPredecessorsAsked: x.AskedAD, ArrayPredecessors: x.AD, Binding: strings.TrimPrefix(x.Binding, "NONE"),
	}
	if x.PE != nil {
		j.PE = &PE{Name: x.PE.Name}
		for item := range strings.SplitSeq(x.PE.Value, ",") {
			first, last, isRange := strings.Cut(item, "-")
			if !isRange {
				last = first
			}
			j.PE.Slots = append(j.PE.Slots, Range{b.int(first), b.int(last), 1})
		}
	}
	for _, r := range x.Hard {
		j.Hard = append(j.Hard, Request{Name: r.Name, Value: r.Value, Urgency: r.Urgency})
	}
	for _, r := range x.Soft {
		j.Soft = append(j.Soft, Request{Name: r.Name, Value: r.Value})
	}
	return j
}

const cluster = "testdata/cluster/"

// The recorded lists by their files' names, without all that is printed with the
// options of qstat(1) that select.
var recordedLists = map[string]Options{
	"qstat":              {},
	"qstat-ext":          {Extended: true},
	"qstat-urg":          {Urgency: true},
	"qstat-pri":          {Priorities: true},
	"qstat-t":            {Subtasks: true},
	"qstat-ext-urg-pri":  {Extended: true, Urgency: true, Priorities: true},
	"qstat-ext-t":        {Extended: true, Subtasks: true},
	"qstat-urg-t":        {Urgency: true, Subtasks: true},
	"qstat-pri-urg":      {Priorities: true, Urgency: true},
	"qstat-pri-ext":      {Priorities: true, Extended: true},
	"qstat-gt":           {EachSlot: true},
	"qstat-gd":           {EachTask: true},
	"qstat-gdt":          {EachTask: true, EachSlot: true},
	"qstat-ext-gt":       {Extended: true, EachSlot: true},
	"qstat-urg-gt":       {Urgency: true, EachSlot: true},
	"qstat-urg-r":        {Urgency: true, Requests: true},
	"qstat-r":            {Requests: true},
	"qstat-r-ext":        {Requests: true, Extended: true},
	"qstat-r-t":          {Requests: true, Subtasks: true},
	"qstat-r-gd":         {Requests: true, EachTask: true},
	"qstat-q5":           {QueueWidth: 5},
	"qstat-q12":          {QueueWidth: 12},
	"qstat-q60":          {QueueWidth: 60},
	"qstat-f":            {Full: true},
	"qstat-f-ext":        {Full: true, Extended: true},
	"qstat-f-urg":        {Full: true, Urgency: true},
	"qstat-f-pri":        {Full: true, Priorities: true},
	"qstat-f-all":        {Full: true, Extended: true, Urgency: true, Priorities: true},
	"qstat-f-t":          {Full: true, Subtasks: true},
	"qstat-f-gt":         {Full: true, EachSlot: true},
	"qstat-f-gd":         {Full: true, EachTask: true},
	"qstat-f-ext-t":      {Full: true, Extended: true, Subtasks: true},
	"qstat-f-ext-gt":     {Full: true, Extended: true, EachSlot: true},
	"qstat-f-r":          {Full: true, Requests: true},
	"qstat-f-ne":         {Full: true, SkipEmpty: true},
	"qstat-f-q12":        {Full: true, QueueWidth: 12},
	"qstat-f-q60":        {Full: true, QueueWidth: 60},
	"qstat-f-ext-q60":    {Full: true, Extended: true, QueueWidth: 60},
	"qstat-f-longq":      {Full: true, QueueWidth: -1},
	"qstat-F":            {Resources: true},
	"qstat-explain-a":    {Explain: "a"},
	"qstat-explain-A":    {Explain: "A"},
	"qstat-explain-c":    {Explain: "c"},
	"qstat-explain-E":    {Explain: "E"},
	"qstat-explain-aAcE": {Explain: "aAcE"},
	"all":                {Full: true, Resources: true, Extended: true, Urgency: true, Priorities: true, Requests: true, EachSlot: true, Explain: "aAcE"},
	"all-flat":           {Extended: true, Urgency: true, Priorities: true, Requests: true, EachSlot: true},
	"qstat-F-some":       {Resources: true},
	"qstat-F-r":          {Resources: true, Requests: true},
	"qstat-f-Fslots":     {Resources: true, Explain: "a", SkipEmpty: true, Extended: true},
	"qstat-s-p":          {},
	"qstat-s-z":          {},
	"qstat-s-z-ext":      {Extended: true},
	"qstat-f-s-z":        {Full: true},
}

// select leaves what the options of the recorded command select.
func selectRecorded(t *testing.T, c *Cell, name string) {
	t.Helper()
	resources := map[string][]string{
		"qstat-F-some": {"load_avg", "slots", "mem_free", "np_load_avg", "arch"}, "qstat-F-r": {"slots"}, "qstat-f-Fslots": {"slots"},
	}[name]
	if resources != nil {
		for i := range c.Queues {
			c.Queues[i].Resources = named(c.Queues[i].Resources, resources)
		}
	}
	switch name {
	case "qstat-s-p":
		for i := range c.Jobs {
			c.Jobs[i].Tasks = slices.DeleteFunc(c.Jobs[i].Tasks, func(t Task) bool { return t.Phase != Pending })
		}
	case "qstat-s-z", "qstat-f-s-z":
		c.Jobs = recordedCell(t, cluster+"qstat-s-z.xml").Jobs
	case "qstat-s-z-ext":
		c.Jobs = recordedCell(t, cluster+"qstat-s-z-ext.xml").Jobs
	}
}

func named(all []Resource, names []string) []Resource {
	return slices.DeleteFunc(slices.Clone(all), func(r Resource) bool { return !slices.Contains(names, r.Name) })
}

func TestRecordedLists(t *testing.T) {
	used := map[string]bool{}
	for name, o := range recordedLists {
		for _, kind := range []string{".txt", ".xml"} {
			file := cluster + name + kind
			want, ok := recorded(t, file)
			if !ok {
				continue
			}
			used[name] = true
			t.Run(name+kind, func(t *testing.T) {
				c := recordedCell(t, cluster+"all.xml")
				selectRecorded(t, c, name)
				if kind == ".txt" {
					same(t, want, string(c.AppendText(nil, o)))
				} else {
					same(t, repaired.Replace(want), string(c.AppendXML(nil, o)))
				}
			})
		}
	}
	for name := range recordedLists {
		if !used[name] {
			t.Errorf("nothing is recorded of %s", name)
		}
	}
}

// TestWideValues checks testdata/wide, whose values do not fit their columns.
func TestWideValues(t *testing.T) {
	for name, o := range map[string]Options{
		"qstat": {}, "qstat-ext": {Extended: true}, "qstat-urg": {Urgency: true}, "qstat-s-z-ext": {Extended: true},
		"qstat-f": {Full: true}, "qstat-f-ext": {Full: true, Extended: true}, "qstat-unknown": {Explain: "aAcE"},
		"qstat-f-ne-u": {Full: true, SkipEmpty: true},
	} {
		t.Run(name, func(t *testing.T) {
			text := read(t, "testdata/wide/"+name+".txt")
			c := parseList(t, text, o)
			if !o.full() {
				c.Queues = parseList(t, read(t, "testdata/wide/qstat-f.txt"), Options{Full: true}).Queues
			}
			for i := range c.Queues {
				// Only the order is known about these.
				c.Queues[i].SequenceNumber = i
			}
			if o.SkipEmpty {
				c.Queues = append(c.Queues, QueueInstance{Queue: "reserved.q", Host: "n1", Reserved: 1, Total: 1})
			}
			same(t, text, string(c.AppendText(nil, o)))
		})
	}
}

// TestFinishedJobs checks testdata/finished, which was printed with -s z.
func TestFinishedJobs(t *testing.T) {
	c := recordedCell(t, "testdata/finished/all.xml")
	for name, o := range map[string]Options{
		"qstat-gt": {EachSlot: true}, "qstat-gd": {EachTask: true}, "qstat-r": {Requests: true}, "qstat-urg-ext": {Urgency: true, Extended: true},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, read(t, "testdata/finished/"+name+".txt"), string(c.AppendText(nil, o)))
			same(t, read(t, "testdata/finished/"+name+".xml"), string(c.AppendXML(nil, o)))
		})
	}
}

func TestRecordedSummaries(t *testing.T) {
	var view struct {
		Queues []struct {
			Name  string   `xml:"name"`
			Load  *float64 `xml:"load"`
			Slots []struct {
				XMLName xml.Name
				Number  string `xml:",chardata"`
			} `xml:",any"`
		} `xml:"cluster_queue_summary"`
	}
	readXML(t, cluster+"qstat-gc-ext.xml", &view)
	var queues []QueueSummary
	for _, q := range view.Queues {
		var n [17]int
		for i := range n {
			n[i] = atoi(q.Slots[i].Number)
		}
		queues = append(queues, QueueSummary{
			q.Name, q.Load, n[0], n[1], n[2], n[3], n[4], n[5],
			SummaryStates{n[6], n[7], n[8], n[9], n[10], n[11], n[12], n[13], n[14], n[15], n[16]},
		})
	}
	for name, o := range map[string]Options{
		"qstat-gc": {}, "qstat-gc-ext": {Extended: true}, "qstat-gc-q5": {QueueWidth: 5}, "qstat-gc-q12": {QueueWidth: 12},
		"qstat-gc-q60": {QueueWidth: 60}, "qstat-gc-ext-q60": {QueueWidth: 60, Extended: true}, "qstat-gc-longq": {QueueWidth: -1},
	} {
		t.Run(name, func(t *testing.T) {
			same(t, read(t, cluster+name+".txt"), string(AppendSummary(nil, queues, o)))
			if want, ok := recorded(t, cluster+name+".xml"); ok {
				same(t, want, string(AppendSummaryXML(nil, queues, o)))
			}
		})
	}
}

type xmlHosts struct {
	Hosts []struct {
		Name   string `xml:"name,attr"`
		Values []struct {
			Name  string `xml:"name,attr"`
			Value string `xml:",chardata"`
		} `xml:"hostvalue"`
		Resources []struct {
			Name      string `xml:"name,attr"`
			Dominance string `xml:"dominance,attr"`
			Value     string `xml:",chardata"`
		} `xml:"resourcevalue"`
		Queues []struct {
			Name   string `xml:"name,attr"`
			Values []struct {
				Name  string `xml:"name,attr"`
				Value string `xml:",chardata"`
			} `xml:"queuevalue"`
		} `xml:"queue"`
	} `xml:"host"`
}

// recordedHosts reads the hosts, and puts the queue instances in qhost's order.
func recordedHosts(t *testing.T) *Cell {
	t.Helper()
	c := recordedCell(t, cluster+"all.xml")
	var view xmlHosts
	readXML(t, cluster+"qhost-F.xml", &view)
	for _, x := range view.Hosts {
		h := Host{Name: x.Name}
		for _, v := range x.Values {
			if v.Value == "-" {
				continue
			}
			n, size := atoi(v.Value), optional(v.Value)
			switch v.Name {
			case "arch_string":
				h.Arch = v.Value
			case "num_proc":
				h.Processors = &n
			case "m_socket":
				h.Sockets = &n
			case "m_core":
				h.Cores = &n
			case "m_thread":
				h.Threads = &n
			case "load_avg":
				h.Load = size
			case "mem_total":
				h.MemoryTotal = size
			case "mem_used":
				h.MemoryUsed = size
			case "swap_total":
				h.SwapTotal = size
			case "swap_used":
				h.SwapUsed = size
			}
		}
		for _, r := range x.Resources {
			h.Resources = append(h.Resources, Resource{Dominance: r.Dominance, Name: r.Name, Value: r.Value})
		}
		c.Hosts = append(c.Hosts, h)
	}
	var order xmlHosts
	readXML(t, cluster+"qhost-q.xml", &order)
	var queues []QueueInstance
	for _, h := range order.Hosts {
		for _, name := range h.Queues {
			i := slices.IndexFunc(c.Queues, func(q QueueInstance) bool { return q.Queue == name.Name && q.Host == h.Name })
			for _, v := range name.Values {
				if v.Name == "slots_resv" {
					c.Queues[i].ReservedMax = atoi(v.Value)
				}
			}
			queues = append(queues, c.Queues[i])
		}
	}
	c.Queues = queues
	return c
}

func TestRecordedHosts(t *testing.T) {
	for name, r := range map[string]struct {
		options   HostOptions
		resources []string
		owner     string
	}{
		"qhost":        {},
		"qhost-q":      {options: HostOptions{Queues: true}},
		"qhost-j":      {options: HostOptions{Jobs: true}},
		"qhost-j-u":    {options: HostOptions{Jobs: true}, owner: "alice"},
		"qhost-F":      {options: HostOptions{Resources: true}},
		"qhost-F-some": {HostOptions{Resources: true, Selected: true}, []string{"load_avg", "slots", "mem_free", "np_load_avg", "arch"}, ""},
		"qhost-F-q-j":  {HostOptions{Resources: true, Selected: true, Queues: true, Jobs: true}, []string{"slots"}, ""},
		"qhost-F-j":    {HostOptions{Resources: true, Selected: true, Jobs: true}, []string{"slots", "load_avg"}, ""},
		"qhost-ncb":    {options: HostOptions{NoTopology: true}},
		"qhost-q-ncb":  {options: HostOptions{NoTopology: true, Queues: true}},
	} {
		t.Run(name, func(t *testing.T) {
			c := recordedHosts(t)
			for i := range c.Hosts {
				if r.resources != nil {
					c.Hosts[i].Resources = named(c.Hosts[i].Resources, r.resources)
				}
			}
			if r.owner != "" {
				c.Jobs = slices.DeleteFunc(c.Jobs, func(j Job) bool { return j.Owner != r.owner })
			}
			same(t, read(t, cluster+name+".txt"), string(c.AppendHosts(nil, r.options)))
			want := read(t, cluster+name+".xml")
			if !r.options.Jobs {
				same(t, want, string(c.AppendHostsXML(nil, r.options)))
				return
			}
			want, priorities := withoutPriorities(want)
			got, printed := withoutPriorities(string(c.AppendHostsXML(nil, r.options)))
			same(t, want, got)
			for i := range priorities {
				if math.Abs(priorities[i]-printed[i]) > 1e-5 {
					t.Errorf("the priority %v is printed as %v", priorities[i], printed[i])
				}
			}
		})
	}
}

// withoutPriorities takes the priorities out, which have more decimals than elsewhere,
// and returns them.
func withoutPriorities(s string) (text string, priorities []float64) {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if before, value, ok := strings.Cut(line, "name='priority'>'"); ok {
			priorities = append(priorities, atof(strings.TrimSuffix(value, "'</jobvalue>\n")))
			line = before
		}
		b.WriteString(line)
	}
	return b.String(), priorities
}

func TestRecordedQuotas(t *testing.T) {
	text := read(t, cluster+"qquota.txt")
	rows := parseQuotas(text)
	same(t, text, string(AppendQuotas(nil, rows)))
	same(t, read(t, cluster+"qquota.xml"), string(AppendQuotasXML(nil, rows)))
}

func TestRecordedReservations(t *testing.T) {
	all := parseDetails(read(t, cluster+"qrstat-ar-explain.txt"))
	for _, explain := range []bool{false, true} {
		suffix := map[bool]string{true: "-explain"}[explain]
		same(t, read(t, cluster+"qrstat"+suffix+".txt"), string(AppendReservations(nil, all, explain, nil)))
		same(t, read(t, cluster+"qrstat-ar"+suffix+".txt"), string(AppendReservationDetails(nil, all, nil)))
		for name, details := range map[string]bool{"qrstat": false, "qrstat-ar": true} {
			want := repaired.Replace(read(t, cluster+name+suffix+".xml"))
			same(t, want, string(AppendReservationsXML(nil, all, details, explain, nil)))
		}
	}
}

func TestRecordedShares(t *testing.T) {
	for name, o := range map[string]ShareOptions{
		"share_mon": {}, "share_mon-h": {Header: true}, "share_mon-c2": {Header: true}, "share_mon-x": {Header: true}, "share_mon-u": {Header: true},
		"share_mon-n": {Names: true}, "share_mon-t": {Header: true, Dates: true},
	} {
		t.Run(name, func(t *testing.T) {
			text := read(t, cluster+name+".txt")
			table := text
			if o.Names {
				table = regexp.MustCompile(`(?m)(^|\t)[a-z_%]+=`).ReplaceAllString(text, "$1")
			}
			var collections [][]ShareRow
			for part := range strings.SplitSeq(table, "\n\n") {
				if rows := parseShares(part); rows != nil {
					collections = append(collections, rows)
				}
			}
			same(t, text, string(AppendShares(nil, collections, o)))
		})
	}
}
