package scheduler

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/execd-project/execd/limits/topology"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/scheduler/value"
)

// Status is the state of a queue instance: independent reasons not to use it (qstat(1),
// states).
type Status uint16

// The states. Alarms are not among them: they follow from load values.
const (
	Unknown             Status = 1 << iota // u: nothing is heard of the host
	Failed                                 // E: jobs could not be started
	DisabledByUser                         // d
	DisabledByCalendar                     // D
	SuspendedByUser                        // s
	SuspendedByCalendar                    // C
	Subordinated                           // S: suspended by a superordinate queue
	Orphaned                               // o: deleted, but still with jobs
)

// Suspended are the states in which the jobs of an instance are suspended.
const Suspended = SuspendedByUser | SuspendedByCalendar | Subordinated

// unavailable are the states in which an instance is "temporarily not available".
const unavailable = SuspendedByUser | SuspendedByCalendar | Subordinated | Failed | Unknown | Orphaned

// Suspension is why a task is suspended.
type Suspension uint8

// The reasons; all may hold at the same time.
const (
	ByUser        Suspension = 1 << iota // s: by qmod(1), or with its queue
	ByQueue                              // s: with its queue, by a user or a calendar
	BySubordinate                        // S: with its queue, by a superordinate one, or slot-wise
	ByThreshold                          // T
)

// Job is what is known about a job that has tasks to start.
type Job struct {
	ID        uint32
	Category  *Category
	Owner     string
	Submitted int64
	Deadline  int64 // 0 for none (qsub(1), -dl)
	Changed   int64 // counts changes of jobs, see SetChanged
	Priority  int   // POSIX priority, -1023 to 1024
	Reserve   bool  // -R y
	Rerun     bool  // may be started again

	// Array is set for an array job. Its Tasks are the numbers of the tasks that
	// have not been started; those of another job are {1} or, once it runs, empty.
	Array     bool
	Tasks     rangelist.List
	TaskLimit int // tasks that may be active at the same time (-tc); 0 for no limit
	Active    int // tasks that have been started and have not ended

	// Excluded are hosts that may not be used, since an earlier run of the job has not
	// been cleaned up there. Usually empty.
	Excluded []HostID

	// What the ticket policies need: whose the job is, in the lists of Entitlements, and what
	// leaf of its share tree; the zero Ref where that is nobody's. Then -js and qalter -ot.
	User, Project, Department tickets.Ref
	Leaf                      tickets.Ref
	Shares, Override          float64

	// StartOrder is when a task was started last, counted in starts (State.Starts); 0 for
	// never. Start sets it.
	StartOrder int64

	line *line // where it is enqueued
}

// Grant is a part of what a task got: slots of a queue instance.
type Grant struct {
	Instance InstanceID
	Slots    int
	// Things are the names that a task got of resource maps, by attribute. Usually nil.
	Things []Thing
	// Cores are what a task got of a host where bindings are looked at (qsub(1), -binding),
	// in the order of choice. The first grant of a host has all of them. Usually nil.
	Cores []topology.Pair
}

// Thing is what a task got of a resource map (complex(5), RSMAP).
type Thing struct {
	Attribute AttributeID
	At        Place
	IDs       []string
}

// Running is a task that has been started and has not ended.
type Running struct {
	Job     *Job
	Task    uint32
	Started int64
	PE      PEID    // None for a serial task
	Grants  []Grant // the master first
	// Away is the part of the task on hosts that the state does not look at. The Grants do
	// not have it.
	Away Away
	// Limit is how long the task may run, in seconds, as the smallest of the granted run
	// time limits says; 0 for no limit.
	Limit     int64
	Suspended Suspension
	// Urgency is the normalized urgency (nurg of sge_priority(5)) of the last run before a
	// user or a threshold suspended the task, which it keeps since then.
	Urgency float64

	position int // in State.running
}

// Away is the part of a parallel task that is on other hosts than those that a State is
// for: an agent knows what runs on its own host. It is the zero Away where a State has
// all of the cluster.
type Away struct {
	Slots  int
	Master bool // the master task is there: what a job takes once, it does not take here
}

// Idle reports whether a task is suspended by itself. One that is suspended with its queue
// counts as running in all else: for tickets and for the load of its host (tested).
func (r *Running) Idle() bool { return r.Suspended&(ByUser|ByThreshold) != 0 }

// Slots returns the number of slots of all grants, without those of Away.
func (r *Running) Slots() int {
	n := 0
	for _, g := range r.Grants {
		n += g.Slots
	}
	return n
}

