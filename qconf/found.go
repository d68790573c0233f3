package qconf

import (
	"fmt"
	"slices"
	"strings"
)

// FoundMap is a resource map that a host has found on itself, such as that of its GPUs.
type FoundMap struct {
	Name string // of the complex, which has the type RSMAP
	IDs  []string
	Gone []string // ids of things that the host has had, and has no more
}

// resourceMapComplex are the columns of a complex for a resource map that nobody has defined.
const resourceMapComplex = "%[1]s %[1]s RSMAP <= YES YES 0 0\n"

// WithFoundMap returns the cluster with a resource map of a host: the complex, unless there is one,
// and in complex_values of the host the ids, unless there are others. What the files of the cluster
// say stays, but for ids of things that are gone. A complex of another type is the site's own, and
// nothing is added.
func (c *Cluster) WithFoundMap(host string, found FoundMap) (*Cluster, error) {
	x, there := c.complexes.Find(found.Name)
	if there && (x.Type != ComplexRSMap || x.Name != found.Name) || len(found.IDs)+len(found.Gone) == 0 {
		return c, nil
	}
	changed := c
	if !there {
		complexes, err := ParseComplexes("", []byte(c.complexes.Format()+fmt.Sprintf(resourceMapComplex, found.Name)))
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
		values = append(values, Setting{Name: found.Name, Value: ResourceMap{IDs: found.IDs}.String()})
	default:
		m, err := ParseResourceMap(values[i].Value)
		if err != nil {
			return nil, err
		}
		m.IDs = slices.DeleteFunc(m.IDs, func(id string) bool { return slices.Contains(found.Gone, id) })
		values[i].Value = m.String()
	}
	if h, err = h.With("complex_values", formatSettings(values)); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}

// WithoutFoundMap is the way back for the text of a host that somebody has changed: it returns the
// host without a resource map that is the one that was found.
func (h *ExecHost) WithoutFoundMap(found FoundMap) (*ExecHost, error) {
	own := ResourceMap{IDs: found.IDs}.String()
	values := slices.DeleteFunc(slices.Clone(h.ComplexValues), func(s Setting) bool { return s.Name == found.Name && s.Value == own })
	if len(values) == len(h.ComplexValues) {
		return h, nil
	}
	return h.With("complex_values", formatSettings(values))
}

// formatSettings is a list of settings as complex_values has it.
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

// withHost returns the cluster with an execution host in place of the one of that name.
func (c *Cluster) withHost(h *ExecHost) *Cluster {
	changed := c.clone()
	changed.missing, changed.doubtful = c.missing, c.doubtful
	changed.hosts[strings.ToLower(h.Name)] = h
	return changed
}
