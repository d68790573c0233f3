package launch

import (
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// BenchmarkGroup measures the cost of a job's control group: to create it, to record its path, and
// to remove it. Entering the group is part of the supervisor's time.
func BenchmarkGroup(b *testing.B) {
	testenv.Require(b, testenv.Cgroup)
	for name, options := range map[string][]string{
		"without limits":          nil,
		"with h_rss":              {"-l", "h_rss=1G"},
		"with h_rss, h_vmem, cpu": {"-l", "h_rss=1G,h_vmem=2G,h_cpu=60"},
	} {
		b.Run(name, func(b *testing.B) {
			spool, o := orderOf(b, options...)
			j := prepared(b, spool, o)
			for b.Loop() {
				if err := j.removeGroup(); err != nil {
					b.Fatal(err)
				}
				if err := j.makeGroup(nil); err != nil {
					b.Fatal(err)
				}
			}
			if err := j.Remove(false); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOpenGroups measures a cost that each execd run pays once.
func BenchmarkOpenGroups(b *testing.B) {
	testenv.Require(b, testenv.Cgroup)
	_, o := orderOf(b)
	spool, err := jobdir.OpenSpool(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	defer spool.Close()
	for b.Loop() {
		g, err := OpenGroups(spool, o)
		if err != nil {
			b.Fatal(err)
		}
		g.Close()
	}
}

// BenchmarkDaemon measures the cost of a job for a daemon, without the supervisor: until all files
// are on the disk, until the supervisor has been started, and the removal.
func BenchmarkDaemon(b *testing.B) {
	p := newPlace(b)
	o := must(p.order("true"))
	shepherd := p.script(b, "exit 0")
	measure := func(b *testing.B, f func(j *Job) bool) {
		n := 0
		for b.Loop() {
			n++
			j, err := Prepare(p.spool, o, job.ID{Job: n})
			if err != nil {
				b.Fatal(err)
			}
			if f(j) {
				b.StopTimer()
			}
			if err := j.Remove(false); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	}
	b.Run("prepare", func(b *testing.B) { measure(b, func(*Job) bool { return true }) })
	b.Run("prepare and remove", func(b *testing.B) { measure(b, func(*Job) bool { return false }) })
	b.Run("prepare and launch", func(b *testing.B) {
		measure(b, func(j *Job) bool {
			if err := j.Launch(shepherd); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			waited(b, j)
			return true
		})
	})
}
