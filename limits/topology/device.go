package topology

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Device is where a device is on its host, such as a GPU.
type Device struct {
	ID string
	// Near are the cores of its memory node. It is empty if the node is unknown.
	Near []Pair
	// Root names the PCIe root that the device is connected to: devices with the same one can exchange
	// data without the processors. It is empty if the root is unknown.
	Root string
}

// FormatDevices returns the places of devices as the load value m_topology_gpu has them: for each memory
// node and root a word with the devices, the root and the shape of the host with the near cores in lower
// case, "0,1:pci0000:40/SccSCC 2:pci0000:c0/SCCScc". A device with a character of this notation in its
// ID is left out.
func FormatDevices(shape Shape, devices []Device) string {
	var places []string
	ids := map[string][]string{}
	for _, d := range devices {
		if d.ID == "" || strings.ContainsAny(d.ID, " ,:/") || strings.ContainsAny(d.Root, " /") {
			continue
		}
		place := ":" + d.Root + "/" + shape.With(func(p Pair) bool { return slices.Contains(d.Near, p) }).String()
		if ids[place] == nil {
			places = append(places, place)
		}
		ids[place] = append(ids[place], d.ID)
	}
	for i, place := range places {
		places[i] = strings.Join(ids[place], ",") + place
	}
	return strings.Join(places, " ")
}

// maxDevices is the maximum number of devices that ParseDevices accepts.
const maxDevices = 4096

// ParseDevices reads the notation of FormatDevices, for a host with a given shape.
func ParseDevices(shape Shape, text string) ([]Device, error) {
	var list []Device
	for word := range strings.FieldsSeq(text) {
		ids, rest, ok1 := strings.Cut(word, ":")
		root, near, ok2 := strings.Cut(rest, "/")
		if !ok1 || !ok2 || ids == "" {
			return nil, errors.New(strconv.Quote(shortened(word)) + ", expected devices, a PCIe root and a topology such as 0,1:pci0000:40/SccSCC")
		}
		sh, err := ParseShape(near)
		if err != nil {
			return nil, err
		}
		if !sh.SameHost(shape) {
			return nil, errors.New(strconv.Quote(shortened(near)) + " is another topology than " + shortened(shape.With(nil).String()))
		}
		cores := sh.InUse()
		for id := range strings.SplitSeq(ids, ",") {
			if list = append(list, Device{ID: id, Near: cores, Root: root}); len(list) > maxDevices {
				return nil, errors.New("too many devices")
			}
		}
	}
	return list, nil
}

// shortened returns the beginning of a text for an error.
func shortened(text string) string {
	const longest = 100
	return text[:min(len(text), longest)]
}

// ChooseDevices chooses n of the free devices, for a job with some cores that already has some devices
// of the host. It returns their indexes in free, all of them if there are fewer. Devices that the job does
// not have yet come first: a device that can be shared is listed several times. Then come devices near the
// cores, those that share a PCIe root with devices of the job, those of a root with enough free devices, and
// those of the first device's memory node; of equal ones the first in the list.
func ChooseDevices(free, has []Device, cores []Pair, n int) []int {
	n = min(n, len(free))
	c := chooser{ids: map[string]bool{}, roots: map[string]bool{}, left: map[string]int{}}
	c.near = make([]bool, len(free))
	for i := range free {
		c.near[i] = slices.ContainsFunc(cores, func(p Pair) bool { return slices.Contains(free[i].Near, p) })
		c.left[free[i].Root]++
	}
	for i := range has {
		c.take(&has[i])
	}
	chosen := make([]int, 0, n)
	taken := make([]bool, len(free))
	for len(chosen) < n {
		best, rank := -1, 0
		for i := range free {
			if taken[i] {
				continue
			}
			if r := c.rank(&free[i], c.near[i], n-len(chosen)); best < 0 || r > rank {
				best, rank = i, r
			}
		}
		chosen, taken[best] = append(chosen, best), true
		c.take(&free[best])
		c.left[free[best].Root]--
	}
	return chosen
}

// chooser holds what a job has while its devices are chosen.
type chooser struct {
	near       []bool
	ids, roots map[string]bool
	left       map[string]int // free devices by root
	first      *Device
}

func (c *chooser) take(d *Device) {
	c.ids[d.ID], c.roots[d.Root] = true, true
	if c.first == nil {
		c.first = d
	}
}

// rank returns how well a device suits a job that needs some more: the first reason counts most.
func (c *chooser) rank(d *Device, near bool, need int) (rank int) {
	for _, yes := range [...]bool{
		!c.ids[d.ID],
		near,
		d.Root != "" && c.roots[d.Root],
		d.Root != "" && need > 1 && c.left[d.Root] >= need,
		c.first != nil && len(d.Near) > 0 && slices.Equal(c.first.Near, d.Near),
	} {
		rank <<= 1
		if yes {
			rank |= 1
		}
	}
	return rank
}
