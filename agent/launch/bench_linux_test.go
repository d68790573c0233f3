package launch

import (
	"testing"

	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/jobdir"
)

// BenchmarkGroup is what the control group of a job costs: to make it, to write
// down where it is, and to remove it. That a process enters it is part of the
// supervisor's time.
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
				if err := j.makeGroup(); err != nil {
					b.Fatal(err)
				}
			}
			if err := j.Remove(false); err != nil {
				b.Fatal(err)
			}
		})
	}
}

// BenchmarkOpenGroups is paid once by each execd run.
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
