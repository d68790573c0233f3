package quota

import (
	"strings"
)

// Consumer holds the attributes of a job that the filters of rules compare.
type Consumer struct {
	User  string
	Group string // the user's primary group, for the user sets that name it
	// Project is the project of the job, and PE its parallel environment. Both may be empty.
	Project, PE string
}

// Applicable are the rules that are for a consumer at some place.
type Applicable struct {
	sets       *Sets
	consumer   Consumer
	chains     [][2]int32 // by set: from where to where in candidates
	candidates []candidate
}

// candidate is a rule that is for a consumer at the places that its filters let
// through, unless one before it in the set is.
type candidate struct {
	rule    *rule
	counter uint64 // number of the rule's first limit for the consumer
}

// For finds the rules for a consumer. All jobs of the consumer share the result, which the Sets
// store.
func (s *Sets) For(c Consumer) *Applicable {
	if a, known := s.applicable[c]; known {
		return a
	}
	a := &Applicable{sets: s, consumer: c, chains: make([][2]int32, len(s.sets))}
	for i := range s.sets {
		begin := int32(len(a.candidates))
		for _, r := range s.sets[i].rules {
			if !r.isFor(c) || r.queues.isNone() || r.hosts.isNone() {
				continue
			}
			a.candidates = append(a.candidates, candidate{rule: r, counter: s.group(r, c)})
			if r.queues.isAll() && r.hosts.isAll() {
				break
			}
		}
		a.chains[i] = [2]int32{begin, int32(len(a.candidates))}
	}
	s.applicable[c] = a
	return a
}

func (r *rule) isFor(c Consumer) bool {
	return r.users.admits(c.User, c.Group) && r.projects.admits(c.Project, "") && r.pes.admits(c.PE, "")
}

// Consumer returns the consumer of the rules.
func (a *Applicable) Consumer() Consumer { return a.consumer }

// find returns the candidate of a set that counts at a place, or -1.
func (a *Applicable) find(set, queue, host int32) int32 {
	chain := a.chains[set]
	for i := chain[0]; i < chain[1]; i++ {
		if r := a.candidates[i].rule; r.queues.has(queue) && r.hosts.has(host) {
			return i
		}
	}
	return -1
}

// Counter identifies the usage under a limit of a rule, by its key: the user, project, parallel
// environment, queue and host whose filters are in braces. It may be compared and used as a map
// key, and is valid for the same Sets only. The numbers have no order.
type Counter uint64

// A counter is the number of a groupName, and in its lower bits that of a place.
const (
	placeBits = 36
	placeMask = 1<<placeBits - 1
)

// groupName is a limit and the part of its key that has no place.
type groupName struct {
	set, rule, limit    int
	user, project, peOf string
}

// group gives a rule the number of its first limit for a consumer; those of the other
// limits follow.
func (s *Sets) group(r *rule, c Consumer) uint64 {
	n := groupName{set: r.set, rule: r.index}
	if r.eachUser {
		n.user = c.User
	}
	if r.eachProject {
		n.project = c.Project
	}
	if r.eachPE {
		n.peOf = c.PE
	}
	first, known := s.groups[n]
	if !known {
		first = uint64(len(s.counters))
		s.groups[n] = first
		for i := range r.limits {
			n.limit = i
			s.counters = append(s.counters, n)
		}
	}
	return first
}

// place returns the part of a counter that says where.
func (s *Sets) place(r *rule, queue, host int32) uint64 {
	switch {
	case r.eachQueue && r.eachHost:
		return 1 + uint64(uint32(queue))*uint64(len(s.hosts)) + uint64(uint32(host))
	case r.eachQueue:
		return 1 + uint64(uint32(queue))
	case r.eachHost:
		return 1 + uint64(uint32(host))
	}
	return 0
}

// placeNames returns the queue and the host of a place, each "" if the place has none.
func (s *Sets) placeNames(r *rule, place uint64) (queue, host string) {
	if place == 0 {
		return "", ""
	}
	place--
	switch {
	case r.eachQueue && r.eachHost:
		return s.queues[place/uint64(len(s.hosts))], s.hosts[place%uint64(len(s.hosts))]
	case r.eachQueue:
		return s.queues[place], ""
	}
	return "", s.hosts[place]
}

// key returns the key in the notation of the original.
func (s *Sets) key(r *rule, c Consumer, place uint64) string {
	var b strings.Builder
	queue, host := s.placeNames(r, place)
	for _, f := range []struct {
		each bool
		name string
	}{{r.eachUser, c.User}, {r.eachProject, c.Project}, {r.eachPE, c.PE}, {true, queue}, {true, host}} {
		if f.each {
			b.WriteString(f.name)
		}
		b.WriteByte('/')
	}
	return b.String()
}

// counted returns the rule, the limit, the consumer and the place of a counter.
func (s *Sets) counted(c Counter) (r *rule, limit int, who Consumer, place uint64) {
	n := s.counters[c>>placeBits]
	return s.sets[n.set].rules[n.rule], n.limit, Consumer{User: n.user, Project: n.project, PE: n.peOf}, uint64(c) & placeMask
}

// Describe describes a counter: its rule as SET/RULE, its key, and the limited complex.
func (s *Sets) Describe(c Counter) (rule, key, attribute string) {
	if uint64(c>>placeBits) >= uint64(len(s.counters)) {
		return "", "", ""
	}
	r, limit, who, place := s.counted(c)
	return r.name, s.key(r, who, place), r.limits[limit].attribute
}
