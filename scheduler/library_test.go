package scheduler_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/quota"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
)

// TestZeroJob enqueues jobs that say nothing of what need not be said, in a cluster with all
// policies: users without shares.
func TestZeroJob(t *testing.T) {
	cluster, err := qconf.Load(os.DirFS("../examples/cluster"), nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	s := scheduler.NewState(m)
	for h := range m.Hosts() {
		if err := s.SetLoad(m.HostName(scheduler.HostID(h)), map[string]string{"np_load_avg": "0.1"}); err != nil {
			t.Fatal(err)
		}
	}
	c, err := m.Category(&scheduler.Requests{User: "alice", Group: "users"})
	if err != nil {
		t.Fatal(err)
	}
	submit(t, s, &scheduler.Job{Category: c, Tasks: tasksOf(t, "1")})
	if err := s.Enqueue(&scheduler.Job{ID: 2, Category: c}); err == nil {
		t.Error("a job without tasks is scheduled")
	}
	d := s.Run(1000)
	if len(d.Starts) != 1 || d.Starts[0].Task != 1 || len(d.Problems) > 0 {
		t.Errorf("starts %+v, problems %v", d.Starts, d.Problems)
	}
}

// TestUnknownEntitlements submits jobs of users that are not among the Entitlements.
func TestUnknownEntitlements(t *testing.T) {
	s := scene{files: map[string]string{"sched_conf": "weight_tickets_functional 1000\n"}}.make(t)
	s.Entitlements.Users = []tickets.Entity{{FunctionalShares: 1}}
	for id, user := range []tickets.Ref{0, tickets.RefTo(0), tickets.RefTo(1), -7} {
		j := serialJob(t, s.Model(), uint32(id+1), &scheduler.Requests{})
		j.User = user
		submit(t, s, j)
	}
	d := s.Run(1000)
	const text = "%d: its user, project, department or leaf is not among the Entitlements"
	if got, want := fmt.Sprint(d.Problems), fmt.Sprintf("[job "+text+" job "+text+"]", 3, 4); got != want {
		t.Errorf("problems %s, want %s", got, want)
	}
}

// TestStateRefusesInvalidCalls calls the methods of State with invalid arguments.
func TestStateRefusesInvalidCalls(t *testing.T) {
	s := scene{files: map[string]string{"pes/fill": "pe_name fill\nslots 4\nallocation_rule $fill_up\n"}}.make(t)
	other := scene{}.make(t)
	good := func() *scheduler.Job { return serialJob(t, s.Model(), 1, &scheduler.Requests{}) }
	spoil := map[string]func(j *scheduler.Job){
		"no category":               func(j *scheduler.Job) { j.Category = nil },
		"category of another model": func(j *scheduler.Job) { j.Category = serialJob(t, other.Model(), 1, &scheduler.Requests{}).Category },
		"no tasks":                  func(j *scheduler.Job) { j.Tasks = rangelist.List{} },
		"tasks without an array":    func(j *scheduler.Job) { j.Tasks = tasksOf(t, "1-3") },
		"another task":              func(j *scheduler.Job) { j.Tasks = tasksOf(t, "2") },
		"a high priority":           func(j *scheduler.Job) { j.Priority = 1025 },
		"a low priority":            func(j *scheduler.Job) { j.Priority = -1024 },
		"a negative limit":          func(j *scheduler.Job) { j.TaskLimit = -1 },
		"negative activity":         func(j *scheduler.Job) { j.Active = -1 },
		"shares that are no number": func(j *scheduler.Job) { j.Shares = math.NaN() },
		"endless override tickets":  func(j *scheduler.Job) { j.Override = math.Inf(1) },
		"an unknown host":           func(j *scheduler.Job) { j.Excluded = []scheduler.HostID{scheduler.HostID(s.Model().Hosts())} },
		"the global host":           func(j *scheduler.Job) { j.Excluded = []scheduler.HostID{scheduler.GlobalHost} },
	}
	for name, spoil := range spoil {
		j := good()
		spoil(j)
		if err := s.Enqueue(j); err == nil || s.Pending() > 0 {
			t.Errorf("%s: %v, and %d jobs wait", name, err, s.Pending())
		}
		if _, ok := s.Verify(j, scheduler.EmptyCluster, 1000); ok {
			t.Errorf("%s: the job could run", name)
		}
	}
	if s.Enqueue(nil) == nil || s.Start(nil) == nil || s.End(nil) == nil || s.AddReservation(nil) == nil {
		t.Error("nil is taken")
	}
	running := func() *scheduler.Running {
		return &scheduler.Running{Job: good(), Task: 1, Started: 1000, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: 0, Slots: 1}}}
	}
	for name, spoil := range map[string]func(r *scheduler.Running){
		"no job":                   func(r *scheduler.Running) { r.Job = nil },
		"no category":              func(r *scheduler.Running) { r.Job.Category = nil },
		"an environment":           func(r *scheduler.Running) { r.PE = 0 },
		"an unknown environment":   func(r *scheduler.Running) { r.PE = 9 },
		"an unknown instance":      func(r *scheduler.Running) { r.Grants[0].Instance = 99 },
		"a negative instance":      func(r *scheduler.Running) { r.Grants[0].Instance = -1 },
		"no slots":                 func(r *scheduler.Running) { r.Grants[0].Slots = 0 },
		"an instance twice":        func(r *scheduler.Running) { r.Grants = append(r.Grants, r.Grants[0]) },
		"negative slots away":      func(r *scheduler.Running) { r.Away.Slots = -1 },
		"a master that is nowhere": func(r *scheduler.Running) { r.Away.Master = true },
	} {
		r := running()
		spoil(r)
		if err := s.Start(r); err == nil || len(s.Running()) > 0 || s.UsedSlots(0) > 0 {
			t.Errorf("%s: %v, %d tasks run in %d slots", name, err, len(s.Running()), s.UsedSlots(0))
		}
	}
	r := running()
	if err := s.Start(r); err != nil {
		t.Fatal(err)
	}
	if err := s.Start(r); err == nil || s.UsedSlots(0) != 1 {
		t.Errorf("a task starts twice: %v, %d slots", err, s.UsedSlots(0))
	}
	if err := s.End(r); err != nil {
		t.Fatal(err)
	}
	if err := s.End(r); err == nil || s.UsedSlots(0) != 0 {
		t.Errorf("a task ends twice: %v, %d slots", err, s.UsedSlots(0))
	}
	reservation := func() *scheduler.Reservation {
		return &scheduler.Reservation{ID: 1, Start: 1000, End: 2000, Category: good().Category, PE: scheduler.None, Grants: []scheduler.Grant{{Instance: 0, Slots: 1}}}
	}
	for name, spoil := range map[string]func(ar *scheduler.Reservation){
		"no number":           func(ar *scheduler.Reservation) { ar.ID = 0 },
		"no category":         func(ar *scheduler.Reservation) { ar.Category = nil },
		"no time":             func(ar *scheduler.Reservation) { ar.End = ar.Start },
		"an environment":      func(ar *scheduler.Reservation) { ar.PE = 0 },
		"an unknown instance": func(ar *scheduler.Reservation) { ar.Grants[0].Instance = 99 },
	} {
		ar := reservation()
		spoil(ar)
		if err := s.AddReservation(ar); err == nil || s.ReservedSlots(0, 1500) > 0 {
			t.Errorf("%s: %v, %d slots are reserved", name, err, s.ReservedSlots(0, 1500))
		}
	}
	addReservation(t, s, reservation())
	if err := s.AddReservation(reservation()); err == nil {
		t.Error("a number comes twice")
	}
}

