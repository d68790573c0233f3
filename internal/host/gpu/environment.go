package gpu

import (
	"slices"
	"strconv"
	"strings"
)

// Variables are the names that Environment may set. A job cannot choose their values on a host
// with GPUs.
var Variables = []string{
	"CUDA_DEVICE_ORDER", "CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "ZE_AFFINITY_MASK",
}

// nothing is a list of devices that ends before its first one.
const nothing = "-1"

// Environment returns the variables, as NAME=value, that show a job its GPUs and no others: the
// variables of each vendor whose GPUs the host offers. filtered says that the job cannot open other
// GPUs: then drivers only count the GPUs of the job, and otherwise all.
//
// A UUID identifies a GPU independently of a driver's count. It is used if all GPUs of the job from
// that vendor have one.
func (v *Inventory) Environment(ids []string, filtered bool) []string {
	var list []string
	set := func(name, value string) { list = append(list, name+"="+value) }
	for _, vendor := range vendors {
		of := func(g GPU) bool { return g.Vendor != vendor }
		all := slices.DeleteFunc(v.Offered(), of)
		if len(all) == 0 {
			continue
		}
		granted := slices.DeleteFunc(v.granted(ids), of)
		counted := v.counted(vendor, granted, filtered)
		switch vendor {
		case NVIDIA:
			set("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
			set("CUDA_VISIBLE_DEVICES", named(granted, counted, nothing))
			// The word of NVIDIA's container toolkit for no GPU.
			set("NVIDIA_VISIBLE_DEVICES", named(granted, counted, "void"))
		case AMD:
			set("ROCR_VISIBLE_DEVICES", named(granted, counted, nothing))
			// HIP counts the GPUs that ROCR_VISIBLE_DEVICES shows.
			set("HIP_VISIBLE_DEVICES", orNothing(upTo(len(granted)), nothing))
		case Intel:
			if len(granted) > 0 { // an empty mask is all devices
				set("ZE_AFFINITY_MASK", strings.Join(counted, ","))
			}
		}
	}
	return list
}

// counted returns the numbers that a driver gives some GPUs of a vendor.
func (v *Inventory) counted(vendor Vendor, granted []GPU, filtered bool) []string {
	if filtered {
		return upTo(len(granted))
	}
	var list []string
	n := 0
	for _, g := range v.GPUs {
		if g.Vendor != vendor || g.Broken || g.Instance != "" {
			continue
		}
		if slices.ContainsFunc(granted, func(x GPU) bool { return x.Address == g.Address }) {
			list = append(list, strconv.Itoa(n))
		}
		n++
	}
	return list
}

func upTo(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = strconv.Itoa(i)
	}
	return list
}

// named returns the UUIDs of GPUs, or if one has none, their indexes. A MIG instance has no index.
func named(granted []GPU, counted []string, none string) string {
	has := func(match func(g GPU) bool) bool { return slices.ContainsFunc(granted, match) }
	if has(func(g GPU) bool { return g.UUID == "" }) && !has(func(g GPU) bool { return g.Instance != "" }) {
		return orNothing(counted, none)
	}
	var list []string
	for _, g := range granted {
		if g.UUID != "" {
			list = append(list, g.UUID)
		}
	}
	return orNothing(list, none)
}

func orNothing(list []string, none string) string {
	if len(list) == 0 {
		return none
	}
	return strings.Join(list, ",")
}
