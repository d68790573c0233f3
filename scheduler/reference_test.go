package scheduler_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
)

// twin is a state of package scheduler and the naive scheduler's view of the same
// cluster, to which the same happens.
type twin struct {
	t     fatal
	site  *site
	model *scheduler.Model
	state *scheduler.State
	naive *naive
	jobs  map[uint32]*twinJob
	tasks map[*naiveTask]*scheduler.Running
	alone bool // the naive scheduler only counts, and decides nothing
}

type twinJob struct {
	naive *naiveJob
	job   *scheduler.Job
}

func newTwin(t fatal, s *site) *twin {
	t.Helper()
	var queues []string
	for _, q := range s.queues {
		queues = append(queues, q.name)
	}
	m := modelOf(t, s.files(), queues...)
	return &twin{
		t: t, site: s, model: m, state: scheduler.NewState(m), naive: newNaive(s),
		jobs: map[uint32]*twinJob{}, tasks: map[*naiveTask]*scheduler.Running{},
	}
}

func settings(m map[string]string) (list []qconf.Setting) {
	for _, name := range slices.Sorted(maps.Keys(m)) {
		list = append(list, qconf.Setting{Name: name, Value: m[name]})
	}
	return list
}

func (w *twin) requests(j *naiveJob) *scheduler.Requests {
	r := &scheduler.Requests{
		User: j.user, Group: j.group, Project: j.project, Hard: settings(j.hard), Soft: settings(j.soft),
		Queues: strings.Join(j.queues, ","), SoftQueues: strings.Join(j.softQueues, ","), MasterQueues: strings.Join(j.masterQueues, ","),
		PE: j.pe, Checkpoint: j.checkpoint, Immediate: j.immediate,
	}
	if j.pe != "" {
		r.Slots = slotsOf(w.t, join(j.slots))
	}
	return r
}

func join(numbers []int) string {
	var parts []string
	for _, n := range numbers {
		parts = append(parts, fmt.Sprint(n))
	}
	return strings.Join(parts, ",")
}

// submit adds a job. It is false if the job cannot be accepted.
func (w *twin) submit(j *naiveJob, reserve bool) bool {
	c, err := w.model.Category(w.requests(j))
	if err != nil {
		return false
	}
	job := &scheduler.Job{
		ID: j.id, Category: c, Owner: j.user, Submitted: j.submitted, Deadline: j.deadline, Priority: j.priority,
		Array: j.array, Tasks: tasksOf(w.t, join(j.tasks)), TaskLimit: j.limit, Override: j.override, Reserve: reserve,
	}
	for _, h := range j.excluded {
		id, _ := w.model.Host(h)
		job.Excluded = append(job.Excluded, id)
	}
	w.jobs[j.id] = &twinJob{j, job}
	w.naive.pending = append(w.naive.pending, j)
	submit(w.t, w.state, job)
	return true
}

func (w *twin) report(host string, values map[string]string) {
	w.naive.setLoad(host, values)
	if err := w.state.SetLoad(host, values); err != nil {
		w.t.Fatal(err)
	}
}

func (w *twin) instance(name string) scheduler.InstanceID {
	queue, host, _ := strings.Cut(name, "@")
	id, ok := w.model.Instance(queue, host)
	if !ok {
		w.t.Fatalf("no instance %s", name)
	}
	return id
}

func (w *twin) disable(name string, status scheduler.Status) {
	w.naive.setDisabled(name, status != 0)
	w.state.SetStatus(w.instance(name), status)
}

// start does what a master does with a decision to start a task.
func (w *twin) start(s *scheduler.Start, t *naiveTask) {
	r := &scheduler.Running{Job: s.Job, Task: s.Task, Started: t.started, PE: s.PE, Grants: s.Grants}
	if text, ok := t.job.hard["h_rt"]; ok {
		r.Limit = int64(number(text))
	}
	if err := w.state.Start(r); err != nil {
		w.t.Fatal(err)
	}
	w.naive.start(t)
	w.tasks[t] = r
	j := w.jobs[s.Job.ID]
	j.naive.tasks = slices.DeleteFunc(slices.Clone(j.naive.tasks), func(n int) bool { return n == t.task })
	j.naive.active++
	j.job.Active++
	w.state.Dequeue(j.job)
	j.job.Tasks = j.job.Tasks.Remove(t.task)
	if len(j.naive.tasks) == 0 {
		w.naive.pending = slices.DeleteFunc(w.naive.pending, func(p *naiveJob) bool { return p == j.naive })
	} else {
		submit(w.t, w.state, j.job)
	}
}

func (w *twin) end(t *naiveTask) {
	w.naive.end(t)
	if err := w.state.End(w.tasks[t]); err != nil {
		w.t.Fatal(err)
	}
	delete(w.tasks, t)
	t.job.active--
	w.jobs[t.job.id].job.Active--
}

// subordinate sets the states of subordinate instances as a master does.
func (w *twin) subordinate() {
	for _, i := range w.site.instances() {
		r := &naiveRun{naive: w.naive, tasks: w.naive.running}
		id := w.instance(i.name())
		was, is := w.state.Status(id)&scheduler.Subordinated != 0, r.subordinated(i)
		if was != is {
			w.disable(i.name(), w.state.Status(id)^scheduler.Subordinated)
		}
	}
}

func grantsText(m *scheduler.Model, pe scheduler.PEID, grants []scheduler.Grant) string {
	text := m.PEName(pe)
	for _, g := range grants {
		text += fmt.Sprintf(" %s=%d", m.InstanceName(g.Instance), g.Slots)
	}
	return text
}

// grantText returns the grants of the only job of a run, or "" if it was not started.
func grantText(m *scheduler.Model, d *scheduler.Decisions) string {
	text := ""
	for i := range d.Starts {
		text = grantsText(m, d.Starts[i].PE, d.Starts[i].Grants)
	}
	return text
}

