package scheduler_test

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// twoSockets returns a host with two sockets of four cores. GPU 0 is at a root of its own on the first
// socket, 1 and 2 share one there, 3 and 4 are on the second socket.
func twoSockets(t *testing.T, params string) *scheduler.State {
	t.Helper()
	s := scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes":  "gpu gpu RSMAP <= YES YES 0 0\n",
		"hosts/n1":   "hostname n1\ncomplex_values gpu=5(0 1 2 3 4)\n",
		"queues/q":   "qname q\nhostlist n1\nslots 8\nload_thresholds NONE\n",
		"sched_conf": "params " + params + "\n",
	})))
	report(t, s, "SCCCCSCCCC", gpuPlaces)
	return s
}

const gpuPlaces = "0:pci0000:00/SccccSCCCC 1,2:pci0000:40/SccccSCCCC 3:pci0000:80/SCCCCScccc 4:pci0000:c0/SCCCCScccc"

func report(t *testing.T, s *scheduler.State, inUse, places string) {
	t.Helper()
	if err := s.SetLoad("n1", map[string]string{"m_topology": "SCCCCSCCCC", "m_topology_inuse": inUse, "m_topology_gpu": places}); err != nil {
		t.Fatal(err)
	}
}

func gpusAndCores(gpus string, amount int) *scheduler.Requests {
	r := &scheduler.Requests{User: "u", Hard: request("gpu", gpus)}
	if amount > 0 {
		r.Binding = binding.Request{Strategy: binding.Linear, Amount: amount}
	}
	return r
}

// TestGPUsNearCores checks that a job gets GPUs on the memory node of its cores, whether the scheduler
// or the host chooses the cores, and otherwise GPUs of one PCIe root.
func TestGPUsNearCores(t *testing.T) {
	for _, params := range []string{"NONE", "BINDING_AWARE=true"} {
		s := twoSockets(t, params)
		enqueue(t, s, 1, gpusAndCores("1", 4)) // the first socket
		enqueue(t, s, 2, gpusAndCores("1", 3)) // the second socket
		enqueue(t, s, 3, gpusAndCores("2", 0)) // no cores
		started := run(t, s, 100)
		wantIDs(t, started[1], []string{"0"})
		wantIDs(t, started[2], []string{"3"})
		wantIDs(t, started[3], []string{"1", "2"})
		if t.Failed() {
			t.Fatal(params)
		}
		for _, r := range started {
			if err := s.End(r); err != nil {
				t.Fatal(err)
			}
		}
		// The host reports that other jobs have the cores of the first socket.
		report(t, s, "SccccSCCCC", gpuPlaces)
		enqueue(t, s, 4, gpusAndCores("2", 1))
		wantIDs(t, run(t, s, 110)[4], []string{"3", "4"})
	}
}

// TestGPUsWithoutPlaces checks that the first free GPUs are given if no host reports their places.
func TestGPUsWithoutPlaces(t *testing.T) {
	s := twoSockets(t, "NONE")
	report(t, s, "SCCCCSCCCC", "")
	enqueue(t, s, 1, gpusAndCores("2", 4))
	enqueue(t, s, 2, gpusAndCores("2", 4))
	started := run(t, s, 100)
	wantIDs(t, started[1], []string{"0", "1"})
	wantIDs(t, started[2], []string{"2", "3"})
}

// TestPlacesThatCannotBeRead checks that places that cannot be read are a problem of the host, and
// that GPUs are given as without places.
func TestPlacesThatCannotBeRead(t *testing.T) {
	s := twoSockets(t, "NONE")
	for _, places := range []string{"0", "0:x/SCC", "0:x/SCCCCSCCCC 1"} {
		report(t, s, "SCCCCSCCCC", places)
		if list := s.Problems(0); len(list) != 1 || !strings.Contains(list[0].Error(), "load value m_topology_gpu of host n1: ") {
			t.Errorf("%q: the problems are %v", places, list)
		}
	}
	enqueue(t, s, 1, gpusAndCores("2", 4))
	wantIDs(t, run(t, s, 100)[1], []string{"0", "1"})
}

// TestSharedGPUs checks that a job that requests two GPUs gets two different ones, if two jobs may
// share each.
func TestSharedGPUs(t *testing.T) {
	s := scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes": "gpu gpu RSMAP <= YES YES 0 0\n",
		"hosts/n1":  "hostname n1\ncomplex_values gpu=4(0:2 1:2)\n",
		"queues/q":  "qname q\nhostlist n1\nslots 8\nload_thresholds NONE\n",
	})))
	for id := range uint32(2) {
		enqueue(t, s, id+1, &scheduler.Requests{User: "u", Hard: []qconf.Setting{{Name: "gpu", Value: "2"}}})
	}
	started := run(t, s, 100)
	wantIDs(t, started[1], []string{"0", "1"})
	wantIDs(t, started[2], []string{"0", "1"})
}
