package workload

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/simulate/swf"
	"github.com/execd-project/execd/simulate/swfgen"
)

func trace(t testing.TB, text string) *swf.Reader {
	t.Helper()
	r, err := swf.NewReader("trace", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRecordsBecomeJobs(t *testing.T) {
	//             job submit wait run alloc cpu mem procs time memory status user group exe queue part prec think
	const text = `; UnixStartTime: 7
		1   100   5  60   8  -1  -1    4   600  2048  1  3  2 -1  1 -1 -1 -1
		2    90   5  60   1  -1  -1    1    -1    -1  0 -1 -1 -1  0 -1  1 10
		3    90  -1   0   2  -1  -1    0     0    -1  1  0  0 -1 -1 -1 -1 -1
		4    95   5  70   8  -1  -1    4   600  2048  5  3  2 -1  1 -1 -1 -1
`
	for what, c := range map[string]struct {
		m    Mapping
		want []string
	}{
		"by default": {Mapping{}, []string{
			"3: @90 run=60 unknown: trace",
			"4: @90 run=0 u0:g0 trace pe=* 2",
			"5: @95 run=70 u3:g2 trace pe=* 4 h_rt=600",
			"2: @100 run=60 u3:g2 trace pe=* 4 h_rt=600",
		}},
		"with all": {Mapping{PE: "mpi", Memory: "h_vmem", Queue: "q", Reserve: true}, []string{
			"3: @90 run=60 unknown: trace q=q0",
			"4: @90 run=0 u0:g0 trace pe=mpi 2",
			"5: @95 run=70 u3:g2 trace pe=mpi 4 h_rt=600 h_vmem=2048K q=q1",
			"2: @100 run=60 u3:g2 trace pe=mpi 4 h_rt=600 h_vmem=2048K q=q1",
		}},
	} {
		jobs, skipped, err := FromTrace(trace(t, text), c.m)
		if err != nil || skipped != (Skipped{}) {
			t.Fatalf("%s: %v, %v", what, skipped, err)
		}
		if diff := cmp.Diff(c.want, showAll(jobs)); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", what, diff)
		}
		if jobs[2].Request != jobs[3].Request || jobs[3].Number != 1 || jobs[0].Request.Reserve || jobs[1].Request.Reserve != c.m.Reserve {
			t.Errorf("%s: %+v", what, jobs)
		}
	}
}

func TestRecordsWithoutJobs(t *testing.T) {
	//             job submit wait run alloc cpu mem procs time memory status user group exe queue part prec think
	const text = `
		1  0 -1  0  1 -1 -1  1 600 -1 5 3 2 -1 1 -1 -1 -1
		2  0 -1 -1  1 -1 -1  1 600 -1 5 3 2 -1 1 -1 -1 -1
		3  0 -1 60  1 -1 -1  1 600 -1 2 3 2 -1 1 -1 -1 -1
		4  0 -1 60  1 -1 -1  1 600 -1 3 3 2 -1 1 -1 -1 -1
		5  0 -1 60  1 -1 -1  1 600 -1 4 3 2 -1 1 -1 -1 -1
		6 -1 -1 60  1 -1 -1  1 600 -1 1 3 2 -1 1 -1 -1 -1
		7  0 -1 -1  1 -1 -1  1 600 -1 1 3 2 -1 1 -1 -1 -1
		8  0 -1 60 -1 -1 -1 -1 600 -1 1 3 2 -1 1 -1 -1 -1
		9  0 -1 60  0 -1 -1  0 600 -1 1 3 2 -1 1 -1 -1 -1
		10 0 -1 60  0 -1 -1 10000000 600 -1 1 3 2 -1 1 -1 -1 -1
		11 9999999999999 -1 60 1 -1 -1 1 600 -1 1 3 2 -1 1 -1 -1 -1
		12 0 -1 9999999999999 1 -1 -1 1 600 -1 1 3 2 -1 1 -1 -1 -1
		13 0 -1 60 1 -1 -1 1 9999999999999 -1 1 3 2 -1 1 -1 -1 -1
`
	jobs, skipped, err := FromTrace(trace(t, text), Mapping{})
	if err != nil {
		t.Fatal(err)
	}
	if want := (Skipped{CancelledInTime: 2, PartOfJob: 3, UnknownSubmitTime: 2, UnknownRunTime: 2, UnknownProcessors: 3}); skipped != want {
		t.Errorf("%v, want %v", skipped, want)
	}
	if diff := cmp.Diff([]string{"14: @0 run=60 u3:g2 trace"}, showAll(jobs)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	words := map[string]bool{}
	for r := range Reason(NumberOfReasons) {
		words[r.String()] = true
	}
	if len(words) != NumberOfReasons {
		t.Errorf("two reasons in the same words: %v", words)
	}
}

func TestTraceWithErrors(t *testing.T) {
	jobs, _, err := FromTrace(trace(t, "1 2 3\nx\n"), Mapping{})
	if want := "trace:1: the line has 3 fields, expected 18\n" +
		`trace:2: field 1 (job number): "x": is not a whole number`; jobs != nil || err == nil || err.Error() != want {
		t.Errorf("%v, %v", jobs, err)
	}
	_, _, err = FromTrace(trace(t, strings.Repeat("x\n", 1000)), Mapping{})
	if n := strings.Count(err.Error(), "\n"); n != maxErrors {
		t.Errorf("%d errors", n)
	}
	for what, m := range map[string]Mapping{
		"no name of a parallel environment": {PE: "a,b"},
		"no name of an attribute":           {Memory: "a b"},
		"two attributes":                    {Memory: "a=1,b"},
		"no name of a queue":                {Queue: "("},
	} {
		if _, _, err := FromTrace(trace(t, ""), m); err == nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func BenchmarkFromTrace(b *testing.B) {
	const jobs = 100_000
	text := swfgen.Text(swfgen.Generate(swfgen.Options{Jobs: jobs}))
	b.ReportAllocs()
	for b.Loop() {
		r, err := swf.NewReader("trace", bytes.NewReader(text))
		if err != nil {
			b.Fatal(err)
		}
		all, skipped, err := FromTrace(r, Mapping{Memory: "h_vmem"})
		if n := skipped[CancelledInTime]; err != nil || len(all)+n != jobs || n == 0 {
			b.Fatal(len(all), skipped, err)
		}
	}
}
