package loadsensor

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// Key identifies a load value by host and name.
type Key struct {
	Host string `json:"host"` // "global" for the whole cluster
	Name string `json:"name"`
}

// CompareKeys orders keys by host, then by name.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name))
}

// Value is one load value.
type Value struct {
	Key
	Text   string    `json:"value"`
	Static bool      `json:"static,omitempty"` // see load_parameters(5); it is shown for hosts that are down
	At     time.Time `json:"at"`               // time of the measurement
	Source string    `json:"source,omitempty"` // path of the load sensor; empty for a built-in value
}

// Report holds the load values of a host at one time.
type Report struct {
	Number uint64    `json:"number"` // the first is 1; for Ack
	Time   time.Time `json:"time"`
	Host   string    `json:"host"`
	// Full is true if Values contains all values: the master removes all others.
	Full    bool    `json:"full"`
	Values  []Value `json:"values"`            // sorted by host, then by name
	Removed []Key   `json:"removed,omitempty"` // in the same order; not in a full report
}

// book records the values that the reader of the reports has.
type book struct {
	number uint64
	sent   map[Key]Value // by the last report
	known  map[Key]Value // acknowledged; nil for none
	acked  uint64
	// doubtful holds the keys of values in the reports since then. These may have arrived or not,
	// so the next report repeats the values even if they have not changed.
	doubtful map[Key]bool
}

// report makes the next report.
func (b *book) report(host string, now time.Time, values map[Key]Value) Report {
	b.number++
	b.sent = values
	r := Report{Number: b.number, Time: now, Host: host, Full: b.known == nil, Values: []Value{}}
	for k, v := range values {
		if old, ok := b.known[k]; !ok || old.Text != v.Text || old.Static != v.Static || b.doubtful[k] {
			r.Values = append(r.Values, v)
		}
	}
	for k := range b.known {
		if _, ok := values[k]; !ok {
			r.Removed = append(r.Removed, k)
		}
	}
	if !r.Full {
		for k := range b.doubtful {
			_, have := values[k]
			_, had := b.known[k]
			if !have && !had {
				r.Removed = append(r.Removed, k)
			}
		}
		b.doubt(r)
	}
	slices.SortFunc(r.Values, func(x, y Value) int { return CompareKeys(x.Key, y.Key) })
	slices.SortFunc(r.Removed, CompareKeys)
	return r
}

func (b *book) doubt(r Report) {
	if b.doubtful == nil {
		b.doubtful = map[Key]bool{}
	}
	for _, v := range r.Values {
		b.doubtful[v.Key] = true
	}
	for _, k := range r.Removed {
		b.doubtful[k] = true
	}
}

// ack records an acknowledgement. It ignores one for an older report than the last: the next report
// contains all changes since.
func (b *book) ack(number uint64) {
	if number == b.number && number != 0 && b.sent != nil {
		b.known, b.acked, b.doubtful = b.sent, number, nil
	}
}

// forget makes the next report a full one, whatever was acknowledged before.
func (b *book) forget() { b.known, b.sent, b.doubtful = nil, nil, nil }

func sorted(values map[Key]Value) []Value {
	return slices.SortedFunc(maps.Values(values), func(x, y Value) int { return CompareKeys(x.Key, y.Key) })
}
