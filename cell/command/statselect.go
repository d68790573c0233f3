package command

import (
	"cmp"
	"slices"
	"strings"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/cell/view"
	"github.com/execd-project/execd/qstat"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/expression"
	"github.com/execd-project/execd/submit"
)

// statSelection selects the jobs and queue instances that qstat shows.
type statSelection struct {
	call       *call
	users      []string
	known      map[string]bool // users, and whether they are among them
	jobStates  map[string]bool
	states     bool   // -qs was given
	state      string // letters of -qs
	references []*expression.QueueReference
	pes        []string
	accessible []string          // -U
	wanted     *scheduler.Wanted // -l; nil for none
}

// jobStates are the values of -s of qstat, the longer ones first.
var jobStates = []string{"hu", "ho", "hs", "hd", "hj", "ha", "h", "p", "r", "s", "z", "a"}

// queueStates are the letters of -qs.
const queueStates = "acdosuACDES"

func (x *call) statSelection(l *line) (*statSelection, bool) {
	s := &statSelection{call: x, users: []string{x.in.By.User}, pes: l.lists("-pe"), accessible: l.lists("-U")}
	if l.has("-u") {
		s.users = x.usersOf(l)
	}
	if text, ok := l.last("-s"); ok {
		var bad string
		if s.jobStates, bad = parseJobStates(text); bad != "" {
			x.stderr.lines(x.self.text())
			x.fail(1, "ERROR! wrong argument to -s option")
			x.warn("%q is not a state; expected one or more of %s", bad, strings.Join(jobStates, " "))
			return nil, false
		}
	}
	if s.state, s.states = l.last("-qs"); strings.Trim(s.state, queueStates) != "" {
		x.unknownStates(s.state)
		return nil, false
	}
	for _, text := range l.lists("-q") {
		r, err := compileQueue(x, text)
		if err != nil {
			x.fail(1, "error: -q %s: %s", text, err)
			return nil, false
		}
		s.references = append(s.references, r)
	}
	if s.pes != nil && !slices.ContainsFunc(x.cell.Cluster().PENames(), func(pe string) bool { return slices.Contains(s.pes, pe) }) {
		x.fail(1, "error: no such parallel environment")
		return nil, false
	}
	if texts := l.all("-l"); texts != nil {
		var ok bool
		var problem string
		if s.wanted, problem, ok = x.wanted(texts); !ok {
			x.result.Exit = 1 // without a message, unless the name is empty (tested)
			if strings.HasSuffix(problem, `""`) {
				x.warn("error: %s", problem)
			}
			x.suggest(problem)
			return nil, false
		}
	}
	return s, true
}

// usersOf returns the users of -u. $user stands for the caller.
func (x *call) usersOf(l *line) []string {
	users := l.lists("-u")
	for i, u := range users {
		if u == "$user" {
			users[i] = x.in.By.User
		}
	}
	return users
}

// unknownStates complains about letters of -qs or -explain, as the original does, twice.
func (x *call) unknownStates(letters string) {
	bad := strings.Trim(letters, queueStates)
	x.warn("error: unknown queue state: %s found in string: %s", bad, letters)
	x.fail(1, "unknown queue state: %s found in string: %s", bad, letters)
}

func compileQueue(x *call, text string) (*expression.QueueReference, error) {
	return expression.CompileQueueReference(x.cell.HostNames(), text)
}

// parseJobStates reads -s. bad is the part that is not a state.
func parseJobStates(text string) (states map[string]bool, bad string) {
	states = map[string]bool{}
	text = strings.TrimSuffix(text, "+")
next:
	for text != "" {
		for _, s := range jobStates {
			if rest, ok := strings.CutPrefix(text, s); ok {
				states[s] = true
				text = rest
				continue next
			}
		}
		return nil, text
	}
	if states["a"] {
		states["p"], states["r"], states["s"] = true, true, true
	}
	if states["h"] {
		for _, h := range []string{"hu", "ho", "hs", "hd", "hj", "ha"} {
			states[h] = true
		}
	}
	return states, ""
}

// selecting reports whether an option selects queue instances.
func (s *statSelection) selecting() bool {
	return s.states || s.references != nil || s.pes != nil || s.accessible != nil || s.wanted != nil
}

// queues returns the queue instances that are shown.
func (s *statSelection) queues(v *view.View, resources view.Selection) []qstat.QueueInstance {
	all := v.Queues(resources)
	if s.selecting() {
		all = slices.DeleteFunc(all, func(q qstat.QueueInstance) bool { return !s.hasQueue(&q) })
	}
	return all
}

// nowhere reports whether -q or -pe match no queue instance at all, which is an error (tested). It is
// not an error if other options exclude all matching instances.
func (s *statSelection) nowhere() bool {
	for _, one := range []*statSelection{
		{call: s.call, references: s.references},
		{call: s.call, pes: s.pes},
	} {
		if one.selecting() && len(one.queues(view.New(s.call.cell, s.call.now), view.None)) == 0 {
			return true
		}
	}
	return false
}

// warnInaccessible prints that the users of -U have access to no queue instance at all. qstat does not
// fail because of that (tested).
func (s *statSelection) warnInaccessible() {
	if s.accessible == nil {
		return
	}
	one := &statSelection{call: s.call, accessible: s.accessible}
	if len(one.queues(view.New(s.call.cell, s.call.now), view.None)) == 0 {
		s.call.warn("error: no queues remaining after -U queue selection")
	}
}

