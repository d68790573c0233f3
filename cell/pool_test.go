package cell

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// withPool returns small with a memory pool on its hosts.
func withPool() files {
	f := maps.Clone(small)
	f["complexes"] += "\nmem_free mf MEMORY <= YES NO 0 0\nh_vmem h_vmem MEMORY <= YES NO 0 0\nm_mem_free mmf MEMORY <= YES YES 1G 0"
	f["conf/global"] += "\nqmaster_params MEMORY_POOL=m_mem_free"
	f["hosts/n1"] += "\ncomplex_values m_mem_free=2G,mem_free=1000G"
	f["hosts/n2"] += ",m_mem_free=2G,mem_free=1000G"
	return f
}

// TestNegativeMemory checks that requests that would enlarge the pool are refused on every path.
func TestNegativeMemory(t *testing.T) {
	h := newHarness(t, withPool())
	const want = `attribute "mem_free" is a request for memory but has a negative value`
	refused := func(what string, err error) {
		t.Helper()
		var d *DeniedError
		if !errors.As(err, &d) || eventText(d.Event) != want {
			t.Errorf("%s: got %v, want %s", what, err, want)
		}
	}
	_, err := h.try("alice", "-l mf=-1T")
	refused("qsub", err)
	_, err = h.try("alice", "-w n -l mem_free=-1,h_vmem=1G")
	refused("qsub -w n", err)
	_, err = h.reserve("alice", "-d 100 -l mf=-1T")
	refused("qrsub", err)
	// A verifier has changed the request of a valid job.
	r, err := submit.Parse(submit.Input{Args: []string{"-l", "mf=1G", "-b", "y", "sleep"}, Master: true, Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := h.Examine(h.now, caller("alice"), r)
	if err != nil {
		t.Fatal(err)
	}
	r.Resources[0].Value = "-1T"
	_, err = h.SubmitAs(h.now, caller("alice"), r, a.ID)
	refused("a JSV", err)
	id := h.sub("alice", "-h -l mf=1G")
	h.said(h.alter("alice", "-l mf=-1T "+strconv.Itoa(int(id))), want)
	if got := h.Job(id).Request().Resources; len(got) != 1 || got[0].Value != "1G" {
		t.Errorf("after qalter: %v", got)
	}
}

// TestMemoryOfReservedJobs compares the requests with which jobs in a reservation are started.
func TestMemoryOfReservedJobs(t *testing.T) {
	for name, c := range map[string]struct {
		reserve, submit string
		runs            bool
		limit           uint64
	}{
		"nothing reserved, a request": {"", "-l h_vmem=1G", true, 1 << 30},
		"nothing reserved, nothing":   {"", "", true, 1 << 30},
		"little reserved, nothing":    {"-l mf=1M", "", true, 1 << 20},
		"little reserved, zero":       {"-l mf=1M", "-l mmf=0", true, 1 << 20},
		"little reserved, much":       {"-l mf=1M", "-l mf=1G", false, 0},
		"much reserved, nothing":      {"-l h_vmem=2G", "", true, 2 << 30},
		"much reserved, little":       {"-l h_vmem=2G", "-l mf=1M", true, 1 << 20},
	} {
		t.Run(name, func(t *testing.T) {
			h := newHarness(t, withPool())
			if _, err := h.reserve("alice", "-d 300 "+c.reserve); err != nil {
				t.Fatal(err)
			}
			a, err := h.try("alice", "-ar 1 "+c.submit)
			if runs := err == nil; runs != c.runs {
				t.Fatalf("accepted: %v, want %v; %v", runs, c.runs, err)
			}
			if !c.runs {
				return
			}
			id := a.ID
			before := slices.Clone(h.Job(id).Request().Resources)
			h.run()
			j := h.Job(id)
			if len(j.tasks) != 1 || j.tasks[0].run == nil {
				t.Fatalf("it does not run: %s", h.show())
			}
			if !slices.Equal(j.Request().Resources, before) {
				t.Errorf("the request has become %v", j.Request().Resources)
			}
			if got := h.cluster.BookedMemory("n1", hard(h.StartRequest(j))); got != c.limit {
				t.Errorf("limited to %d bytes, want %d", got, c.limit)
			}
		})
	}
}

func hard(r *submit.Request) (list []qconf.Setting) {
	for _, x := range r.Resources {
		list = append(list, qconf.Setting{Name: x.Name, Value: x.Value})
	}
	return list
}
