// Package requests translates submitted requests into the form that the scheduler matches. Masters
// use it, and agents to check the jobs that a master sends. It does not use the configuration:
// scheduler.Model.Category reports requested objects that do not exist.
//
// Other projects may import this package: docs/compatibility.md says what may change.
//
// The package is pure, and its functions may be called from any goroutine.
package requests

import (
	"strings"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/submit"
)

// Of returns the requests of a job. project is that of the job, which may have one by default
// (user(5)); that of the request does not count.
func Of(owner, group, project string, r *submit.Request) *scheduler.Requests {
	q := &scheduler.Requests{
		User: owner, Group: group, Project: project, Checkpoint: r.Checkpoint,
		Immediate: r.Immediate, Reservation: uint32(r.Reservation), MasterQueues: strings.Join(r.MasterQueues, ","),
	}
	for _, l := range r.Resources {
		to := &q.Hard
		if l.Soft {
			to = &q.Soft
		}
		*to = append(*to, qconf.Setting{Name: l.Name, Value: l.Value})
	}
	q.Queues, q.SoftQueues = joinQueues(r.Queues)
	if r.PE != nil {
		q.PE, q.Slots = r.PE.Name, Slots(r.PE.Ranges)
	}
	if r.Binding != nil {
		q.Binding = Binding(r.Binding)
	}
	return q
}

func joinQueues(list []submit.QueueRequest) (hard, soft string) {
	var references [2][]string // hard and soft ones
	for _, q := range list {
		to := &references[0]
		if q.Soft {
			to = &references[1]
		}
		*to = append(*to, q.Reference)
	}
	return strings.Join(references[0], ","), strings.Join(references[1], ",")
}

// Slots returns the numbers of slots of -pe, none if 0 is among them.
func Slots(ranges []submit.SlotRange) rangelist.List {
	stretches := make([]rangelist.Stretch, len(ranges))
	for i, r := range ranges {
		stretches[i] = rangelist.Stretch{First: r.Min, Last: r.Max}
	}
	all, err := rangelist.OfStretches(stretches)
	if err != nil {
		return rangelist.List{}
	}
	return all
}

// Binding converts -binding (qsub(1)) to the scheduler's form.
func Binding(b *submit.Binding) binding.Request {
	r := binding.Request{
		Instance: map[submit.BindingInstance]binding.Instance{submit.BindEnv: binding.Env, submit.BindPE: binding.PE}[b.Instance],
		Strategy: map[submit.BindingStrategy]binding.Strategy{
			submit.Linear: binding.Linear, submit.Striding: binding.Striding, submit.Explicit: binding.Explicit,
		}[b.Strategy],
		Amount: b.Amount, Step: b.Step, Slots: b.Strategy == submit.Linear && b.Amount == 0,
	}
	if b.Start != nil {
		r.HasStart, r.Socket, r.Core = true, b.Start.Socket, b.Start.Core
	}
	for _, c := range b.Cores {
		r.Pairs = append(r.Pairs, topology.Pair{Socket: c.Socket, Core: c.Core})
	}
	return r
}
