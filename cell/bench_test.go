package cell

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/submit"
)

// large returns a cluster with the given number of hosts, with 16 slots each.
func large(hosts int) files {
	names := make([]string, hosts)
	f := files{}
	for i := range names {
		names[i] = fmt.Sprintf("n%05d", i)
	}
	for name, text := range small {
		if !strings.HasPrefix(name, "queues/") && !strings.HasPrefix(name, "hosts/n") {
			f[name] = text
		}
	}
	f["queues/all.q"] = "qname all.q\nslots 16\nload_thresholds NONE\nhostlist " + strings.Join(names, " ")
	return f
}

func request1(b *testing.B, args ...string) *submit.Request {
	b.Helper()
	r, err := submit.Parse(submit.Input{Args: append(args, "-b", "y", "/bin/sleep"), Master: true})
	if err != nil {
		b.Fatal(err)
	}
	return r
}

// BenchmarkMillionPendingJobs measures time and memory per job with a million pending jobs.
func BenchmarkMillionPendingJobs(b *testing.B) {
	const jobs = 1000000
	r := request1(b, "-l", "h_rt=60")
	cluster := small.cluster(b)
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		c := New(start, cluster, Options{})
		for i := range jobs {
			if _, err := c.Submit(start+int64(i/1000), Caller{User: fmt.Sprint("u", i%100)}, r); err != nil {
				b.Fatal(err)
			}
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/jobs, "bytes/job")
		runtime.KeepAlive(c)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/jobs, "ns/job")
}

// BenchmarkJobsThroughAFullCluster measures a job from its submission to its end, on a large
// cluster without free slots.
func BenchmarkJobsThroughAFullCluster(b *testing.B) {
	const hosts = 1000
	c := New(start, large(hosts).cluster(b), Options{})
	for i := range c.model.Hosts() {
		if _, err := c.HostReport(start, c.model.HostName(scheduler.HostID(i)), nil); err != nil {
			b.Fatal(err)
		}
	}
	r := request1(b, "-l", "h_rt=60")
	by := Caller{User: "alice"}
	now := start
	for range hosts * 32 {
		if _, err := c.Submit(now, by, r); err != nil {
			b.Fatal(err)
		}
	}
	running := c.Schedule(now).Actions
	b.ResetTimer()
	const batch = 100
	for b.Loop() {
		now += 15
		for _, a := range running[:batch] {
			if _, err := c.TaskEnded(now, a.Task.Job.ID(), 1, 0, End{}); err != nil {
				b.Fatal(err)
			}
			if _, err := c.Submit(now, by, r); err != nil {
				b.Fatal(err)
			}
		}
		running = append(running[batch:], c.Schedule(now).Actions...)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/batch, "ns/job")
}
