package cell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// start is the time at which the tests begin: Friday 2026-11-20 22:00:00 UTC.
const start int64 = 1795212000

// files holds the files of a cluster, by path.
type files map[string]string

// with returns the cluster with changed or additional files. An empty text removes a file.
func (f files) with(more files) files {
	all := files{}
	for _, m := range []files{f, more} {
		for name, text := range m {
			if all[name] = text; text == "" {
				delete(all, name)
			}
		}
	}
	return all
}

func (f files) cluster(t testing.TB) *qconf.Cluster {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range f {
		fsys[name] = &fstest.MapFile{Data: []byte(text + "\n")}
	}
	c, err := qconf.Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// small has two hosts with two slots each.
var small = files{
	"queues/all.q":           "qname all.q\nhostlist n1 n2\nslots 2\nload_thresholds NONE\npe_list fill rr\nqtype BATCH\nowner_list olga",
	"queues/int.q":           "qname int.q\nhostlist n1\nslots 1\nload_thresholds NONE\nqtype INTERACTIVE",
	"pes/fill":               "pe_name fill\nslots 100\nallocation_rule $fill_up\nurgency_slots min",
	"pes/rr":                 "pe_name rr\nslots 100\nallocation_rule $round_robin\nurgency_slots max",
	"hosts/n1":               "hostname n1",
	"hosts/n2":               "hostname n2\ncomplex_values lic=3",
	"hosts/global":           "hostname global",
	"complexes":              "lic lic INT <= YES YES 0 0\nosn osn STRING == YES NO NONE 0\nh_rt h_rt TIME <= YES NO 0:0:0 0\nslots s INT <= YES YES 1 1000\nseq_no seq INT == NO NO 0 0\nmem mem MEMORY <= YES NO 0 0\nusers users INT >= YES NO 0 0\nqname q STRING == YES NO NONE 0\nhostname h HOST == YES NO NONE 0",
	"usersets/deadlineusers": "name deadlineusers\ntype ACL\nentries alice",
	"usersets/arusers":       "name arusers\ntype ACL\nentries alice,bob",
	"usersets/friends":       "name friends\ntype ACL\nentries bob",
	"projects/p1":            "name p1",
	"projects/secret":        "name secret\nacl friends",
	"sched_conf":             "algorithm default\nweight_urgency 0\nweight_waiting_time 0\nweight_priority 1\njob_load_adjustments NONE\nload_formula slots\nmaxujobs 0",
	"conf/global":            "max_u_jobs 0",
	"calendars/night":        "calendar_name night\nyear NONE\nweek mon-sun=22:30-23=off",
	"ckpts/ck":               "ckpt_name ck\ninterface userdefined",
}

// harness is a cell in a test, with a clock.
type harness struct {
	*Cell
	t      testing.TB
	now    int64
	files  files           // of the configuration, for events that change it
	log    []string        // results of events
	starts map[string]bool // all starts that were ordered
}

// newHarness returns a cell in which all hosts have reported.
func newHarness(t testing.TB, f files) *harness {
	t.Helper()
	return newHarnessOf(t, f.cluster(t))
}

func newHarnessOf(t testing.TB, cluster *qconf.Cluster) *harness {
	t.Helper()
	c := New(start, cluster, Options{Managers: []string{"admin"}, Operators: []string{"oper"}})
	for _, err := range c.Problems() {
		t.Error(err)
	}
	h := &harness{Cell: c, t: t, now: start}
	h.report()
	return h
}

func (h *harness) report() {
	for i := range h.model.Hosts() {
		if _, err := h.HostReport(h.now, h.model.HostName(scheduler.HostID(i)), nil); err != nil {
			h.t.Fatal(err)
		}
	}
}

func (h *harness) wait(seconds int64) { h.now += seconds }

func caller(user string) Caller { return Caller{User: user, Group: "staff", Host: "master"} }

// try runs qsub with a command line.
func (h *harness) try(user, line string) (*Answer, error) {
	h.t.Helper()
	r, err := submit.Parse(submit.Input{Args: append(fields(line), "-b", "y", "/bin/sleep", "60"), Master: true})
	if err != nil {
		h.t.Fatalf("qsub %s: %v", line, err)
	}
	return h.Submit(h.now, caller(user), r)
}

// fields splits a line at blanks, with quotes.
func fields(line string) []string {
	var words []string
	quoted := false
	var word strings.Builder
	in := false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, in = !quoted, true
		case r == ' ' && !quoted:
			if in {
				words = append(words, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(r)
			in = true
		}
	}
	if in {
		words = append(words, word.String())
	}
	return words
}

// sub runs qsub with a command line that must be accepted.
func (h *harness) sub(user, line string) uint32 {
	h.t.Helper()
	a, err := h.try(user, line)
	if err != nil {
		h.t.Fatalf("qsub %s: %v", line, err)
	}
	return a.ID
}

// run performs a scheduling run and confirms the starts at once.
func (h *harness) run() *Run {
	h.t.Helper()
	r := h.Schedule(h.now)
	for _, err := range r.Problems {
		h.t.Error(err)
	}
	for _, a := range r.Actions {
		if a.Kind == StartTask {
			start := fmt.Sprintf("%d.%d.%d", a.Task.Job.ID(), a.Task.Number, a.Attempt)
			if h.starts[start] {
				h.t.Errorf("start %s has been ordered before", start)
			}
			if h.starts == nil {
				h.starts = map[string]bool{}
			}
			h.starts[start] = true
			if err := h.TaskStarted(h.now, a.Task.Job.ID(), a.Task.Number, a.Attempt); err != nil {
				h.t.Error(err)
			}
		}
	}
	return r
}

// end reports that a task has ended.
func (h *harness) end(id, task uint32, e End) *Answer {
	h.t.Helper()
	attempt := 0
	if j := h.Job(id); j != nil && j.task(task) != nil {
		attempt = j.task(task).Restarts
	}
	a, err := h.TaskEnded(h.now, id, task, attempt, e)
	if err != nil {
		h.t.Fatal(err)
	}
	return a
}

// show returns all jobs, one after the other, in a short form of qstat: "1 r all.q@n1", "2.3-5
// hqw".
func (h *harness) show() string {
	var lines []string
	for _, j := range h.Jobs() {
		for _, t := range j.Tasks() {
			if t.run == nil {
				continue
			}
			line := itoa(j.ID())
			if j.IsArray() {
				line += "." + itoa(t.Number)
			}
			line += " " + t.State()
			for _, g := range t.run.Grants {
				line += " " + h.model.InstanceName(g.Instance)
				if g.Slots > 1 {
					line += fmt.Sprintf("*%d", g.Slots)
				}
			}
			lines = append(lines, line)
		}
		for _, w := range h.WaitingTasks(j) {
			line := itoa(j.ID())
			if j.IsArray() {
				line += "." + w.Tasks.String()
			}
			lines = append(lines, line+" "+w.State)
		}
	}
	return strings.Join(lines, "; ")
}

func (h *harness) expect(want string) {
	h.t.Helper()
	if got := h.show(); got != want {
		h.t.Errorf("got  %s\nwant %s", got, want)
	}
}

// eventText returns the text of an event. Package cell/command makes it, which imports this package.
var eventText func(Event) string

// UseText sets the function that makes the texts of events.
func UseText(text func(Event) string) bool {
	eventText = text
	return true
}

func (a *Answer) text() string { return texts(a.Events, "\n") }

func texts(events []Event, separator string) string {
	var lines []string
	for _, e := range events {
		lines = append(lines, eventText(e))
	}
	return strings.Join(lines, separator)
}

// refusalText returns the lines of a refusal.
func refusalText(d *DeniedError) string {
	return texts(append(slices.Clone(d.Report), d.Event), "\n")
}

// errorText returns the text of a refusal, and the text of any other error.
func errorText(err error) string {
	if d, ok := errors.AsType[*DeniedError](err); ok {
		return eventText(d.Event)
	}
	return err.Error()
}

func (t *Task) label() string {
	if t.Job.IsArray() {
		return "job-array task " + itoa(t.Job.ID()) + "." + itoa(t.Number)
	}
	return "job " + itoa(t.Job.ID())
}

func (h *harness) said(a *Answer, want string) {
	h.t.Helper()
	if got := a.text(); got != want {
		h.t.Errorf("got  %s\nwant %s", got, want)
	}
}

func jobs(h *harness, text string) []submit.JobRange {
	h.t.Helper()
	list, err := submit.ParseJobRanges(strings.Fields(text))
	if err != nil {
		h.t.Fatal(err)
	}
	return list
}

func (h *harness) alter(user, line string) *Answer {
	h.t.Helper()
	r, err := submit.ParseAlteration(submit.Input{Args: fields(line)})
	if err != nil {
		h.t.Fatal(err)
	}
	return h.Alter(h.now, caller(user), r)
}
