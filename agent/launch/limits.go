package launch

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/quantity"
	"github.com/execd-project/execd/submit"
)

// limits merges the limits of the queue with the requests of the job: the lower value counts
// (queue_conf(5), RESOURCE LIMITS). A request of a complex with "consumable JOB" is for the whole
// job, regardless of its slots (complex(5)). The default of a complex is used up by jobs without a
// request, but limits nothing.
func (o *Assignment) limits() job.Limits {
	l := o.withParams(o.Queue.Limits)
	requests, _ := o.limitRequests() // Resolve has checked the error
	for _, want := range requests {
		merge(&l[want.Resource], want)
	}
	if v := o.BookedMemory; v > 0 && v < l[job.Vmem].Hard {
		l[job.Vmem].Hard, l[job.Vmem].HardPerJob = v, false
	}
	// The supervisor counts nanoseconds in 64 bits: longer times are never reached.
	const forever = uint64(math.MaxInt64 / time.Second)
	for _, v := range []*uint64{&l[job.RT].Soft, &l[job.RT].Hard} {
		if *v >= forever {
			*v = quantity.Infinity
		}
	}
	return l
}

// vmemComplex returns the complex that the hard limit of memory comes from; empty for h_vmem.
func (o *Assignment) vmemComplex() string {
	booked := o.BookedMemory
	l := *o
	l.BookedMemory = 0
	if booked == 0 || o.BookedAs == "h_"+job.Vmem.String() || booked >= l.limits()[job.Vmem].Hard {
		return ""
	}
	return o.BookedAs
}

// procedureLimits returns the limits of the queue alone: with the requests of the job its user could
// have a procedure of the site fail.
func (o *Assignment) procedureLimits() *job.Limits {
	l := o.Queue.Limits
	if o.ProcedureLimits != nil {
		l = *o.ProcedureLimits
	}
	l = o.withParams(l)
	l[job.RT] = job.Unlimited()[job.RT]
	return &l
}

// withParams adds the limits of execd_params, which jobs cannot request.
func (o *Assignment) withParams(l job.Limits) job.Limits {
	for r, v := range o.Config.ExecdParams.Limits {
		switch job.Resource(r) {
		case job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks:
			l[r] = v
		}
	}
	return l
}

// merge lowers a limit to the request. The queue's value is for each slot, and at least as large as
// the request: checkLimits has refused larger ones.
func merge(l *job.Limit, want limitRequest) {
	value, perJob := &l.Soft, &l.SoftPerJob
	if want.Hard {
		value, perJob = &l.Hard, &l.HardPerJob
	}
	*value = min(*value, want.Value)
	*perJob = want.perJob
}

// limitRequest is a request for a limit, of one slot or of the whole job.
type limitRequest struct {
	submit.LimitRequest
	perJob bool
}

// limitRequests are the hard requests for limits, by their names and by the
// shortcuts that the complexes have for them.
func (o *Assignment) limitRequests() ([]limitRequest, error) {
	var list []limitRequest
	var errs []error
	for _, r := range o.Request.LimitRequests() {
		name := "s_"
		if r.Hard {
			name = "h_"
		}
		x, _ := o.Complexes.Find(name + r.Resource.String())
		list = append(list, limitRequest{r, x.Consumable == qconf.ConsumableJob})
	}
	for _, r := range o.Request.OtherRequests() {
		x, ok := o.Complexes.Find(r.Name)
		if !ok || r.Soft || x.Name == r.Name {
			continue
		}
		resource, hard, ok := job.ResourceNamed(x.Name)
		if !ok || resource > job.Vmem { // the limits of execd_params cannot be requested
			continue
		}
		value, err := resource.Parse(r.Value)
		if err != nil {
			errs = append(errs, fmt.Errorf("-l %s, which is %s: %w", r, x.Name, err))
			continue
		}
		list = append(list, limitRequest{submit.LimitRequest{Resource: resource, Hard: hard, Value: value}, x.Consumable == qconf.ConsumableJob})
	}
	return list, errors.Join(errs...)
}

// checkLimits refuses requests that exceed the limits of the queue. A master would leave such a job
// pending for another queue; here it would end at a lower limit than its user expects. A request
// for the whole job is compared with the queue's limit for a slot, as the master does.
func (o *Assignment) checkLimits() error {
	requests, err := o.limitRequests()
	errs := []error{err}
	for _, want := range requests {
		name, given := "s_", o.Queue.Limits[want.Resource].Soft
		if want.Hard {
			name, given = "h_", o.Queue.Limits[want.Resource].Hard
		}
		if want.Value > given {
			name += want.Resource.String()
			errs = append(errs, fmt.Errorf("-l %s=%s: queue %s gives its jobs at most %s=%s",
				name, want.Resource.Format(want.Value), o.Queue.Queue, name, want.Resource.Format(given)))
		}
	}
	return errors.Join(errs...)
}
