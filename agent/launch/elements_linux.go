package launch

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits/cgroup"
)

// GPUMap is the complex of the resource map of GPUs.
const GPUMap = "gpu"

// ElementPrefix begins the names of the variables with the elements of resource maps.
const ElementPrefix = "SGE_HGR_"

// CheckElements refuses a job to which a GPU was granted that this host does not have. On a host
// without GPUs the resource map belongs to the site.
func (o *Assignment) CheckElements() error {
	if !o.GPUs.Numbered() {
		return nil
	}
	if lacking := o.GPUs.Lacking(o.Elements[o.gpuMap()]); len(lacking) > 0 {
		return fmt.Errorf("this host does not offer GPU %s, which the job has been given", strings.Join(lacking, ", "))
	}
	return nil
}

// gpuMap returns the complex with which the master gives jobs GPUs.
func (o *Assignment) gpuMap() string {
	if o.GPUComplex != "" {
		return o.GPUComplex
	}
	return GPUMap
}

// planElements sets the variables with the elements of resource maps that were granted to the job on this
// host, and plans which GPUs it may not open.
func (o *Assignment) planElements(p *Plan) {
	if o.GPUCount > 0 {
		p.GPUCount, p.GPUComplex = o.GPUCount, o.GPUComplex
		p.among = o.GPUAmong
		p.ChooseGPUs(o.GPUs)
	} else {
		p.SetGPUs(o.GPUs, o.Elements[o.gpuMap()])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Elements)) {
		sayTrusted(p.Description, ElementPrefix+name+"="+strings.Join(o.Elements[name], " "))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Amounts)) {
		if o.Elements[name] == nil {
			sayTrusted(p.Description, ElementPrefix+name+"="+strconv.FormatFloat(o.Amounts[name], 'f', 6, 64))
		}
	}
}

// SetGPUs plans that a job has some of the GPUs of a host, and no others.
func (p *Plan) SetGPUs(of *gpu.Inventory, ids []string) {
	p.GPUs, p.Deny, p.filter = slices.Clone(ids), nil, of.Numbered()
	for _, n := range of.Denied(ids) {
		p.Deny = append(p.Deny, cgroup.Device{Major: int64(n.Major), Minor: int64(n.Minor)})
	}
	if len(of.Offered()) > 0 {
		p.FilteredEnv, p.UnfilteredEnv = of.Environment(ids, true), of.Environment(ids, false)
	}
}

// sayTrusted appends variables to a job's environment, after variables of the user with the same
// names: the last one counts.
func sayTrusted(d *job.Description, variables ...string) {
	for _, v := range variables {
		name, _, _ := strings.Cut(v, "=")
		d.Environment = append(d.Environment, v)
		d.Trusted = append(d.Trusted, name)
	}
}

// giveGPUs grants the job its GPUs and denies it all others, as far as the kernel can deny devices.
func (j *Job) giveGPUs(p *Plan) {
	j.own.gpus, j.own.deny, j.filter = p.GPUs, p.Deny, p.filter
	if j.groups.filters(j.Description) {
		sayTrusted(j.Description, p.FilteredEnv...)
	} else {
		sayTrusted(j.Description, p.UnfilteredEnv...)
	}
}

// GPUs are the numbers of the GPUs that the job has.
func (j *Job) GPUs() []string { return j.own.gpus }

// filters reports whether the kernel can deny devices to a job.
func (g *Groups) filters(d *job.Description) bool {
	return g != nil && d.AddGroupKill && g.manager.System().Check(cgroup.Devices) == nil
}

// IsElement reports whether a variable lists the elements of a resource map that a job has.
func IsElement(name string) bool { return strings.HasPrefix(name, ElementPrefix) }

// elementsIn filters names: it returns the names of variables that planElements sets.
func elementsIn(names []string) []string {
	var list []string
	for _, name := range names {
		if strings.HasPrefix(name, ElementPrefix) || slices.Contains(gpu.Variables, name) {
			list = append(list, name)
		}
	}
	return list
}

// formatDevice returns a device in the notation of devices.deny of cgroup v1.
func formatDevice(d cgroup.Device) string {
	kind := "c"
	if d.Block {
		kind = "b"
	}
	return kind + " " + strconv.FormatInt(d.Major, 10) + ":" + strconv.FormatInt(d.Minor, 10)
}

func parseDevice(s string) (d cgroup.Device, err error) {
	kind, number, _ := strings.Cut(s, " ")
	major, minor, _ := strings.Cut(number, ":")
	d.Block = kind == "b"
	if d.Major, err = strconv.ParseInt(major, 10, 64); err == nil {
		d.Minor, err = strconv.ParseInt(minor, 10, 64)
	}
	if err != nil || kind != "b" && kind != "c" {
		return d, fmt.Errorf("%q is not a device, expected a kind and a number such as c 195:0", s)
	}
	return d, nil
}
