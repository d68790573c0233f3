package qstat

import (
	"encoding/json"
	"flag"
	"math"
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/cluster.json")

// document returns the document of the recorded cell, with all parts.
func document(t *testing.T) *Document {
	t.Helper()
	d := recordedHosts(t).Document()
	d.Quotas = parseQuotas(read(t, cluster+"qquota.txt"))
	d.Reservations = parseDetails(read(t, cluster+"qrstat-ar.txt"))
	d.Shares = parseShares(read(t, cluster+"share_mon.txt"))
	for i := range d.Queues {
		d.Queues[i].Resources = named(d.Queues[i].Resources, []string{"slots", "np_load_avg"})
	}
	for i := range d.Hosts {
		d.Hosts[i].Resources = named(d.Hosts[i].Resources, []string{"num_proc", "lic"})
	}
	return d
}

func TestJSON(t *testing.T) {
	d := document(t)
	text, err := d.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/cluster.json"
	if *update {
		if err := os.WriteFile(golden, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want := read(t, golden); want != string(text) {
		t.Errorf("names and values are promised; if the change is wanted: go test ./qstat -update\n%s", cmp.Diff(want, string(text)))
	}
	var back Document
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, &back); diff != "" {
		t.Errorf("what is read back differs:\n%s", diff)
	}
}

func TestJSONOfEmptyDocument(t *testing.T) {
	for want, d := range map[string]*Document{
		"{}\n":                           {},
		`{"jobs":[],"queues":[]}` + "\n": new(Cell).Document(),
		`{"quotas":[]}` + "\n":           {Quotas: []QuotaRow{}},
	} {
		if got, err := d.AppendJSON(nil); err != nil || string(got) != want {
			t.Errorf("got %q, %v; want %q", got, err, want)
		}
	}
}

func TestJSONErrors(t *testing.T) {
	for _, d := range []*Document{
		{Jobs: []Job{{NormalizedUrgency: math.NaN()}}},
		{Jobs: []Job{{Tasks: []Task{{Phase: 3}}}}},
	} {
		text, err := d.AppendJSON([]byte("before"))
		if err == nil || !strings.HasPrefix(err.Error(), "cannot write the view as JSON: ") || string(text) != "before" {
			t.Errorf("got %q, %v", text, err)
		}
	}
	var p Phase
	if err := p.UnmarshalText([]byte("over")); err == nil {
		t.Error("a phase without a name was read")
	}
}

// documented are the types by the headings of docs/json.md.
var documented = map[string]any{
	"job": Job{}, "urgency": Urgency{}, "pe": PE{}, "request": Request{}, "range": Range{}, "task": Task{}, "tickets": Tickets{},
	"usage": Usage{}, "grant": Grant{}, "thing": MapElements{}, "queue": QueueInstance{}, "resource": Resource{}, "alarm": Alarm{}, "host": Host{},
	"summary": QueueSummary{}, "states": SummaryStates{}, "detail": JobDetail{}, "file": OutputFile{}, "ending": Ending{}, "started": TaskDetail{}, "mail": Mail{},
	"group": ReasonGroup{}, "reason": Reason{}, "subtask": Subtask{}, "measure": Measure{}, "quota": QuotaRow{}, "reservation": Reservation{}, "share": ShareRow{}, "entry": ScheduleEntry{},
	"progress": Progress{},
}

func TestJSONIsDocumented(t *testing.T) {
	sections := strings.Split(read(t, "../docs/json.md"), "\n## ")
	names := regexp.MustCompile("`([A-Za-z]+)`")
	got, want := map[string][]string{}, map[string][]string{}
	rows := func(section string) (list []string) {
		for line := range strings.Lines(section) {
			if column, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " | "); ok && strings.HasPrefix(line, "| `") {
				for _, m := range names.FindAllStringSubmatch(column, -1) {
					list = append(list, m[1])
				}
			}
		}
		return list
	}
	got["Document"], want["Document"] = rows(sections[0]), tags(reflect.TypeFor[Document]())
	for _, s := range sections[1:] {
		heading, _, _ := strings.Cut(s, "\n")
		got[heading] = rows(s)
	}
	delete(got, "sum")    // of qacct, which has a test of it
	delete(got, "report") // of execd report, which has one, too
	for heading, v := range documented {
		want[heading] = tags(reflect.TypeOf(v))
	}
	sorted := cmp.Transformer("sorted", func(list []string) map[string]int {
		m := map[string]int{}
		for _, s := range list {
			m[s]++
		}
		return m
	})
	if diff := cmp.Diff(want, got, sorted); diff != "" {
		t.Errorf("- in the types, + in docs/json.md:\n%s", diff)
	}
}

// tags are the names of a type's own fields.
func tags(t reflect.Type) (list []string) {
	for field := range t.Fields() {
		if name, _, _ := strings.Cut(field.Tag.Get("json"), ","); name != "" && name != "-" {
			list = append(list, name)
		}
	}
	return list
}
