package agent

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/internal/clock"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// BenchmarkUsage measures the reading and reporting of the usage of 200 jobs, both busy and
// sleeping ones.
func BenchmarkUsage(b *testing.B) {
	for name, busy := range map[string]bool{"busy": true, "asleep": false} {
		b.Run(name, func(b *testing.B) {
			spool, err := jobdir.OpenSpool(filepath.Join(b.TempDir(), "spool"))
			if err != nil {
				b.Fatal(err)
			}
			defer spool.Close()
			a := &Agent{
				options: Options{Host: host}, launcher: launch.Local{Spool: spool}, clock: clock.System(),
				log: hclog.NewNullLogger(), table: newTable(hclog.NewNullLogger()),
			}
			a.settings.replace(cluster(b), nil)
			a.table.online = newOnlineWatch()
			defer a.table.online.close()
			for i := range 200 {
				e := newEntry(job.ID{Job: i + 1}, Record{})
				dir, err := spool.Begin(e.id, jobdir.CreateOptions{})
				if err != nil {
					b.Fatal(err)
				}
				defer dir.Close()
				e.state, e.run = Running, &launch.Job{Dir: dir, Description: &job.Description{}}
				a.table.jobs[e.id] = e
				a.table.touch(e)
			}
			write := func(n int) {
				for _, e := range a.table.jobs {
					u := jobdir.Online{At: time.Now(), Wallclock: 1234.5678, CPU: 1000.25 + float64(n), Mem: 1.0625, Vmem: 1 << 30, MaxVmem: 1 << 31}
					if err := e.run.Dir.WriteOnline(&u); err != nil {
						b.Fatal(err)
					}
				}
			}
			write(0)
			a.lookAtUsage()
			after, n := a.table.numbers.last, 0
			for b.Loop() {
				if n++; busy {
					b.StopTimer()
					write(n)
					b.StartTimer()
				}
				a.lookAtUsage()
				a.table.mu.Lock()
				batch := a.batch(after)
				a.table.mu.Unlock()
				after = batch.Number
				if busy != (len(batch.Jobs) == 200) {
					b.Fatalf("%d jobs are reported", len(batch.Jobs))
				}
			}
		})
	}
}
