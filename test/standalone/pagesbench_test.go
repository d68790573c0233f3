package standalone

import (
	"crypto/rand"
	"os/user"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/execd-project/execd/standalone/api"
)

// benchedJobs is the number of pending jobs of these benchmarks.
const benchedJobs = 10_000

// fullMachine returns a machine with pending jobs of this user.
func fullMachine(b *testing.B) (*machine, *user.User) {
	b.Helper()
	m := newMachine(b, 4)
	u := self(b)
	m.write("conf/conf/global", groupIDs()+"min_uid 0\nmin_gid 0\n") // the test submits by itself
	m.start()
	m.as(u, "qstat")
	const clients = 16
	var wait sync.WaitGroup
	for range clients {
		client, err := api.Dial(m.socket(), time.Minute, func(error) {})
		if err != nil {
			b.Fatal(err)
		}
		defer client.Agent().Close()
		wait.Go(func() {
			for range benchedJobs / clients {
				a, err := client.Command(b.Context(), &api.CommandRequest{
					Key: rand.Text(), Name: "qsub", Args: api.Texts([]string{"-h", "-b", "y", "-N", "job", "sleep", "1"}), Directory: "/",
				})
				if err != nil || a.Exit != 0 {
					b.Errorf("%+v %v", a, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if b.Failed() {
		b.FailNow()
	}
	return m, u
}

// BenchmarkCompletion measures how long a shell waits for completions with 10,000 pending jobs
// (docs/performance.md).
func BenchmarkCompletion(b *testing.B) {
	m, u := fullMachine(b)
	for line, most := range map[string]int{"qdel ": benchedJobs, "qdel 99": 111, "qstat -u ": 1, "qsub -q ": 1} {
		b.Run(strings.ReplaceAll(line, " ", "_"), func(b *testing.B) {
			late := 0 // a busy machine gives no answer in time
			for b.Loop() {
				r := m.as(u, "../execd", append([]string{"__complete"}, strings.Split(line, " ")...)...)
				n := strings.Count(r.stdout, "\n") - 1
				if r.status != 0 || n < 0 || n > most {
					b.Errorf("%q: %d candidates, %s", line, n, r.stderr)
				}
				if n == 0 {
					late++
				}
			}
			b.ReportMetric(float64(late), "late")
		})
	}
}

// BenchmarkPages measures the pages with 10,000 pending jobs (docs/performance.md): the time until a browser shows
// the overview and the list of jobs, and the time that it works for an update of the list, without the pauses
// between updates.
func BenchmarkPages(b *testing.B) {
	chromium := newBrowser(b)
	m, u := fullMachine(b)
	page := m.web(u).enter(chromium)
	times := map[string][]float64{}
	measure := func(name string, do func()) {
		began := time.Now()
		do()
		times[name] = append(times[name], float64(time.Since(began).Microseconds())/1000)
	}
	work := func() float64 {
		var r struct{ Metrics []struct{ Name, Value any } }
		page.do("Performance.getMetrics", args{}, &r)
		for _, v := range r.Metrics {
			if seconds, ok := v.Value.(float64); ok && v.Name == "TaskDuration" {
				return 1000 * seconds
			}
		}
		b.Fatal("the browser does not tell its time")
		return 0
	}
	page.do("Performance.enable", args{}, nil)
	for b.Loop() {
		page.visit("about:blank")
		measure("ms/overview", func() { page.visit(page.origin + "/") })
		page.visit("about:blank")
		time.Sleep(2 * time.Second) //nolint:forbidigo // until the copy of the list has expired, which no event tells
		measure("ms/jobs", func() { page.visit(page.origin + "/jobs") })
		before := work()
		name := "n" + rand.Text()[:8]
		measure("ms/seen", func() {
			m.as(u, "qalter", "-N", name, "1")
			page.until(`document.body.textContent.includes("` + name + `")`)
		})
		times["ms/update"] = append(times["ms/update"], work()-before)
	}
	for name, list := range times {
		b.ReportMetric(median(list), name)
	}
}
