package command

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/value"
	"github.com/execd-project/execd/submit"
)

// offer is what queue instances are asked for: -l of qstat, qselect and qhost.
type offer struct {
	call     *call
	requests scheduler.Requests
	// slots is how many slots there must be; jobs ask for them by -pe.
	slots float64
}

// typeWords are the types of values in the words of messages.
var typeWords = map[value.Type]string{value.Int: "integer", value.Double: "double", value.Memory: "memory", value.Time: "time", value.Bool: "boolean"}

// offer reads the values of -l. ok is false, and problem says why, where a resource is
// unknown or a value is none of its type.
func (x *call) offer(texts []string) (o *offer, problem string, ok bool) {
	o = &offer{call: x, requests: scheduler.Requests{User: x.in.By.User, Group: x.in.By.Group}}
	for _, text := range texts {
		for _, item := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(", \t", r) }) {
			name, text, given := strings.Cut(item, "=")
			if !given {
				text = "TRUE"
			}
			c, ok := x.cell.Cluster().Complexes().Find(name)
			if !ok {
				return nil, fmt.Sprintf("unknown resource %q", name), false
			}
			id, ok := x.cell.Model().Attribute(c.Name)
			if !ok {
				return nil, fmt.Sprintf("unknown resource %q", name), false
			}
			kind := x.cell.Model().Attributes()[id].Type
			v, err := value.Parse(kind, text)
			if err != nil && typeWords[kind] != "" {
				return nil, fmt.Sprintf("attribute %q is not a %s value", c.Name, typeWords[kind]), false
			}
			if c.Name == "slots" {
				o.slots = v.Number()
				continue
			}
			o.requests.Hard = append(o.requests.Hard, qconf.Setting{Name: c.Name, Value: text})
		}
	}
	return o, "", true
}

// hostResources are the resources of hosts, and of the cluster.
type hostResources struct {
	global []qstat.Resource
	hosts  map[string][]qstat.Host // by their short names in lower case
}

func resourcesOfHosts(v *view.View) *hostResources {
	all := &hostResources{hosts: map[string][]qstat.Host{}}
	for _, h := range v.Hosts(nil) {
		if h.Name == qconf.GlobalHost {
			all.global = h.Resources
			continue
		}
		short := strings.ToLower(qconf.ShortName(h.Name))
		all.hosts[short] = append(all.hosts[short], h)
	}
	return all
}

// of are the values by their names.
func (all *hostResources) of(host string) map[string]string {
	resources := map[string]string{"hostname": host}
	add := func(list []qstat.Resource) {
		for _, r := range list {
			resources[r.Name] = r.Value
		}
	}
	add(all.global)
	for _, h := range all.hosts[strings.ToLower(qconf.ShortName(host))] {
		if qconf.SameHost(h.Name, host) {
			add(h.Resources)
		}
	}
	return resources
}

// hasHost reports whether a host offers what is asked for: it has the resources itself, or
// the cluster has them, and not only one of its queues.
func (o *offer) hasHost(all *hostResources, host string) bool {
	resources := all.of(host)
	if o.slots > 0 {
		slots, err := strconv.ParseFloat(resources["slots"], 64)
		if err != nil || slots < o.slots {
			return false
		}
	}
	if slices.ContainsFunc(o.requests.Hard, func(s qconf.Setting) bool { _, ok := resources[s.Name]; return !ok }) {
		return false
	}
	r := o.requests
	r.Queues = "*@" + strings.ToLower(host)
	return o.call.suits(&r)
}

// has reports whether a queue instance offers what is asked for, whatever is used of it at
// the moment and whatever its load.
func (o *offer) has(instance string) bool {
	queue, host, _ := strings.Cut(instance, "@")
	m := o.call.cell.Model()
	if id, ok := m.Instance(queue, host); !ok || float64(m.Settings(id).Slots) < o.slots {
		return false
	}
	r := o.requests
	r.Queues = instance
	return o.call.suits(&r)
}

// suits reports whether something could run in the cluster if it was empty.
func (x *call) suits(r *scheduler.Requests) bool {
	category, err := x.cell.Model().Category(r)
	if err != nil {
		return false
	}
	one, err := rangelist.Of(1, 1, 1)
	if err != nil {
		return false
	}
	_, ok := x.cell.State().Verify(&scheduler.Job{Category: category, Tasks: one}, scheduler.EmptyCluster, x.now)
	return ok
}

// mightRun reports whether a job that waits might run in one of some queue instances.
func (x *call) mightRun(j *cell.Job, instances map[string]bool) bool {
	base := *j.Scheduled().Category.Requests()
	base.PE, base.Slots, base.Reservation, base.MasterQueues = "", rangelist.List{}, 0, ""
	m := x.cell.Model()
	for i := range m.Instances() {
		name := m.InstanceName(scheduler.InstanceID(i))
		queue, host, _ := strings.Cut(name, "@")
		if !instances[name] || !x.refersTo(j.Request().Queues, queue, host) {
			continue
		}
		r := base
		r.Queues = name
		if x.suits(&r) {
			return true
		}
	}
	return false
}

// refersTo reports whether the hard queue requests of a job mean a queue instance; none
// mean all.
func (x *call) refersTo(queues []submit.QueueRequest, queue, host string) bool {
	limited := false
	for _, q := range queues {
		if q.Soft {
			continue
		}
		limited = true
		if r, err := compileQueue(x, q.Reference); err == nil && r.Match(queue, host, x.hostGroups) {
			return true
		}
	}
	return !limited
}
