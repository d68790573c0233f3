package scheduler_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// FuzzModel makes models of any texts that can be read as a configuration, and runs a few
// jobs in them: whatever the configuration is, nothing panics.
func FuzzModel(f *testing.F) {
	f.Add("", "hostname n1\n", "qname a.q\nhostlist n1\n", "pe_name p\nslots 4\nallocation_rule $fill_up\n", "", "")
	f.Add("mem mem MEMORY <= YES YES 0 0\nx x BOOL EXCL FORCED JOB 0 0\n", "hostname n1\ncomplex_values mem=4G,x=TRUE\nload_scaling np_load_avg=2\n",
		"qname a.q\nhostlist n1 n2\nslots 3,[n1=0]\nload_thresholds mem=1G,np_load_avg=1\nsuspend_thresholds arch=lx*\npe_list p\nsubordinate_list slots=2(b.q:0:sr)\n",
		"pe_name p\nslots 4\nallocation_rule 2\nurgency_slots avg\n",
		"load_formula np_load_avg*2-mem\nmax_reservation 3\njob_load_adjustments np_load_avg=0.5,mem=1G\npolicy_hierarchy NONE\nweight_tickets_functional 100\n",
		"{\n name q\n enabled TRUE\n limit users {*} hosts {@x,n*} to mem=$num_proc*2,slots=2\n}\n")
	f.Add("r r RSMAP <= YES YES 0 0\nt t TIME <= YES YES 10 1\n", "hostname n1\ncomplex_values r=2(a b),t=100\n", "qname a.q\nhostlist n1\nh_rt 10\n", "pe_name p\nslots 0\nallocation_rule $pe_slots\n",
		"queue_sort_method seqno\nmaxujobs 1\n", "{\n name q\n enabled TRUE\n limit projects !* to h_rt=10,arch=lx\n}\n")
	f.Fuzz(func(t *testing.T, complexes, host, queue, pe, sched, rqs string) {
		files := directory(map[string]string{
			"complexes": complexes, "hosts/n1": host, "hosts/n2": "hostname n2\n", "queues/a.q": queue,
			"queues/b.q": "qname b.q\nhostlist n2\nslots 2\npe_list p\n", "pes/p": pe,
		})
		for name, text := range map[string]string{"sched_conf": sched, "rqs": rqs} {
			if text != "" {
				files[name] = &fstest.MapFile{Data: []byte(text)}
			}
		}
		cluster, err := qconf.Load(files, nil)
		if err != nil {
			delete(files, "complexes") // then references are not looked at
			if cluster, err = qconf.Load(files, nil); err != nil {
				return
			}
		}
		m, problems := scheduler.NewModel(cluster, scheduler.Options{})
		for _, p := range problems {
			if strings.TrimSpace(p.Error()) == "" {
				t.Error("a problem without a text")
			}
		}
		exercise(t, m)
	})
}

// exercise lets serial and parallel jobs run, reserve and end.
func exercise(t *testing.T, m *scheduler.Model) {
	t.Helper()
	s := scheduler.NewState(m)
	for _, h := range []string{"n1", "n2", "global"} {
		if _, ok := m.Host(h); ok {
			if err := s.SetLoad(h, map[string]string{"np_load_avg": "0.5", "num_proc": "2", "mem": "1G", "arch": "lx"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	var id uint32
	for _, r := range []scheduler.Requests{
		{},
		{},
		{PE: "p", Slots: slotsOf(t, "2-4")},
		{PE: "*", Slots: slotsOf(t, "1-")},
		{Hard: settings(map[string]string{"mem": "1G"})},
		{Soft: settings(map[string]string{"arch": "lx*"})},
		{Immediate: true},
	} {
		r.User, r.Group = "alice", "users"
		c, err := m.Category(&r)
		if err != nil {
			continue
		}
		id++
		submit(t, s, &scheduler.Job{
			ID: id, Category: c, Owner: "alice", Submitted: 900, Tasks: tasksOf(t, "1-3"), Array: true, Reserve: id%2 == 0,
		})
	}
	d := s.Run(1000)
	texts(d.Dropped)
	var running []*scheduler.Running
	for i := range d.Starts {
		x := &d.Starts[i]
		texts(d.Reasons(x.Job))
		r := &scheduler.Running{Job: x.Job, Task: x.Task, Started: 1000, PE: x.PE, Grants: x.Grants}
		if err := s.Start(r); err != nil {
			t.Fatalf("what was decided cannot be booked: %v", err)
		}
		running = append(running, r)
	}
	s.Run(1100)
	for i := range m.Instances() {
		id := scheduler.InstanceID(i)
		o := s.Observe(1100)
		o.Instance(id)
		o.Crossed(id)
		if _, used, total := o.SlotsOf(id); used > total {
			t.Errorf("%d of %d slots of %s are in use", used, total, m.InstanceName(id))
		}
	}
	for _, r := range running {
		if err := s.End(r); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.Instances() {
		if used := s.UsedSlots(scheduler.InstanceID(i)); used != 0 {
			t.Errorf("%d slots are in use in the end", used)
		}
	}
}

// FuzzCategory makes categories of any requests: they are refused or accepted, and what is
// accepted can be verified.
func FuzzCategory(f *testing.F) {
	f.Add("mem", "1G", "arch", "lx*", "a.q@n1", "*@@first", "a*", "fill", "1-3", "ck", "p1", uint32(0))
	f.Add("h_rt", "1:0:0", "cap", "", "", "!a.q", "", "", "", "", "", uint32(3))
	f.Add("excl", "TRUE", "hot", "-1e308", "a.q,@", "@@", "(a|b)&", "f*|r*", "9999999-", "", "", uint32(0))
	model := scene{files: merged(hostFile("complex_values excl=TRUE,mem=4G,lic=3\n"), globalFile("complex_values os=lx,cap=3\n"))}.make(f).Model()
	f.Fuzz(func(t *testing.T, hardName, hardValue, softName, softValue, queues, softQueues, masterQueues, pe, slots, checkpoint, project string, ar uint32) {
		r := &scheduler.Requests{
			User: "alice", Group: "users", Project: project, Hard: setting(hardName, hardValue), Soft: setting(softName, softValue),
			Queues: queues, SoftQueues: softQueues, MasterQueues: masterQueues, PE: pe, Checkpoint: checkpoint, Reservation: ar,
		}
		if softName == "" {
			r.Soft = nil
		}
		if hardName == "" {
			r.Hard = nil
		}
		if pe != "" {
			list, err := parseSlots(slots)
			if err != nil {
				return
			}
			r.Slots = list
		}
		c, err := model.Category(r)
		if err != nil {
			if err.Error() == "" {
				t.Error("refused without a word")
			}
			return
		}
		if again, err := model.Category(r); err != nil || again != c {
			t.Errorf("equal requests are not of one category: %v", err)
		}
		s := scheduler.NewState(model)
		j := &scheduler.Job{
			ID: 1, Category: c, Owner: "alice", Submitted: 900, Tasks: tasksOf(t, "1"), Reserve: true,
		}
		for _, how := range []scheduler.Verification{scheduler.EmptyCluster, scheduler.AsItIs} {
			reasons, _ := s.Verify(j, how, 1000)
			texts(reasons)
		}
		submit(t, s, j)
		d := s.Run(1000)
		texts(d.Reasons(j))
	})
}
