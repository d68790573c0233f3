package scheduler_test

import (
	"slices"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// gpus is a host with four GPUs by name, and a license for each job by name.
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
		for _, thing := range g.Things {
			all = append(all, thing.IDs)
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
