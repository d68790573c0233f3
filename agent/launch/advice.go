package launch

import (
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/quantity"
)

// advice returns a suggestion for the next request after a job has run out of memory; empty for
// other jobs. The job was stopped at its limit, so what it needs is not known: the advice is half
// as much again.
func advice(o *job.Outcome, d *job.Description) string {
	if o.Limit == nil || o.Failed != job.FailedLimit {
		return ""
	}
	var of job.Limit
	switch o.Limit.Name {
	case d.VmemName(), hardName(job.Vmem):
		of = d.Limits[job.Vmem]
	case hardName(job.RSS):
		of = d.Limits[job.RSS]
	default:
		return ""
	}
	slots, each := uint64(max(d.HostSlots, 1)), ""
	switch {
	case of.HardPerJob:
		slots = 1
	case slots > 1:
		each = " for each slot"
	}
	limit := uint64(o.Limit.Value) / slots
	return "; next time request more" + each + ", for example -l " + o.Limit.Name + "=" + quantity.FormatMemory(quantity.RoundMemory(limit+limit/2))
}

func hardName(r job.Resource) string { return "h_" + r.String() }