func startText(m *scheduler.Model, s *scheduler.Start) string {
	return fmt.Sprintf("%d.%d %s", s.Job.ID, s.Task, grantsText(m, s.PE, s.Grants))
}

func (t *naiveTask) String() string {
	text := fmt.Sprintf("%d.%d %s", t.job.id, t.task, t.pe)
	for _, g := range t.grants {
		text += fmt.Sprintf(" %s=%d", g.instance, g.slots)
	}
	return text
}

// run runs both schedulers and compares what they start.
func (w *twin) run(now int64) ([]*naiveTask, *scheduler.Decisions) {
	w.t.Helper()
	got := w.state.Run(now)
	if w.alone {
		return w.converted(got, now), got
	}
	want := w.naive.run(now)
	for i := range max(len(want), len(got.Starts)) {
		x, y := "nothing", "nothing"
		if i < len(want) {
			x = want[i].String()
		}
		if i < len(got.Starts) {
			y = startText(w.model, &got.Starts[i])
		}
		if x != y {
			why := ""
			if i < len(want) {
				for _, r := range got.Reasons(w.jobs[want[i].job.id].job) {
					why += "\n" + r.Text()
				}
				why += fmt.Sprintf("\n%+v", *want[i].job)
			}
			if i < len(got.Starts) {
				why += fmt.Sprintf("\n%+v", *w.jobs[got.Starts[i].Job.ID].naive)
			}
			w.t.Fatalf("%s\nat %d, start %d is %s, want %s%s\nbefore: %v", w, now, i+1, y, x, why, want[:i])
		}
	}
	return want, got
}

// converted are the starts of a run in the words of the naive scheduler.
func (w *twin) converted(d *scheduler.Decisions, now int64) (list []*naiveTask) {
	for i := range d.Starts {
		s := &d.Starts[i]
		t := &naiveTask{job: w.jobs[s.Job.ID].naive, task: int(s.Task), started: now, pe: w.model.PEName(s.PE)}
		for _, g := range s.Grants {
			t.grants = append(t.grants, naiveGrant{w.model.InstanceName(g.Instance), g.Slots})
		}
		list = append(list, t)
	}
	return list
}

func (w *twin) String() string {
	var b strings.Builder
	b.WriteString(w.site.String())
	for _, h := range slices.Sorted(maps.Keys(w.naive.load)) {
		fmt.Fprintf(&b, "load of %s: %v\n", h, w.naive.load[h])
	}
	for _, i := range w.naive.modified {
		fmt.Fprintf(&b, "%s disabled=%t\n", i, w.naive.disabled[i])
	}
	for _, t := range w.naive.running {
		fmt.Fprintf(&b, "running %s since %d: %+v\n", t, t.started, *t.job)
	}
	for _, j := range w.naive.pending {
		fmt.Fprintf(&b, "pending %+v\n", *j)
	}
	return b.String()
}

// live lets things happen to a cluster for some runs.
func (w *twin) live(g *generator, runs int, each func(now int64, want []*naiveTask, got *scheduler.Decisions)) {
	now := int64(10000)
	for _, h := range w.site.hosts {
		w.report(h.name, g.loadReport(h.name))
	}
	w.report("global", g.loadReport("global"))
	for range runs {
		for range g.IntN(12) {
			w.submit(g.job(w.site, now), w.alone && g.chance(30))
		}
		for _, t := range slices.Clone(w.naive.running) {
			if g.chance(30) {
				w.end(t)
			}
		}
		for _, h := range w.site.hosts {
			if g.chance(25) {
				w.report(h.name, g.loadReport(h.name))
			}
		}
		for _, i := range w.site.instances() {
			if g.chance(8) {
				status := w.state.Status(w.instance(i.name())) & scheduler.Subordinated
				if g.chance(50) {
					status |= pick(g, scheduler.Unknown, scheduler.Failed, scheduler.DisabledByUser, scheduler.DisabledByCalendar,
						scheduler.SuspendedByUser, scheduler.SuspendedByCalendar, scheduler.Orphaned)
				}
				w.disable(i.name(), status)
			}
		}
		w.subordinate()
		want, got := w.run(now)
		each(now, want, got)
		for i, t := range want {
			w.start(&got.Starts[i], t)
		}
		w.subordinate()
		now += int64(g.IntN(200))
	}
}

// TestReference compares runs in made up clusters with those of the naive scheduler.
func TestReference(t *testing.T) {
	for name, parallel := range map[string]bool{"serial": false, "parallel": true} {
		t.Run(name, func(t *testing.T) {
			starts := 0
			for seed := range uint64(110) {
				starts += compareRuns(t, seed, parallel)
			}
			if starts < 500 {
				t.Errorf("only %d tasks started", starts)
			}
		})
	}
}

// FuzzReference makes the comparison of TestReference with random seeds, for longer than a test may
// take.
func FuzzReference(f *testing.F) {
	f.Add(uint64(0), true)
	f.Fuzz(func(t *testing.T, seed uint64, parallel bool) { compareRuns(t, seed, parallel) })
}

func compareRuns(t *testing.T, seed uint64, parallel bool) (starts int) {
	t.Helper()
	g := newGenerator(seed)
	g.parallel = parallel
	newTwin(seedT{t, seed}, g.site()).live(g, 5, func(_ int64, want []*naiveTask, _ *scheduler.Decisions) { starts += len(want) })
	return starts
}

// seedT says which seed it was.
type seedT struct {
	*testing.T
	seed uint64
}

func (t seedT) Fatalf(format string, args ...any) {
	t.Helper()
	t.T.Fatalf("seed %d: %s", t.seed, fmt.Sprintf(format, args...))
}
