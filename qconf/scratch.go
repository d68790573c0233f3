package qconf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ScratchName is the complex with which a job requests space for its TMPDIR.
const ScratchName = "scratch"

// Complexes that published clients request, and that Grid Engine leaves to sites to define.
const (
	scratchComplex = ScratchName + " disk MEMORY <= YES JOB 0 0\n"
	imagesComplex  = "docker_images docker_images RESTRING == YES NO NONE 0\n"
)

// ScratchLimit says how the size of the TMPDIRs of jobs is limited (SCRATCH_LIMIT of execd_params).
type ScratchLimit string

// The values of SCRATCH_LIMIT.
const (
	ScratchUnlimited ScratchLimit = "" // none: it is not limited
	// ScratchAuto is auto: quota or else image. On a host with neither, jobs run without the limit.
	ScratchAuto  ScratchLimit = "auto"
	ScratchQuota ScratchLimit = "quota" // a project quota of the file system
	ScratchImage ScratchLimit = "image" // a file system in a file
	ScratchTmpfs ScratchLimit = "tmpfs" // a file system in memory
)

func readScratchLimit(e *ExecdParams, s string) (string, error) {
	if isWord(s, none) {
		e.ScratchLimit = ScratchUnlimited
		return s, nil
	}
	for _, l := range []ScratchLimit{ScratchAuto, ScratchQuota, ScratchImage, ScratchTmpfs} {
		if isWord(s, string(l)) {
			e.ScratchLimit = l
			return s, nil
		}
	}
	return s, fmt.Errorf("%q is unknown, expected one of auto, quota, image, tmpfs, none", s)
}

// RequestedScratch returns the space, in bytes, that a job with these hard requests books for its
// TMPDIR on a host on which it has so many slots: its request for the complex scratch, otherwise the
// default of the complex, once or for each slot as it is booked. It returns 0 if the job books none,
// INFINITY, or if the complex does not stand for an amount of memory. c may be nil.
func (c *Complexes) RequestedScratch(requests []Setting, slots int) uint64 {
	x := Complex{Name: ScratchName, Type: ComplexMemory}
	if c != nil {
		var ok bool
		if x, ok = c.Find(ScratchName); !ok || x.Type != ComplexMemory {
			return 0
		}
	}
	value := ""
	if x.Consumable != ConsumableNo {
		value = x.Default
	}
	for _, r := range requests {
		if r.Name == x.Name || r.Name == x.Shortcut {
			value = r.Value
		}
	}
	if value == "" {
		return 0
	}
	bytes, err := complexNumber(value)
	if x.Consumable == ConsumableYes {
		bytes *= float64(max(slots, 1))
	}
	if err != nil || bytes < 1 || bytes > maxBooked {
		return 0
	}
	return uint64(bytes)
}

// WithScratch returns the cluster with the consumable scratch (its shortcut is disk), of which a
// host has size bytes and a job books its request once, and which limits its TMPDIR where the host
// can do so. It also has the complex docker_images, which no host has a value of: workflow engines
// request it with -soft. The host must exist. Use it for the built-in configuration only, not for
// that of a site.
func (c *Cluster) WithScratch(host string, size uint64) (*Cluster, error) {
	complexes, err := ParseComplexes("", []byte(c.complexes.Format()+scratchComplex+imagesComplex))
	if err != nil {
		return nil, err
	}
	changed, err := c.WithComplexes(complexes)
	if err != nil {
		return nil, err
	}
	if changed, err = changed.withParam("execd_params", "SCRATCH_LIMIT="+string(ScratchAuto)); err != nil {
		return nil, err
	}
	h, err := changed.Host(host)
	if err != nil {
		return nil, fmt.Errorf("cannot set complex_values: %w", err)
	}
	const mib = 1 << 20
	value := strconv.FormatUint(size/mib, 10) + "M"
	values := append(slices.Clone(h.ComplexValues), Setting{Name: ScratchName, Value: value})
	if h, err = h.With("complex_values", formatSettings(values)); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}

// withParam returns the cluster with one more parameter in a list of the global configuration.
func (c *Cluster) withParam(list, param string) (*Cluster, error) {
	value, _ := c.global.Value(list)
	if isWord(value, none) {
		value = ""
	}
	global, err := c.global.With(list, strings.TrimSpace(value+" "+param))
	if err != nil {
		return nil, err
	}
	changed := c.clone()
	changed.global = global
	return changed, nil
}