// Entitlements are what users, projects and departments are entitled to.
type Entitlements struct {
	Users, Projects, Departments []tickets.Entity
	Tree                         *tickets.Tree   // nil without a share tree
	Ledger                       *tickets.Ledger // decayed until the time of the run; nil for none
}

// Place is a layer of complex(5) at one place: the cluster, a host, or a queue instance.
type Place struct {
	layer layerSet
	index int32
}

// AtGlobal returns the cluster as a whole.
func AtGlobal() Place { return Place{layer: atGlobal} }

// AtInstance returns a queue instance.
func AtInstance(id InstanceID) Place { return Place{layer: atQueue, index: int32(id)} }

// AtHost returns a host, or the cluster for GlobalHost.
func AtHost(h HostID) Place {
	if h == GlobalHost {
		return AtGlobal()
	}
	return Place{layer: atHost, index: int32(h)}
}

// State is what a master knows at a moment. The zero State is of no use, see NewState.
type State struct {
	silent bool // runs give no reasons
	model  *Model

	Entitlements Entitlements

	load     [][]value.Value        // by attribute, then by host and the global host at the end; nil where nobody reports it
	static   []bool                 // by attribute: its load values hold for an empty cluster
	raw      map[rawKey]value.Value // the load values that load_scaling changes, as they were reported
	texts    map[rawKey]string      // of the load values that are adjusted, as they were reported
	problems map[HostID][]error

	instances []instanceState
	order     int64 // of the last modification of an instance
	starts    int64 // tasks that have been started so far

	used     bookings
	things   things
	cores    []hostCores // by host; nil where bindings are left to the hosts
	peUsed   []int
	running  []*Running
	perOwner map[string]int // active tasks
	recent   []*Running     // by their start, those that may still count for load adjustments
	pending  backlog

	reservations []*Reservation
	closings     map[InstanceID]closing
	quotas       *quotaUsage
	overridden   int            // waiting jobs with override tickets of their own
	ranked       []tickets.Task // of the last run: memory for the next
	keys         [][]headKey    // likewise
}

type instanceState struct {
	status Status
	// order is when the instance was changed last: the original looks at those that
	// were changed last, last.
	order int64
	// checked is when suspend thresholds led to something the last time.
	checked int64
}

// NewState returns an empty cluster: no host has reported, nothing runs, and all queue
// instances are usable.
func NewState(m *Model) *State {
	s := &State{
		model: m, load: make([][]value.Value, len(m.attributes)), static: make([]bool, len(m.attributes)),
		problems: map[HostID][]error{}, raw: map[rawKey]value.Value{}, texts: map[rawKey]string{}, instances: make([]instanceState, len(m.instances)),
		peUsed: make([]int, len(m.pes)), perOwner: map[string]int{}, closings: map[InstanceID]closing{}, things: things{},
	}
	for i := range s.instances {
		s.order++
		s.instances[i].order = s.order
	}
	for _, name := range staticLoadValues {
		if id, ok := m.attributeOf[name]; ok {
			s.static[id] = true
		}
	}
	s.used.init(m)
	s.pending.init()
	s.quotas = newQuotaUsage(m)
	s.cores = newHostCores(m)
	return s
}

// staticLoadValues are load values that do not change while a host is up.
var staticLoadValues = []string{
	"arch", "num_proc", "m_core", "m_socket", "m_thread", "m_topology", "mem_total", "swap_total", "virtual_total",
}

// Model returns the configuration that the state belongs to.
func (s *State) Model() *Model { return s.model }

// SetLoad replaces all load values of a host ("global" for those of the cluster), by
// the names of their complexes (sge_execd(8), load sensors). Values without a complex
// are ignored. A value that is none of its type counts as not reported, and Problems
// has it. Numbers are multiplied by load_scaling of the host.
func (s *State) SetLoad(host string, values map[string]string) error {
	id, ok := s.model.Host(host)
	if !ok {
		return fmt.Errorf("load report of host %q: there is no such host", host)
	}
	at := s.loadIndex(id)
	for a := range s.load {
		if s.load[a] != nil {
			s.load[a][at] = value.Value{}
			delete(s.raw, rawKey{id, AttributeID(a)})
			delete(s.texts, rawKey{id, AttributeID(a)})
		}
	}
	problems := s.setTopology(id, values)
	for name, text := range values {
		a, ok := s.model.attributeOf[name]
		if !ok {
			continue
		}
		v, err := value.Parse(s.model.attributes[a].Type, text)
		if err != nil {
			problems = append(problems, fmt.Errorf("load value %s of host %s: %w", name, s.model.HostName(id), err))
			continue
		}
		if s.load[a] == nil {
			s.load[a] = make([]value.Value, len(s.model.hosts)+1)
		}
		if s.load[a][at] = s.scaled(id, a, v); s.model.adjusted[a] != 0 && s.load[a][at].Same(v) {
			s.texts[rawKey{id, a}] = text
		}
	}
	slices.SortFunc(problems, func(a, b error) int { return cmp.Compare(a.Error(), b.Error()) })
	s.problems[id] = problems
	for _, i := range s.model.hostByID(id).instances {
		s.touch(i)
	}
	return nil
}

