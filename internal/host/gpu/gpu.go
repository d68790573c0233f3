package gpu

import (
	"slices"
	"strings"
)

// Vendor is who makes the GPU and its driver.
type Vendor string

// The vendors of GPUs that are offered to jobs.
const (
	NVIDIA Vendor = "NVIDIA"
	AMD    Vendor = "AMD"
	Intel  Vendor = "Intel"
)

// Node is a character device.
type Node struct {
	Path         string // usual name, for people: the number is what counts
	Major, Minor uint32
}

// GPU is one GPU of the host.
type GPU struct {
	// ID is its number in the resource map "gpu"; empty if the host does not offer it.
	ID      string
	Vendor  Vendor
	Address string // on the PCI bus: "0000:65:00.0"
	NUMA    int    // memory node that is near; -1 if the host does not say
	Model   string // as the driver names it; empty if it does not
	UUID    string // "GPU-..."; empty if it is not known
	Memory  uint64 // in bytes; 0 if it is not known
	Nodes   []Node // those of this GPU alone
	// Integrated is set for a GPU that is part of the processor and shares its memory. Jobs are
	// not given one, and not kept from it.
	Integrated bool
	// Problem is why the host does not offer the GPU, or what is missing of it.
	Problem string
	// Broken is set if Problem keeps the host from offering the GPU.
	Broken bool
}

// Type returns the model in the form in which jobs request it (gpu_type): without blanks, and in
// characters that values of complexes may have. Empty if the model is not known.
func (g *GPU) Type() string {
	name := g.Model
	if name != "" && !strings.HasPrefix(name, string(g.Vendor)) {
		name = string(g.Vendor) + " " + name
	}
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return r <= ' ' || r > '~' || strings.ContainsRune(`,;=()[]"'\&|!*?`, r)
	}), "-")
}

// String names the GPU for people: "GPU 1 (0000:65:00.0, NVIDIA H100)".
func (g *GPU) String() string {
	name := "GPU"
	if g.ID != "" {
		name += " " + g.ID
	}
	model := g.Model
	if model == "" {
		model = string(g.Vendor)
	}
	return name + " (" + g.Address + ", " + model + ")"
}

// offerable reports whether jobs can be given the GPU.
func (g *GPU) offerable() bool { return !g.Broken && !g.Integrated }

// Inventory is what a host has of GPUs at one time.
type Inventory struct {
	GPUs   []GPU // in the order of their addresses
	Shared map[Vendor][]Node
	// Problems say what is wrong that is not about a GPU that is there, one sentence each.
	Problems []string

	numbers []string // those that GPUs of this host have, or had
	closed  bool     // they are not known, so that none is offered
}

// Discrete returns the GPUs that are not part of a processor.
func (v *Inventory) Discrete() []GPU {
	if v == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(v.GPUs), func(g GPU) bool { return g.Integrated })
}

// Offered returns the GPUs that jobs can be given.
func (v *Inventory) Offered() []GPU {
	if v == nil {
		return nil
	}
	var list []GPU
	for _, g := range v.GPUs {
		if g.ID != "" {
			list = append(list, g)
		}
	}
	return list
}

// Numbered reports whether the host offers GPUs, or has done so: then jobs are kept from those that
// they have not been given.
func (v *Inventory) Numbered() bool { return v != nil && (v.closed || len(v.numbers) > 0) }

// Known reports whether an id of a resource map is the number of a GPU that the host has, or has
// had. Other ids are the site's own.
func (v *Inventory) Known(id string) bool {
	return v != nil && (v.closed || slices.Contains(v.numbers, id))
}

// IDs returns the numbers of the GPUs that the host offers.
func (v *Inventory) IDs() []string {
	var list []string
	for _, g := range v.Offered() {
		list = append(list, g.ID)
	}
	return list
}

// find returns the GPU with a number.
func (v *Inventory) find(id string) (GPU, bool) {
	i := slices.IndexFunc(v.GPUs, func(g GPU) bool { return g.ID == id && id != "" })
	if i < 0 {
		return GPU{}, false
	}
	return v.GPUs[i], true
}

// Lacking returns the numbers in a list for which the host has no GPU.
func (v *Inventory) Lacking(ids []string) []string {
	if v == nil {
		return ids
	}
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool {
		_, ok := v.find(id)
		return ok
	})
}

// granted returns the GPUs with some numbers, each once, in the order of their addresses: what
// counts them from 0 counts in that order.
func (v *Inventory) granted(ids []string) []GPU {
	var list []GPU
	for _, g := range v.Offered() {
		if slices.Contains(ids, g.ID) {
			list = append(list, g)
		}
	}
	return list
}

// Denied returns the nodes that a job with some GPUs may not open: those of all other GPUs, and
// those that all GPUs of a vendor share if it has none of that vendor. A host that has never
// offered a GPU keeps jobs from nothing: a display is no GPU for jobs.
func (v *Inventory) Denied(ids []string) []Node {
	if !v.Numbered() {
		return nil
	}
	granted := v.granted(ids)
	has := func(vendor Vendor) bool {
		return slices.ContainsFunc(granted, func(g GPU) bool { return g.Vendor == vendor })
	}
	var list []Node
	add := func(nodes []Node) {
		for _, n := range nodes {
			same := func(m Node) bool { return m.Major == n.Major && m.Minor == n.Minor }
			own := slices.ContainsFunc(granted, func(g GPU) bool { return slices.ContainsFunc(g.Nodes, same) })
			if !own && !slices.ContainsFunc(list, same) {
				list = append(list, n)
			}
		}
	}
	for _, vendor := range vendors {
		discrete := false
		for _, g := range v.GPUs {
			if g.Vendor == vendor && !g.Integrated {
				discrete = true
				add(g.Nodes)
			}
		}
		if discrete && !has(vendor) {
			add(v.Shared[vendor])
		}
	}
	return list
}

// vendors are all of them, in the order in which they are looked for.
var vendors = []Vendor{NVIDIA, AMD, Intel}
