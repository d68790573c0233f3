package qstat

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/execd-project/execd/internal/printable"
)

// Whatever the data, also such that no master would have.

func anyText(t *rapid.T) string {
	if rapid.Bool().Draw(t, "bytes") {
		return string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(t, "raw"))
	}
	return rapid.StringN(0, 12, -1).Draw(t, "text")
}

func anyNumber(t *rapid.T) float64 {
	return rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{0, 0.5, -1, 1e8, 99999999, math.Inf(1), math.NaN(), 1e300})).Draw(t, "number")
}

func anyRanges(t *rapid.T) []Range {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Range {
		first := rapid.IntRange(-3, 40).Draw(t, "first")
		return Range{first, first + rapid.IntRange(-3, 20).Draw(t, "length"), rapid.IntRange(-1, 5).Draw(t, "step")}
	}), 0, 3).Draw(t, "ranges")
}

var someQueues = []string{"a.q@n1", "a.q@n2", "b.q@n1", "gone.q@n9", ""}

func anyTask(t *rapid.T) Task {
	task := Task{
		IDs: anyRanges(t), Phase: Phase(rapid.IntRange(0, 2).Draw(t, "phase")), State: anyText(t), Started: rapid.Int64().Draw(t, "started"),
		Priority: anyNumber(t), NormalizedTickets: anyNumber(t), Share: anyNumber(t),
		Tickets: Tickets{anyNumber(t), anyNumber(t), anyNumber(t), anyNumber(t)}, Slots: rapid.Int().Draw(t, "slots"), GrantedPE: anyText(t),
		ExtraMaster: rapid.Bool().Draw(t, "extra"),
	}
	if rapid.Bool().Draw(t, "used") {
		task.Usage = &Usage{anyNumber(t), anyNumber(t), anyNumber(t)}
	}
	for range rapid.IntRange(0, 3).Draw(t, "grants") {
		g := Grant{Queue: rapid.SampledFrom(someQueues).Draw(t, "queue"), Slots: rapid.IntRange(-1, 4).Draw(t, "slots")}
		if rapid.Bool().Draw(t, "controlled") {
			g.Tickets = &Tickets{Total: anyNumber(t)}
		}
		task.Grants = append(task.Grants, g)
	}
	for range rapid.IntRange(0, 2).Draw(t, "subtasks") {
		s := Subtask{ID: anyText(t), Queue: rapid.SampledFrom(someQueues).Draw(t, "subtask"), State: anyText(t)}
		if rapid.Bool().Draw(t, "used") {
			s.Usage = &Usage{anyNumber(t), anyNumber(t), anyNumber(t)}
		}
		task.Subtasks = append(task.Subtasks, s)
	}
	return task
}

func anyJob(t *rapid.T) Job {
	j := Job{
		ID: rapid.Int().Draw(t, "id"), Name: anyText(t), Owner: anyText(t), Project: anyText(t), Department: anyText(t),
		Submitted: rapid.Int64().Draw(t, "submitted"), Deadline: rapid.Int64().Draw(t, "deadline"), POSIXPriority: rapid.Int().Draw(t, "p"),
		NormalizedUrgency: anyNumber(t), Urgency: Urgency{anyNumber(t), anyNumber(t), anyNumber(t), anyNumber(t)}, Checkpoint: anyText(t),
		Hard: []Request{{Name: anyText(t), Value: anyText(t), Urgency: anyNumber(t)}}, HardQueues: []string{anyText(t)}, Binding: anyText(t),
		PredecessorsAsked: []string{anyText(t)}, ArrayPredecessorsAsked: []string{anyText(t)}, ArrayPredecessors: []int{1},
	}
	if rapid.Bool().Draw(t, "parallel") {
		j.PE = &PE{anyText(t), anyRanges(t)}
	}
	for range rapid.IntRange(0, 3).Draw(t, "tasks") {
		j.Tasks = append(j.Tasks, anyTask(t))
	}
	return j
}

func anyCell(t *rapid.T) *Cell {
	c := &Cell{}
	for range rapid.IntRange(0, 4).Draw(t, "jobs") {
		c.Jobs = append(c.Jobs, anyJob(t))
	}
	for _, name := range someQueues[:rapid.IntRange(0, 3).Draw(t, "queues")] {
		queue, host, _ := strings.Cut(name, "@")
		load := anyNumber(t)
		c.Queues = append(c.Queues, QueueInstance{
			Queue: queue, Host: host, SequenceNumber: rapid.IntRange(-1, 1).Draw(t, "seq"), Type: anyText(t), Used: rapid.Int().Draw(t, "used"),
			Load: &load, Arch: anyText(t), State: anyText(t), Resources: []Resource{{Dominance: anyText(t), Name: anyText(t), Value: anyText(t), Total: anyNumber(t)}},
			LoadAlarms: []Alarm{{Message: anyText(t)}, {Threshold: anyText(t)}}, Errors: []string{anyText(t)},
		})
		c.Hosts = append(c.Hosts, Host{Name: host, Arch: anyText(t), Load: &load, MemoryUsed: &load})
	}
	return c
}

