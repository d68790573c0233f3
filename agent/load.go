package agent

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/execd-project/execd/loadsensor"
	"github.com/execd-project/execd/qconf"
)

// loadBook contains the last load values, each with the number of the first report that had it. Its
// lock may be taken while the lock of the table is held. A goroutine that changes the book must hold the
// lock of the table, because numbers of reports are assigned under that lock.
type loadBook struct {
	mu      sync.Mutex
	values  map[loadsensor.Key]numbered // nil until the first report
	removed map[loadsensor.Key]uint64
	time    time.Time
	number  uint64 // of the last change
	full    uint64 // the next report after one with a number up to this is a full one
}

type numbered struct {
	value  loadsensor.Value
	number uint64
}

// collect takes the reports of load values.
func (a *Agent) collect(ctx context.Context) {
	for {
		select {
		case r, ok := <-a.options.Load.Reports():
			if !ok {
				return
			}
			a.takeLoad(r)
			a.options.Load.Ack(r.Number)
			a.lookAtUsage()
		case <-ctx.Done():
			return
		}
	}
}

func (a *Agent) takeLoad(r loadsensor.Report) {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.load.take(r, a.table.numbers.next())
	a.setLoad()
	a.table.changes()
}

// FullReport makes the next report of load values contain all of them.
func (a *Agent) FullReport() {
	a.table.mu.Lock()
	defer a.table.mu.Unlock()
	a.load.reportAll(a.load.last())
	if a.load.known() {
		a.load.renew(a.table.numbers.next())
		a.table.changes()
	}
	if a.options.Load != nil {
		a.options.Load.Now()
	}
}

// take adds a report of the collector under the number of a report to masters.
func (b *loadBook) take(r loadsensor.Report, number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values == nil {
		b.values, b.removed = map[loadsensor.Key]numbered{}, map[loadsensor.Key]uint64{}
	}
	b.time, b.number = r.Time, number
	if r.Full {
		for k := range b.values {
			b.removed[k] = number
		}
		clear(b.values)
	}
	for _, k := range r.Removed {
		delete(b.values, k)
		b.removed[k] = number
	}
	for _, v := range r.Values {
		b.values[v.Key] = numbered{v, number}
		delete(b.removed, v.Key)
	}
}

// reportAll makes the next report after one with a number up to this a full one.
func (b *loadBook) reportAll(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.full = number
}

// renew assigns a new number to the values, so that masters get a report.
func (b *loadBook) renew(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.number = number
}

// last returns the number of the last change; 0 for none.
func (b *loadBook) last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.number
}

// known reports whether the collector has reported.
func (b *loadBook) known() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.values != nil
}

// ofHost returns the values of a host by name.
func (b *loadBook) ofHost(host string) map[string]string {
	b.mu.Lock()
	defer b.mu.Unlock()
	values := map[string]string{}
	for k, v := range b.values {
		if qconf.SameHost(k.Host, host) {
			values[k.Name] = v.value.Text
		}
	}
	return values
}

// since returns the changes since the report with number after. It returns nil if there are none, or if
// the last one has a number above limit.
func (b *loadBook) since(after, limit uint64) *LoadReport {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.values == nil || b.number <= after || b.number > limit { // nothing, or nothing new
		return nil
	}
	r := &LoadReport{Number: b.number, Time: b.time, Full: after <= b.full}
	for _, v := range b.values {
		if r.Full || v.number > after {
			r.Values = append(r.Values, v.value)
		}
	}
	if !r.Full {
		for k, n := range b.removed {
			if n > after {
				r.Removed = append(r.Removed, k)
			}
		}
	}
	slices.SortFunc(r.Values, func(x, y loadsensor.Value) int { return loadsensor.CompareKeys(x.Key, y.Key) })
	slices.SortFunc(r.Removed, loadsensor.CompareKeys)
	return r
}
