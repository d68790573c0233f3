package cell

import (
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/submit"
)

// bindingOf is -binding (qsub(1)) as the scheduler reads it.
func bindingOf(b *submit.Binding) binding.Request {
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