// inListOrder sorts queue instances in the order of the list of queues, and within a queue by host.
func (x *call) inListOrder(queues []qstat.QueueInstance) {
	place := map[string]int{}
	for i, name := range x.cell.InListOrder(x.cell.Cluster().QueueNames()) {
		place[name] = i + 1
	}
	slices.SortStableFunc(queues, func(a, b qstat.QueueInstance) int {
		return cmp.Or(cmp.Compare(place[a.Queue], place[b.Queue]), strings.Compare(a.Host, b.Host))
	})
}

func (s *statSelection) hasQueue(q *qstat.QueueInstance) bool {
	c := s.call.cell.Cluster()
	if s.references != nil && !slices.ContainsFunc(s.references, func(r *expression.QueueReference) bool {
		return r.Match(q.Queue, q.Host, s.call.hostGroups)
	}) {
		return false
	}
	if s.states && !strings.ContainsAny(q.State, s.state) {
		return false
	}
	if s.wanted != nil {
		if id, ok := s.call.cell.Model().Instance(q.Queue, q.Host); !ok || !s.call.cell.State().Offered(s.wanted, id) {
			return false
		}
	}
	if s.pes == nil && s.accessible == nil {
		return true
	}
	instance, err := c.Instance(q.Queue, q.Host)
	if err != nil {
		return false
	}
	if s.pes != nil && !slices.ContainsFunc(instance.PEList, func(pe string) bool { return slices.Contains(s.pes, pe) }) {
		return false
	}
	return s.accessible == nil || s.call.allAccess(s.accessible, &instance)
}

// hostGroups returns the host groups with a host, as references need them.
func (x *call) hostGroups(host string) []string {
	groups := x.cell.Cluster().HostGroups()
	return slices.DeleteFunc(groups.Names(), func(g string) bool { return !groups.Contains(g, host) })
}

// hasUser reports whether a user is among those of -u. It stores the result for each user.
func (s *statSelection) hasUser(user string) bool {
	has, known := s.known[user]
	if !known {
		has = slices.ContainsFunc(s.users, func(pattern string) bool {
			return pattern == user || !expression.PlainPattern(pattern) && expression.CompilePattern(false, pattern).Match(user)
		})
		if s.known == nil {
			s.known = map[string]bool{}
		}
		s.known[user] = has
	}
	return has
}

// jobs returns the jobs that are shown, with the tasks that are shown.
func (s *statSelection) jobs(v *view.View, queues []qstat.QueueInstance) []qstat.Job {
	shown := map[string]bool{}
	for i := range queues {
		shown[queues[i].Name()] = true
	}
	p := s.call.placesOf(queues)
	all := slices.DeleteFunc(s.call.cell.Jobs(), func(j *cell.Job) bool { return !s.hasUser(j.Owner()) })
	list := make([]qstat.Job, 0, len(all)) // rows are large: a list that grows moves them again and again
	for _, j := range all {
		row := v.Job(j)
		row.Tasks = slices.DeleteFunc(row.Tasks, func(t qstat.Task) bool { return !s.hasTask(j, &t, shown, p) })
		if len(row.Tasks) > 0 {
			list = append(list, row)
		}
	}
	if s.jobStates["z"] {
		for _, j := range v.Finished() {
			if s.hasUser(j.Owner) {
				list = append(list, j)
			}
		}
	}
	return list
}

func (s *statSelection) hasTask(j *cell.Job, t *qstat.Task, shown map[string]bool, p *places) bool {
	if s.selecting() {
		if t.Phase == qstat.Running {
			return s.inStates(j, t) && slices.ContainsFunc(t.Grants, func(g qstat.Grant) bool { return shown[g.Queue] })
		}
		if s.narrowing() && !p.mayHave(j) {
			return false
		}
	}
	return s.inStates(j, t)
}

// narrowing reports whether qstat shows only those pending jobs that may run in one of the selected queue
// instances. The states of the instances do not matter (tested).
func (s *statSelection) narrowing() bool {
	return s.references != nil || s.pes != nil || s.accessible != nil || s.wanted != nil
}

// inStates applies -s.
func (s *statSelection) inStates(j *cell.Job, t *qstat.Task) bool {
	if s.jobStates == nil {
		return true
	}
	suspended := strings.ContainsAny(t.State, "sST")
	switch {
	case t.Phase == qstat.Running:
		return s.jobStates["r"] && !suspended || s.jobStates["s"] && suspended
	case s.jobStates["p"]:
		return true
	}
	holds := j.Holds
	if t.State != "" && len(j.Tasks()) > 0 {
		for _, own := range j.Tasks() {
			if len(t.IDs) == 0 || own.Number == uint32(t.IDs[0].First) {
				holds = own.Holds
			}
		}
	}
	return s.jobStates["hu"] && holds&submit.HoldUser != 0 || s.jobStates["ho"] && holds&submit.HoldOperator != 0 ||
		s.jobStates["hs"] && holds&submit.HoldSystem != 0 ||
		s.jobStates["hj"] && len(j.Predecessors()) > 0 || s.jobStates["hd"] && len(j.TaskPredecessors()) > 0 ||
		s.jobStates["ha"] && j.Start > s.call.now
}