// bytesSource makes random numbers of bytes, so that a fuzzer finds what it makes of them.
type bytesSource struct {
	data []byte
	then rand.Source
}

func (s *bytesSource) Uint64() uint64 {
	if len(s.data) < 2 {
		return s.then.Uint64()
	}
	n := uint64(binary.LittleEndian.Uint16(s.data))
	s.data = s.data[2:]
	// Choices are made of the high bits, and coins of the low ones.
	return n<<48 | n
}

// FuzzLibrary uses the package as a careless program would: with random configurations, jobs,
// events and calls, some of them wrong. Nothing panics, nothing is oversubscribed, and wrong calls
// are refused and change nothing.
func FuzzLibrary(f *testing.F) {
	for seed := range uint64(4) {
		f.Add(seed, []byte{})
	}
	f.Fuzz(func(t *testing.T, seed uint64, data []byte) { useLibrary(t, seed, data) })
}

// TestLibrary does what FuzzLibrary does, for as long as a test may take.
func TestLibrary(t *testing.T) {
	starts := 0
	for seed := range uint64(80) {
		starts += useLibrary(t, seed, nil)
	}
	if starts < 200 {
		t.Errorf("only %d tasks started", starts)
	}
}

func useLibrary(t *testing.T, seed uint64, data []byte) int {
	t.Helper()
	g := &generator{Rand: rand.New(&bytesSource{data, rand.NewPCG(seed, 23)}), parallel: true}
	u := &libraryUser{twin: newTwin(seedT{t, seed}, g.site()), g: g, now: 10000}
	u.alone = true
	u.entitle()
	for range 60 {
		u.act()
	}
	u.audit(u.naive.running)
	for len(u.naive.running) > 0 {
		u.end(u.naive.running[0])
	}
	for i := range u.model.Instances() {
		if n := u.state.UsedSlots(scheduler.InstanceID(i)); n != 0 {
			u.t.Fatalf("%d slots of %s are in use in the end", n, u.model.InstanceName(scheduler.InstanceID(i)))
		}
	}
	return u.starts
}

