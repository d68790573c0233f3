package qstat

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const golden = "../scheduler/testdata/golden"

// Files of the recorded cases, and the options that they were printed with.
var goldenLists = map[string]Options{
	"qstat.txt":           {},
	"qstat-ext.txt":       {Extended: true},
	"qstat-urg.txt":       {Urgency: true},
	"qstat-pri.txt":       {Priorities: true},
	"qstat-gt.txt":        {EachSlot: true},
	"qstat-gd.txt":        {EachTask: true},
	"qstat-f.txt":         {Full: true, Explain: "aA"},
	"qstat-F.txt":         {Resources: true},
	"qstat-F-before.txt":  {Resources: true},
	"qstat-explain-c.txt": {Explain: "c"},
}

// goldenFiles calls f for each recorded file with the name.
func goldenFiles(t *testing.T, name string, f func(t *testing.T, path, text string)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(golden, "*/output/*", name))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no case has a %s (%v)", name, err)
	}
	for _, path := range paths {
		rel, _ := filepath.Rel(golden, filepath.Dir(path))
		t.Run(strings.Replace(rel, "/output/", "/", 1), func(t *testing.T) {
			f(t, path, read(t, path))
		})
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// recorded reads a file that need not be there.
func recorded(t *testing.T, path string) (string, bool) {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return "", false
	}
	return read(t, path), true
}

func same(t *testing.T, want, got string) {
	t.Helper()
	if want != got {
		t.Errorf("- recorded, + printed:\n%s", cmp.Diff(strings.SplitAfter(want, "\n"), strings.SplitAfter(got, "\n")))
	}
}

func TestGoldenLists(t *testing.T) {
	for name, o := range goldenLists {
		t.Run(name, func(t *testing.T) {
			goldenFiles(t, name, func(t *testing.T, path, text string) {
				if strings.Count(text, "\n") == 2 {
					// The rows were taken out when it was recorded: without any there is no header.
					same(t, "", string((&Cell{}).AppendText(nil, o)))
					return
				}
				c := parseList(t, text, o)
				if len(c.Queues) == 0 {
					// The order of the queue instances stands in a file beside it.
					if b, err := os.ReadFile(filepath.Join(filepath.Dir(path), "qstat-f.txt")); err == nil {
						c.Queues = parseList(t, string(b), Options{Full: true}).Queues
					}
				}
				setSequence(t, c.Queues, filepath.Join(filepath.Dir(path), "../../input"))
				// Printing sorts; what is in order already would show little.
				slices.Reverse(c.Jobs)
				slices.Reverse(c.Queues)
				same(t, text, string(c.AppendText(nil, o)))
			})
		})
	}
}

// setSequence gives the queue instances their seq_no, from the configuration of the case.
func setSequence(t *testing.T, queues []QueueInstance, input string) {
	t.Helper()
	for i := range queues {
		q := &queues[i]
		for line := range strings.Lines(read(t, filepath.Join(input, "queues", q.Queue))) {
			f := strings.Fields(line)
			if len(f) != 2 || f[0] != "seq_no" {
				continue
			}
			parts := strings.Split(f[1], ",[")
			q.SequenceNumber, _ = strconv.Atoi(parts[0])
			var special []int
			for _, p := range parts[1:] {
				where, value, _ := strings.Cut(strings.TrimSuffix(p, "]"), "=")
				n, err := strconv.Atoi(value)
				if err != nil {
					t.Fatalf("seq_no of %s: %q", q.Queue, line)
				}
				if where == q.Host || where[0] == '@' && inGroup(t, input, where, q.Host) {
					special = append(special, n)
				}
			}
			// With two of them the configuration is ambiguous, and the default counts.
			if len(special) == 1 {
				q.SequenceNumber = special[0]
			}
		}
	}
}

func inGroup(t *testing.T, input, group, host string) bool {
	for line := range strings.Lines(read(t, filepath.Join(input, "hostgroups", group))) {
		f := strings.Fields(line)
		if len(f) > 1 && f[0] == "hostlist" {
			for _, member := range f[1:] {
				if member == host || member[0] == '@' && inGroup(t, input, member, host) {
					return true
				}
			}
		}
	}
	return false
}

