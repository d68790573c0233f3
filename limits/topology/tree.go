package topology

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// part is a unit in the tree of a host: its letter, its number, and its processors.
type part struct {
	letter byte
	number int // its first processor; for a memory node its ID
	cpus   CPUSet
}

// The letters of the units in a tree. Lower case means in use.
const (
	letterNode   = 'N'
	letterSocket = 'S'
	letterL3     = 'X'
	letterL2     = 'Y'
	letterCore   = 'C'
	letterThread = 'T'
)

// Tree returns the host in the format that Open Cluster Scheduler 9.1 uses for the load value
// m_topology: nested units, including memory nodes and caches, with the sizes of these in bytes:
//
//	(N[size=8589934592](S(X[size=33554432](Y[size=1048576](C(T)(T)))(Y[size=1048576](C(T)(T))))))
//
// It omits a size that it cannot read.
func (t Topology) Tree(read Reader) string {
	var b strings.Builder
	var open []part
	leave := func(depth int) {
		b.WriteString(strings.Repeat(")", len(open)-depth))
		open = open[:depth]
	}
	for s, socket := range t.Sockets {
		for _, core := range socket.Cores {
			parts := t.parts(s, core)
			same := 0
			for same < len(open) && same < len(parts) && open[same].letter == parts[same].letter && open[same].number == parts[same].number {
				same++
			}
			leave(same)
			for _, p := range parts[same:] {
				b.WriteByte('(')
				b.WriteByte(p.letter)
				if size := p.size(read); size > 0 {
					b.WriteString("[size=" + strconv.FormatUint(size, 10) + "]")
				}
			}
			open = parts
			b.WriteString("(C" + strings.Repeat("(T)", core.CPUs.Len()) + ")")
		}
	}
	leave(0)
	return b.String()
}

// parts returns the units that contain a core, from the largest to the smallest.
func (t Topology) parts(socket int, core Core) []part {
	var all CPUSet
	for _, c := range t.Sockets[socket].Cores {
		all = all.Union(c.CPUs)
	}
	var list []part
	for _, n := range t.Nodes {
		if n.ID == core.Node {
			list = append(list, part{letterNode, n.ID, n.CPUs})
		}
	}
	for _, p := range []part{{letterSocket, 0, all}, {letterL3, 0, core.L3}, {letterL2, 0, core.L2}} {
		if !p.cpus.IsEmpty() {
			p.number = p.cpus.First()
			list = append(list, p)
		}
	}
	slices.SortStableFunc(list, func(a, b part) int { return b.cpus.Len() - a.cpus.Len() })
	return list
}

// size reads the size of a memory node or of a cache, in bytes; 0 if unknown.
func (p part) size(read Reader) uint64 {
	switch p.letter {
	case letterNode:
		text, err := read(nodeDir + "node" + strconv.Itoa(p.number) + "/meminfo")
		if err != nil {
			return 0
		}
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); len(f) == 5 && f[2] == "MemTotal:" { // Node 0 MemTotal: 1024 kB
				return kibibytes(f[3])
			}
		}
	case letterL3, letterL2:
		index := "2"
		if p.letter == letterL3 {
			index = "3"
		}
		text, err := read(cpuDir + "cpu" + strconv.Itoa(p.number) + "/cache/index" + index + "/size")
		if err != nil {
			return 0
		}
		return kibibytes(strings.TrimSuffix(strings.TrimSpace(string(text)), "K"))
	}
	return 0
}

// kibibytes parses a number of KiB and returns bytes; 0 for invalid text.
func kibibytes(text string) uint64 {
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil || n >= 1<<54 {
		return 0
	}
	return n << 10
}

// maxTree is the maximum length of a tree that Marked accepts: each processor needs a few dozen
// letters.
const maxTree = 64 * (MaxCPU + 1)

// Marked returns the processors of the threads in lower case in trees of this host, in the format
// in which a scheduler returns them: without sizes. The tree of another host and invalid text are
// errors.
func (t Topology) Marked(trees ...string) (CPUSet, error) {
	var threads []int
	for _, socket := range t.Sockets {
		for _, core := range socket.Cores {
			threads = append(threads, core.CPUs.Slice()...)
		}
	}
	var marked CPUSet
	for _, tree := range trees {
		if len(tree) > maxTree {
			return CPUSet{}, errors.New("cannot read topology: it has " + strconv.Itoa(len(tree)) + " characters")
		}
		n := 0
		for i := range len(tree) {
			switch tree[i] {
			case letterThread, letterThread + 'a' - 'A':
				if n < len(threads) && tree[i] != letterThread {
					marked.add(threads[n], threads[n])
				}
				n++
			case '(', ')', letterNode, 'n', letterSocket, 's', letterL3, 'x', letterL2, 'y', letterCore, 'c', 'E', 'e':
			default:
				return CPUSet{}, errors.New("cannot read topology " + strconv.Quote(tree) + ": " + strconv.Quote(tree[i:i+1]) + " at character " + strconv.Itoa(i+1))
			}
		}
		if n != len(threads) {
			return CPUSet{}, errors.New("topology " + tree + " has " + strconv.Itoa(n) + " threads, and this host has " + strconv.Itoa(len(threads)))
		}
	}
	return marked, nil
}

// MarkedShape returns the topology string of the host with the given processors in use: a core is
// in lower case if all its threads are in use, and a socket if all its cores are.
func (t Topology) MarkedShape(cpus CPUSet) string {
	var b strings.Builder
	for _, socket := range t.Sockets {
		cores, whole := "", true
		for _, core := range socket.Cores {
			text := "C"
			if core.CPUs.SubsetOf(cpus) {
				text = "c"
			} else {
				whole = false
			}
			if core.CPUs.Len() > 1 {
				for cpu := range core.CPUs.All {
					if cpus.Contains(cpu) {
						text += "t"
					} else {
						text += "T"
					}
				}
			}
			cores += text
		}
		if whole {
			b.WriteString("s" + cores)
		} else {
			b.WriteString("S" + cores)
		}
	}
	return b.String()
}
