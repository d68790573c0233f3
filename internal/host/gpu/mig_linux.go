package gpu

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// A GPU of NVIDIA in MIG mode is divided into GPU instances, each with memory of its own, and these into compute
// instances. What NVIDIA calls a MIG device, and this package a MIG instance, is one compute instance with its GPU
// instance: CUDA offers it to programs as a device. The driver numbers both kinds of instances, and has a device of
// its own for each pair of numbers of a GPU (NVIDIA's Multi-Instance GPU User Guide, "Device Nodes and Capabilities").

// capsDir is where the driver lists the capabilities: the devices with which processes may use instances.
const capsDir = "proc/driver/nvidia/capabilities"

// capsDriver is the name of these devices in /proc/devices.
const capsDriver = "nvidia-caps"

// unnamed stands between the model of a GPU and the numbers of an instance whose profile is not known.
const unnamed = " MIG instance "

// divide finds the MIG instances of an NVIDIA GPU.
func (d *detector) divide(g *GPU, minor uint64) {
	root := path.Join(capsDir, fmt.Sprintf("gpu%d", minor), "mig")
	groups := d.numbered(root, "gi")
	if len(groups) == 0 {
		return
	}
	g.Divided = true
	major, ok := d.majors[capsDriver]
	if !ok {
		g.broken("its MIG instances have no devices, so jobs could not be kept from instances of others: load the module nvidia without nv_cap_enable_devfs=0")
		return
	}
	device := g.Nodes[len(g.Nodes)-1]
	var list []GPU
	for _, gi := range groups {
		dir := path.Join(root, fmt.Sprintf("gi%d", gi))
		group, _, okGroup := d.capability(major, path.Join(dir, "access"))
		if okGroup {
			g.Nodes = append(g.Nodes, group)
		}
		for _, ci := range d.numbered(dir, "ci") {
			own, stamp, ok := d.capability(major, path.Join(dir, fmt.Sprintf("ci%d", ci), "access"))
			if !ok {
				continue
			}
			g.Nodes = append(g.Nodes, own)
			if okGroup {
				list = append(list, GPU{Instance: fmt.Sprintf("%d.%d", gi, ci), Nodes: []Node{device, group, own}, stamp: stamp})
			}
		}
	}
	for _, i := range list {
		x := *g
		x.Divided, x.Instance, x.Nodes, x.UUID, x.stamp = false, i.Instance, i.Nodes, "", i.stamp
		x.Model = strings.TrimSpace(g.Model + unnamed + i.Instance)
		d.instances = append(d.instances, x)
	}
}

// numbered returns the numbers of the entries of a directory whose names are a prefix and a number, sorted.
func (d *detector) numbered(dir, prefix string) []int {
	var list []int
	for _, name := range d.list(dir) {
		text, ok := strings.CutPrefix(name, prefix)
		if n, err := strconv.Atoi(text); ok && err == nil && n >= 0 && n <= maxInstance && strconv.Itoa(n) == text {
			list = append(list, n)
		}
	}
	slices.Sort(list)
	return list
}

// capability reads the number of a device from the file that describes it. stamp is the time at which the kernel made
// the file.
func (d *detector) capability(major uint32, file string) (n Node, stamp int64, ok bool) {
	text, err := d.read(file)
	if errors.Is(err, fs.ErrNotExist) {
		return Node{}, 0, false // the instance was destroyed meanwhile
	}
	minor := uint64(0)
	if err == nil {
		minor, err = strconv.ParseUint(colonFields(text)["DeviceFileMinor"], 10, 20)
	}
	if err != nil {
		d.problem("cannot read the number of a MIG instance's device in /%s: %v", file, err)
		return Node{}, 0, false
	}
	if info, err := fs.Stat(d.files, file); err == nil {
		stamp = info.ModTime().UnixNano()
	}
	return Node{fmt.Sprintf("/dev/nvidia-caps/nvidia-cap%d", minor), major, uint32(minor)}, stamp, true
}

// forbid finds the device with which instances can be made and destroyed.
func (d *detector) forbid() {
	if major, ok := d.majors[capsDriver]; ok {
		if n, _, ok := d.capability(major, path.Join(capsDir, "mig/config")); ok {
			d.v.Forbidden = append(d.v.Forbidden, n)
		}
	}
}

// validInstanceUUID reports whether a UUID of a MIG instance may be used in a variable of a job. Before version 470 the
// driver named an instance "MIG-GPU-UUID/GPU INSTANCE/COMPUTE INSTANCE".
func validInstanceUUID(s string) bool {
	const longest = 64
	name, ok := strings.CutPrefix(s, "MIG-")
	if gpu, instance, old := strings.Cut(name, "/"); old {
		return validUUID(gpu) && validInstance(strings.Replace(instance, "/", ".", 1)) && len(s) <= longest
	}
	return ok && name != "" && len(s) <= longest && strings.Trim(name, hexDigits+"-") == ""
}

// validProfile reports whether a profile, "1g.10gb" or "1c.2g.20gb+me", may be used in the value of a complex.
func validProfile(s string) bool {
	const longest = 32
	return s != "" && len(s) <= longest &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789.+-") == ""
}

