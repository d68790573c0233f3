package launch

import (
	"fmt"
	"time"

	"github.com/execd-project/execd/internal/oslite"
	"github.com/execd-project/execd/jobdir"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/limits/topology"
)

// fileOnline lists the processors that are online.
const fileOnline = "/sys/devices/system/cpu/online"

// Topologies caches the topology of this host, restricted to the processors that this process may
// use, for repeated calls as in load reports: it reads only changed files again. The zero value is
// ready to use, by one goroutine at a time. Close closes its descriptor.
type Topologies struct {
	online oslite.Kept
	of     string // the state from which known was computed
	known  topology.Topology

	usedOf string // the state from which used was computed; empty for none
	used   string
}

// Read returns the current topology. It reads the dozen files of each processor again only if the
// set of online or usable processors has changed.
func (t *Topologies) Read() (topology.Topology, error) {
	t.online.Path = fileOnline
	return t.read(func(path string) ([]byte, error) {
		if path == fileOnline {
			return t.online.Read()
		}
		return oslite.Read(path)
	})
}

// Close ends the use of a Topologies.
func (t *Topologies) Close() { t.online.Close() }

func (t *Topologies) read(file func(path string) ([]byte, error)) (topology.Topology, error) {
	cpus, err := limits.Affinity()
	if err != nil {
		return topology.Topology{}, fmt.Errorf("cannot determine which processors can be used: %w", err)
	}
	online, err := file(fileOnline)
	of := cpus.String() + " of " + string(online)
	if err == nil && t.of == of {
		return t.known, nil
	}
	known, err := topology.Read(file, topology.Allowed{CPUs: cpus, Mems: allowedMems()})
	if err != nil {
		return topology.Topology{}, err
	}
	t.of, t.known = of, known
	return known, nil
}

// settled is the age that a directory's modification time must have, so that the next change surely
// alters it: this time has a resolution of some milliseconds.
const settled = time.Second

// InUse returns the load value m_topology_inuse of this host: the topology string that was read
// last, with the cores of jobs in lower case. known returns the processors of the jobs that the
// caller knows, by their directories (Spool.JobPath, job.Description.BindingCPUs); InUse reads the
// directories of all other jobs. It does so only if the directory of all jobs or version has
// changed since the last call, or if there are jobs that the caller does not know. version must
// change whenever the result of known may change. If spool is nil, only the jobs of known count.
func (t *Topologies) InUse(spool *jobdir.Spool, host string, version uint64, known func() map[string]string) (string, error) {
	if spool == nil {
		return t.knownInUse(version, known)
	}
	jobs, changed, err := spool.JobsVersion()
	if err != nil {
		return "", err
	}
	of := fmt.Sprintf("%s, %d, %v", t.of, version, jobs)
	if t.usedOf == of {
		return t.used, nil
	}
	t.usedOf = ""
	age := time.Since(changed)
	used, foreign, err := coresInUse(spool, host, t.known, known())
	if err != nil {
		return "", err
	}
	t.used = binding.TopologyInUse(t.known, used)
	if foreign == 0 && age > settled {
		t.usedOf = of
	}
	return t.used, nil
}

// knownInUse does what InUse does if there is no spool.
func (t *Topologies) knownInUse(version uint64, known func() map[string]string) (string, error) {
	of := fmt.Sprintf("%s, %d", t.of, version)
	if t.usedOf == of {
		return t.used, nil
	}
	used := make(binding.InUse)
	for path, text := range known() {
		cpus, err := topology.ParseList(text)
		if err != nil {
			return "", fmt.Errorf("job directory %s: %w", path, err)
		}
		if !cpus.IsEmpty() {
			used.Add(t.known.With(cpus))
		}
	}
	t.used, t.usedOf = binding.TopologyInUse(t.known, used), of
	return t.used, nil
}
