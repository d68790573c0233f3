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

// Status is the state of a queue instance: a set of independent reasons not to use it (qstat(1),
// states).
type Status uint16

// The states. Alarms are not included: they follow from load values.
const (
	Unknown             Status = 1 << iota // u: the host does not report
	Failed                                 // E: jobs could not be started
	DisabledByUser                         // d
	DisabledByCalendar                     // D
	SuspendedByUser                        // s
	SuspendedByCalendar                    // C
	Subordinated                           // S: suspended by a superordinate queue
	Orphaned                               // o: deleted, but jobs still run there
)

// Suspended are the states in which the jobs of an instance are suspended.
const Suspended = SuspendedByUser | SuspendedByCalendar | Subordinated

// unavailable are the states in which an instance is "temporarily not available".
const unavailable = SuspendedByUser | SuspendedByCalendar | Subordinated | Failed | Unknown | Orphaned

// Suspension is a set of reasons why a task is suspended.
type Suspension uint8

// The reasons. All of them may apply at the same time.
const (
	ByUser        Suspension = 1 << iota // s: by qmod(1) on the job
	ByQueue                              // s: with its queue, by a user or a calendar
	BySubordinate                        // S: with its queue, by a superordinate queue, or slot-wise
	ByThreshold                          // T
)

// Job is a job that has tasks to start.
type Job struct {
	ID        uint32
	Category  *Category
	Owner     string
	Submitted int64
	Deadline  int64 // 0 for none (qsub(1), -dl)
	Changed   int64 // counts changes of jobs, see SetChanged
	Priority  int   // POSIX priority, -1023 to 1024
	Reserve   bool  // -R y
	Rerun     bool  // may run again

	// Array is set for an array job. Tasks contains the numbers of the tasks that have not been
	// started. For other jobs it is {1} or, after the start, empty.
	Array     bool
	Tasks     rangelist.List
	TaskLimit int // active tasks at the same time (-tc); 0 for no limit
	Active    int // started and unfinished tasks

	// Excluded are hosts that the job must not use because an earlier run of the job has not been
	// cleaned up there. Usually empty.
	Excluded []HostID

	// The input of the ticket policies: the job's user, project and department in the lists of
	// Entitlements (the zero Ref if there is none), the leaf of the share tree, then -js and qalter
	// -ot.
	User, Project, Department tickets.Ref
	Leaf                      tickets.Ref
	Shares, Override          float64

	// StartOrder is the value of State.Starts when a task was last started; 0 if none was. Start
	// sets it.
	StartOrder int64

	line *line // the line that contains it
}

// Grant is a part of a task's allocation: slots of a queue instance.
type Grant struct {
	Instance InstanceID
	Slots    int
	// Elements are the elements of resource maps given to the task, by attribute. Usually nil.
	Elements []MapElements
	// Cores are the cores given to the task on a host, if the scheduler chooses cores (qsub(1),
	// -binding), in the order of choice. The first grant of a host contains all of them. Usually
	// nil.
	Cores []topology.Pair
}

// MapElements holds the elements that a task got from a resource map (complex(5), RSMAP).
type MapElements struct {
	Attribute AttributeID
	At        Place
	IDs       []string
}

// Running is a started and unfinished task.
type Running struct {
	Job     *Job
	Task    uint32
	Started int64
	PE      PEID    // None for a serial task
	Grants  []Grant // the master task's first
	// Away is the part of the task on hosts outside of the state. It is not in Grants.
	Away Away
	// Limit is the smallest granted run time limit in seconds; 0 for no limit.
	Limit     int64
	Suspended Suspension
	// Urgency is the normalized urgency (nurg of sge_priority(5)) of the last run before a user or
	// a threshold suspended the task. The task keeps it while it is suspended.
	Urgency float64

	position int // in State.running
}

// Away is the part of a parallel task on hosts outside of a State: an agent's State contains only
// the agent's own host. It is zero if a State contains the whole cluster.
type Away struct {
	Slots  int
	Master bool // the master task runs there, so resources counted once per job are not used here
}

// Idle reports whether a task itself is suspended. A task that is suspended with its queue counts
// as running for tickets and for the load of its host (tested).
func (r *Running) Idle() bool { return r.Suspended&(ByUser|ByThreshold) != 0 }

// Slots returns the number of slots of all grants, without Away.
func (r *Running) Slots() int {
	n := 0
	for _, g := range r.Grants {
		n += g.Slots
	}
	return n
}

// Entitlements are the entitlements of users, projects and departments.
type Entitlements struct {
	Users, Projects, Departments []tickets.Entity
	Tree                         *tickets.Tree   // nil without a share tree
	Ledger                       *tickets.Ledger // decayed to the time of the run; nil for none
}

// Place is a place of a layer of complex(5): the cluster, a host, or a queue instance.
type Place struct {
	layer layerSet
	index int32
}