// ToldInstance is the data of a MIG instance from nvidia-smi.
type ToldInstance struct {
	Address  string // of its GPU
	Instance string // "1.0"
	UUID     string // empty if the list does not have it
	Profile  string // "1g.10gb"; empty like the UUID
	Memory   uint64 // in bytes; 0 if it does not say
	Used     int64  // memory in use, in bytes; -1 if it does not say
}

// details holds the parts of the answer of nvidia-smi -q -x that are needed.
type details struct {
	XMLName xml.Name `xml:"nvidia_smi_log"`
	GPUs    []struct {
		Address   string `xml:"id,attr"`
		UUID      string `xml:"uuid"`
		Instances []struct {
			Index string `xml:"index"`
			GI    string `xml:"gpu_instance_id"`
			CI    string `xml:"compute_instance_id"`
			Total string `xml:"fb_memory_usage>total"`
			Used  string `xml:"fb_memory_usage>used"`
		} `xml:"mig_devices>mig_device"`
	} `xml:"gpu"`
}

// ParseInstances reads what nvidia-smi says about MIG instances: the answers of "nvidia-smi -L", which has the UUIDs, and
// of "nvidia-smi -q -x", which has the numbers of the instances and their memory. Both count the instances of a GPU.
// Without the first answer, "", UUIDs and profiles are empty. An instance that occurs twice, and a UUID that does, make
// the answers invalid: two jobs would get the same instance.
func ParseInstances(list, description string) ([]ToldInstance, error) {
	names, err := parseList(list)
	if err != nil {
		return nil, err
	}
	var all details
	if err := xml.Unmarshal([]byte(description), &all); err != nil {
		return nil, fmt.Errorf("%q: %w", firstLine(description), err)
	}
	var told []ToldInstance
	for _, g := range all.GPUs {
		if len(g.Instances) == 0 {
			continue
		}
		address, ok := ParseAddress(strings.TrimSpace(g.Address))
		if !ok {
			return nil, fmt.Errorf("%q, expected a PCI address such as 00000000:65:00.0", firstLine(g.Address))
		}
		for _, x := range g.Instances {
			t := ToldInstance{Address: address, Instance: strings.TrimSpace(x.GI) + "." + strings.TrimSpace(x.CI), Used: -1}
			if !validInstance(t.Instance) {
				return nil, fmt.Errorf("MIG instance %q of the GPU at %s, expected numbers of a GPU instance and a compute instance", firstLine(t.Instance), address)
			}
			if n, ok := parseMiB(x.Total); ok {
				t.Memory = uint64(n)
			}
			if n, ok := parseMiB(x.Used); ok {
				t.Used = n
			}
			name := names[listed{strings.TrimSpace(g.UUID), strings.TrimSpace(x.Index)}]
			t.UUID, t.Profile = name.uuid, name.profile
			same := func(o ToldInstance) bool {
				return o.Address == t.Address && o.Instance == t.Instance || t.UUID != "" && strings.EqualFold(o.UUID, t.UUID)
			}
			if slices.ContainsFunc(told, same) {
				return nil, fmt.Errorf("MIG instance %s of the GPU at %s is there twice", t.Instance, address)
			}
			told = append(told, t)
		}
	}
	return told, nil
}

// listed is a MIG instance in the answer of nvidia-smi -L: the UUID of its GPU, and its place among the instances of that.
type listed struct{ gpu, index string }

type instanceName struct{ uuid, profile string }

// parseList reads the answer of nvidia-smi -L:
//
//	GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-...)
//	  MIG 1g.10gb     Device  0: (UUID: MIG-...)
//
// It ignores other lines, such as errors of single GPUs.
func parseList(text string) (map[listed]instanceName, error) {
	names := map[listed]instanceName{}
	uuids := map[string]bool{}
	gpu := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		uuid := ""
		if _, rest, ok := strings.Cut(line, "(UUID: "); ok {
			uuid, _ = strings.CutSuffix(rest, ")")
		}
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if words[0] != "MIG" {
			gpu = ""
			if words[0] == "GPU" && validUUID(uuid) {
				gpu = uuid
			}
			continue
		}
		wrong := fmt.Errorf("%q, expected a line such as MIG 1g.10gb Device 0: (UUID: MIG-...), below its GPU", firstLine(line))
		if gpu == "" || len(words) < 4 || !validProfile(words[1]) || words[2] != "Device" || !validInstanceUUID(uuid) {
			return nil, wrong
		}
		index, ok := strings.CutSuffix(words[3], ":")
		key := listed{gpu, index}
		if _, twice := names[key]; !ok || twice || uuids[strings.ToLower(uuid)] {
			return nil, wrong
		}
		names[key], uuids[strings.ToLower(uuid)] = instanceName{uuid, words[1]}, true
	}
	return names, nil
}

// parseMiB reads a size such as "9984 MiB", in bytes.
func parseMiB(s string) (int64, bool) {
	number, ok := strings.CutSuffix(strings.TrimSpace(s), "MiB")
	const most = 1 << 40 // MiB: larger values do not fit into 63 bits in bytes
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	return n << 20, ok && err == nil && n >= 0 && n < most
}
