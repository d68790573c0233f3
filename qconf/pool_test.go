package qconf_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
)

// pooledCluster returns a cluster of a host with a memory pool and a host without one.
func pooledCluster(t *testing.T, pool string) *qconf.Cluster {
	t.Helper()
	c, err := qconf.Load(fstest.MapFS{
		"complexes":   {Data: []byte(qconf.DefaultComplexes().Format() + pool + "\n")},
		"conf/global": {Data: []byte("qmaster_params MEMORY_POOL=m_mem_free\n")},
		"hosts/n1":    {Data: []byte("hostname n1\ncomplex_values m_mem_free=8G\n")},
		"hosts/n2":    {Data: []byte("hostname n2\n")},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// settings reads a list of -l.
func settings(text string) (list []qconf.Setting) {
	for s := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(s, "=")
		list = append(list, qconf.Setting{Name: name, Value: value})
	}
	return list
}

// TestBookedMemory compares what a job is limited to with its requests.
func TestBookedMemory(t *testing.T) {
	c := pooledCluster(t, "m_mem_free mmf MEMORY <= YES YES 1G 0")
	for requests, want := range map[string]uint64{
		"":                              1 << 30,
		"mf=2G":                         2 << 30,
		"mf=2G h_vmem=3G vf=1G":         3 << 30,
		"mf=0":                          1 << 30,
		"mf=0.4":                        1 << 30,
		"m_mem_free=0 mf=0":             1 << 30,
		"h_vmem=INFINITY":               1 << 30,
		"mf=100G mem_free=1M":           1 << 20,
		"mem_free=1M mf=100G":           100 << 30,
		"mf=100G mem_free=1M h_vmem=2M": 2 << 20,
		"mf=1e6":                        1000000,
		"mf=+1":                         1,
		"mf=0:0:1":                      1,
		"mf=TRUE":                       1,
		"mf=1.5":                        1,
		"h_data=5G":                     1 << 30,
		"mf=-1T":                        1 << 30, // the master refuses it
	} {
		if got := c.BookedMemory("n1", settings(requests)); got != want {
			t.Errorf("-l %s books %d bytes, want %d", requests, got, want)
		}
	}
	for requests, want := range map[string]string{
		"": "m_mem_free", "mf=0": "m_mem_free", "mf=2G": "mem_free", "mf=2G h_vmem=3G": "h_vmem", "mf=-1T": "m_mem_free",
		"h_vmem=2G mf=2G": "h_vmem", "h_data=5G": "m_mem_free",
	} {
		if got := c.BookedAs(settings(requests)); got != want {
			t.Errorf("-l %s is booked as %q, want %q", requests, got, want)
		}
	}
	if got := c.BookedMemory("n2", settings("mf=2G")); got != 0 {
		t.Errorf("a host without a pool: %d bytes", got)
	}
}

// TestDefaultOfTheMemoryPool takes defaults in every notation of complex(5).
func TestDefaultOfTheMemoryPool(t *testing.T) {
	for text, want := range map[string]uint64{"1e9": 1000000000, "0:1:0": 60, "0": 0, "0.5": 0} {
		c := pooledCluster(t, "m_mem_free mmf MEMORY <= YES YES "+text+" 0")
		if got := c.BookedMemory("n1", nil); got != want {
			t.Errorf("default %s: %d bytes, want %d", text, got, want)
		}
	}
}

// TestUnusableMemoryPoolIsAWarning warns of a MEMORY_POOL from which no job can book.
func TestUnusableMemoryPoolIsAWarning(t *testing.T) {
	for pool, warned := range map[string]bool{
		"m_mem_free mmf MEMORY <= YES YES 1G 0":  false,
		"m_mem_free mmf MEMORY <= YES NO 0 0":    true,
		"m_mem_free mmf MEMORY <= YES JOB 1G 0":  true,
		"m_mem_free mmf MEMORY <= NO YES 1G 0":   true,
		"m_mem_free mmf INT <= YES YES 1 0":      true,
		"m_mem_freed mmfd MEMORY <= YES YES 0 0": true,
	} {
		c, err := qconf.Load(fstest.MapFS{
			"complexes":   {Data: []byte(qconf.DefaultComplexes().Format() + pool + "\n")},
			"conf/global": {Data: []byte("qmaster_params MEMORY_POOL=m_mem_free\n")},
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for _, w := range c.Warnings() {
			got = got || strings.Contains(w.Error(), "MEMORY_POOL=m_mem_free")
		}
		if got != warned {
			t.Errorf("complex %q: warnings %v", pool, c.Warnings())
		}
	}
}
