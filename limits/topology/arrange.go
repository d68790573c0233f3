package topology

import "slices"

// group is a core under construction, with all its threads, including those that may not be used,
// because the order does not depend on which may be used.
type group struct {
	first cpu // its first processor
	cpus  CPUSet
	node  int // ID of its memory node, -1 for none
	// order holds the first processor of every unit that contains the core, the largest unit first.
	// Cores of the same unit are therefore adjacent after sorting.
	order []int
}

// arrange sorts processors into cores and sockets and assigns their logical numbers. cpus must be
// in ascending order without duplicates.
func arrange(cpus []cpu, nodes []node, usable CPUSet) []Socket {
	var all CPUSet
	for _, c := range cpus {
		all.add(c.id, c.id)
	}
	packages := packages(cpus)
	groups := cores(cpus, packages)
	for i := range groups {
		g := &groups[i]
		c := g.first
		g.node = -1
		within := []CPUSet{c.book, packages[c.id], c.dieCPUs, c.clusterCPUs, c.l3, c.l2, g.cpus}
		for _, n := range nodes {
			if n.cpus.Contains(c.id) {
				g.node = n.id
				within = append(within, n.cpus)
				break
			}
		}
		for j := range within {
			// Offline processors must not change the order of their neighbours.
			within[j] = within[j].Intersect(all)
		}
		// Insertion sort is sufficient for at most eight elements; slices.SortStableFunc would add
		// code for this type to the supervisor.
		for j := range within {
			for ; j > 0 && within[j-1].Len() < within[j].Len(); j-- {
				within[j-1], within[j] = within[j], within[j-1]
			}
		}
		for _, s := range within {
			if !s.IsEmpty() {
				g.order = append(g.order, s.First())
			}
		}
		g.order = append(g.order, c.id)
	}
	sortGroups(groups)

	var sockets []Socket
	number := map[int]int{} // of a package's first processor
	for _, g := range groups {
		core := Core{ID: g.first.coreID, CPUs: g.cpus.Intersect(usable), Node: g.node, L2: g.first.l2.Intersect(usable), L3: g.first.l3.Intersect(usable)}
		if core.CPUs.IsEmpty() {
			continue
		}
		pkg := packages[g.first.id].First()
		i, found := number[pkg]
		if !found {
			i = len(sockets)
			number[pkg] = i
			sockets = append(sockets, Socket{ID: g.first.pkg})
		}
		sockets[i].Cores = append(sockets[i].Cores, core)
	}
	return sockets
}

// sortGroups sorts groups by their order. No two are equal, because the last number of order is the
// core's first processor. It uses Shell's method: slices.SortFunc would add 7 KiB to the
// supervisor.
func sortGroups(groups []group) {
	for gap := len(groups) / 2; gap > 0; gap /= 2 {
		for i := gap; i < len(groups); i++ {
			for j := i; j >= gap && slices.Compare(groups[j].order, groups[j-gap].order) < 0; j -= gap {
				groups[j], groups[j-gap] = groups[j-gap], groups[j]
			}
		}
	}
}

// cores combines the threads of each core. Lists of siblings take precedence over equal IDs, which
// repeat on the dies of AMD's multi-chip packages and on the clusters of arm64 machines. Siblings
// with different IDs are the halves of a compute unit of AMD's family 15h, which hwloc counts as
// cores.
func cores(cpus []cpu, packages map[int]CPUSet) []group {
	type ids struct{ pkg, die, cluster, core int }
	var groups []group
	of := map[int]int{}    // group of a processor
	named := map[ids]int{} // group of a core without siblings
	for _, c := range cpus {
		i, found := 0, false
		switch {
		case !c.threads.IsEmpty():
			for id := range c.threads.All {
				if i, found = of[id]; found && groups[i].first.coreID == c.coreID {
					break
				}
				found = false
			}
		case c.coreID >= 0:
			name := ids{packages[c.id].First(), c.die, c.cluster, c.coreID}
			if i, found = named[name]; !found {
				named[name] = len(groups)
			}
		}
		if !found {
			i = len(groups)
			groups = append(groups, group{first: c})
		}
		of[c.id] = i
		groups[i].cpus.add(c.id, c.id)
	}
	return groups
}

// packages returns, for each processor, the processors of its package. Like hwloc it uses the lists
// of siblings. Only if there are none, it uses the ID, which is -1 on s390, POWER and some arm64
// machines.
func packages(cpus []cpu) map[int]CPUSet {
	var sets []CPUSet
	of := map[int]int{}    // set of a processor
	named := map[int]int{} // set of a package without siblings
	for _, c := range cpus {
		i, found := 0, false
		if c.pkgCPUs.IsEmpty() {
			if i, found = named[c.pkg]; !found {
				named[c.pkg] = len(sets)
			}
		}
		for id := range c.pkgCPUs.All {
			if i, found = of[id]; found {
				break
			}
		}
		if !found {
			i = len(sets)
			sets = append(sets, CPUSet{})
		}
		of[c.id] = i
		sets[i].add(c.id, c.id)
	}
	out := make(map[int]CPUSet, len(cpus))
	for _, c := range cpus {
		out[c.id] = sets[of[c.id]]
	}
	return out
}
