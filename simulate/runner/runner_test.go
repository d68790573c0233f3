package runner

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/simulate/swf"
	"github.com/execd-project/execd/simulate/swfgen"
	"github.com/execd-project/execd/simulate/workload"
	"github.com/execd-project/execd/submit"
)

// cluster returns a configuration from files by name.
func cluster(t *testing.T, files map[string]string) *qconf.Cluster {
	t.Helper()
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(fsys, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

const conf = "schedule_interval 0:0:10\njob_load_adjustments NONE\nweight_waiting_time 0\n"

// simulateLines simulates the jobs of a text.
func simulateLines(t *testing.T, c *qconf.Cluster, text string, o Options) *Result {
	t.Helper()
	jobs, err := workload.Read(submit.File{Name: "jobs", Text: []byte(text)}, workload.Options{User: "user"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(c, sequence(jobs), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func sequence(jobs []workload.Job) func(func(workload.Job, error) bool) {
	return func(yield func(workload.Job, error) bool) {
		for _, j := range jobs {
			if !yield(j, nil) {
				return
			}
		}
	}
}

// lines returns the tasks, one per line: when and where they ran.
func lines(r *Result) []string {
	var all []string
	for _, t := range r.Tasks {
		if t.Start < 0 {
			all = append(all, fmt.Sprintf("%d %s waits: %s", t.Job, t.Name, strings.Join(t.Reasons, "; ")))
			continue
		}
		var grants []string
		for _, g := range t.Grants {
			grants = append(grants, fmt.Sprintf("%s=%d", g.Instance, g.Slots))
		}
		all = append(all, fmt.Sprintf("%d.%d %s %d-%d %s", t.Job, t.Number, t.Name, t.Start, t.End, strings.Join(grants, " ")))
	}
	return all
}

func TestScenarios(t *testing.T) {
	for sentence, c := range map[string]struct {
		files map[string]string
		jobs  string
		until int64
		start int64
		want  []string
	}{
		"runs take place at the interval, and limits end jobs": {
			files: map[string]string{"queues/q": "qname q\nhostlist n1\nslots 2\n", "sched_conf": conf},
			jobs: `@3 run=100 qsub -N a -b y x
@4 run=INFINITY qsub -N b -l h_rt=50 -b y x
@5 run=5 qsub -N c -b y x
`,
			want: []string{"1.0 a 10-110 q@n1=1", "2.0 b 10-60 q@n1=1", "3.0 c 60-65 q@n1=1"},
		},
		"a submission is flushed": {
			files: map[string]string{"queues/q": "qname q\nhostlist n1\n", "sched_conf": conf + "flush_submit_sec 1\nflush_finish_sec 2\n"},
			jobs:  "@3 run=3 qsub -N a -b y x\n@3 run=1 qsub -N b -b y x\n",
			want:  []string{"1.0 a 4-7 q@n1=1", "2.0 b 9-10 q@n1=1"},
		},
		"jobs wait for their predecessors and their time": {
			files: map[string]string{"queues/q": "qname q\nhostlist n1\nslots 9\n", "sched_conf": conf},
			jobs: `run=100 qsub -N a -b y x
run=10 qsub -N b -hold_jid a -b y x
run=10 qsub -N c -a 202601010005 -b y x
run=10 qsub -N d -h -b y x
`,
			start: 1767225600,
			want:  []string{"1.0 a 0-100 q@n1=1", "2.0 b 100-110 q@n1=1", "3.0 c 300-310 q@n1=1", "4 d waits: "},
		},
		"a calendar opens": {
			files: map[string]string{
				"queues/q": "qname q\nhostlist n1\ncalendar night\n", "sched_conf": conf,
				"calendars/night": "calendar_name night\nyear NONE\nweek mon-sun=6-22=off\n",
			},
			jobs: "@8:0:0 run=60 qsub -N a -b y x\n@23:0:0 run=60 qsub -N b -b y x\n", start: 1767225600,
			want: []string{"1.0 a 79210-79270 q@n1=1", "2.0 b 82800-82860 q@n1=1"},
		},
		"a reservation is kept, and short jobs go before it": {
			files: map[string]string{
				"queues/q": "qname q\nhostlist n1\nslots 4\npe_list mpi\n", "pes/mpi": "pe_name mpi\nslots 9\nallocation_rule $fill_up\n",
				"sched_conf": conf + "max_reservation 1\nparams DURATION_OFFSET=0\ndefault_duration 1:0:0\n",
			},
			jobs: `run=100 qsub -N a -pe mpi 3 -l h_rt=100 -b y x
@1 run=100 qsub -N wide -pe mpi 4 -R y -l h_rt=100 -b y x
@2 run=80 qsub -N short -l h_rt=80 -b y x
@3 run=300 qsub -N long -l h_rt=300 -b y x
`,
			want: []string{"1.0 a 0-100 q@n1=3", "2.0 wide 100-200 q@n1=4", "3.0 short 10-90 q@n1=1", "4.0 long 200-500 q@n1=1"},
		},
		"it ends in time": {
			files: map[string]string{"queues/q": "qname q\nhostlist n1\n", "sched_conf": conf},
			jobs:  "run=100 qsub -N a -b y x\nrun=100 qsub -N b -b y x\nrun=100 qsub -N c -b y x\n", until: 150,
			want: []string{"1.0 a 0-100 q@n1=1", "2.0 b 100--1 q@n1=1", "3 c waits: "},
		},
		"a suspended job goes on later": {
			files: map[string]string{
				"queues/low": "qname low\nhostlist n1\nseq_no 1\n", "queues/high": "qname high\nhostlist n1\nsubordinate_list low=1\n", "sched_conf": conf,
			},
			jobs: "run=100 qsub -N a -q low -b y x\n@50 run=20 qsub -N b -q high -b y x\n",
			want: []string{"1.0 a 0-120 low@n1=1", "2.0 b 50-70 high@n1=1"},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			r := simulateLines(t, cluster(t, c.files), c.jobs, Options{Until: c.until, Start: c.start})
			if diff := cmp.Diff(c.want, lines(r)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestSummary(t *testing.T) {
	r := &Result{
		End: 100, Runs: 7, Slots: map[string]int{"q": 2, "idle": 2}, Refused: make([]Refused, 1),
		Tasks: []Task{
			{User: "ada", Project: "p", Submit: 0, Start: 10, End: 30, Slots: 2, Grants: []Grant{{Queue: "q", Slots: 2}}},
			{User: "bob", Submit: 0, Start: 30, End: 31, Slots: 1, Grants: []Grant{{Queue: "q", Slots: 1}}},
			{User: "bob", Submit: 20, Start: 40, End: -1, Slots: 1, Grants: []Grant{{Queue: "q", Slots: 1}}},
			{User: "bob", Submit: 20, Start: -1, Waiting: 3},
		},
	}
	want := &Summary{
		Duration: 100, Runs: 7, Started: 3, Finished: 2, Waiting: 3, Refused: 1,
		Wait:     Distribution{Mean: 20, Median: 20, Percentile95: 30, Max: 30},
		Slowdown: Distribution{Mean: 2.3, Median: 1.5, Percentile95: 3.1, Max: 3.1},
		Users: []Use{
			{Name: "ada", Tasks: 1, SlotSeconds: 40, Slots: 4, Utilization: 0.1, Wait: 10},
			{Name: "bob", Tasks: 2, SlotSeconds: 61, Slots: 4, Utilization: 0.1525, Wait: 25},
		},
		Projects: []Use{{Name: "p", Tasks: 1, SlotSeconds: 40, Slots: 4, Utilization: 0.1, Wait: 10}},
		Queues: []Use{
			{Name: "idle", Slots: 2},
			{Name: "q", Tasks: 3, SlotSeconds: 101, Slots: 2, Utilization: 0.505, Wait: 20},
		},
		Total: Use{Name: "total", Tasks: 3, SlotSeconds: 101, Slots: 4, Utilization: 0.2525, Wait: 20},
	}
	if diff := cmp.Diff(want, r.Summary(), cmp.Comparer(func(a, b Use) bool {
		a.waits, b.waits = 0, 0
		return a == b
	})); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// trace returns the jobs of a generated trace.
func trace(t testing.TB, jobs int) []workload.Job {
	h, records := swfgen.Generate(swfgen.Options{Seed: 7, Jobs: jobs, Processors: 64, Load: 1.1, Users: 20})
	reader, err := swf.NewReader("trace", bytes.NewReader(swfgen.Text(h, records)))
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := workload.FromTrace(reader, workload.Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

var machine = map[string]string{
	"queues/q": "qname q\nhostlist n1 n2 n3 n4\nslots 16\npe_list mpi\n", "pes/mpi": "pe_name mpi\nslots 999\nallocation_rule $fill_up\n",
	"sched_conf": conf + "weight_tickets_functional 1000\nweight_ticket 1\n",
}

// TestTrace checks that equal input gives equal results, and the slots in use never exceed the
// available ones.
func TestTrace(t *testing.T) {
	jobs := trace(t, 500)
	var results []*Result
	for range 2 {
		r, err := Run(cluster(t, machine), sequence(jobs), Options{})
		if err != nil {
			t.Fatal(err)
		}
		results = append(results, r)
	}
	if diff := cmp.Diff(lines(results[0]), lines(results[1])); diff != "" {
		t.Errorf("two runs (-first +second)\n%s", diff)
	}
	if n := len(results[0].Tasks) + len(results[0].Refused); n != len(jobs) {
		t.Errorf("%d of %d jobs are accounted for", n, len(jobs))
	}
	change := map[string]map[int64]int{}
	for _, x := range results[0].Tasks {
		for _, g := range x.Grants {
			if change[g.Instance] == nil {
				change[g.Instance] = map[int64]int{}
			}
			change[g.Instance][x.Start] += g.Slots
			change[g.Instance][x.End] -= g.Slots
		}
	}
	for name, changes := range change {
		used := 0
		for at := range results[0].End + 1 {
			if used += changes[at]; used > 16 {
				t.Fatalf("%d slots of %s are in use at %d", used, name, at)
			}
		}
	}
}

// TestSwitchedOff checks that with a schedule_interval of 0 there are no scheduling runs, even with
// flush settings.
func TestSwitchedOff(t *testing.T) {
	off := cluster(t, map[string]string{"queues/q": "qname q\nhostlist n1\n", "sched_conf": "schedule_interval 0:0:0\nflush_submit_sec 1\n"})
	r := simulateLines(t, off, "run=100 qsub -N a -b y x\n@5 run=100 qsub -N b -now y -b y x\n", Options{})
	if got := strings.Join(lines(r), ", "); r.Runs != 0 || !strings.HasPrefix(got, "1 a waits: ") || !strings.Contains(got, ", 2 b waits: ") {
		t.Errorf("%d runs: %s", r.Runs, got)
	}
	if len(r.Problems) != 1 || !strings.Contains(r.Problems[0].Error(), "schedule_interval") {
		t.Errorf("said: %v", r.Problems)
	}
}

func TestErrors(t *testing.T) {
	if _, err := Run(cluster(t, map[string]string{"queues/q": "qname q\n"}), sequence(nil), Options{}); !errors.Is(err, ErrNoQueues) {
		t.Errorf("without hosts: %v", err)
	}
	bad := errors.New("bad line")
	_, err := Run(cluster(t, machine), func(yield func(workload.Job, error) bool) { yield(workload.Job{}, bad) }, Options{})
	if !errors.Is(err, bad) {
		t.Errorf("with a bad job: %v", err)
	}
	r := simulateLines(t, cluster(t, machine), "qsub -l nosuch=1 -b y x\n", Options{})
	if len(r.Refused) != 1 || r.Refused[0].Text != `unknown resource "nosuch"` || r.Refused[0].Line != 1 {
		t.Errorf("refused: %+v", r.Refused)
	}
}

func BenchmarkTrace(b *testing.B) {
	jobs := trace(b, 2000)
	fsys := fstest.MapFS{}
	for name, text := range machine {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(fsys, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Run(c, sequence(jobs), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(jobs)), "us/job")
}
