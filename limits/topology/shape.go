package topology

import (
	"errors"
	"strconv"
	"strings"
)

// Shape is the content of a topology string: sockets, each with its cores. The string has an S for
// each socket, a C for each core and, for a core with more than one thread, a T for each thread:
// "SCTTCTT" is one socket with two cores of two threads. Lower case means in use (load values
// m_topology and m_topology_inuse).
type Shape [][]CoreShape

// CoreShape is one core of a Shape.
type CoreShape struct {
	Threads int  // at least 1
	InUse   bool // the core is in lower case
}

// maxShapeCores is the maximum number of cores that ParseShape accepts.
const maxShapeCores = MaxCPU + 1

// ParseShape reads a topology string. A core is in use if its C or any of its threads is in lower
// case; the case of an S is ignored. A host with unknown topology reports "NONE"; this and the
// empty string are the empty shape.
func ParseShape(text string) (Shape, error) {
	if text == "" || text == "NONE" {
		return nil, nil
	}
	var sh Shape
	fail := func(at int, why string) (Shape, error) {
		return nil, errors.New("cannot read topology " + strconv.Quote(text) + ": " + why +
			" at character " + strconv.Itoa(at+1))
	}
	if len(text) > 2*maxShapeCores {
		return nil, errors.New("cannot read topology: it has " + strconv.Itoa(len(text)) + " characters")
	}
	for i := 0; i < len(text); {
		switch text[i] {
		case 'S', 's':
			sh = append(sh, nil)
			i++
		case 'C', 'c':
			if len(sh) == 0 {
				return fail(i, "a core before the first socket")
			}
			core := CoreShape{Threads: 1, InUse: text[i] == 'c'}
			n := 0
			for i++; i < len(text) && (text[i] == 'T' || text[i] == 't'); i++ {
				core.InUse = core.InUse || text[i] == 't'
				n++
			}
			if n == 1 {
				// A single thread is not written.
				return fail(i-1, "a core with a single thread")
			}
			core.Threads = max(n, 1)
			sh[len(sh)-1] = append(sh[len(sh)-1], core)
		case 'T', 't':
			return fail(i, "a thread without a core")
		default:
			return fail(i, "none of S, C and T")
		}
	}
	return sh, nil
}

// String returns the topology string. Like the original, it always writes S in upper case, even if
// all cores of the socket are in use. The empty shape is "NONE".
func (sh Shape) String() string {
	if len(sh) == 0 {
		return "NONE"
	}
	var b strings.Builder
	for _, socket := range sh {
		b.WriteByte('S')
		for _, core := range socket {
			letters := "CT"
			if core.InUse {
				letters = "ct"
			}
			b.WriteByte(letters[0])
			for range core.Threads {
				if core.Threads > 1 {
					b.WriteByte(letters[1])
				}
			}
		}
	}
	return b.String()
}

// InUse returns the cores in lower case, in ascending order.
func (sh Shape) InUse() []Pair {
	var pairs []Pair
	for s, socket := range sh {
		for c, core := range socket {
			if core.InUse {
				pairs = append(pairs, Pair{s, c})
			}
		}
	}
	return pairs
}

// With returns the same shape with exactly those cores in use for which used returns true; if used
// is nil, none.
func (sh Shape) With(used func(Pair) bool) Shape {
	out := make(Shape, len(sh))
	for s, socket := range sh {
		out[s] = make([]CoreShape, len(socket))
		for c, core := range socket {
			core.InUse = used != nil && used(Pair{s, c})
			out[s][c] = core
		}
	}
	return out
}

// SameHost reports whether both shapes have the same sockets, cores and threads. It ignores which
// cores are in use.
func (sh Shape) SameHost(o Shape) bool {
	return sh.With(nil).String() == o.With(nil).String()
}