type libraryUser struct {
	*twin
	g            *generator
	now          int64
	starts       int
	reservations []*scheduler.Reservation
	last         uint32
}

// act does something.
func (u *libraryUser) act() {
	g := u.g
	switch g.IntN(16) {
	case 0, 1, 2, 3:
		for range 1 + g.IntN(4) {
			u.job()
		}
	case 4, 5, 6:
		u.run()
	case 7:
		if list := u.naive.running; len(list) > 0 {
			u.end(list[g.IntN(len(list))])
		}
	case 8:
		host := u.site.hosts[g.IntN(len(u.site.hosts))].name
		u.report(host, g.loadReport(host))
	case 9:
		i := u.site.instances()[g.IntN(len(u.site.instances()))]
		u.disable(i.name(), scheduler.Status(g.IntN(256)))
	case 10:
		u.wrong()
	case 11:
		u.look()
	case 12:
		u.reserve()
	case 13:
		u.entitle()
	case 14:
		from := u.now + int64(g.IntN(400)) - 200
		u.state.SetClosing(u.someInstance(), from, from+int64(g.IntN(400))-50)
		u.state.SetExplaining(g.chance(70))
		u.state.ThresholdChecked(u.someInstance(), u.now)
	case 15:
		// A job may lose its tasks while it waits, and have them again.
		if list := u.naive.pending; len(list) > 0 {
			j := u.jobs[list[g.IntN(len(list))].id].job
			tasks := j.Tasks
			j.Tasks = rangelist.List{}
			for i, d := 0, u.state.Run(u.now); i < len(d.Starts); i++ {
				if d.Starts[i].Job == j {
					u.t.Fatalf("job %d has no tasks, and task %d starts", j.ID, d.Starts[i].Task)
				}
			}
			j.Tasks = tasks
		}
	}
	u.now += int64(g.IntN(100)) - 5
}

func (u *libraryUser) someInstance() scheduler.InstanceID {
	return scheduler.InstanceID(u.g.IntN(u.model.Instances()))
}

// ref returns a random reference: to one of several entries, to none, or to one that does not
// exist.
func (u *libraryUser) ref() tickets.Ref {
	return pick(u.g, 0, tickets.RefTo(0), tickets.RefTo(1), tickets.RefTo(2), tickets.RefTo(77), -1, math.MaxInt32, math.MinInt32)
}

func (u *libraryUser) job() {
	g := u.g
	n := g.job(u.site, u.now)
	if !u.submit(n, g.chance(40)) {
		return
	}
	j := u.jobs[n.id].job
	if g.chance(40) {
		return // nothing but what is needed is set
	}
	u.state.Dequeue(j)
	j.User, j.Project, j.Department, j.Leaf = u.ref(), u.ref(), u.ref(), u.ref()
	j.Shares = float64(g.IntN(3))
	j.Submitted += pick[int64](g, 0, 0, math.MinInt32, math.MaxInt32)
	submit(u.t, u.state, j)
	if g.chance(30) {
		u.state.SetChanged(j, int64(g.IntN(5)))
	}
}

func (u *libraryUser) run() {
	want, d := u.twin.run(u.now)
	for i, t := range want {
		u.start(&d.Starts[i], t)
	}
	u.starts += len(want)
	u.audit(u.naive.running)
	for _, j := range u.naive.pending {
		job := u.jobs[j.id].job
		texts(d.Reasons(job))
		if p, _ := d.Of(job); math.IsNaN(p.Priority) {
			u.t.Fatalf("job %d has the priority %v", j.id, p)
		}
	}
	for _, r := range u.tasks {
		d.OfRunning(r)
	}
}

