package run

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/agent/launch"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/jobdir"
)

// TestExplainEnd checks that the outcome of a job that ran names the signal, even if the shepherd
// was killed after it had started the job and before it could write the process ID.
func TestExplainEnd(t *testing.T) {
	reserve := func(d *jobdir.Dir) error { return d.Reserve(jobdir.FileUsage, 100) }
	for name, c := range map[string]struct {
		wrote     func(*jobdir.Dir) error
		destroyed bool
		ran       bool
	}{
		"nothing written":          {func(*jobdir.Dir) error { return nil }, true, false},
		"about to start":           {reserve, true, true},
		"process id":               {func(d *jobdir.Dir) error { return d.WriteNumber(jobdir.FileJobPID, 1) }, true, true},
		"not started":              {func(d *jobdir.Dir) error { defer d.Release(jobdir.FileUsage); return reserve(d) }, true, false},
		"shepherd ended by itself": {reserve, false, false},
	} {
		d, err := jobdir.OpenDir(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if err := c.wrote(d); err != nil {
			t.Fatal(err)
		}
		o := &job.Outcome{}
		explainEnd(&launch.Job{Dir: d}, o, c.destroyed)
		if o.Ran != c.ran || strings.Contains(o.Reason, "by signal KILL") != c.ran {
			t.Errorf("%s: %+v", name, o)
		}
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
}
