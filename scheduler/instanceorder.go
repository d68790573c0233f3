package scheduler

import (
	"cmp"
	"iter"
	"math"
	"slices"

	"github.com/execd-project/execd/qconf"
)

// instanceOrder is the list of usable queue instances in the order in which they are tried: by the
// load of the host and by seq_no, according to queue_sort_method of sched_conf(5). Among equal
// ones, instances whose host has most recently got its present load in this run come first, and
// then the least recently modified ones: Grid Engine sorts its list again whenever the load of a
// host changes, and its sort is stable.
//
// A job that starts makes its host worse, so that its instances move back. They move from
// the sorted base to a second, short list; when that is long, both are merged.
type instanceOrder struct {
	bySeqno bool
	at      []position // by instance
	base    []InstanceID
	moved   []InstanceID
	count   int // of usable instances
	merges  int // number of times that the base was made again, which invalidates cursors into it
	stamp   int64
	tiers   bool // some instances have a tier
	tail    bool // some instances were restored at the end
	// full are dropped instances that only determine the order of hosts, in order: see linger.
	full []InstanceID
}

type position struct {
	load  float64
	seqno int32
	tier  int32 // the first criterion, see arrange; without tiers 0, or MaxInt32 for restored instances
	rank  int64 // among equals
	where whereabouts
	full  bool // it lingers
}

type whereabouts uint8

const (
	out whereabouts = iota
	inBase
	inMoved
)

// longest is the maximum length of the second list.
const longest = 512

// room is the number of instances that can move at the same time.
const room = 1 << 24

// newOrder sorts usable instances. all are all instances, in the order of their last
// modification.
func newOrder(s *State, all, usable []InstanceID, load []float64) *instanceOrder {
	m := s.model
	o := &instanceOrder{
		bySeqno: m.scheduler.QueueSortMethod == qconf.SortBySeqNo,
		at:      make([]position, len(m.instances)), base: usable, count: len(usable),
	}
	for rank, id := range all {
		i := &m.instances[id]
		o.at[id] = position{load: load[i.host], seqno: int32(i.settings.SeqNo), rank: int64(rank)}
	}
	for _, id := range usable {
		o.at[id].where = inBase
	}
	slices.SortFunc(o.base, o.compare)
	return o
}

// sortByRank sorts by the order of newOrder's list alone. It is for instances that do not move.
func (o *instanceOrder) sortByRank() {
	for i := range o.at {
		o.at[i].load, o.at[i].seqno = 0, 0
	}
	slices.SortFunc(o.base, o.compare)
}

func (o *instanceOrder) compare(a, b InstanceID) int {
	x, y := &o.at[a], &o.at[b]
	if x.tier != y.tier {
		return cmp.Compare(x.tier, y.tier)
	}
	if o.bySeqno {
		if c := cmp.Compare(x.seqno, y.seqno); c != 0 {
			return c
		}
		if c := cmp.Compare(x.load, y.load); c != 0 {
			return c
		}
		return cmp.Compare(x.rank, y.rank)
	}
	if c := cmp.Compare(x.load, y.load); c != 0 {
		return c
	}
	if c := cmp.Compare(x.seqno, y.seqno); c != 0 {
		return c
	}
	return cmp.Compare(x.rank, y.rank)
}

// usable reports whether an instance is still there.
func (o *instanceOrder) usable(id InstanceID) bool { return o.at[id].where != out }

// drop removes an instance until restore, at most until the end of the run.
func (o *instanceOrder) drop(id InstanceID) {
	o.count--
	if o.at[id].where == inMoved {
		i, _ := slices.BinarySearchFunc(o.moved, id, o.compare)
		o.moved = slices.Delete(o.moved, i, i+1)
	}
	o.at[id].where = out
}

// restore adds a dropped instance again: at the end until the order is sorted again, or, if it is to be
// sorted now, behind its equals.
func (o *instanceOrder) restore(id InstanceID, load float64, sorted bool) {
	o.count++
	o.stamp++
	p := &o.at[id]
	p.load, p.tier, p.rank, p.where = load, 0, (o.stamp+int64(len(o.at)))*room, inMoved
	if o.tiers || !sorted {
		p.tier = math.MaxInt32
		o.tail = o.tail || !o.tiers
	}
	o.insert(id)
}

func (o *instanceOrder) insert(id InstanceID) {
	j, _ := slices.BinarySearchFunc(o.moved, id, o.compare)
	o.moved = slices.Insert(o.moved, j, id)
}

// linger adds dropped instances at the end until the order is sorted. They have no place for a job, but count for the
// order of hosts.
func (o *instanceOrder) linger(instances []InstanceID) {
	for _, id := range instances {
		if p := &o.at[id]; p.where == out && !p.full {
			p.tier, p.full = math.MaxInt32, true
			o.full = append(o.full, id)
		}
	}
	slices.SortFunc(o.full, o.compare)
}

// leave removes the instances that linger.
func (o *instanceOrder) leave() {
	for _, id := range o.full {
		o.at[id].full = false
	}
	o.full = o.full[:0]
}

// sortFull sorts the instances that linger behind their equals.
func (o *instanceOrder) sortFull(load func(InstanceID) float64) {
	for _, id := range o.full {
		o.at[id].load, o.at[id].tier = load(id), 0
	}
	slices.SortFunc(o.full, o.compare)
}

