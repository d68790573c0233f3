package gpu

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/textfile"
)

// Where the kernel tells of GPUs, below the root.
const (
	pciDir        = "sys/bus/pci/devices"
	kfdNode       = "sys/class/kfd/kfd/dev"
	kfdDir        = "sys/class/kfd/kfd/topology/nodes"
	nvidiaDir     = "proc/driver/nvidia/gpus"
	driversFile   = "proc/devices"
	maxKernelFile = 64 << 10
)

// Codes of the PCI bus.
const displayClass = 0x03

var vendorCodes = map[uint64]Vendor{0x10de: NVIDIA, 0x1002: AMD, 0x8086: Intel}

// Numbers of NVIDIA's devices. This major number is registered; the kernel assigns the others when
// the driver is loaded, and lists them in /proc/devices.
const (
	nvidiaMajor  = 195
	minorModeset = 254
	minorControl = 255
)

// Detect finds the GPUs of the host whose /proc, /sys and /dev are below a directory: "/", or a
// directory of a test. The GPUs have no numbers yet: see Register.
func Detect(root string) *Inventory {
	d := &detector{files: os.DirFS(root), v: &Inventory{Shared: map[Vendor][]Node{}}, majors: map[string]uint32{}}
	d.readMajors()
	d.listPCI()
	d.nvidia()
	d.amd()
	d.others()
	d.v.GPUs = append(d.v.GPUs, d.instances...)
	slices.SortStableFunc(d.v.GPUs, func(a, b GPU) int { return cmp.Compare(a.Address, b.Address) })
	return d.v
}

type detector struct {
	files     fs.FS
	v         *Inventory
	instances []GPU             // MIG instances, which follow their GPUs
	majors    map[string]uint32 // of character devices, by the name of the driver
}

func (d *detector) read(name string) (string, error) {
	b, err := textfile.ReadFS(d.files, name, maxKernelFile)
	return strings.TrimSpace(string(b)), err
}

// list returns the names in a directory; nil if it does not exist.
func (d *detector) list(dir string) []string {
	entries, err := fs.ReadDir(d.files, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		d.problem("cannot read the directory /%s: %v", dir, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func (d *detector) problem(format string, args ...any) {
	d.v.Problems = append(d.v.Problems, fmt.Sprintf(format, args...))
}

// readMajors reads the major numbers of character devices (proc(5), /proc/devices).
func (d *detector) readMajors() {
	text, err := d.read(driversFile)
	if err != nil {
		return
	}
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "Block") {
			break
		}
		fields := strings.Fields(line)
		if len(fields) != 2 {
			continue
		}
		if n, err := strconv.ParseUint(fields[0], 10, 12); err == nil {
			d.majors[fields[1]] = uint32(n)
		}
	}
}

// listPCI finds display controllers of the vendors on the PCI bus.
func (d *detector) listPCI() {
	for _, name := range d.list(pciDir) {
		address, ok := ParseAddress(name)
		if !ok {
			continue
		}
		dir := path.Join(pciDir, name)
		class, err := d.readHex(path.Join(dir, "class"))
		if err != nil || class>>16 != displayClass {
			continue
		}
		code, err := d.readHex(path.Join(dir, "vendor"))
		vendor, known := vendorCodes[code]
		if err != nil || !known {
			continue
		}
		g := GPU{Vendor: vendor, Address: address, NUMA: -1, Root: d.rootOf(dir)}
		if text, err := d.read(path.Join(dir, "numa_node")); err == nil {
			if n, err := strconv.Atoi(text); err == nil && n >= 0 {
				g.NUMA = n
			}
		}
		if text, err := d.read(path.Join(dir, "product_name")); err == nil {
			g.Model = text
		}
		g.Nodes = d.drmNodes(dir)
		d.v.GPUs = append(d.v.GPUs, g)
	}
}

// rootOf returns the PCIe root of a device from the link to its directory,
// ../../../devices/pci0000:40/0000:40:01.0/0000:41:00.0.
func (d *detector) rootOf(dir string) string {
	target, err := fs.ReadLink(d.files, dir)
	if err != nil {
		return ""
	}
	_, below, _ := strings.Cut(target, "/devices/")
	root, _, _ := strings.Cut(below, "/")
	if !strings.HasPrefix(root, "pci") || strings.ContainsAny(root, " ,") {
		return ""
	}
	return root
}

func (d *detector) readHex(name string) (uint64, error) {
	text, err := d.read(name)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 32)
}