// AtGlobal returns the place of the whole cluster.
func AtGlobal() Place { return Place{layer: atGlobal} }

// AtInstance returns the place of a queue instance.
func AtInstance(id InstanceID) Place { return Place{layer: atQueue, index: int32(id)} }

// AtHost returns the place of a host, or of the cluster for GlobalHost.
func AtHost(h HostID) Place {
	if h == GlobalHost {
		return AtGlobal()
	}
	return Place{layer: atHost, index: int32(h)}
}

// State is a master's current knowledge of the cluster. Make it with NewState; the zero State is
// invalid.
type State struct {
	silent bool // runs find no reasons
	model  *Model

	Entitlements Entitlements

	load     [][]value.Value        // by attribute, then by host with the global host last; nil if no host reports the attribute
	static   []bool                 // by attribute: its load values apply to an empty cluster as well
	raw      map[rawKey]value.Value // the reported values of load values that load_scaling changes
	texts    map[rawKey]string      // the reported values of load values that are adjusted
	problems map[HostID][]error

	instances []instanceState
	order     int64   // of the last modification of an instance or a parallel environment
	peOrder   []int64 // of each parallel environment: its last modification
	starts    int64   // tasks that have been started so far

	used     bookings
	elements usedElements
	surplus  surplus
	cores    []hostCores // by host; nil if bindings are left to the hosts
	devices  map[HostID]*hostDevices
	peUsed   []int
	running  []*Running
	perOwner map[string]int // active tasks
	recent   []*Running     // by start time, tasks that may still count for load adjustments
	pending  backlog

	reservations []*Reservation
	closings     map[InstanceID]closing
	quotas       *quotaUsage
	overridden   int            // pending jobs with override tickets of their own
	ranked       []tickets.Task // of the last run: its memory is reused
	keys         [][]headKey    // likewise
	slotSearch   slotSearch
}

type instanceState struct {
	status Status
	// order is the time of the last change: the original considers the most recently changed
	// instances last.
	order int64
	// checked is the time at which suspend thresholds last suspended or resumed a task.
	checked int64
}

// NewState returns an empty cluster: no host has reported, nothing runs, and all queue instances
// are usable.
func NewState(m *Model) *State {
	s := &State{
		model: m, load: make([][]value.Value, len(m.attributes)), static: make([]bool, len(m.attributes)),
		problems: map[HostID][]error{}, raw: map[rawKey]value.Value{}, texts: map[rawKey]string{}, instances: make([]instanceState, len(m.instances)),
		peUsed: make([]int, len(m.pes)), peOrder: make([]int64, len(m.pes)), perOwner: map[string]int{}, closings: map[InstanceID]closing{}, elements: usedElements{}, surplus: surplus{},
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

// KeepExperience gives the state what the runs of a previous state have learned about ranges of slots
// (PE_RANGE_ALG=auto of sched_conf(5)). Call it after a change of the configuration.
func (s *State) KeepExperience(previous *State) { s.slotSearch = previous.slotSearch }

// Model returns the configuration of the state.
func (s *State) Model() *Model { return s.model }

// SetLoad replaces all load values of a host ("global" for the cluster), by the names of their
// complexes (sge_execd(8), load sensors). It ignores values without a complex. A value that is
// invalid for its type counts as not reported, and Problems returns it. Numbers are multiplied by
// load_scaling of the host.
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
	problems := append(s.setTopology(id, values), s.setDevices(id, values)...)
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
			// The original stores the product as a text with three decimals.
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

// loadValue returns the scaled load value of a host; it is invalid if there is none.
func (s *State) loadValue(h HostID, a AttributeID) value.Value {
	if s.load[a] == nil {
		return value.Value{}
	}
	return s.load[a][s.loadIndex(h)]
}

// touch marks an instance as the most recently changed one.
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

// Running returns the started and unfinished tasks in no particular order. The caller must not
// change the list.
func (s *State) Running() []*Running { return s.running }

// Start books a started task: after a decision that a master follows, or for a task that it finds
// running. The usage counts even if it exceeds the capacity. Start returns an error and books
// nothing if the task is invalid, if it is booked already, or if its amounts cannot be added.
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

// runs reports whether a task is booked.
func (s *State) runs(r *Running) bool {
	return r != nil && r.position < len(s.running) && s.running[r.position] == r
}

// Starts returns the number of tasks started so far.
func (s *State) Starts() int64 { return s.starts }

// SetStarts sets the count of starts, to continue the count of another state. Tasks that were
// started there keep their StartOrder.
func (s *State) SetStarts(n int64) { s.starts = n }

// sinceStart returns the index of the first recent task that was started at t or later.
func (s *State) sinceStart(t int64) int {
	i, _ := slices.BinarySearchFunc(s.recent, t, func(x *Running, t int64) int { return cmp.Compare(x.Started, t) })
	return i
}

// End reverts Start.
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
