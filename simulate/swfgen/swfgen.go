// Package swfgen generates traces of machines, for tests and benchmarks. Equal options give equal
// traces.
//
// Other projects should not import this package: it may change at any time.
//
// The traces have the properties that make real ones difficult: more submissions by day than by
// night, a few users with most of the jobs, sizes that are often powers of two, run times that
// differ by a factor of 100,000, and requested times that are round and much too long.
package swfgen

import (
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"

	"github.com/execd-project/execd/simulate/swf"
)

// Options describe the trace. A field of 0 has its default.
type Options struct {
	Seed       uint64
	Jobs       int     // 1000
	Processors int     // of the machine; 256
	Users      int     // 50; five per group
	Load       float64 // share of the machine in use if no job had to wait; 0.8
}

// estimates are the typical requested times, in seconds.
var estimates = []int64{300, 900, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600}

const day = 24 * 3600

// Generate generates a trace.
func Generate(o Options) (swf.Header, []swf.Record) {
	defaults(&o)
	r := rand.New(rand.NewPCG(o.Seed, 0x5eed))
	users := rand.NewZipf(r, 1.3, 4, uint64(o.Users-1))
	records := make([]swf.Record, o.Jobs)
	work := 0.0
	for i := range records {
		rec := &records[i]
		*rec = job(r, o.Processors)
		rec.Number = int64(i + 1)
		rec.User = 1 + int64(users.Uint64())
		rec.Group = 1 + rec.User/5
		rec.Executable = rec.User*10 + r.Int64N(10)
		if rec.Run > 0 {
			work += float64(rec.Run) * float64(rec.Processors)
		}
	}
	// The number of submissions per second that results in the load.
	gap := work / (o.Load * float64(o.Processors) * float64(o.Jobs))
	now := 0.0
	for i := range records {
		records[i].Submit = int64(now)
		byDay := 1 + 0.8*math.Sin(2*math.Pi*(now/day-0.25))
		now += r.ExpFloat64() * gap / byDay
	}
	return swf.Header{
		{Name: "Version", Value: "2.2"},
		{Name: "Computer", Value: "made up"},
		{Name: swf.MaxJobs, Value: fmt.Sprint(o.Jobs)},
		{Name: swf.MaxRecords, Value: fmt.Sprint(o.Jobs)},
		{Name: swf.UnixStartTime, Value: "1700000000"},
		{Name: swf.MaxNodes, Value: fmt.Sprint((o.Processors + 15) / 16)},
		{Name: swf.MaxProcs, Value: fmt.Sprint(o.Processors)},
	}, records
}

func defaults(o *Options) {
	if o.Jobs == 0 {
		o.Jobs = 1000
	}
	if o.Processors == 0 {
		o.Processors = 256
	}
	if o.Users == 0 {
		o.Users = 50
	}
	if o.Load == 0 {
		o.Load = 0.8
	}
}

// job generates a job's request and usage.
func job(r *rand.Rand, processors int) swf.Record {
	// Up to half of the machine; small jobs are more frequent.
	procs := int64(1)
	if most := bits.Len(uint(processors)) - 1; most > 0 && r.Float64() > 0.4 {
		procs = int64(1) << min(r.IntN(most), r.IntN(most))
		if r.Float64() < 0.25 {
			procs += r.Int64N(procs)
		}
	}
	run := max(1, int64(math.Exp(6.5+2*r.NormFloat64())))
	requested := estimates[len(estimates)-1]
	run = min(run, requested)
	for i, e := range estimates {
		if run <= e {
			requested = estimates[min(i+r.IntN(3), len(estimates)-1)]
			break
		}
	}
	rec := swf.Record{
		Wait: swf.Unknown, Run: run, Processors: procs, CPU: float64(run) * (0.5 + r.Float64()/2), Memory: swf.Unknown,
		RequestedProcessors: procs, RequestedTime: requested, RequestedMemory: (256 << 10) * (1 + r.Int64N(16)), Status: swf.Completed,
		Queue: 1 + r.Int64N(4), Partition: 1, Preceding: swf.Unknown, ThinkTime: swf.Unknown,
	}
	switch p := r.Float64(); {
	case p < 0.02: // never started
		rec.Status, rec.Run, rec.Processors, rec.CPU = swf.Cancelled, 0, swf.Unknown, swf.Unknown
	case p < 0.05:
		rec.Status = swf.Failed
	}
	return rec
}

// Text returns a trace as the content of a file.
func Text(h swf.Header, records []swf.Record) []byte {
	b := h.Append(nil)
	for _, r := range records {
		b = append(r.Append(b), '\n')
	}
	return b
}
