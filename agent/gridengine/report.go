package gridengine

import (
	"cmp"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/execd-project/execd/agent"
	"github.com/execd-project/execd/agent/gridengine/message"
	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/loadsensor"
)

// take stores the agent's reports.
func (s *session) take(b *agent.Batch) {
	if b.Load != nil {
		s.takeLoad(b.Load)
	}
	if b.Service != nil {
		s.takeService(b.Service)
	}
	for i := range b.Jobs {
		s.takeJob(&b.Jobs[i])
	}
	s.reported = true
	s.survey()
}

// usagePause is the time for which a report of load values waits for the usage of jobs, which is
// measured after them.
const usagePause = 100 * time.Millisecond

func (s *session) takeLoad(r *agent.LoadReport) {
	first := s.load.values == nil
	if r.Full || first {
		s.load.values = map[loadsensor.Key]loadsensor.Value{}
	} else {
		s.load.values = maps.Clone(s.load.values) // the previous one may have been sent
	}
	for _, v := range r.Values {
		s.load.values[v.Key] = v
	}
	for _, k := range r.Removed {
		delete(s.load.values, k)
	}
	if at := s.clock.Now().Add(usagePause); s.next.IsZero() || first || at.Before(s.next) {
		s.next = at
	}
	s.load.due = true
}

func (s *session) takeJob(r *agent.JobReport) {
	k := keyOf(r.ID)
	j := s.jobs[k]
	if j == nil || j.ghost {
		j = &jobState{id: r.ID, flush: true, restarted: -1}
		s.jobs[k] = j
	}
	if r.Number < j.number {
		return
	}
	ended := r.Outcome != nil
	if ended && j.client {
		j.client = false
		s.after(s.options.ClientPause, func() {
			if s.jobs[k] == j { // and no later run of it
				s.takeJob(r)
			}
		})
		return
	}
	if ended && !j.ended {
		j.flush = true
		s.forgetInstances(r)
	}
	j.number, j.ended, j.slave, j.began = r.Number, ended, r.Slave, !r.Started.IsZero()
	j.report = reportOf(r, s.options.Host, s.options.Cluster().Config(s.options.Host).ExecdParams.EnableMemDetails)
	if j.next != nil && ended {
		s.succeed(k, j)
		return
	}
	if !j.flush {
		return
	}
	if due := s.startDue(j); due.After(s.clock.Now()) {
		s.by(due)
		return
	}
	s.soon()
}

// maxSequence is the last sequence number before 0.
const maxSequence = 9999

// report sends a report: the urgent reports of jobs, or together with load values all of them.
func (s *session) report(now time.Time) {
	s.next = now.Add(s.interval + s.interval/2) // unless load values arrive earlier
	r := &message.Report{Host: s.options.Host, Sequence: s.sequence}
	var values map[loadsensor.Key]loadsensor.Value // in the form for this release of qmaster
	all := s.load.due || s.load.base == nil || s.overdue(now)
	if all && s.load.values == nil {
		return // before the first load values there is nothing else to send
	}
	if all {
		s.load.due, s.lastAll = false, now
		values = s.valuesFor(s.load.values)
		r.Load = s.loadReport(values)
		r.Configurations = s.configurations
		if !s.licensed {
			r.Licence = s.licence()
		}
	}
	var urgent, held []*jobState
	defer func() {
		for _, j := range held {
			s.by(s.startDue(j))
		}
	}()
	for _, j := range s.jobs {
		if j.number == 0 && !j.ghost || !all && !j.flush || j.next != nil || s.slaveWaits(j) {
			continue
		}
		if !all && s.startDue(j).After(now) {
			held = append(held, j)
			continue
		}
		urgent = append(urgent, j)
	}
	if !all && len(urgent) == 0 {
		return
	}
	slices.SortFunc(urgent, compareStates)
	codec := s.codec()
	for _, j := range urgent {
		report := j.report
		report.Usage = codec.Usage(report.Usage, j.ended)
		r.Jobs = append(r.Jobs, report)
	}
	if s.send(message.TagReport, codec.EncodeReport(r)) == 0 {
		return
	}
	for _, j := range urgent {
		switch {
		case j.ended:
			s.endsSent = now
		case !j.told:
			s.startsSent = now
		}
		j.flush, j.told = false, true
	}
	if r.Load != nil {
		s.load.sent, s.load.number = values, s.sequence
		s.licensed = true
		s.unheard(now)
	}
	s.count()
}

