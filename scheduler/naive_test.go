package scheduler_test

import (
	"cmp"
	"maps"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
)

// naive is a scheduler that is meant to be obviously right, and nothing else: it looks at
// every instance for every job, and adds up what runs whenever it wants to know what is
// in use. It does what complex(5), queue_conf(5), sched_conf(5) and sge_resource_quota(5)
// say.
type naive struct {
	site     *site
	load     map[string]map[string]string // by host, "global" too
	disabled map[string]bool              // instances in any state in which they are not used
	modified []string                     // instances, the one that was modified last at the end
	pes      []*sitePE                    // likewise
	running  []*naiveTask
	pending  []*naiveJob
}

type naiveJob struct {
	id                               uint32
	user, group, project             string
	hard, soft                       map[string]string
	queues, softQueues, masterQueues []string
	pe                               string
	slots                            []int // the amounts that it takes, ascending
	checkpoint                       string
	immediate                        bool
	submitted, deadline              int64
	priority                         int
	tasks                            []int
	array                            bool
	limit, active                    int // -tc
	override                         float64
	excluded                         []string
}

type naiveTask struct {
	job     *naiveJob
	task    int
	started int64
	pe      string
	grants  []naiveGrant
}

type naiveGrant struct {
	instance string
	slots    int
}

func newNaive(s *site) *naive {
	n := &naive{site: s, load: map[string]map[string]string{}, disabled: map[string]bool{}}
	for _, i := range s.instances() {
		n.modified = append(n.modified, i.name())
	}
	n.pes = slices.Clone(s.pes)
	return n
}

func (n *naive) touch(instance string) {
	i := slices.Index(n.modified, instance)
	n.modified = append(slices.Delete(n.modified, i, i+1), instance)
}

func (n *naive) setLoad(host string, values map[string]string) {
	n.load[host] = values
	for _, i := range n.site.instances() {
		if i.host == host {
			n.touch(i.name())
		}
	}
}

func (n *naive) setDisabled(instance string, disabled bool) {
	if n.disabled[instance] != disabled {
		n.disabled[instance] = disabled
		n.touch(instance)
	}
}

func (n *naive) start(t *naiveTask) {
	n.running = append(n.running, t)
	n.touchAll(t)
}

// touchAll notes that the instances and the parallel environment of a task have been modified.
func (n *naive) touchAll(t *naiveTask) {
	for _, g := range t.grants {
		n.touch(g.instance)
	}
	if i := slices.IndexFunc(n.pes, func(p *sitePE) bool { return p.name == t.pe }); i >= 0 {
		p := n.pes[i]
		n.pes = append(slices.Delete(n.pes, i, i+1), p)
	}
}

func (n *naive) end(t *naiveTask) {
	i := slices.Index(n.running, t)
	n.running = slices.Delete(n.running, i, i+1)
	n.touchAll(t)
}

// naiveRun is one run.
type naiveRun struct {
	*naive
	now      int64
	tasks    []*naiveTask // those that run, and those that start
	begun    []*naiveTask
	reduced  map[string]float64 // host/attribute: capacity that others than jobs use
	usable   []string           // in order
	weights  map[string]float64 // of hosts
	unsorted bool               // hosts have changed places
	numbered bool               // a parallel job was compared with hosts since a load changed
	shunned  map[string]bool    // hosts on which no parallel job starts any more
	lost     []string           // hosts that are dropped when the next task starts
	bounds   [2]float64         // of the urgencies
	maxShare float64            // most tickets
}

