package qstat

import (
	"cmp"
	"strconv"
	"time"
)

// HostOptions are the options of qhost (qhost(1)).
type HostOptions struct {
	Resources bool // -F: the Resources of the hosts
	// Selected says that -F named the resources to show.
	Selected bool
	Queues   bool // -q
	Jobs     bool // -j
	// NoTopology is -ncb: no columns for sockets, cores and threads.
	NoTopology bool
	Zone       *time.Location // of dates; nil is UTC
}

// AppendHosts appends the output of qhost: the hosts, each with its queue instances and their jobs,
// in the given order.
func (c *Cell) AppendHosts(dst []byte, o HostOptions) []byte {
	if len(c.Hosts) == 0 {
		return dst
	}
	v := c.hostView(o)
	p := &v.list.page
	p.text = dst
	p.put("HOSTNAME                ARCH         NCPU ")
	rule := 94
	if o.NoTopology {
		rule = 79
	} else {
		p.put("NSOC NCOR NTHR ")
	}
	p.put(" LOAD  MEMTOT  MEMUSE  SWAPTO  SWAPUS\n")
	p.rule('-', rule)
	p.end()
	for i := range c.Hosts {
		h := &c.Hosts[i]
		p.hostLine(h, o)
		p.hostResources(h, o)
		for _, q := range v.queues[h.Name] {
			v.queue(q)
		}
	}
	return p.text
}

// hostView is an index of the data for qhost.
type hostView struct {
	HostOptions
	list   lister
	jobs   *sections
	queues map[string][]*QueueInstance // by host, in the order in which they are given
}

func (c *Cell) hostView(o HostOptions) *hostView {
	rows := Options{EachSlot: true, Zone: o.Zone}
	v := &hostView{HostOptions: o, list: lister{Options: rows, zone: rows.zone(), width: minQueueWidth}}
	if !o.Queues && !o.Jobs {
		return v
	}
	v.queues = make(map[string][]*QueueInstance, len(c.Hosts))
	for i := range c.Queues {
		q := &c.Queues[i]
		v.queues[q.Host] = append(v.queues[q.Host], q)
	}
	if o.Jobs {
		v.jobs = c.sections(rows)
		// With -q the line of the instance is above, and names it.
		v.list.Full = o.Queues
	}
	return v
}

func (v *hostView) queue(q *QueueInstance) {
	p := &v.list.page
	if v.Queues {
		p.put("   ")
		p.left(q.Queue, 20)
		p.space()
		p.left(q.kind(), 5)
		p.space()
		p.slots(q, q.ReservedMax)
		p.line(q.State)
	}
	if !v.Jobs {
		return
	}
	v.jobs.eachAt(q.Name(), func(r *row) {
		if !v.Queues && !v.list.headed {
			p.put("   job-ID  prior   name       user         state submit/start at     queue      master ja-task-ID \n")
			p.put("   ")
			p.rule('-', 94)
			p.end()
			v.list.headed = true
		}
		p.put("   ")
		v.list.row(r)
	})
}

func (p *page) hostLine(h *Host, o HostOptions) {
	p.left(h.Name, 23)
	p.space()
	p.left(cmp.Or(h.Arch, "-"), 12)
	p.space()
	p.right(number(h.Processors), 4)
	if !o.NoTopology {
		for _, n := range []*int{h.Sockets, h.Cores, h.Threads} {
			p.space()
			p.right(number(n), 4)
		}
	}
	p.space()
	p.right(h.load(), 5)
	for _, s := range h.sizes() {
		p.space()
		p.right(size(s), 7)
	}
	p.end()
}

func (h *Host) load() string {
	if h.Load == nil {
		return "-"
	}
	return strconv.FormatFloat(*h.Load, 'f', 2, 64)
}

func (h *Host) sizes() [4]*float64 {
	return [...]*float64{h.MemoryTotal, h.MemoryUsed, h.SwapTotal, h.SwapUsed}
}

func number(n *int) string {
	if n == nil {
		return "-"
	}
	return strconv.Itoa(*n)
}

// size returns bytes with one decimal and the largest letter that leaves at least 1.
func size(bytes *float64) string {
	if bytes == nil {
		return "-"
	}
	v, letter := scaled(*bytes)
	return strconv.FormatFloat(v, 'f', 1, 64) + letter
}

var sizes = [...]struct {
	letter string
	size   float64
}{{"T", 1 << 40}, {"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}}

func scaled(bytes float64) (v float64, letter string) {
	for _, s := range sizes {
		if bytes >= s.size {
			return bytes / s.size, s.letter
		}
	}
	return bytes, ""
}

func (p *page) hostResources(h *Host, o HostOptions) {
	if !o.Resources {
		return
	}
	for i, r := range h.Resources {
		if i == 0 && o.Selected {
			p.put("    Host Resource(s):      ")
		} else {
			p.put("   ")
		}
		p.resource(r)
		p.end()
	}
}