// withFull returns the instances in order, and with them those that linger.
func (o *instanceOrder) withFull() iter.Seq[InstanceID] {
	return func(yield func(InstanceID) bool) {
		k := 0
		for id := range o.all() {
			for ; k < len(o.full) && o.compare(o.full[k], id) < 0; k++ {
				if !yield(o.full[k]) {
					return
				}
			}
			if !yield(id) {
				return
			}
		}
		for _, id := range o.full[k:] {
			if !yield(id) {
				return
			}
		}
	}
}

// sortTail puts what was restored at the end behind its equals.
func (o *instanceOrder) sortTail() {
	if !o.tail {
		return
	}
	o.tail = false
	for i := range o.at {
		id, p := InstanceID(i), &o.at[i]
		if p.tier != math.MaxInt32 {
			continue
		}
		if p.where == inMoved {
			j, _ := slices.BinarySearchFunc(o.moved, id, o.compare)
			o.moved = slices.Delete(o.moved, j, j+1)
		}
		if p.tier = 0; p.where != out {
			p.where = inMoved
			o.insert(id)
		}
	}
}

// move moves instances to their new places after a task has changed the loads of their hosts. Among
// equals they come first if the load has risen, and last if it has fallen; instances that move at
// the same time keep their order.
func (o *instanceOrder) move(instances []InstanceID, load func(InstanceID) float64) {
	kept := make([]InstanceID, 0, 8)
	for _, id := range instances {
		if o.at[id].where != out && o.at[id].load != load(id) {
			kept = append(kept, id)
		}
	}
	if len(kept) == 0 {
		return
	}
	o.stamp++
	slices.SortFunc(kept, o.compare)
	for _, id := range kept {
		if o.at[id].where == inMoved {
			j, _ := slices.BinarySearchFunc(o.moved, id, o.compare)
			o.moved = slices.Delete(o.moved, j, j+1)
		}
	}
	for i, id := range kept {
		p, to := &o.at[id], load(id)
		if p.rank = (o.stamp+int64(len(o.at)))*room + int64(i); to > p.load {
			p.rank = -o.stamp*room + int64(i)
		}
		p.load, p.where = to, inMoved
	}
	if len(o.moved)+len(kept) > longest {
		o.moved = append(o.moved, kept...)
		slices.SortFunc(o.moved, o.compare)
		o.merge()
		return
	}
	for _, id := range kept {
		o.insert(id)
	}
}

func (o *instanceOrder) merge() {
	merged := make([]InstanceID, 0, len(o.base)+len(o.moved))
	for id := range o.all() {
		merged = append(merged, id)
	}
	for _, id := range merged {
		o.at[id].where = inBase
	}
	o.base, o.moved = merged, o.moved[:0]
	o.merges++
}

// arrange sorts all usable instances again: by their tiers, or, for nil, without any. Among
// equals they stay as they are.
func (o *instanceOrder) arrange(load func(InstanceID) float64, tier func(InstanceID) int32) {
	list := slices.AppendSeq(make([]InstanceID, 0, o.count+len(o.full)), o.withFull())
	for rank, id := range list {
		p := &o.at[id]
		p.load, p.tier, p.rank = load(id), 0, int64(rank)
		if tier != nil {
			p.tier = tier(id)
		}
	}
	o.tiers, o.tail = tier != nil, false
	slices.SortFunc(list, o.compare)
	if len(o.full) > 0 {
		slices.SortFunc(o.full, o.compare)
		list = slices.DeleteFunc(list, func(id InstanceID) bool { return o.at[id].where == out })
	}
	for _, id := range list {
		o.at[id].where = inBase
	}
	o.base, o.moved = list, o.moved[:0]
	o.merges++
}

// all returns the instances in order. The order must not be changed meanwhile.
func (o *instanceOrder) all() iter.Seq[InstanceID] {
	return func(yield func(InstanceID) bool) {
		j := 0
		for _, id := range o.base {
			if o.at[id].where != inBase {
				continue
			}
			for j < len(o.moved) && o.compare(o.moved[j], id) < 0 {
				if !yield(o.moved[j]) {
					return
				}
				j++
			}
			if !yield(id) {
				return
			}
		}
		for _, id := range o.moved[j:] {
			if !yield(id) {
				return
			}
		}
	}
}

// search is the list of instances in which jobs of a category look for a place. An instance without
// a place for them has none until the end of the run, because the usage only grows during a run.
type search struct {
	refused []uint64 // by instance
	cursor  int      // before it nothing is of use, in the base
	merges  int
}

func (s *search) is(id InstanceID) bool { return s.refused[id>>6]&(1<<(id&63)) != 0 }
func (s *search) refuse(id InstanceID)  { s.refused[id>>6] |= 1 << (id & 63) }

// next returns the first instance that has not been refused, None for none.
func (o *instanceOrder) next(s *search) InstanceID {
	if s.merges != o.merges {
		s.merges, s.cursor = o.merges, 0
	}
	for s.cursor < len(o.base) {
		id := o.base[s.cursor]
		if o.at[id].where == inBase && !s.is(id) {
			break
		}
		s.cursor++
	}
	first := InstanceID(None)
	for _, id := range o.moved {
		if !s.is(id) {
			first = id
			break
		}
	}
	switch {
	case s.cursor == len(o.base):
		return first
	case first == None || o.compare(o.base[s.cursor], first) < 0:
		return o.base[s.cursor]
	}
	return first
}