func anyOptions(t *rapid.T) Options {
	flag := func(name string) bool { return rapid.Bool().Draw(t, name) }
	return Options{
		flag("-f"), flag("-F"), rapid.SampledFrom([]string{"", "a", "aAcE"}).Draw(t, "-explain"), flag("-ne"), flag("-ext"), flag("-urg"), flag("-pri"),
		flag("-t"), flag("-g d"), flag("-g t"), flag("-r"), flag("-ncb"), rapid.StringMatching("[a-z_]{0,12}").Draw(t, "load"), rapid.IntRange(-1, 40).Draw(t, "width"), nil,
	}
}

func anyDetail(t *rapid.T) JobDetail {
	texts := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) string { return anyText(t) }), 0, 2)
	u := &Usage{anyNumber(t), anyNumber(t), anyNumber(t)}
	return JobDetail{
		Job: anyJob(t), Group: anyText(t), Path: anyText(t), Output: texts.Draw(t, "output"), Shells: texts.Draw(t, "shells"), Restart: anyText(t),
		Environment: texts.Draw(t, "environment"), Arguments: texts.Draw(t, "arguments"), Context: texts.Draw(t, "context"), MailOptions: anyText(t),
		Type: anyText(t), TaskIDs: anyRanges(t), Verification: anyText(t), Reasons: []Reason{{Text: anyText(t)}, {Text: anyText(t), Shared: true}},
		Details: []TaskDetail{
			{Running: true, Usage: u, Subtasks: []Subtask{{ID: anyText(t), Queue: anyText(t), Usage: u}}, PastUsage: []Measure{{anyText(t), 1}}},
			{Running: true},
			{ErrorReason: anyText(t)},
		},
	}
}

// wellFormed reads an XML document to its end.
func wellFormed(text []byte) error {
	d := xml.NewDecoder(strings.NewReader(string(text)))
	for {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
	}
}

func TestRandomCellsInAllFormats(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, o := anyCell(t), anyOptions(t)
		hosts := HostOptions{Resources: o.Resources, Queues: o.Full, Jobs: o.EachSlot}
		details := []JobDetail{anyDetail(t), anyDetail(t)}
		groups := []ReasonGroup{{anyText(t), 1, []int{1, 2}}, {anyText(t), 2, []int{1, 2}}, {anyText(t), 1, []int{2, 3}}}
		before := []byte("before")
		for name, appended := range map[string]func(dst []byte) []byte{
			"text":        func(dst []byte) []byte { return c.AppendText(dst, o) },
			"XML":         func(dst []byte) []byte { return c.AppendXML(dst, o) },
			"hosts":       func(dst []byte) []byte { return c.AppendHosts(dst, hosts) },
			"hosts XML":   func(dst []byte) []byte { return c.AppendHostsXML(dst, hosts) },
			"details":     func(dst []byte) []byte { return AppendDetails(dst, details, DetailOptions{}) },
			"details XML": func(dst []byte) []byte { return AppendDetailsXML(dst, details, DetailOptions{NoBinding: o.NoBinding}) },
			"reasons":     func(dst []byte) []byte { return AppendReasons(dst, details[0].Reasons, groups) },
			"reasons XML": func(dst []byte) []byte { return AppendReasonsXML(dst, details[0].Reasons, groups) },
		} {
			got := appended(nil)
			if string(appended(before)) != "before"+string(got) {
				t.Fatalf("%s depends on what is in front of it", name)
			}
			if strings.HasSuffix(name, "XML") {
				if err := wellFormed(got); err != nil {
					t.Fatalf("%s: %v\n%s", name, err, got)
				}
			}
		}
	})
}

// TestXMLKeepsNames checks that the text of an element can be read back, as far as XML can hold it.
func TestXMLKeepsNames(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := anyText(t)
		c := &Cell{Jobs: []Job{{Name: name, Tasks: []Task{{Phase: Pending, State: "qw"}}}}}
		var view xmlView
		if err := xml.Unmarshal(c.AppendXML(nil, Options{}), &view); err != nil {
			t.Fatal(err)
		}
		want := name
		if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' && !strings.ContainsRune("\t\n\r", r) }) {
			want = printable.String(name)
		}
		want = strings.NewReplacer("\ufffe", "\ufffd", "\uffff", "\ufffd").Replace(want)
		if got := view.Other[0].Name; got != want {
			t.Fatalf("%q comes back as %q, want %q", name, got, want)
		}
	})
}

