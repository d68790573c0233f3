package scheduler_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// gpus returns a host with four GPUs by name, and a license for each job by name.
func gpus(t *testing.T) *scheduler.State {
	t.Helper()
	return scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes":    "gpu gpu RSMAP <= YES YES 0 0\nlic lic RSMAP <= YES JOB 0 0\n",
		"hosts/n1":     "hostname n1\ncomplex_values gpu=4(g0 g1 g2 g3)\n",
		"hosts/n2":     "hostname n2\ncomplex_values gpu=2(a b)\n",
		"hosts/global": "hostname global\ncomplex_values lic=2(x y)\n",
		"queues/q":     "qname q\nhostlist n1 n2\nslots 8\nload_thresholds NONE\npe_list fill\nseq_no 1,[n2=2]\n",
		"pes/fill":     "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
	})))
}

func enqueue(t *testing.T, s *scheduler.State, id uint32, r *scheduler.Requests) *scheduler.Job {
	t.Helper()
	c, err := s.Model().Category(r)
	if err != nil {
		t.Fatal(err)
	}
	one, err := rangelist.Of(1, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	j := &scheduler.Job{ID: id, Category: c, Owner: r.User, Submitted: int64(id), Tasks: one}
	submit(t, s, j)
	return j
}

// run starts what a run decides, and returns what each task got.
func run(t *testing.T, s *scheduler.State, now int64) map[uint32]*scheduler.Running {
	t.Helper()
	started := map[uint32]*scheduler.Running{}
	for _, x := range s.Run(now).Starts {
		s.Dequeue(x.Job)
		r := &scheduler.Running{Job: x.Job, Task: x.Task, Started: now, PE: x.PE, Grants: x.Grants}
		if err := s.Start(r); err != nil {
			t.Fatal(err)
		}
		started[x.Job.ID] = r
	}
	return started
}

func ids(r *scheduler.Running) (all [][]string) {
	if r == nil {
		return nil
	}
	for _, g := range r.Grants {
		for _, element := range g.Elements {
			all = append(all, element.IDs)
		}
	}
	return all
}

func wantIDs(t *testing.T, r *scheduler.Running, want ...[]string) {
	t.Helper()
	if got := ids(r); !slices.EqualFunc(got, want, slices.Equal[[]string]) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func request(name, value string) []qconf.Setting { return []qconf.Setting{{Name: name, Value: value}} }

func TestResourceMap(t *testing.T) {
	s := gpus(t)
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: request("gpu", "1")})
	enqueue(t, s, 2, &scheduler.Requests{User: "u", Hard: request("gpu", "2")})
	first := run(t, s, 100)
	wantIDs(t, first[1], []string{"g0"})
	wantIDs(t, first[2], []string{"g1", "g2"})
	if err := s.End(first[1]); err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 3, &scheduler.Requests{User: "u", Hard: request("gpu", "2")})
	wantIDs(t, run(t, s, 110)[3], []string{"g0", "g3"})
}

func TestResourceMapOfParallelJob(t *testing.T) {
	s := gpus(t)
	slots, err := rangelist.Of(6, 6, 1)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: append(request("gpu", "1"), request("lic", "2")...), PE: "fill", Slots: slots})
	wantIDs(t, run(t, s, 100)[1], []string{"g0", "g1", "g2", "g3"}, []string{"x", "y"}, []string{"a", "b"})
}

func TestResourceMapRequest(t *testing.T) {
	s := gpus(t)
	for _, value := range []string{"1.5", "-1", "INFINITY", "x"} {
		if _, err := s.Model().Category(&scheduler.Requests{Hard: request("gpu", value)}); err == nil {
			t.Errorf("gpu=%s is accepted", value)
		}
	}
}

// twoKinds returns a host with GPUs of two kinds, and one with another kind.
func twoKinds(t *testing.T) *scheduler.State {
	t.Helper()
	return scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes": "gpu gpu RSMAP <= YES YES 0 0\ngpu_type gt RESTRING == YES NO NONE 0\ngpu_mem gm MEMORY <= YES NO 0 0\n",
		"hosts/n1": "hostname n1\ncomplex_values gpu=4(0[gpu_type=A40;gpu_mem=45G] 1[gpu_type=H100;gpu_mem=80G] " +
			"2[gpu_type=A40;gpu_mem=45G] 3[gpu_type=H100;gpu_mem=80G])\n",
		"hosts/n2": "hostname n2\ncomplex_values gpu=1(x[gpu_type=T4;gpu_mem=16G])\n",
		"queues/q": "qname q\nhostlist n1 n2\nslots 8\nload_thresholds NONE\npe_list fill\nseq_no 1,[n2=2]\n",
		"pes/fill": "pe_name fill\nslots 100\nallocation_rule $fill_up\n",
	})))
}

func requests(list ...string) (all []qconf.Setting) {
	for i := 0; i < len(list); i += 2 {
		all = append(all, qconf.Setting{Name: list[i], Value: list[i+1]})
	}
	return all
}

