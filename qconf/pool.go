package qconf

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
)

// builtinPool is the consumable of the built-in memory pool. Some of Grid Engine's successors
// have it under this name.
const builtinPool = "m_mem_free"

// memoryRequests are the complexes with which users and workflow engines request memory.
var memoryRequests = []string{"h_vmem", "h_rss", "mem_free", "m_mem_free", "virtual_free"}

// maxBooked is the most that a request books, in bytes. No host has as much.
const maxBooked = 1 << 62

// MemoryPool returns the consumable of MEMORY_POOL in qmaster_params. It reports false if there is
// none: the parameter is not set, or does not name a requestable consumable of type MEMORY that counts
// per slot.
func (c *Cluster) MemoryPool() (Complex, bool) {
	name := c.global.QmasterParams.MemoryPool
	if name == "" {
		return Complex{}, false
	}
	x, ok := c.complexes.Find(name)
	return x, ok && x.Type == ComplexMemory && x.Consumable == ConsumableYes && x.Relop != relopExclusive && x.Requestable != RequestableNo
}

// poolWarning returns a warning if MEMORY_POOL is set but is not a memory pool, so that jobs book
// nothing; nil otherwise.
func (c *Cluster) poolWarning() *Error {
	name := c.global.QmasterParams.MemoryPool
	if _, ok := c.MemoryPool(); ok || name == "" {
		return nil
	}
	return &Error{
		Attribute: "qmaster_params", Value: "MEMORY_POOL=" + name,
		Problem: "MEMORY_POOL=" + name + " is no memory pool, and jobs book no memory: expected the name of a requestable complex of type MEMORY, with consumable YES and a relop other than EXCL",
	}
}

// MemoryPoolDefault returns the memory, in bytes, that a job without a request books from the
// memory pool for each slot; 0 without a pool.
func (c *Cluster) MemoryPoolDefault() uint64 {
	pool, ok := c.MemoryPool()
	if !ok {
		return 0
	}
	v, _ := complexNumber(pool.Default) // complexes are checked
	return uint64(min(v, maxBooked))
}

// RequestsMemory reports whether a request of this complex is one for the memory pool.
// Complexes whose type a site has changed are not.
func (c *Cluster) RequestsMemory(x Complex) bool {
	pool, ok := c.MemoryPool()
	if !ok || x.Type != ComplexMemory {
		return false
	}
	return x.Name == pool.Name || slices.Contains(memoryRequests, x.Name)
}

// RequestedMemory returns the memory, in bytes, that a job with these hard requests books from the
// memory pool for each of its slots. If a complex is requested several times, by its name or its
// shortcut, the last value counts; of several complexes, the largest value counts. INFINITY and
// less than one byte count as no request. RequestedMemory returns 0 if no request counts: the job
// then books MemoryPoolDefault. Values that cannot be read, and negative ones, are an error.
func (c *Cluster) RequestedMemory(requests []Setting) (uint64, error) {
	_, v, err := c.largestRequest(requests)
	return v, err
}

// largestRequest returns the complex whose value RequestedMemory returns, and that value.
func (c *Cluster) largestRequest(requests []Setting) (complexName string, bytes uint64, err error) {
	values := map[string]string{}
	for _, s := range requests {
		if x, ok := c.complexes.Find(s.Name); ok && c.RequestsMemory(x) {
			values[x.Name] = s.Value
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		v, err := complexNumber(values[name])
		switch {
		case err != nil:
			return "", 0, fmt.Errorf("attribute %q is a request for memory and has the value %q, expected a number with an optional letter of k K m M g G t T", name, values[name])
		case v < 0:
			return "", 0, fmt.Errorf("attribute %q is a request for memory but has a negative value", name)
		case !math.IsInf(v, 0):
			if n := uint64(min(v, maxBooked)); n > bytes {
				complexName, bytes = name, n
			}
		}
	}
	return complexName, bytes, nil
}

// BookedAs returns the complex with which a job with these hard requests requests the memory that
// BookedMemory returns: that of the pool if the job books its default. Empty without a pool.
func (c *Cluster) BookedAs(requests []Setting) string {
	if name, _, err := c.largestRequest(requests); err == nil && name != "" {
		return name
	}
	pool, ok := c.MemoryPool()
	if !ok {
		return ""
	}
	return pool.Name
}

// BookedMemory returns the memory, in bytes, that a job with these hard requests books from the
// memory pool of a host for each of its slots; 0 if the host has no memory pool. For requests that
// RequestedMemory refuses it is the default.
func (c *Cluster) BookedMemory(host string, requests []Setting) uint64 {
	pool, ok := c.MemoryPool()
	if !ok {
		return 0
	}
	h, err := c.Host(host)
	if err != nil || !slices.ContainsFunc(c.complexes.Canonical(h.ComplexValues), func(s Setting) bool { return s.Name == pool.Name }) {
		return 0
	}
	if v, err := c.RequestedMemory(requests); err == nil && v > 0 {
		return v
	}
	return c.MemoryPoolDefault()
}

// WithMemoryPool returns the cluster with memory bytes of a host as one pool: it sets the
// consumable m_mem_free, of which a job without a request for memory books an equal share for each
// of its slots, MEMORY_POOL=m_mem_free in qmaster_params, and VMEM_LIMIT=memory in execd_params.
// The host must exist. Use it for the built-in configuration only, not for that of a site.
func (c *Cluster) WithMemoryPool(host string, memory uint64, slots int) (*Cluster, error) {
	const mib = 1 << 20
	share := max(memory/uint64(max(slots, 1))/mib, 1) // the sum of all shares does not exceed the pool
	text := fmt.Sprintf("%[1]s %[1]s MEMORY <= YES YES %[2]dM 0\n", builtinPool, share)
	complexes, err := ParseComplexes("", []byte(c.complexes.Format()+text))
	if err != nil {
		return nil, err
	}
	changed, err := c.WithComplexes(complexes)
	if err != nil {
		return nil, err
	}
	for list, param := range map[string]string{"qmaster_params": "MEMORY_POOL=" + builtinPool, "execd_params": "VMEM_LIMIT=memory"} {
		if changed, err = changed.withParam(list, param); err != nil {
			return nil, err
		}
	}
	h, err := changed.Host(host)
	if err != nil {
		return nil, err
	}
	size := strconv.FormatUint(memory/mib, 10) + "M"
	if h, err = h.With("complex_values", formatSettings(append(h.ComplexValues, Setting{Name: builtinPool, Value: size}))); err != nil {
		return nil, err
	}
	return changed.withHost(h), nil
}