// parseList reads what qstat prints, for the options that were used. It tells columns
// by what stands in them, since values are longer than their columns at times; names
// must be shorter.
func parseList(t *testing.T, text string, o Options) *Cell {
	t.Helper()
	p := listParser{t: t, o: o, cell: &Cell{}, jobs: map[int]int{}}
	for n, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		p.line = line
		switch {
		case n == 0 && !o.full(): // the header
		case n == 0, line == "", strings.HasPrefix(line, "####"), strings.HasPrefix(line, "----"):
		case strings.HasPrefix(line, " - "):
			p.queue = ""
		case strings.HasPrefix(line, "\t"):
			p.property(strings.TrimPrefix(line, "\t"))
		case line[0] != ' ':
			p.instance()
		default:
			p.row()
		}
	}
	return p.cell
}

type listParser struct {
	t     *testing.T
	o     Options
	cell  *Cell
	jobs  map[int]int // index by number
	queue string      // of the rows that follow
	line  string
	words []string
	last  *Task
}

func (p *listParser) instance() {
	f := strings.Fields(p.line)
	name, host, _ := strings.Cut(f[0], "@")
	q := QueueInstance{Queue: name, Host: host, Type: strings.Trim(f[1], "N"), Arch: strings.TrimPrefix(f[4], "-NA-")}
	if f[3] != "-NA-" {
		load := p.float(f[3])
		q.Load = &load
	}
	slots := strings.Split(f[2], "/")
	q.Reserved, q.Used, q.Total = p.int(slots[0]), p.int(slots[1]), p.int(slots[2])
	if len(f) > 5 {
		q.State = f[5]
	}
	p.cell.Queues = append(p.cell.Queues, q)
	p.queue = f[0]
}

func (p *listParser) property(line string) {
	q := &p.cell.Queues[len(p.cell.Queues)-1]
	rest, isAlarm := strings.CutPrefix(line, "alarm ")
	if !isAlarm && !strings.Contains(line, "=") || strings.HasPrefix(line, "warning: ") {
		p.message(q, line)
		return
	}
	rest, threshold, _ := strings.Cut(rest, "-threshold=")
	i := strings.LastIndexByte(rest, ' ')
	kind := rest[i+1:]
	if isAlarm {
		rest = rest[:i]
	}
	name, value, _ := strings.Cut(rest[3:], "=")
	r := Resource{Dominance: rest[:2], Name: name, Value: value}
	switch {
	case isAlarm && kind == "suspend":
		q.SuspendAlarms = append(q.SuspendAlarms, Alarm{Resource: r, Threshold: threshold})
	case isAlarm:
		q.LoadAlarms = append(q.LoadAlarms, Alarm{Resource: r, Threshold: threshold})
	default:
		q.Resources = append(q.Resources, r)
	}
}

func (p *listParser) message(q *QueueInstance, line string) {
	switch {
	case strings.HasPrefix(line, "error: no ") && strings.Contains(q.State, "a"):
		q.LoadAlarms = append(q.LoadAlarms, Alarm{Message: line})
	case strings.HasPrefix(line, "error: no "):
		q.SuspendAlarms = append(q.SuspendAlarms, Alarm{Message: line})
	case strings.HasPrefix(line, "warning: "):
		q.Ambiguities = append(q.Ambiguities, line)
	default:
		q.Errors = append(q.Errors, line)
	}
}

func (p *listParser) next() string {
	p.t.Helper()
	if len(p.words) == 0 {
		p.t.Fatalf("%q ends too early", p.line)
	}
	w := p.words[0]
	p.words = p.words[1:]
	return w
}

func (p *listParser) int(s string) int {
	p.t.Helper()
	v, err := strconv.Atoi(s)
	if err != nil {
		p.t.Fatalf("%q: %v", p.line, err)
	}
	return v
}

func (p *listParser) float(s string) float64 {
	p.t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		p.t.Fatalf("%q: %v", p.line, err)
	}
	return v
}

func (p *listParser) time() int64 {
	p.t.Helper()
	at, err := time.Parse("01/02/2006 15:04:05", p.next()+" "+p.next())
	if err != nil {
		p.t.Fatalf("%q: %v", p.line, err)
	}
	return at.Unix()
}