// run returns the tasks that start, in order.
func (n *naive) run(now int64) []*naiveTask {
	r := &naiveRun{naive: n, now: now, tasks: slices.Clone(n.running), reduced: map[string]float64{}, shunned: map[string]bool{}, weights: map[string]float64{}}
	r.reduce()
	for _, i := range n.modified {
		if !n.disabled[i] && !r.alarm(i) && r.used(i, "slots") < float64(n.site.instance(i).slots) {
			r.usable = append(r.usable, i)
		}
	}
	for _, h := range r.site.hosts {
		r.weigh(h.name)
	}
	r.sort()
	r.scale()
	type candidate struct {
		job   *naiveJob
		tasks []int
	}
	var waiting []*candidate
	for _, j := range n.pending {
		if tasks := n.startable(j); len(tasks) > 0 {
			waiting = append(waiting, &candidate{j, tasks})
		}
	}
	for len(waiting) > 0 && len(r.usable) > 0 {
		waiting = slices.DeleteFunc(waiting, func(c *candidate) bool { return r.tooMany(c.job.user) })
		if len(waiting) == 0 {
			break
		}
		slices.SortStableFunc(waiting, func(a, b *candidate) int {
			return cmp.Or(cmp.Compare(r.priority(b.job), r.priority(a.job)),
				cmp.Compare(a.job.submitted, b.job.submitted), cmp.Compare(a.job.id, b.job.id))
		})
		first := waiting[0]
		if first.job.pe == "" {
			r.sortIfMoved()
		}
		pe, grants := r.place(first.job)
		r.unsorted = false // a parallel job that was refused before it looked at hosts has not sorted them
		if grants == nil {
			waiting = waiting[1:]
			continue
		}
		t := &naiveTask{job: first.job, task: first.tasks[0], started: now, pe: pe, grants: grants}
		r.tasks, r.begun = append(r.tasks, t), append(r.begun, t)
		if first.tasks = first.tasks[1:]; len(first.tasks) == 0 {
			waiting = waiting[1:]
		}
		r.shun(t)
		r.refilter(t)
		before, weights := r.ranks(), maps.Clone(r.weights)
		for _, g := range grants {
			r.weigh(r.site.instance(g.instance).host)
		}
		changed := !maps.Equal(weights, r.weights)
		r.unsorted = !slices.Equal(before, r.ranks()) || changed && r.numbered
		r.numbered = r.numbered && !changed
	}
	return r.begun
}

// place finds places for a task of a job.
func (r *naiveRun) place(j *naiveJob) (pe string, grants []naiveGrant) {
	if j.pe != "" {
		return r.placeParallel(j)
	}
	if i := r.placeSerial(j); i != "" {
		return "", []naiveGrant{{i, 1}}
	}
	return "", nil
}

// startable are the tasks that max_aj_instances and -tc allow to start.
func (n *naive) startable(j *naiveJob) []int {
	limit := n.site.maxAJ
	if limit == 0 {
		limit = 2000
	}
	if j.limit > 0 {
		limit = min(limit, j.limit)
	}
	if !j.array {
		return j.tasks
	}
	return j.tasks[:max(0, min(len(j.tasks), limit-j.active))]
}

// tooMany applies maxujobs.
func (r *naiveRun) tooMany(user string) bool {
	n := 0
	for _, t := range r.tasks {
		if t.job.user == user {
			n++
		}
	}
	return r.site.scheduler.maxujobs > 0 && n >= r.site.scheduler.maxujobs
}

// refilter drops instances on the hosts of a task that has just started, because they
// are full, overloaded or suspended by it.
func (r *naiveRun) refilter(t *naiveTask) {
	touched := map[string]bool{}
	for _, g := range t.grants {
		touched[r.site.instance(g.instance).host] = true
	}
	for _, a := range r.site.scheduler.adjustments {
		if _, ok := r.load["global"][a[0]]; ok {
			for _, h := range r.site.hosts {
				touched[h.name] = true
			}
		}
	}
	r.usable = slices.DeleteFunc(r.usable, func(i string) bool { return slices.Contains(r.lost, r.site.instance(i).host) })
	r.lost = nil
	r.usable = slices.DeleteFunc(r.usable, func(i string) bool {
		x := r.site.instance(i)
		return touched[x.host] && (r.used(i, "slots") >= float64(x.slots) || r.alarm(i) || r.subordinated(x))
	})
}

// shun does what the original does when a parallel job with $round_robin gets hosts of its
// own: parallel jobs keep off the hosts that jobs share.
func (r *naiveRun) shun(t *naiveTask) {
	for _, p := range r.site.pes {
		for name, text := range t.job.hard {
			if p.name != t.pe || p.rule != "$round_robin" || !r.site.attribute(name).isExclusive() || number(text) == 0 {
				continue
			}
			for _, h := range r.site.hosts {
				if _, others := r.occupied(h.name, name); others > 0 && h.values[name] != "" {
					r.shunned[h.name] = true
				}
			}
		}
	}
}