// drmNodes returns the direct rendering manager's nodes for a PCI device: the entries of
// /sys/class/drm that are links to it.
func (d *detector) drmNodes(dir string) []Node {
	var list []Node
	for _, name := range d.list(path.Join(dir, "drm")) {
		if !strings.HasPrefix(name, "card") && !strings.HasPrefix(name, "renderD") {
			continue
		}
		if n, ok := d.node(path.Join(dir, "drm", name, "dev"), "/dev/dri/"+name); ok {
			list = append(list, n)
		}
	}
	return list
}

// node reads the number of a device, "226:128".
func (d *detector) node(file, name string) (Node, bool) {
	text, err := d.read(file)
	if err != nil {
		return Node{}, false
	}
	a, b, _ := strings.Cut(text, ":")
	major, err1 := strconv.ParseUint(a, 10, 12)
	minor, err2 := strconv.ParseUint(b, 10, 20)
	return Node{Path: name, Major: uint32(major), Minor: uint32(minor)}, err1 == nil && err2 == nil
}

// at returns the GPU at an address of the PCI bus, or a new one there: a container may show the
// files of a driver and not the bus.
func (d *detector) at(address string, vendor Vendor) *GPU {
	i := slices.IndexFunc(d.v.GPUs, func(g GPU) bool { return g.Address == address })
	if i < 0 {
		i = len(d.v.GPUs)
		d.v.GPUs = append(d.v.GPUs, GPU{Vendor: vendor, Address: address, NUMA: -1})
	}
	return &d.v.GPUs[i]
}

// nvidia reads the data of NVIDIA's driver.
func (d *detector) nvidia() {
	major, ok := d.majors["nvidia-frontend"]
	if !ok {
		if major, ok = d.majors["nvidia"]; !ok {
			major = nvidiaMajor
		}
	}
	known := map[string]bool{}
	for _, name := range d.list(nvidiaDir) {
		address, ok := ParseAddress(name)
		if !ok {
			continue
		}
		g := d.at(address, NVIDIA)
		known[address] = true
		text, err := d.read(path.Join(nvidiaDir, name, "information"))
		if err != nil {
			g.broken("the driver does not describe it: " + err.Error())
			continue
		}
		fields := colonFields(text)
		if g.Model = fields["Model"]; strings.Contains(g.Model, "Unknown") {
			g.Model = ""
		}
		if uuid := fields["GPU UUID"]; validUUID(uuid) {
			g.UUID = uuid
		}
		if strings.EqualFold(fields["GPU Excluded"], "Yes") {
			g.broken("the driver is told not to use it (NVreg_ExcludedGpus)")
		}
		minor, err := strconv.ParseUint(fields["Device Minor"], 10, 8)
		if err != nil {
			g.broken(fmt.Sprintf("the driver gives no number of its device: Device Minor is %q", fields["Device Minor"]))
			continue
		}
		g.Nodes = append(g.Nodes, Node{"/dev/nvidia" + fields["Device Minor"], major, uint32(minor)})
		d.divide(g, minor)
	}
	for i := range d.v.GPUs {
		if g := &d.v.GPUs[i]; g.Vendor == NVIDIA && !known[g.Address] {
			g.broken("NVIDIA's driver does not know it: load the module nvidia, and look into the kernel's log")
		}
	}
	if len(known) == 0 {
		return
	}
	shared := []Node{{"/dev/nvidiactl", major, minorControl}, {"/dev/nvidia-modeset", major, minorModeset}}
	if uvm, ok := d.majors["nvidia-uvm"]; ok {
		shared = append(shared, Node{"/dev/nvidia-uvm", uvm, 0}, Node{"/dev/nvidia-uvm-tools", uvm, 1})
	}
	d.v.Shared[NVIDIA] = shared
	d.forbid()
}