// TestOrderDoesNotDependOnTheOrderGiven checks that every task is shown, always in the same order,
// whatever the order of the jobs.
func TestOrderDoesNotDependOnTheOrderGiven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c, o := &Cell{}, anyOptions(t)
		for i := range rapid.IntRange(0, 6).Draw(t, "jobs") {
			j := Job{ID: i + 1, Name: "job"}
			for range rapid.IntRange(1, 3).Draw(t, "tasks") {
				task := Task{Phase: Pending, State: "qw", Priority: float64(rapid.IntRange(0, 3).Draw(t, "priority"))}
				if rapid.Bool().Draw(t, "runs") {
					task.Phase = Running
					task.Grants = []Grant{{Queue: rapid.SampledFrom(someQueues[:3]).Draw(t, "queue"), Slots: 1}}
				}
				j.Tasks = append(j.Tasks, task)
			}
			c.Jobs = append(c.Jobs, j)
		}
		for _, name := range someQueues[:3] {
			queue, host, _ := strings.Cut(name, "@")
			c.Queues = append(c.Queues, QueueInstance{Queue: queue, Host: host})
		}
		want := string(c.AppendText(nil, o))
		shuffled := &Cell{rapid.Permutation(c.Jobs).Draw(t, "order"), rapid.Permutation(c.Queues).Draw(t, "order"), nil}
		if got := string(shuffled.AppendText(nil, o)); got != want {
			t.Fatalf("given in another order the view is\n%s\nand not\n%s", got, want)
		}
		tasks := 0
		for _, j := range c.Jobs {
			tasks += len(j.Tasks)
		}
		if shown := strings.Count(want, " job "); shown != tasks {
			t.Fatalf("%d tasks are shown, not %d:\n%s", shown, tasks, want)
		}
		var last float64
		for i, n := range c.sections(Options{}).pending {
			p := c.Jobs[n].firstIn(Pending).Priority
			if i > 0 && p > last {
				t.Fatalf("priority %v comes after %v", p, last)
			}
			last = p
		}
		if !slices.IsSorted(c.sections(Options{}).running) {
			t.Fatal("running jobs are not in the order of their numbers")
		}
	})
}

// TestLongestQueueName checks the output for input with which the original aborts.
func TestLongestQueueName(t *testing.T) {
	c := &Cell{
		Queues: []QueueInstance{{Queue: "a-very-long-name.q", Host: "and-a-host-with-a-long-name"}},
		Jobs:   []Job{{ID: 7, Tasks: []Task{{Phase: Running, Grants: []Grant{{Queue: "a-very-long-name.q@and-a-host-with-a-long-name", Slots: 2}}}}}},
	}
	got := string(c.AppendText(nil, Options{QueueWidth: -1}))
	if !strings.Contains(got, " a-very-long-name.q@and-a-host-with-a-long-name     2        \n") {
		t.Errorf("the name is not there as a whole:\n%s", got)
	}
}

// paged returns the text that a function adds to a page.
func paged(add func(*page)) string {
	var p page
	add(&p)
	return string(p.text)
}

// TestColumns checks that numbers and texts that reach the edges of columns are printed as by the
// original.
func TestColumns(t *testing.T) {
	number := func(v float64) *float64 { return &v }
	for name, c := range map[string]struct{ got, want string }{
		"an urgency of eight digits":    {string(appendUrgency(nil, 99999999, 8)), "99999999"},
		"an urgency of nine digits":     {string(appendUrgency(nil, 123000000, 8)), "1.23e+08"},
		"a short urgency of ten digits": {string(appendUrgency(nil, 1e9, 8)), "   1e+09"},
		"a negative urgency":            {string(appendUrgency(nil, -1999998999, 8)), "-1999998999"},
		"slots that are cut":            {paged(func(p *page) { p.slots(&QueueInstance{Used: 123456, Total: 9999999}, 0) }), "0/123456/99999"},
		"two tasks":                     {string(appendRanges(nil, []Range{{1, 4, 3}}, true)), "1,4"},
		"tasks with a step":             {string(appendRanges(nil, []Range{{1, 1, 1}, {3, 9, 3}}, true)), "1,3-9:3"},
		"slots without an end":          {string(appendRanges(nil, []Range{{1, 2, 1}, {4, 9999999, 1}}, false)), "1,2,4-9999999"},
		"no memory":                     {size(number(0)), "0.0"},
		"kilobytes":                     {size(number(1536)), "1.5K"},
		"terabytes":                     {size(number(2 << 40)), "2.0T"},
		"unknown memory":                {size(nil), "-"},
		"days of processor time":        {paged(func(p *page) { p.cpu(93784) }), "1:02:03:04"},
		"hours above 99":                {paged(func(p *page) { p.duration(300 * 3600) }), "300:00:00"},
	} {
		if c.got != c.want {
			t.Errorf("%s: %q, not %q", name, c.got, c.want)
		}
	}
}