func (s *State) scaled(host HostID, a AttributeID, v value.Value) value.Value {
	if !v.Type().IsNumeric() {
		return v
	}
	for _, scale := range s.model.hostByID(host).scaling {
		if scale.attribute == a {
			s.raw[rawKey{host, a}] = v
			// The original keeps what it has multiplied as a text with three decimals.
			text := strconv.FormatFloat(v.Number()*scale.factor, 'f', 3, 64)
			if s.model.adjusted[a] != 0 {
				s.texts[rawKey{host, a}] = text
			}
			scaled, err := strconv.ParseFloat(text, 64)
			if err != nil {
				return v
			}
			return value.OfNumber(v.Type(), scaled)
		}
	}
	return v
}

// Problems returns the load values of a host that could not be read.
func (s *State) Problems(host HostID) []error { return s.problems[host] }

func (s *State) loadIndex(h HostID) int {
	if h == GlobalHost {
		return len(s.model.hosts)
	}
	return int(h)
}

// loadValue returns the scaled load value of a host, invalid if there is none.
func (s *State) loadValue(h HostID, a AttributeID) value.Value {
	if s.load[a] == nil {
		return value.Value{}
	}
	return s.load[a][s.loadIndex(h)]
}

// touch makes an instance the one that was changed last.
func (s *State) touch(id InstanceID) {
	s.order++
	s.instances[id].order = s.order
}

// Status returns the state of a queue instance.
func (s *State) Status(id InstanceID) Status { return s.instances[id].status }

// SetStatus sets the state of a queue instance.
func (s *State) SetStatus(id InstanceID, status Status) {
	if s.instances[id].status != status {
		s.instances[id].status = status
		s.touch(id)
	}
}

// Running returns the tasks that have been started and have not ended, in no particular
// order. The caller must not change the list.
func (s *State) Running() []*Running { return s.running }

// Start books a task that has been started. It is for every decision to start that a
// master follows, and for tasks that it finds running: what they use, they use, even where
// that is more than there is. The error is for a task that is none, that is booked already,
// or whose amounts cannot be counted; nothing is booked then.
func (s *State) Start(r *Running) error {
	if err := s.checkRunning(r); err != nil {
		return err
	}
	if err := s.book(r, +1); err != nil {
		return err
	}
	s.starts++
	r.Job.StartOrder = s.starts
	r.position = len(s.running)
	s.running = append(s.running, r)
	s.perOwner[r.Job.Owner]++
	if len(s.model.adjustments) > 0 {
		s.recent = slices.Insert(s.recent, s.sinceStart(r.Started+1), r)
	}
	return nil
}

// runs reports whether a task has been started and has not ended.
func (s *State) runs(r *Running) bool {
	return r != nil && r.position < len(s.running) && s.running[r.position] == r
}

// Starts returns how many tasks have been started so far.
func (s *State) Starts() int64 { return s.starts }

// SetStarts has a state count on from where another one was. Its Starts have numbered jobs
// that were started there: whoever books these keeps their StartOrder.
func (s *State) SetStarts(n int64) { s.starts = n }

// sinceStart returns where those begin of the recent tasks that were started at a time or later.
func (s *State) sinceStart(t int64) int {
	i, _ := slices.BinarySearchFunc(s.recent, t, func(x *Running, t int64) int { return cmp.Compare(x.Started, t) })
	return i
}

// End takes back what Start booked.
func (s *State) End(r *Running) error {
	if !s.runs(r) {
		return errors.New("cannot end a task that has not been started")
	}
	if err := s.book(r, -1); err != nil {
		return err
	}
	last := len(s.running) - 1
	s.running[r.position] = s.running[last]
	s.running[r.position].position = r.position
	s.running[last], s.running = nil, s.running[:last]
	if s.perOwner[r.Job.Owner]--; s.perOwner[r.Job.Owner] == 0 {
		delete(s.perOwner, r.Job.Owner)
	}
	for i := s.sinceStart(r.Started); i < len(s.recent) && s.recent[i].Started == r.Started; i++ {
		if s.recent[i] == r {
			s.recent = slices.Delete(s.recent, i, i+1)
			break
		}
	}
	return nil
}