// wrong calls with what must be refused.
func (u *libraryUser) wrong() {
	g := u.g
	before := u.stateText(u.now)
	r := &scheduler.Running{PE: scheduler.PEID(g.IntN(9) - 2), Grants: []scheduler.Grant{{Instance: scheduler.InstanceID(g.IntN(40) - 3), Slots: g.IntN(3) - 1}}}
	if list := u.naive.pending; len(list) > 0 {
		j := u.jobs[list[g.IntN(len(list))].id].job
		r.Job = j
		bad := *j
		bad.Tasks = rangelist.List{}
		if u.state.Enqueue(&bad) == nil {
			u.t.Fatal("a job without tasks is scheduled")
		}
		r.Grants[0].Cores = []topology.Pair{}
	}
	if reasons, err := u.state.Admit(r, u.now); err == nil {
		texts(reasons)
		return // it is a task after all
	}
	if r.Job == nil || r.Grants[0].Slots < 1 || int(r.Grants[0].Instance) >= u.model.Instances() || r.Grants[0].Instance < 0 {
		if err := u.state.Start(r); err == nil {
			u.t.Fatalf("%+v is started", r)
		}
	}
	if u.state.End(r) == nil || u.state.SetLoad("nowhere", nil) == nil || u.state.AddReservation(&scheduler.Reservation{ID: 1, Start: 1}) == nil {
		u.t.Fatal("what is wrong is taken")
	}
	u.state.RemoveReservation(&scheduler.Reservation{ID: 1})
	u.state.Dequeue(&scheduler.Job{ID: 1})
	if after := u.stateText(u.now); after != before {
		u.t.Fatalf("what was refused has changed\n%s\nto\n%s", before, after)
	}
}

// look asks for what is only shown.
func (u *libraryUser) look() {
	for _, x := range u.jobs {
		for _, how := range []scheduler.Verification{scheduler.EmptyCluster, scheduler.AsItIs} {
			reasons, _ := u.state.Verify(x.job, how, u.now)
			texts(reasons)
		}
		break
	}
	o := u.state.Observe(u.now)
	for i := range u.model.Instances() {
		o.Crossed(scheduler.InstanceID(i))
		u.state.ReservedSlots(scheduler.InstanceID(i), u.now)
		u.state.Subordinates(scheduler.InstanceID(i), u.g.IntN(3))
	}
	u.state.Quotas(quota.Selection{}, u.now)
	u.state.FreeCores(0)
}

// reserve makes an advance reservation, or gives one up that nothing runs in.
func (u *libraryUser) reserve() {
	g := u.g
	if n := len(u.reservations); n > 0 && g.chance(30) {
		u.state.RemoveReservation(u.reservations[n-1])
		u.reservations = u.reservations[:n-1]
		return
	}
	c, err := u.model.Category(u.requests(g.job(u.site, u.now)))
	if err != nil {
		return
	}
	start := u.now + int64(g.IntN(500)) - 50
	end := start + int64(g.IntN(500)) - 20
	pe, grants, ok := u.state.FindReservation(c, start, end, u.now)
	if !ok {
		return
	}
	u.last++
	ar := &scheduler.Reservation{ID: u.last, Start: start, End: end, Category: c, PE: pe, Grants: grants}
	if err := u.state.AddReservation(ar); (err == nil) != (start < end) {
		u.t.Fatalf("a reservation from %d to %d: %v", start, end, err)
	} else if err == nil {
		u.reservations = append(u.reservations, ar)
	}
}

// entitle tells of other users, who need not be those of the jobs.
func (u *libraryUser) entitle() {
	g := u.g
	entities := func() []tickets.Entity {
		list := make([]tickets.Entity, g.IntN(4))
		for i := range list {
			list[i] = tickets.Entity{FunctionalShares: float64(g.IntN(3)), OverrideTickets: float64(g.IntN(3))}
		}
		return list
	}
	e := &u.state.Entitlements
	*e = scheduler.Entitlements{Users: entities(), Projects: entities(), Departments: entities()}
	if g.chance(30) {
		return
	}
	nodes := []tickets.Node{{Parent: tickets.None, Shares: 1}}
	for range g.IntN(6) {
		nodes = append(nodes, tickets.Node{
			Kind: tickets.Kind(g.IntN(4)), Index: int32(g.IntN(4)), Parent: int32(g.IntN(len(nodes)+1) - 1), Shares: float64(g.IntN(4)),
		})
	}
	tree, err := tickets.NewTree(nodes, 3, 3)
	if err != nil {
		return
	}
	e.Tree = tree
	tree.Leaf(int32(g.IntN(5)), int32(g.IntN(5)-1))
	if g.chance(70) {
		e.Ledger = &tickets.Ledger{Users: make([]tickets.UserUsage, g.IntN(5)), Projects: make([]tickets.StampedUsage, g.IntN(5))}
	}
}
