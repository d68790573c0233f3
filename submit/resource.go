package submit

import (
	"errors"
	"strconv"
	"strings"

	"github.com/execd-project/execd/job"
)

// ResourceRequest is a request for one resource of -l.
type ResourceRequest struct {
	Name  string
	Value string // "TRUE" if none was given
	Soft  bool   // after -soft: preferred, not required
}

// String returns name=value.
func (r ResourceRequest) String() string { return r.Name + "=" + r.Value }

// LimitRequest is a request for a limit on the job's resource usage.
type LimitRequest struct {
	Resource job.Resource
	Hard     bool   // h_, else s_
	Value    uint64 // in the unit of the resource; quantity.Infinity for none
}

// parseResources reads the value of -l: name[=value] separated by commas or blanks (sge_submit(1)).
// It checks the values of limits, except for a master. It cannot check other resources, whose types
// it does not know.
func parseResources(s string, soft, master bool) ([]ResourceRequest, error) {
	var requests ordered[resourceKey, ResourceRequest]
	for _, item := range splitList(s, ", \t") {
		name, value, given := strings.Cut(item, "=")
		if name == "" {
			return nil, errors.New(strconv.Quote(item) + " has no resource name")
		}
		if err := checkResourceName(name); err != nil {
			return nil, err
		}
		switch {
		case !given:
			value = "TRUE"
		case value == "" && !master:
			return nil, errors.New("denied: missing value for resource " + strconv.Quote(name))
		}
		if hasControl(value) {
			return nil, errors.New(name + ": the value " + strconv.Quote(value) + " has a control character")
		}
		if r, _, ok := limitNamed(name); ok && !master {
			if !given {
				return nil, errors.New("the limit " + name + " has no value")
			}
			if _, err := r.Parse(value); err != nil {
				return nil, errors.New(name + ": " + err.Error())
			}
		}
		addResource(&requests, ResourceRequest{Name: name, Value: value, Soft: soft})
	}
	list := requests.all()
	if len(list) == 0 {
		return nil, errors.New("no resource is named, expected name=value separated by commas")
	}
	return list, nil
}

// checkResourceName refuses an invalid name of a resource. "h_rt>" is the beginning of "h_rt>=5":
// -l has no operator but "=".
func checkResourceName(name string) error {
	if strings.ContainsAny(name, "<>!") {
		return errors.New(strconv.Quote(name) + " is not a resource name; requests have the form name=value")
	}
	if err := checkObject(name); err != nil {
		return errors.New("resource " + strconv.Quote(name) + ": " + err.Error())
	}
	return nil
}

// addResource appends a request and removes an earlier request for the same resource of the same
// kind. A hard and a soft request for one resource can exist together (tested).
func addResource(list *ordered[resourceKey, ResourceRequest], r ResourceRequest) {
	key := resourceKey{r.Name, r.Soft}
	list.remove(key)
	list.set(key, r)
}

// limitNamed does what job.ResourceNamed does, for the limits that a job can request. A job cannot
// request the limits of execd_params (descriptors, maxproc, memorylocked, locks).
func limitNamed(name string) (r job.Resource, hard, ok bool) {
	r, hard, ok = job.ResourceNamed(name)
	switch r {
	case job.Descriptors, job.MaxProc, job.MemoryLocked, job.Locks:
		ok = false
	}
	return r, hard, ok
}

// LimitRequests returns the hard requests for limits: s_ and h_ of rt, cpu, fsize, data, stack,
// core, rss and vmem. Soft requests do not limit a job.
func (r *Request) LimitRequests() []LimitRequest {
	var limits []LimitRequest
	for _, q := range r.Resources {
		resource, hard, ok := limitNamed(q.Name)
		if !ok || q.Soft {
			continue
		}
		// Parse has refused invalid values.
		if v, err := resource.Parse(q.Value); err == nil {
			limits = append(limits, LimitRequest{Resource: resource, Hard: hard, Value: v})
		}
	}
	return limits
}

// OtherRequests returns the requests that are not in LimitRequests.
func (r *Request) OtherRequests() []ResourceRequest {
	var others []ResourceRequest
	for _, q := range r.Resources {
		if _, _, ok := limitNamed(q.Name); !ok || q.Soft {
			others = append(others, q)
		}
	}
	return others
}
