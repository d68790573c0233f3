package gpu

import (
	"fmt"
	"slices"
	"strings"
)

// settle decides for each GPU whether it is offered as a whole or as its MIG instances, and gives the instances their
// numbers.
//
// An administrator may divide a GPU, or unite it, while a job has it and does not use it at that moment. Then neither
// form is offered until no job has the earlier one: otherwise two jobs would have the same hardware. first says that
// this register has not offered any GPU yet, and pass that no job is being started with what it offered before the
// last look: only then is inUse complete.
func (r *Register) settle(v *Inventory, list []known, first, pass bool) {
	reasons := map[string]string{}
	for i := range v.GPUs {
		g := &v.GPUs[i]
		j := slices.IndexFunc(list, func(k known) bool { return k.id == g.Number })
		if j < 0 || g.Broken || list[j].divided == g.Divided {
			delete(r.changes, g.Number)
			continue
		}
		ready := first || pass && r.changes[g.Number]
		r.changes[g.Number] = true
		if why := r.blocked(&list[j], ready); why != "" {
			g.ID, g.Problem, reasons[g.Number] = "", why, why
			continue
		}
		list[j].divided = g.Divided
		delete(r.changes, g.Number)
	}
	whole := &GPU{}
	for i := range v.GPUs {
		g := &v.GPUs[i]
		if g.Instance == "" {
			whole = g
			continue
		}
		j := slices.IndexFunc(list, func(k known) bool { return k.id == whole.Number })
		if j < 0 {
			continue
		}
		g.Number = whole.Number + "." + g.Instance
		list[j].name(g, first)
		switch why := reasons[whole.Number]; {
		case why != "":
			g.Problem = why
		case g.offerable() && g.UUID != "":
			g.ID = g.Number
		}
	}
}

// blocked says why a GPU cannot be offered in another form than before; empty if it can.
func (r *Register) blocked(k *known, ready bool) string {
	does := "it was divided into MIG instances, which are offered"
	if k.divided {
		does = "it has no MIG instances any more, and is offered"
	}
	if !ready {
		return does + " after the next check of GPUs"
	}
	if r.inUse == nil {
		return ""
	}
	ids, err := r.inUse(r.file)
	if err != nil {
		return fmt.Sprintf("%s when it is known which GPUs jobs have: %v", does, err)
	}
	ids = slices.DeleteFunc(ids, func(id string) bool {
		whole, instance := splitNumber(id)
		return whole != k.id || (instance != "") != k.divided
	})
	if len(ids) > 0 {
		return does + " when no job has GPU " + strings.Join(ids, ", ") + " any more"
	}
	return ""
}

// name gives a MIG instance the values that nvidia-smi has told of it, now or earlier. The stamp of an instance changes if
// it was destroyed and made again, but also if the kernel was short of memory: its values stay until nvidia-smi
// answers, except for those from an earlier daemon, which has perhaps run before the last start of the host.
func (k *known) name(g *GPU, first bool) {
	i := k.find(g.Instance)
	if i == nil {
		k.instances = append(k.instances, knownInstance{name: g.Instance, stamp: g.stamp})
		i = &k.instances[len(k.instances)-1]
	}
	switch {
	case g.UUID != "":
		i.uuid, i.profile, i.memory, i.stamp = g.UUID, g.profile, g.Memory, g.stamp
	case first && i.stamp != g.stamp:
		*i = knownInstance{name: g.Instance, stamp: g.stamp}
	default:
		g.UUID, g.profile, g.Memory = i.uuid, i.profile, i.memory
		g.outdated = i.stamp != g.stamp
	}
	if g.profile != "" {
		model, _ := strings.CutSuffix(" "+g.Model, unnamed+g.Instance)
		g.Model = strings.TrimSpace(model + " MIG " + g.profile)
	}
}
