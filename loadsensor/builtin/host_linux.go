package builtin

import (
	"context"
	"errors"
	"fmt"

	"github.com/shirou/gopsutil/v3/common"
	"github.com/shirou/gopsutil/v3/cpu"
	"github.com/shirou/gopsutil/v3/load"
	"github.com/shirou/gopsutil/v3/mem"

	"github.com/execd-project/execd/internal/oslite"
)

// host reads the values of this host from gopsutil. No other file imports gopsutil.
type host struct {
	ctx    context.Context
	online oslite.Kept // the file that lists the online processors of this host; no path for none

	of    string // content of that file at the last count
	count int
}

// newHost returns a host that reads from directory proc; empty for /proc.
func newHost(proc string) host {
	if proc != "" {
		return host{ctx: context.WithValue(context.Background(), common.EnvKey, common.EnvMap{common.HostProcEnvKey: proc})}
	}
	return host{ctx: context.Background(), online: oslite.Kept{Path: "/sys/devices/system/cpu/online"}}
}

func (h *host) load() (short, medium, long float64, err error) {
	avg, err := load.AvgWithContext(h.ctx)
	if err != nil {
		return 0, 0, 0, err
	}
	return avg.Load1, avg.Load5, avg.Load15, nil
}

// processors returns the number of processors that are online. It counts them again only after a
// change, because the kernel writes a page about each of them, which took a seventh of the time of
// a report.
func (h *host) processors() (int, error) {
	of := ""
	if h.online.Path != "" {
		if b, err := h.online.Read(); err == nil {
			of = string(b)
		}
	}
	if of != "" && of == h.of {
		return h.count, nil
	}
	n, err := cpu.CountsWithContext(h.ctx, true)
	if err == nil && n <= 0 {
		err = errors.New("no processor is listed")
	}
	if err == nil {
		h.of, h.count = of, n
	}
	return n, err
}

// memory holds amounts in bytes.
type memory struct{ total, free, available, swapTotal, swapFree uint64 }

func (h *host) memory() (memory, error) {
	v, err := mem.VirtualMemoryWithContext(h.ctx)
	if err != nil {
		return memory{}, err
	}
	// gopsutil returns 0 for missing lines.
	if v.Total == 0 || v.Total < v.Free {
		return memory{}, fmt.Errorf("MemTotal is %d and MemFree %d bytes", v.Total, v.Free)
	}
	// gopsutil includes reclaimable slabs in cached memory, as free(1) does. The original uses only
	// the line Cached of /proc/meminfo.
	m := memory{
		total: v.Total, free: v.Free + v.Buffers + v.Cached - v.Sreclaimable, available: v.Available,
		swapTotal: v.SwapTotal, swapFree: v.SwapFree,
	}
	if m.free > m.total {
		return memory{}, fmt.Errorf("%d of %d bytes are free", m.free, m.total)
	}
	if m.swapFree > m.swapTotal {
		return memory{}, fmt.Errorf("%d of %d bytes of swap are free", m.swapFree, m.swapTotal)
	}
	return m, nil
}

// cpuTime is the time that all processors together were busy and idle since the host started, in
// seconds. Like the original it excludes waiting for I/O, interrupts, and time stolen by a
// hypervisor.
type cpuTime struct{ busy, idle float64 }

func (h *host) cpuTime() (cpuTime, error) {
	times, err := cpu.TimesWithContext(h.ctx, false)
	if err == nil && len(times) == 0 {
		err = errors.New("there is no line for all processors")
	}
	if err != nil {
		return cpuTime{}, err
	}
	t := times[0]
	return cpuTime{busy: t.User + t.Nice + t.System, idle: t.Idle}, nil
}