func (g *GPU) broken(problem string) {
	if !g.Broken {
		g.Broken, g.Problem = true, problem
	}
}

// colonFields reads lines of "Name: value".
func colonFields(text string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(line, ":"); ok {
			fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return fields
}

const hexDigits = "0123456789abcdefABCDEF"

// validUUID reports whether a UUID may be used in a variable of a job. The driver shows question
// marks before the first use of a GPU.
func validUUID(s string) bool {
	const longest = 64
	name, ok := strings.CutPrefix(s, "GPU-")
	return ok && name != "" && len(s) <= longest && strings.Trim(name, hexDigits+"-") == ""
}

// amd reads the data of the driver amdgpu about compute GPUs (kfd).
func (d *detector) amd() {
	known := map[string]bool{}
	for _, name := range d.list(kfdDir) {
		dir := path.Join(kfdDir, name)
		text, err := d.read(path.Join(dir, "properties"))
		if err != nil {
			continue // a GPU that control groups hide from us
		}
		p := numberFields(text)
		if p["simd_count"] == 0 {
			continue // a processor
		}
		location := p["location_id"]
		g := d.at(fmt.Sprintf("%04x:%02x:%02x.%d", p["domain"], location>>8&0xff, location>>3&0x1f, location&7), AMD)
		known[g.Address] = true
		if p["cpu_cores_count"] > 0 {
			g.Integrated = true
		}
		if id := p["unique_id"]; id != 0 {
			g.UUID = fmt.Sprintf("GPU-%016x", id)
		}
		if g.Model == "" {
			g.Model, _ = d.read(path.Join(dir, "name"))
		}
		for _, bank := range d.list(path.Join(dir, "mem_banks")) {
			text, err := d.read(path.Join(dir, "mem_banks", bank, "properties"))
			// Heaps 1 and 2 are the memory of the GPU, that the processor sees and that it does not.
			if b := numberFields(text); err == nil && (b["heap_type"] == 1 || b["heap_type"] == 2) {
				g.Memory += b["size_in_bytes"]
			}
		}
		if len(g.Nodes) == 0 && !g.Integrated {
			g.broken("it has no device in /sys/class/drm")
		}
	}
	for i := range d.v.GPUs {
		if g := &d.v.GPUs[i]; g.Vendor == AMD && !known[g.Address] {
			g.broken("the driver amdgpu offers no computing on it: it is not in /sys/class/kfd")
		}
	}
	if n, ok := d.node(kfdNode, "/dev/kfd"); ok && len(known) > 0 {
		d.v.Shared[AMD] = []Node{n}
	}
}

// numberFields reads lines of a name and a number.
func numberFields(text string) map[string]uint64 {
	fields := map[string]uint64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			fields[name] = n
		}
	}
	return fields
}

// others judges the GPUs of Intel. One on the first bus is a part of the processor.
func (d *detector) others() {
	for i := range d.v.GPUs {
		g := &d.v.GPUs[i]
		if g.Vendor != Intel {
			continue
		}
		_, bus, _ := strings.Cut(g.Address, ":")
		g.Integrated = strings.HasPrefix(bus, "00:")
		if !g.Integrated && len(g.Nodes) == 0 {
			g.broken("it has no device in /sys/class/drm: load the module xe or i915")
		}
	}
}

// ParseAddress reads an address of the PCI bus as files and programs write it, with four or eight
// digits of the domain, and returns it in the form of /sys: "0000:65:00.0".
func ParseAddress(s string) (string, bool) {
	parts := strings.FieldsFunc(s, func(r rune) bool { return r == ':' || r == '.' })
	if len(parts) != 4 || strings.Count(s, ":") != 2 || strings.Count(s, ".") != 1 {
		return "", false
	}
	var n [4]uint64
	for i, bits := range [4]int{32, 8, 5, 3} {
		var err error
		if n[i], err = strconv.ParseUint(parts[i], 16, bits); err != nil {
			return "", false
		}
	}
	return fmt.Sprintf("%04x:%02x:%02x.%x", n[0], n[1], n[2], n[3]), true
}
