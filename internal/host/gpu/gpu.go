package gpu

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// Vendor is the vendor of the GPU and its driver.
type Vendor string

// The vendors of GPUs that are offered to jobs.
const (
	NVIDIA Vendor = "NVIDIA"
	AMD    Vendor = "AMD"
	Intel  Vendor = "Intel"
)

// Node is a character device.
type Node struct {
	Path         string // usual name, for messages; only the number matters
	Major, Minor uint32
}

// GPU is one GPU of the host.
type GPU struct {
	// ID is its number in the resource map "gpu"; empty if the host does not offer it. A MIG instance has the
	// number of its GPU, of its GPU instance and of its compute instance: "0.1.0".
	ID string
	// Number is the ID that it has whenever it is offered; empty if it has none yet.
	Number  string
	Vendor  Vendor
	Address string // on the PCI bus: "0000:65:00.0"
	NUMA    int    // memory node that is near; -1 if the host does not say
	Root    string // the PCIe root that it is connected to, "pci0000:64"; empty if the host does not say
	Model   string // as the driver names it; empty if it does not. Of a MIG instance with its profile, if that is known
	UUID    string // "GPU-..." or "MIG-..."; empty if it is not known
	Memory  uint64 // in bytes; 0 if it is not known
	// Nodes are the nodes of this GPU only. Those of a MIG instance are the nodes of its GPU, of its GPU instance
	// and of its compute instance.
	Nodes []Node
	// Integrated is set for a GPU that is part of the processor and shares its memory. Jobs are not
	// granted such a GPU, but may open it.
	Integrated bool
	// Divided is set for a GPU of NVIDIA that has MIG instances: jobs are granted these, and not the GPU.
	Divided bool
	// Instance says which MIG instance of the GPU at Address this is, by the numbers of its GPU instance and its
	// compute instance: "1.0". Empty for a whole GPU.
	Instance string
	// Problem says why the host does not offer the GPU, or which data of it is missing.
	Problem string
	// Broken says that the host does not offer the GPU because of Problem.
	Broken bool

	profile  string // of a MIG instance, as nvidia-smi names it: "1g.10gb"
	stamp    int64  // of a MIG instance: it is another one if the instance was made again
	outdated bool   // nvidia-smi has told the values of an earlier instance with this number
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

// Inventory is the list of a host's GPUs at one time.
type Inventory struct {
	GPUs   []GPU // in the order of their addresses; MIG instances follow their GPU
	Shared map[Vendor][]Node
	// Forbidden are nodes that no job may open: with NVIDIA's, a job could destroy the MIG instances of others.
	Forbidden []Node
	// Problems are the problems that do not belong to a GPU in the list, one sentence each.
	Problems []string

	numbers []string // the numbers of present and earlier GPUs of this host
	closed  bool     // they are not known, so that none is offered
}

// wire is an Inventory in JSON.
type wire struct {
	GPUs      []GPU             `json:"gpus,omitempty"`
	Shared    map[Vendor][]Node `json:"shared,omitempty"`
	Forbidden []Node            `json:"forbidden,omitempty"`
	Problems  []string          `json:"problems,omitempty"`
	Numbers   []string          `json:"numbers,omitempty"`
	Closed    bool              `json:"closed,omitempty"`
}

// MarshalJSON returns the inventory for another process.
func (v *Inventory) MarshalJSON() ([]byte, error) {
	return json.Marshal(wire{v.GPUs, v.Shared, v.Forbidden, v.Problems, v.numbers, v.closed})
}

// UnmarshalJSON reads the format of MarshalJSON.
func (v *Inventory) UnmarshalJSON(text []byte) error {
	var w wire
	if err := json.Unmarshal(text, &w); err != nil {
		return err
	}
	*v = Inventory{w.GPUs, w.Shared, w.Forbidden, w.Problems, w.Numbers, w.Closed}
	return nil
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

// Numbered reports whether the host offers GPUs, or has offered any: then jobs cannot open GPUs
// that they have not been granted.
func (v *Inventory) Numbered() bool { return v != nil && (v.closed || len(v.numbers) > 0) }

// Known reports whether an id of a resource map is the number of a GPU that the host has, or has
// had, or could be the number of a MIG instance of such a GPU. Other ids are the site's own.
func (v *Inventory) Known(id string) bool {
	if v == nil {
		return false
	}
	whole, instance := splitNumber(id)
	return v.closed || slices.Contains(v.numbers, id) || instance != "" && slices.Contains(v.numbers, whole)
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

// granted returns the GPUs with some numbers, each once, sorted by address, because drivers count
// them from 0 in that order.
func (v *Inventory) granted(ids []string) []GPU {
	var list []GPU
	for _, g := range v.Offered() {
		if slices.Contains(ids, g.ID) {
			list = append(list, g)
		}
	}
	return list
}

// Denied returns the nodes that a job with some GPUs may not open: the nodes of all other GPUs, and
// the nodes that all GPUs of a vendor share if the job has none of that vendor. A host that has
// never offered a GPU denies nothing, because a display is not a GPU for jobs.
func (v *Inventory) Denied(ids []string) []Node {
	if !v.Numbered() {
		return nil
	}
	// A job keeps its GPU while the host does not offer it to others.
	granted := slices.DeleteFunc(slices.Clone(v.GPUs), func(g GPU) bool { return g.Number == "" || !slices.Contains(ids, g.Number) })
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
	add(v.Forbidden)
	return list
}

// vendors are all of them, in the order in which they are looked for.
var vendors = []Vendor{NVIDIA, AMD, Intel}

// maxInstance bounds the numbers of instances. A GPU has at most 15 GPU instances, with 8 compute instances each.
const maxInstance = 255

// splitNumber splits the number of a MIG instance, "0.1.0", into the number of its GPU and its name on that. For other
// texts instance is empty.
func splitNumber(id string) (whole, instance string) {
	whole, instance, _ = strings.Cut(id, ".")
	if !validInstance(instance) {
		return id, ""
	}
	return whole, instance
}

// validInstance reports whether a text names a MIG instance of a GPU: "1.0".
func validInstance(s string) bool {
	parts := strings.Split(s, ".")
	return len(parts) == 2 && !slices.ContainsFunc(parts, func(s string) bool {
		n, err := strconv.Atoi(s)
		return err != nil || n < 0 || n > maxInstance || strconv.Itoa(n) != s
	})
}