// TestAttributesOfElements gives jobs only elements that have all requested attributes, of which each is given
// once.
func TestAttributesOfElements(t *testing.T) {
	for name, c := range map[string]struct {
		hard []qconf.Setting
		want []string // nil for none
	}{
		"any":                      {requests("gpu", "1"), []string{"0"}},
		"a type":                   {requests("gpu", "1", "gpu_type", "H*"), []string{"1"}},
		"two of a type":            {requests("gpu", "2", "gpu_type", "H100"), []string{"1", "3"}},
		"memory":                   {requests("gpu", "2", "gpu_mem", "64G"), []string{"1", "3"}},
		"type and memory":          {requests("gpu", "1", "gt", "A*|H*", "gm", "45G"), []string{"0"}},
		"on the other host":        {requests("gpu", "1", "gpu_type", "T4"), []string{"x"}},
		"three of a type":          {requests("gpu", "3", "gpu_type", "H100"), nil},
		"a type that there is not": {requests("gpu", "1", "gpu_type", "V100"), nil},
		"more than one has":        {requests("gpu", "1", "gpu_mem", "81G"), nil},
		"a type with too little":   {requests("gpu", "1", "gpu_type", "A40", "gpu_mem", "46G"), nil},
	} {
		s := twoKinds(t)
		j := enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: c.hard})
		r := run(t, s, 100)[1]
		lacks := s.Model().LacksElements(j.Category)
		if c.want == nil {
			if r != nil || !strings.Contains(lacks, "gpu_type=A40") {
				t.Errorf("%s: got %v, and what there is is %q", name, ids(r), lacks)
			}
			continue
		}
		if r == nil || lacks != "" {
			t.Errorf("%s: it does not start, or cannot: %q", name, lacks)
			continue
		}
		wantIDs(t, r, c.want)
	}
}

// TestJobsWaitForElementsOfKind submits jobs that have to wait for elements of one kind while
// others are free.
func TestJobsWaitForElementsOfKind(t *testing.T) {
	s := twoKinds(t)
	for id := uint32(1); id <= 3; id++ {
		enqueue(t, s, id, &scheduler.Requests{User: "u", Hard: requests("gpu", "1", "gpu_type", "H100")})
	}
	enqueue(t, s, 4, &scheduler.Requests{User: "u", Hard: requests("gpu", "2")})
	first := run(t, s, 100)
	wantIDs(t, first[1], []string{"1"})
	wantIDs(t, first[2], []string{"3"})
	wantIDs(t, first[4], []string{"0", "2"})
	if first[3] != nil {
		t.Errorf("the third one gets %v", ids(first[3]))
	}
	if err := s.End(first[2]); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, run(t, s, 110)[3], []string{"3"})
}

// TestAttributesOfParallelJob gives a parallel job as many slots as there are elements for them.
func TestAttributesOfParallelJob(t *testing.T) {
	s := twoKinds(t)
	slots, err := rangelist.Of(1, 8, 1)
	if err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 1, &scheduler.Requests{User: "u", Hard: requests("gpu", "1", "gpu_type", "H100"), PE: "fill", Slots: slots})
	r := run(t, s, 100)[1]
	wantIDs(t, r, []string{"1", "3"})
}

// gpuHost returns a host whose resource map has a value.
func gpuHost(t *testing.T, value string) *scheduler.State {
	t.Helper()
	return scheduler.NewState(modelOf(t, directory(map[string]string{
		"complexes": "gpu gpu RSMAP <= YES YES 0 0\n",
		"hosts/n1":  "hostname n1\ncomplex_values gpu=" + value + "\n",
		"queues/q":  "qname q\nhostlist n1\nslots 8\nload_thresholds NONE\n",
	})))
}

// hold books a task with elements that it has got under an earlier configuration.
func hold(t *testing.T, s *scheduler.State, id uint32, elements ...string) *scheduler.Running {
	t.Helper()
	c, err := s.Model().Category(&scheduler.Requests{User: "u", Hard: request("gpu", strconv.Itoa(len(elements)))})
	if err != nil {
		t.Fatal(err)
	}
	r := &scheduler.Running{Job: &scheduler.Job{ID: id, Category: c, Owner: "u"}, Task: 1, Started: 1, PE: scheduler.None, Grants: []scheduler.Grant{{Slots: 1}}}
	if unknown := s.Model().SetNames(r, []map[string][]string{{"gpu": elements}}); len(unknown) > 0 {
		t.Fatal(unknown)
	}
	if err := s.Start(r); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestMissingElements has tasks hold an element that has been removed from the map: the other
// elements can be given, and afterwards as many as there are.
func TestMissingElements(t *testing.T) {
	s := gpuHost(t, "2(1 2)")
	first := hold(t, s, 1, "0")
	mixed := hold(t, s, 2, "3", "2")
	enqueue(t, s, 3, &scheduler.Requests{User: "u", Hard: request("gpu", "1")})
	wantIDs(t, run(t, s, 100)[3], []string{"1"})
	enqueue(t, s, 4, &scheduler.Requests{User: "u", Hard: request("gpu", "1")})
	if r := run(t, s, 110)[4]; r != nil {
		t.Errorf("all are in use, and another job gets %v", ids(r))
	}
	if err := s.End(first); err != nil {
		t.Fatal(err)
	}
	if r := run(t, s, 120)[4]; r != nil {
		t.Errorf("a missing one was freed, and another job gets %v", ids(r))
	}
	if err := s.End(mixed); err != nil {
		t.Fatal(err)
	}
	wantIDs(t, run(t, s, 130)[4], []string{"2"})
}

// TestElementsSharedBefore has two tasks share an element that is not shared under the new
// configuration: it is given again only when both have finished.
func TestElementsSharedBefore(t *testing.T) {
	s := gpuHost(t, "2(0 1)")
	first, second := hold(t, s, 1, "0"), hold(t, s, 2, "0")
	if err := s.End(first); err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 3, &scheduler.Requests{User: "u", Hard: request("gpu", "1")})
	wantIDs(t, run(t, s, 100)[3], []string{"1"})
	if err := s.End(second); err != nil {
		t.Fatal(err)
	}
	enqueue(t, s, 4, &scheduler.Requests{User: "u", Hard: request("gpu", "1")})
	wantIDs(t, run(t, s, 110)[4], []string{"0"})
}
