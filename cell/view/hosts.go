package view

import (
	"math"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/value"
)

// Hosts returns the host global and the execution hosts, with resources as qhost -F shows
// them.
func (v *View) Hosts(s Selection) []qstat.Host {
	list := []qstat.Host{v.hostView(scheduler.GlobalHost, qconf.GlobalHost, s)}
	for i := range v.model.Hosts() {
		id := scheduler.HostID(i)
		list = append(list, v.hostView(id, v.model.HostName(id), s))
	}
	return list
}

func (v *View) hostView(id scheduler.HostID, name string, s Selection) qstat.Host {
	h := qstat.Host{Name: name}
	if id != scheduler.GlobalHost {
		if x, ok := v.load(id, "arch"); ok {
			h.Arch = x.String()
		}
		for name, to := range map[string]**int{"num_proc": &h.Processors, "m_socket": &h.Sockets, "m_core": &h.Cores, "m_thread": &h.Threads} {
			*to = v.whole(id, name)
		}
		for name, to := range map[string]**float64{
			"load_avg": &h.Load, "mem_total": &h.MemoryTotal, "mem_used": &h.MemoryUsed, "swap_total": &h.SwapTotal, "swap_used": &h.SwapUsed,
		} {
			if x, ok := v.load(id, name); ok {
				n := x.Number()
				*to = &n
			}
		}
	}
	for _, r := range v.observe().Host(id) {
		if s.has(v.attribute(r.Attribute)) {
			h.Resources = append(h.Resources, v.resource(&r, value.QHost))
		}
	}
	return h
}

// whole returns a load value that is a whole number, nil if it is not reported.
func (v *View) whole(id scheduler.HostID, name string) *int {
	x, ok := v.load(id, name)
	if !ok || math.Abs(x.Number()) > math.MaxInt32 {
		return nil
	}
	n := int(x.Number())
	return &n
}