func (p *listParser) row() {
	p.words = strings.Fields(p.line)
	if strings.HasPrefix(p.line, "                  ") {
		// Another slot of the task of the line above.
		queue := p.queue
		if queue == "" {
			queue = p.next()
		}
		p.grant(p.last, queue, p.next(), 1)
		return
	}
	j := Job{ID: p.int(p.next())}
	task := Task{Priority: p.float(p.next())}
	if p.o.Priorities || p.o.Urgency {
		j.NormalizedUrgency = p.float(p.next())
	}
	if p.o.Priorities {
		j.NormalizedPriority = p.float(p.next())
	}
	if p.o.Priorities || p.o.Extended {
		task.NormalizedTickets = p.float(p.next())
	}
	if p.o.Urgency {
		j.Urgency = Urgency{p.float(p.next()), p.float(p.next()), p.float(p.next()), p.float(p.next())}
	}
	if p.o.Priorities {
		j.POSIXPriority = p.int(p.next())
	}
	j.Name, j.Owner = p.next(), p.next()
	if p.o.Extended {
		j.Project, j.Department = strings.TrimPrefix(p.next(), "NA"), p.next()
	}
	task.State = p.next()
	switch {
	case task.State == "z":
		task.Phase = Finished
	case !strings.Contains(task.State, "q"):
		task.Phase = Running
	}
	if p.o.dates() {
		if at := p.time(); task.Phase == Running {
			task.Started = at
		} else {
			j.Submitted = at
		}
	}
	if p.o.Urgency && strings.Contains(p.words[0], "/") {
		j.Deadline = p.time()
	}
	if p.o.Extended {
		p.extended(&j, &task)
	}
	p.place(j, task)
}

func (p *listParser) extended(j *Job, task *Task) {
	switch task.Phase {
	case Running:
		if cpu, memory, io := p.next(), p.next(), p.next(); cpu != "NA" {
			f := strings.Split(cpu, ":")
			task.Usage = &Usage{float64(p.int(f[0])*86400 + p.int(f[1])*3600 + p.int(f[2])*60 + p.int(f[3])), p.float(memory), p.float(io)}
		}
	case Finished:
		for range 6 {
			p.next() // NA
		}
		return
	}
	task.Tickets.Total = p.float(p.next())
	j.OverrideTickets = p.int(p.next())
	task.Tickets.Override, task.Tickets.Functional = p.float(p.next()), p.float(p.next())
	task.Tickets.Share, task.Share = p.float(p.next()), p.float(p.next())
}

// place adds the task, whose job or whose other slots may be there.
func (p *listParser) place(j Job, task Task) {
	queue, role := p.queue, ""
	if queue == "" && task.Phase == Running {
		queue = p.next()
	}
	switch {
	case !p.o.eachSlot():
		task.Slots = p.int(p.next())
	case task.Phase == Running:
		role = p.next()
	}
	if len(p.words) > 0 {
		task.IDs = p.ranges(p.next())
	}
	if len(p.words) > 0 {
		p.t.Fatalf("%q has too many columns: %q", p.line, p.words)
	}
	i, ok := p.jobs[j.ID]
	if !ok {
		i = len(p.cell.Jobs)
		p.jobs[j.ID] = i
		p.cell.Jobs = append(p.cell.Jobs, j)
	}
	known := &p.cell.Jobs[i]
	if j.Submitted != 0 {
		known.Submitted = j.Submitted
	}
	for t := range known.Tasks {
		have := &known.Tasks[t]
		if have.Phase == Running && task.Phase == Running && slices.Equal(have.IDs, task.IDs) {
			p.grant(have, queue, role, task.Slots)
			return
		}
	}
	slots := task.Slots
	if task.Phase == Running {
		task.Slots = 0
	}
	if n := len(known.Tasks); p.o.EachTask && n > 0 && task.Phase == Pending && known.Tasks[n-1].Phase == Pending {
		known.Tasks[n-1].IDs = append(known.Tasks[n-1].IDs, task.IDs...)
		return
	}
	known.Tasks = append(known.Tasks, task)
	if task.Phase == Running {
		p.grant(&known.Tasks[len(known.Tasks)-1], queue, role, slots)
	}
}

// grant adds a line of a running task: slots of it at a queue instance.
func (p *listParser) grant(task *Task, queue, role string, slots int) {
	p.last = task
	if role != "" {
		slots = 1
	}
	i := slices.IndexFunc(task.Grants, func(g Grant) bool { return g.Queue == queue })
	if i < 0 {
		i = len(task.Grants)
		task.Grants = append(task.Grants, Grant{Queue: queue})
	}
	task.Grants[i].Slots += slots
	if role == roleMaster && i > 0 {
		task.Grants[0], task.Grants[i] = task.Grants[i], task.Grants[0]
	}
}

func (p *listParser) ranges(s string) []Range {
	var ranges []Range
	for item := range strings.SplitSeq(s, ",") {
		span, step, _ := strings.Cut(item, ":")
		first, last, isRange := strings.Cut(span, "-")
		r := Range{First: p.int(first), Last: p.int(first), Step: 1}
		if isRange {
			r.Last, r.Step = p.int(last), p.int(step)
		}
		ranges = append(ranges, r)
	}
	return ranges
}
