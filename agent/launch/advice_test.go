package launch

import (
	"testing"

	"github.com/execd-project/execd/job"
)

func TestAdvice(t *testing.T) {
	const gib = 1 << 30
	d := func(vmem job.Limit, slots int, name string) *job.Description {
		d := &job.Description{HostSlots: slots, VmemComplex: name}
		d.Limits[job.Vmem], d.Limits[job.RSS] = vmem, job.Limit{Hard: gib}
		return d
	}
	for name, c := range map[string]struct {
		d      *job.Description
		limit  *job.LimitExceeded
		failed job.Failed
		want   string
	}{
		"h_vmem":          {d(job.Limit{Hard: gib}, 0, ""), &job.LimitExceeded{Name: "h_vmem", Value: gib}, job.FailedLimit, "; next time request more, for example -l h_vmem=1536M"},
		"another request": {d(job.Limit{Hard: gib}, 1, "mem_free"), &job.LimitExceeded{Name: "mem_free", Value: gib}, job.FailedLimit, "; next time request more, for example -l mem_free=1536M"},
		"of several slots": {
			d(job.Limit{Hard: gib}, 4, "mem_free"), &job.LimitExceeded{Name: "mem_free", Value: 4 * gib}, job.FailedLimit,
			"; next time request more for each slot, for example -l mem_free=1536M",
		},
		"of the whole job": {d(job.Limit{Hard: 4 * gib, HardPerJob: true}, 4, ""), &job.LimitExceeded{Name: "h_vmem", Value: 4 * gib}, job.FailedLimit, "; next time request more, for example -l h_vmem=6G"},
		"h_rss":            {d(job.Limit{Hard: gib}, 1, ""), &job.LimitExceeded{Name: "h_rss", Value: gib}, job.FailedLimit, "; next time request more, for example -l h_rss=1536M"},
		"time":             {d(job.Limit{}, 1, ""), &job.LimitExceeded{Name: "h_rt", Value: 60}, job.FailedLimit, ""},
		"no limit":         {d(job.Limit{}, 1, ""), nil, job.FailedAfterJob, ""},
	} {
		if got := advice(&job.Outcome{Limit: c.limit, Failed: c.failed}, c.d); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
