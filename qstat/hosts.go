package qstat

import (
	"strconv"
	"time"
)

// HostOptions are what qhost is asked for (qhost(1)).
type HostOptions struct {
	Resources bool // -F: the Resources of the hosts
	// Selected says that -F named the resources that are wanted.
	Selected bool
	Queues   bool // -q
	Jobs     bool // -j
	// NoTopology is -ncb: no columns for sockets, cores and threads.
	NoTopology bool
	Zone       *time.Location // of dates; nil is UTC
}

// AppendHosts appends what qhost prints: the hosts, each with its queue instances and
// the jobs there, in the order in which they are given.
func (c *Cell) AppendHosts(dst []byte, o HostOptions) []byte {
	if len(c.Hosts) == 0 {
		return dst
	}
	v := c.hostView(o)
	dst = append(dst, "HOSTNAME                ARCH         NCPU "...)
	rule := 94
	if o.NoTopology {
		rule = 79
	} else {
		dst = append(dst, "NSOC NCOR NTHR "...)
	}
	dst = append(dst, " LOAD  MEMTOT  MEMUSE  SWAPTO  SWAPUS\n"...)
	dst = append(appendRepeated(dst, '-', rule), '\n')
	for i := range c.Hosts {
		h := &c.Hosts[i]
		dst = h.append(dst, o)
		dst = h.appendResources(dst, o)
		for _, q := range v.queues[h.Name] {
			dst = v.appendQueue(dst, q)
		}
	}
	return dst
}

// hostView is what qhost needs to find.
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

func (v *hostView) appendQueue(dst []byte, q *QueueInstance) []byte {
	if v.Queues {
		dst = append(appendLeft(append(dst, "   "...), q.Queue, 20), ' ')
		dst = append(appendLeft(dst, q.kind(), 5), ' ')
		dst = append(append(q.appendSlots(dst, q.ReservedMax), q.State...), '\n')
	}
	if !v.Jobs {
		return dst
	}
	v.jobs.eachAt(q.Name(), func(r *row) {
		if !v.Queues && !v.list.headed {
			dst = append(dst, "   job-ID  prior   name       user         state submit/start at     queue      master ja-task-ID \n"...)
			dst = append(appendRepeated(append(dst, "   "...), '-', 94), '\n')
			v.list.headed = true
		}
		dst = v.list.appendRow(append(dst, "   "...), r)
	})
	return dst
}

func (h *Host) append(dst []byte, o HostOptions) []byte {
	arch := h.Arch
	if arch == "" {
		arch = "-"
	}
	dst = append(appendLeft(dst, h.Name, 23), ' ')
	dst = append(appendLeft(dst, arch, 12), ' ')
	dst = appendRight(dst, number(h.Processors), 4)
	if !o.NoTopology {
		for _, n := range []*int{h.Sockets, h.Cores, h.Threads} {
			dst = appendRight(append(dst, ' '), number(n), 4)
		}
	}
	dst = appendRight(append(dst, ' '), h.load(), 5)
	for _, s := range h.sizes() {
		dst = appendRight(append(dst, ' '), size(s), 7)
	}
	return append(dst, '\n')
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

// size is bytes with one decimal and the largest letter that leaves at least 1.
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

func (h *Host) appendResources(dst []byte, o HostOptions) []byte {
	if !o.Resources {
		return dst
	}
	for i, r := range h.Resources {
		indent := "   "
		if i == 0 && o.Selected {
			indent = "    Host Resource(s):      "
		}
		dst = append(r.append(append(dst, indent...)), '\n')
	}
	return dst
}
