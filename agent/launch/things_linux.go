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

// ThingPrefix begins the names of the variables that have the things of resource maps.
const ThingPrefix = "SGE_HGR_"

// CheckThings refuses a job that has been given a GPU that this host does not have, or has no
// more. On a host without GPUs the map is the site's own.
func (o *Assignment) CheckThings() error {
	if !o.GPUs.Numbered() {
		return nil
	}
	if lacking := o.GPUs.Lacking(o.Things[o.gpuMap()]); len(lacking) > 0 {
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

// planThings tells the job which things of resource maps it has got on this host, and plans which
// GPUs it may not open.
func (o *Assignment) planThings(p *Plan) {
	if o.GPUCount > 0 {
		p.choice = &gpuChoice{o.GPUCount, o.GPUComplex, o.GPUs}
	} else {
		p.SetGPUs(o.GPUs, o.Things[o.gpuMap()])
	}
	for _, name := range slices.Sorted(maps.Keys(o.Things)) {
		sayTrusted(p.Description, ThingPrefix+name+"="+strings.Join(o.Things[name], " "))
	}
	for _, name := range slices.Sorted(maps.Keys(o.Amounts)) {
		if o.Things[name] == nil {
			sayTrusted(p.Description, ThingPrefix+name+"="+strconv.FormatFloat(o.Amounts[name], 'f', 6, 64))
		}
	}
}

// SetGPUs plans that a job has some of the GPUs of a host, and no others.
func (p *Plan) SetGPUs(of *gpu.Inventory, ids []string) {
	p.GPUs, p.Deny = slices.Clone(ids), nil
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
	j.own.gpus, j.own.deny = p.GPUs, p.Deny
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

// IsThing reports whether a variable lists the elements of a resource map that a job has got.
func IsThing(name string) bool { return strings.HasPrefix(name, ThingPrefix) }

// thingsIn are the names among some of the variables of planThings.
func thingsIn(names []string) []string {
	var list []string
	for _, name := range names {
		if strings.HasPrefix(name, ThingPrefix) || slices.Contains(gpu.Variables, name) {
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
