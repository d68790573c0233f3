package qconf

import (
	"fmt"
	"strconv"
)

// Complexes that published clients request, and that Grid Engine leaves to sites to define.
const (
	scratchName    = "scratch"
	scratchComplex = scratchName + " disk MEMORY <= YES JOB 0 0\n"
	imagesComplex  = "docker_images docker_images RESTRING == YES NO NONE 0\n"
)

// WithScratch returns the cluster with the consumable scratch (its shortcut is disk), of which a
// host has size bytes and a job books its request once, and with the complex docker_images, which no host has a value of: workflow
// engines request it with -soft. The host must exist. Use it for the built-in configuration only,
// not for that of a site.
func (c *Cluster) WithScratch(host string, size uint64) (*Cluster, error) {
	complexes, err := ParseComplexes("", []byte(c.complexes.Format()+scratchComplex+imagesComplex))
	if err != nil {
		return nil, err
	}
	changed, err := c.WithComplexes(complexes)
	if err != nil {
		return nil, err
	}
	h, err := changed.Host(host)
	if err != nil {
		return nil, fmt.Errorf("cannot set complex_values: %w", err)
	}
	const mib = 1 << 20
	value := strconv.FormatUint(size/mib, 10) + "M"
	if h, err = h.With("complex_values", formatSettings(append(h.ComplexValues, Setting{Name: scratchName, Value: value}))); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}