// subordinated reports whether so many slots of a superordinate queue are in use on the
// host that an instance is suspended.
func (r *naiveRun) subordinated(x *siteInstance) bool {
	for _, q := range r.site.queues {
		for _, s := range q.subordinates {
			if s.queue != x.queue {
				continue
			}
			for _, over := range q.at {
				threshold := s.slots
				if threshold == 0 {
					threshold = over.slots
				}
				if used := r.used(over.name(), "slots"); over.host == x.host && used > 0 && used >= float64(threshold) {
					return true
				}
			}
		}
	}
	return false
}

// weigh computes the load of a host by which it is sorted.
func (r *naiveRun) weigh(host string) { r.weights[host] = r.loadFormula(host) }

// sortIfMoved sorts them if a job has made hosts change places.
func (r *naiveRun) sortIfMoved() {
	if r.unsorted {
		r.sort()
	}
	r.unsorted = false
}

// ranks are how each host compares with each other one.
func (r *naiveRun) ranks() (list []int) {
	for _, a := range r.site.hosts {
		for _, b := range r.site.hosts {
			list = append(list, cmp.Compare(r.weights[a.name], r.weights[b.name]))
		}
	}
	return list
}

// sort sorts the usable instances, stably.
func (r *naiveRun) sort() {
	slices.SortStableFunc(r.usable, func(a, b string) int {
		x, y := r.site.instance(a), r.site.instance(b)
		byLoad := cmp.Compare(r.weights[x.host], r.weights[y.host])
		bySeqno := cmp.Compare(x.seqno, y.seqno)
		if r.site.scheduler.bySeqno {
			return cmp.Or(bySeqno, byLoad)
		}
		return cmp.Or(byLoad, bySeqno)
	})
}

func (r *naiveRun) loadFormula(host string) float64 {
	sum := 0.0
	for _, t := range r.site.scheduler.formula {
		v, ok := r.strictest(t.attribute, "global", host)
		if !ok {
			return 9999
		}
		sum += v.number * t.weight
	}
	return sum
}

// number returns a value of a type that is a number, as the tests write them.
func number(text string) float64 {
	switch text {
	case "TRUE":
		return 1
	case "FALSE":
		return 0
	case "INFINITY":
		return math.MaxFloat64
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		panic(err)
	}
	return v
}

// matches compares texts as the tests write patterns: * and ? and a ! in front.
func matches(pattern, text string) bool {
	if p, not := strings.CutPrefix(pattern, "!"); not {
		return !matches(p, text)
	}
	ok, err := path.Match(pattern, text)
	if err != nil {
		panic(err)
	}
	return ok
}

// scale finds the ends of the scales of urgencies and tickets.
func (r *naiveRun) scale() {
	r.bounds = [2]float64{math.MaxFloat64, 0x1p-1022}
	add := func(j *naiveJob) {
		u := r.urgency(j)
		r.bounds[0], r.bounds[1] = min(r.bounds[0], u), max(r.bounds[1], u)
		r.maxShare = max(r.maxShare, j.override)
	}
	for _, j := range r.pending {
		if len(r.startable(j)) > 0 { // maxujobs is applied after the priorities are computed
			add(j)
		}
	}
	for _, t := range r.tasks {
		add(t.job)
	}
}

// urgency returns the urgency according to sge_priority(5): of resources, waiting time and
// deadline.
func (r *naiveRun) urgency(j *naiveJob) float64 {
	slots := 1.0
	if j.pe != "" {
		slots = float64(j.slots[0])
	}
	sum := 1000 * slots
	for name, text := range j.hard {
		if a := r.site.attribute(name); a.isText() {
			sum += a.urgency
		} else {
			sum += a.urgency * number(text) * slots
		}
	}
	sum += r.site.scheduler.weights[3] * float64(r.now-j.submitted)
	if j.deadline > 0 {
		sum += r.site.scheduler.weights[4] / float64(max(j.deadline-r.now, 1))
	}
	return sum
}

func (r *naiveRun) priority(j *naiveJob) float64 {
	norm := func(v, low, high float64) float64 {
		if high-low < 0.00001 {
			return 0.5
		}
		return (v - low) / (high - low)
	}
	w := r.site.scheduler.weights
	return w[1]*norm(r.urgency(j), r.bounds[0], r.bounds[1]) + w[2]*norm(j.override, 0, r.maxShare) + w[0]*norm(float64(j.priority)+1024, 0, 2048)
}
