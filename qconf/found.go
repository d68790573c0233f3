package qconf

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FoundMap is a resource map that a host has found on itself, such as that of its GPUs.
type FoundMap struct {
	Name string // of the complex, which has the type RSMAP
	IDs  []string
	// Attributes are the attributes of each element, at its index in IDs.
	Attributes [][]Setting
	Gone       []string // ids of things that the host had before and has no longer
}

// attributeComplexes are the complexes for attributes of elements, for sites that have not defined
// them.
var attributeComplexes = map[string]string{
	"gpu_mem":  "gpu_mem gpu_mem MEMORY <= YES NO 0 0\n",
	"gpu_type": "gpu_type gpu_type RESTRING == YES NO NONE 0\n",
}

// resourceMap returns the map, with the attributes that the complexes have.
func (f *FoundMap) resourceMap(complexes *Complexes) ResourceMap {
	m := ResourceMap{IDs: f.IDs}
	for _, list := range f.Attributes {
		m.Attributes = append(m.Attributes, slices.DeleteFunc(slices.Clone(list), func(s Setting) bool {
			x, ok := complexes.Find(s.Name)
			return !ok || x.Consumable != ConsumableNo || x.Check(s.Value) != nil
		}))
	}
	return m
}

// resourceMapComplex holds the columns of a resource map's complex, for sites that have not defined
// it.
const resourceMapComplex = "%[1]s %[1]s RSMAP <= YES YES 0 0\n"

// WithFoundMap returns the cluster with a resource map that was found on a host. It adds the
// complex, unless it exists, and adds the ids to complex_values of the host, unless that already
// has ids. Settings of the site stay, except for ids of elements that no longer exist. If the site
// has a complex of this name with another type, nothing is added.
func (c *Cluster) WithFoundMap(host string, found FoundMap) (*Cluster, error) {
	x, there := c.complexes.Find(found.Name)
	if there && (x.Type != ComplexRSMap || x.Name != found.Name) || len(found.IDs)+len(found.Gone) == 0 {
		return c, nil
	}
	changed := c
	text := ""
	if !there {
		text = fmt.Sprintf(resourceMapComplex, found.Name)
	}
	for _, name := range slices.Sorted(maps.Keys(attributeComplexes)) {
		if _, ok := c.complexes.Find(name); !ok {
			text += attributeComplexes[name]
		}
	}
	if text != "" {
		complexes, err := ParseComplexes("", []byte(c.complexes.Format()+text))
		if err != nil {
			return nil, err
		}
		if changed, err = c.WithComplexes(complexes); err != nil {
			return nil, err
		}
	}
	h, err := changed.Host(host)
	if err != nil {
		if h, err = ParseHost("", fmt.Appendf(nil, "hostname %s\n", host)); err != nil {
			return nil, err
		}
	}
	values := slices.Clone(h.ComplexValues)
	i := slices.IndexFunc(values, func(s Setting) bool { return s.Name == found.Name || there && s.Name == x.Shortcut })
	switch {
	case i < 0:
		values = append(values, Setting{Name: found.Name, Value: found.resourceMap(changed.complexes).String()})
	default:
		m, err := ParseResourceMap(values[i].Value)
		if err != nil {
			return nil, err
		}
		for at, id := range slices.Backward(m.IDs) {
			if slices.Contains(found.Gone, id) {
				m.IDs = slices.Delete(m.IDs, at, at+1)
				if m.Attributes != nil {
					m.Attributes = slices.Delete(m.Attributes, at, at+1)
				}
			}
		}
		values[i].Value = m.String()
	}
	if h, err = h.With("complex_values", formatSettings(values)); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}

// WithoutFoundMap undoes WithFoundMap for a host whose text an administrator has edited: it removes
// the resource map if it equals the one that was found.
func (h *ExecHost) WithoutFoundMap(found FoundMap) (*ExecHost, error) {
	values := slices.DeleteFunc(slices.Clone(h.ComplexValues), func(s Setting) bool {
		m, err := ParseResourceMap(s.Value)
		return s.Name == found.Name && err == nil && slices.Equal(m.IDs, found.IDs)
	})
	if len(values) == len(h.ComplexValues) {
		return h, nil
	}
	return h.With("complex_values", formatSettings(values))
}

// formatSettings returns a list of settings as complex_values has it.
func formatSettings(list []Setting) string {
	if len(list) == 0 {
		return none
	}
	texts := make([]string, len(list))
	for i, s := range list {
		texts[i] = s.Name + "=" + s.Value
	}
	return strings.Join(texts, ",")
}

// withHost returns the cluster with the execution host of this name replaced.
func (c *Cluster) withHost(h *ExecHost) *Cluster {
	changed := c.clone()
	changed.missing, changed.doubtful = c.missing, c.doubtful
	changed.hosts[strings.ToLower(h.Name)] = h
	return changed
}
