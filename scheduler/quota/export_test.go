package quota

import "iter"

// Matches gives the rule of each set that is for the consumer at a place, as
// SET/RULE, and the key under which it counts, e.g. "alice////n2/", in the order of
// the sets.
func (a *Applicable) Matches(queue, host int32) iter.Seq2[string, string] {
	return func(yield func(rule, key string) bool) {
		for set := range a.chains {
			i := a.find(int32(set), queue, host)
			if i < 0 {
				continue
			}
			c := &a.candidates[i]
			key := a.sets.key(c.rule, a.consumer, a.sets.place(c.rule, queue, host))
			if !yield(c.rule.name, key) {
				return
			}
		}
	}
}

// Covers reports whether the job fails at another place for the same reason.
func (f *Failure) Covers(queue, host int32) bool {
	if f.demand == nil {
		return false
	}
	a := f.demand.applicable
	r := a.candidates[f.candidate].rule
	return a.find(int32(r.set), queue, host) == f.candidate && Counter(a.sets.place(r, queue, host)) == f.place
}

// LimitText returns the limit as qquota shows it: slots=3/5, or rank=5.
func (r *Row) LimitText() string {
	if r.Used == "" {
		return r.Attribute + "=" + r.Limit
	}
	return r.Attribute + "=" + r.Used + "/" + r.Limit
}