// count advances to the next sequence number.
func (s *session) count() {
	if s.sequence++; s.sequence > maxSequence {
		s.sequence = 0
	}
}

// overdue reports whether to send everything again although there are no new load values.
func (s *session) overdue(now time.Time) bool { return now.Sub(s.lastAll) >= s.interval }

// unheardPatience is how long load reports may stay without an acknowledgement: a master
// that has much to do takes its time.
const unheardPatience = time.Minute

// unheard registers again where load reports are not acknowledged: qmaster may have
// forgotten us, or lost count of them.
func (s *session) unheard(now time.Time) {
	const reports = 3
	switch {
	case s.silent.IsZero():
		s.silent = now
	case now.Sub(s.silent) > max(unheardPatience, reports*s.interval):
		s.log.Warn("sge_qmaster does not acknowledge load reports: registering again")
		s.silent, s.registered = time.Time{}, false
		s.register()
	}
}

// compareStates orders tasks before their job, whose end is reported last.
func compareStates(a, b *jobState) int {
	last := func(j *jobState) int {
		if j.id.PETask == "" {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.id.Job, b.id.Job), cmp.Compare(a.id.Task, b.id.Task), cmp.Compare(last(a), last(b)), cmp.Compare(a.id.PETask, b.id.PETask))
}

// slaveWaits reports whether the end of a slave job must not be reported yet, because ends of its
// tasks have not been acknowledged.
func (s *session) slaveWaits(j *jobState) bool {
	if !j.slave || !j.ended {
		return false
	}
	for k, other := range s.jobs {
		if k.pe != "" && other.id.Job == j.id.Job && other.id.Task == j.id.Task {
			return true
		}
	}
	return false
}

// loadReport returns all load values, or only those that qmaster does not have.
func (s *session) loadReport(values map[loadsensor.Key]loadsensor.Value) *message.LoadReport {
	r := &message.LoadReport{Full: s.load.base == nil, Values: []message.LoadValue{}}
	value := func(v loadsensor.Value, static uint32) {
		m := message.LoadValue{Name: v.Name, Value: v.Text, Static: static, Host: v.Host}
		if v.Host == "global" {
			m.Global = 1
		}
		r.Values = append(r.Values, m)
	}
	for k, v := range values {
		old, ok := s.load.base[k]
		if ok && old.Text == v.Text {
			continue
		}
		static := uint32(0)
		if v.Static {
			static = 1
		}
		value(v, static)
	}
	for k, v := range s.load.base {
		if _, ok := values[k]; !ok {
			value(v, message.LoadRemoved)
		}
	}
	slices.SortFunc(r.Values, func(a, b message.LoadValue) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Name, b.Name))
	})
	return r
}

// valuesFor returns load values as the scheduler of sge_qmaster wants them: one that chooses processors has
// the parts of the host in m_topology.
func (s *session) valuesFor(values map[loadsensor.Key]loadsensor.Value) map[loadsensor.Key]loadsensor.Value {
	if !s.codec().SchedulerBinds() || s.options.Topology == nil {
		return values
	}
	told := map[loadsensor.Key]loadsensor.Value{}
	for k, v := range values {
		switch k.Name {
		case "m_topology":
			if v.Text = s.treeOf(v.Text); v.Text == "" {
				continue
			}
		case "m_topology_inuse":
			continue
		}
		told[k] = v
	}
	return told
}

// treeOf returns the parts of the host while its topology string is text; empty if they cannot be
// read. They are read again when text changes, and after a failure in the next report.
func (s *session) treeOf(text string) string {
	if s.load.treeOf == text {
		return s.load.tree
	}
	tree, err := s.options.Topology()
	if err != nil {
		if !s.load.treeless {
			s.log.Warn("cannot determine the topology of this host: jobs are not bound to processors until it is known", "error", err)
		}
		s.load.treeless = true
		return ""
	}
	s.load.treeOf, s.load.tree, s.load.treeless = text, tree, false
	return tree
}

func (s *session) licence() *message.Licence {
	return &message.Licence{Processors: uint32(runtime.NumCPU()), Arch: job.Arch(runtime.GOARCH)}
}
