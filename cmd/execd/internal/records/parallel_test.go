package records

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/execd-project/execd/accounting"
)

// TestEachParallel compares what several workers read with what Each reads, of files with invalid, long and
// unfinished lines.
func TestEachParallel(t *testing.T) {
	record := func(job int) string {
		return string(accounting.AppendClassic(nil, &accounting.Record{Job: job, Category: strings.Repeat("x", job*131%2000)}))
	}
	var many strings.Builder
	for job := 1; job <= 1500; job++ {
		many.WriteString(record(job))
		if job%500 == 0 {
			many.WriteString("no record\n# a comment\n" + string(accounting.AppendJSON(nil, &accounting.Record{Job: job})))
		}
	}
	for name, text := range map[string]string{
		"nothing":                "",
		"one record":             record(1),
		"many records":           many.String(),
		"an unfinished line":     many.String() + record(1)[:40],
		"a record without end":   record(1) + strings.TrimSuffix(record(2), "\n"),
		"a long line":            record(1) + strings.Repeat("y", MaxLine+blockSize) + "\n" + record(2) + "no record\n",
		"a long line at first":   strings.Repeat("y", 2*MaxLine) + "\n" + record(2),
		"a long line at the end": record(1) + strings.Repeat("y", 2*MaxLine),
		"two long lines":         strings.Repeat(strings.Repeat("y", MaxLine+2*blockSize)+"\n", 2) + record(2),
	} {
		t.Run(name, func(t *testing.T) {
			var want, wrong []string
			err := Each(t.Context(), strings.NewReader(text), 0, func(r *accounting.Record) error {
				want = append(want, fmt.Sprintf("%05d %s", r.Job, r.Category))
				return nil
			}, func(line int, err error) { wrong = append(wrong, fmt.Sprintf("%06d %v", line, err)) })
			if err != nil {
				t.Fatal(err)
			}
			for _, in := range []io.Reader{strings.NewReader(text), iotest.HalfReader(strings.NewReader(text))} {
				var got [3][]string
				var bad []string
				err := EachParallel(in, len(got), func(w int, r *accounting.Record) {
					got[w] = append(got[w], fmt.Sprintf("%05d %s", r.Job, r.Category))
				}, func(line int, err error) { bad = append(bad, fmt.Sprintf("%06d %v", line, err)) })
				if err != nil {
					t.Fatal(err)
				}
				all := slices.Concat(got[0], got[1], got[2])
				slices.Sort(all)
				slices.Sort(want)
				slices.Sort(bad)
				slices.Sort(wrong)
				if !slices.Equal(all, want) || !slices.Equal(bad, wrong) {
					t.Errorf("%d records, expected %d; invalid lines %q, expected %q", len(all), len(want), bad, wrong)
				}
			}
		})
	}
	if err := EachParallel(iotest.ErrReader(io.ErrClosedPipe), 2, nil, nil); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

func BenchmarkEachParallel(b *testing.B) {
	r := &accounting.Record{
		Queue: "all.q", Host: "node1", Owner: "alice", JobName: "simulation", Job: 123456, Project: "physics", Slots: 4,
		Category: "-u alice -l h_rt=3600,h_vmem=4G -pe smp 4 -P physics",
	}
	text := bytes.Repeat(accounting.AppendClassic(nil, r), 10_000)
	for b.Loop() {
		if err := EachParallel(bytes.NewReader(text), 2, func(int, *accounting.Record) {}, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/10_000, "ns/record")
}
