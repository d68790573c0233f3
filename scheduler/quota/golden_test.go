package quota

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler/value"
)

// recorded is a case of the real scheduler, as far as quotas are concerned.
type recorded struct {
	sets          *Sets
	queues, hosts []string
	values        Values
	complexes     *qconf.Complexes
	jobs          map[int]recordedJob
	dir           string
}

type recordedJob struct {
	Consumer
	requests map[string]string
	slots    string
}

func read(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// names are those of the files of a folder of the input.
func names(t testing.TB, path ...string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(path...))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		if e.Name() != "global" {
			all = append(all, e.Name())
		}
	}
	return all
}

func readCase(t testing.TB, dir string) *recorded {
	t.Helper()
	c := &recorded{dir: dir, jobs: map[int]recordedJob{}, queues: names(t, dir, "input", "queues"), hosts: names(t, dir, "input", "hosts")}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	quotas, err := qconf.ParseResourceQuotas("rqs", []byte(read(t, dir, "input", "rqs")))
	check(err)
	c.complexes, err = qconf.ParseComplexes("complexes", []byte(read(t, dir, "input", "complexes")))
	check(err)
	var groups []*qconf.HostGroup
	for _, name := range names(t, dir, "input", "hostgroups") {
		g, err := qconf.ParseHostGroup(name, []byte(read(t, dir, "input", "hostgroups", name)))
		check(err)
		groups = append(groups, g)
	}
	resolved, err := qconf.NewHostGroups(groups...)
	check(err)
	var lists []*qconf.UserSet
	for _, name := range names(t, dir, "input", "usersets") {
		u, err := qconf.ParseUserSet(name, []byte(read(t, dir, "input", "usersets", name)))
		check(err)
		lists = append(lists, u)
	}
	sets, errs := Compile(quotas, Compilation{
		Complexes: c.complexes, UserSets: lists, Queues: c.queues, Hosts: c.hosts,
		Groups: func(host string) []string {
			return slices.DeleteFunc(resolved.Names(), func(g string) bool { return !resolved.Contains(g, host) })
		},
	})
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	c.sets = sets
	c.readLoad(t)
	c.readJobs(t)
	return c
}

func (c *recorded) readLoad(t testing.TB) {
	loads := map[string]float64{}
	for _, name := range names(t, c.dir, "input") {
		if name != "load_values" {
			continue
		}
		for line := range strings.Lines(read(t, c.dir, "input", name)) {
			f := strings.Split(strings.TrimSpace(line), ":")
			v, err := strconv.ParseFloat(f[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			loads[f[0]+":"+f[1]] = v
		}
	}
	c.values = func(host int32, attribute string) (float64, bool) {
		v, ok := loads[c.hosts[host]+":"+attribute]
		return v, ok
	}
}

var submission = regexp.MustCompile(`^(\w+): qsub (.*)\n   -> Your job (\d+) `)

func (c *recorded) readJobs(t testing.TB) {
	text := read(t, c.dir, "jobs.txt")
	for i := range text {
		m := submission.FindStringSubmatch(text[i:])
		if m == nil || i > 0 && text[i-1] != '\n' {
			continue
		}
		j := recordedJob{Consumer: Consumer{User: m[1], Group: m[1]}, requests: map[string]string{}}
		w := strings.Fields(m[2])
		for i, option := range w {
			switch option {
			case "-P":
				j.Project = w[i+1]
			case "-pe":
				j.PE, j.slots = w[i+1], w[i+2]
			case "-l":
				for r := range strings.SplitSeq(w[i+1], ",") {
					name, amount, _ := strings.Cut(r, "=")
					j.requests[name] = amount
				}
			}
		}
		id, err := strconv.Atoi(m[3])
		if err != nil {
			t.Fatal(err)
		}
		c.jobs[id] = j
	}
}

func (c *recorded) demand(t testing.TB, id int) *Demand {
	return c.sets.For(c.jobs[id].Consumer).Demand(func(name string) (value.Request, bool) {
		text, ok := c.jobs[id].requests[name]
		if !ok {
			return value.Request{}, false
		}
		x, _ := c.complexes.Find(name)
		typ, err := value.ParseType(string(x.Type))
		if err != nil {
			t.Fatal(err)
		}
		r, err := value.ParseRequest(typ, c.sets.names, text)
		if err != nil {
			t.Fatal(err)
		}
		return r, true
	})
}

// running are the jobs of qstat -g t and what they were granted, the master first.
func (c *recorded) running(t testing.TB, step string) map[int][]Grant {
	all := map[int][]Grant{}
	id := 0
	for line := range strings.Lines(read(t, c.dir, "output", step, "qstat-gt.txt")) {
		f := strings.Fields(line)
		if len(f) > 1 {
			if n, err := strconv.Atoi(f[0]); err == nil {
				id = n
			}
		}
		i := slices.IndexFunc(f, func(s string) bool { return strings.Contains(s, "@") })
		if i < 0 {
			continue
		}
		queue, host, _ := strings.Cut(f[i], "@")
		g := Grant{Queue: int32(slices.Index(c.queues, queue)), Host: int32(slices.Index(c.hosts, host)), Slots: 1}
		if f[i+1] == "MASTER" {
			all[id] = append([]Grant{g}, all[id]...)
		} else {
			all[id] = append(all[id], g)
		}
	}
	return all
}

// started are the running jobs in the order in which they were started.
func (c *recorded) started(t testing.TB, step string) []int {
	type start struct {
		id       int
		priority string
	}
	var all []start
	for line := range strings.Lines(read(t, c.dir, "output", step, "qstat-pri.txt")) {
		f := strings.Fields(line)
		if len(f) < 12 || f[8] != "r" && f[8] != "t" {
			continue
		}
		id, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, start{id, f[1]})
	}
	slices.SortStableFunc(all, func(a, b start) int {
		if a.priority != b.priority {
			return strings.Compare(b.priority, a.priority)
		}
		return a.id - b.id
	})
	ids := make([]int, len(all))
	for i, s := range all {
		ids[i] = s.id
	}
	return ids
}

// usage books the jobs that run, in the order in which they were started.
func (c *recorded) usage(t testing.TB, step string) *Usage {
	t.Helper()
	u := c.sets.NewUsage()
	grants := c.running(t, step)
	for _, id := range c.started(t, step) {
		if err := u.Debit(c.demand(t, id), grants[id]); err != nil {
			t.Fatal(err)
		}
	}
	if len(grants) == 0 {
		t.Fatal("no job runs")
	}
	return u
}

func (c *recorded) qquota(u *Usage, s Selection) string {
	rows := u.List(s, c.values)
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%-18s %-20s %s\n", r.Rule, r.LimitText(), r.Filter)
	}
	return b.String()
}

// table returns the output of qquota without its header.
func table(text string) string {
	lines := strings.SplitAfterN(text, "\n", 3)
	return lines[2]
}

const cases = "../testdata/golden"

func TestQquotaOfExpandedRules(t *testing.T) {
	c := readCase(t, filepath.Join(cases, "05-rqs-expanded"))
	u := c.usage(t, "final")
	for file, s := range map[string]Selection{
		"qquota.txt":       {},
		"qquota-P-p1.txt":  {Projects: []string{"p1"}},
		"qquota-h-n1.txt":  {Hosts: []string{"n1"}},
		"qquota-l-lic.txt": {Resources: []string{"lic"}},
	} {
		want := table(read(t, c.dir, "output", "final", file))
		if diff := cmp.Diff(want, c.qquota(u, s)); diff != "" {
			t.Errorf("%s:\n%s", file, diff)
		}
	}
	perUser := strings.Split(read(t, c.dir, "output", "final", "qquota-per-user.txt"), "### qquota -u ")[1:]
	for _, text := range perUser {
		user, text, _ := strings.Cut(text, "\n")
		if diff := cmp.Diff(table(text), c.qquota(u, Selection{Users: []string{user}})); diff != "" {
			t.Errorf("-u %s:\n%s", user, diff)
		}
	}
	if len(perUser) != 5 {
		t.Errorf("%d users were asked", len(perUser))
	}
}

func TestQquotaOfDynamicLimits(t *testing.T) {
	c := readCase(t, filepath.Join(cases, "06-rqs-dynamic"))
	for _, step := range []string{"step1", "final"} {
		want := table(read(t, c.dir, "output", step, "qquota.txt"))
		if diff := cmp.Diff(want, c.qquota(c.usage(t, step), Selection{})); diff != "" {
			t.Errorf("%s:\n%s", step, diff)
		}
	}
}

// reasons are those that a job got from the quotas, in the order in which they were
// found.
func (c *recorded) reasons(t testing.TB, step string, id int) []string {
	_, text, ok := strings.Cut(read(t, c.dir, "output", step, "schedinfo.txt"), fmt.Sprintf("== job %d\n", id))
	if !ok {
		t.Fatalf("job %d has no reasons", id)
	}
	text, _, _ = strings.Cut(text, "\n==")
	var all []string
	for line := range strings.Lines(text) {
		if _, reason, found := strings.Cut(line, "cannot run because it exceeds limit"); found {
			all = append(all, "cannot run because it exceeds limit"+strings.TrimRight(reason, "\n"))
		}
	}
	return all
}

// asked are the reasons that a job gets if the places are asked in an order, as the
// scheduler does it: it leaves out those that fail for the same reason as one before,
// and ends at one that holds everywhere.
func (c *recorded) asked(t testing.TB, id int, u *Usage, places ...string) []string {
	t.Helper()
	d := c.demand(t, id)
	var all []string
	var failures []Failure
	for _, p := range places {
		queue, host, _ := strings.Cut(p, "@")
		q, h := int32(slices.Index(c.queues, queue)), int32(slices.Index(c.hosts, host))
		if q < 0 || h < 0 {
			t.Fatalf("there is no %s", p)
		}
		if slices.ContainsFunc(failures, func(f Failure) bool { return f.Covers(q, h) }) {
			continue
		}
		f, ok := d.Check(u, c.values, q, h)
		if ok {
			continue
		}
		if f.Never {
			t.Errorf("job %d at %s: it would never fit", id, p)
		}
		failures = append(failures, f)
		all = append(all, f.Text())
		if f.Everywhere {
			break
		}
	}
	return all
}

func TestReasonsAreThoseOfTheOriginal(t *testing.T) {
	for what, c := range map[string]struct {
		dir, step string
		job       int
		places    []string
	}{
		"one slot for carol":                {"05-rqs-expanded", "final", 7, []string{"a.q@n2", "a.q@n1", "a.q@n4", "b.q@n3", "b.q@n4"}},
		"licenses of a project on a host":   {"05-rqs-expanded", "final", 10, []string{"a.q@n2", "a.q@n1", "a.q@n4", "b.q@n3", "b.q@n4"}},
		"slots of all who have no project":  {"05-rqs-expanded", "final", 13, []string{"a.q@n1", "a.q@n2", "a.q@n4", "b.q@n3", "b.q@n4"}},
		"a formula, and the whole cluster":  {"06-rqs-dynamic", "step1", 10, []string{"all.q@n2", "all.q@n1", "all.q@n3"}},
		"the whole cluster is full":         {"06-rqs-dynamic", "step1", 11, []string{"all.q@n2", "all.q@n1", "all.q@n3"}},
		"a formula, later":                  {"06-rqs-dynamic", "final", 10, []string{"all.q@n2", "all.q@n1", "all.q@n3"}},
		"the cluster is still full":         {"06-rqs-dynamic", "final", 11, []string{"all.q@n2", "all.q@n1", "all.q@n3"}},
		"it is full for parallel jobs, too": {"06-rqs-dynamic", "final", 12, []string{"all.q@n2", "all.q@n1", "all.q@n3"}},
	} {
		t.Run(what, func(t *testing.T) {
			r := readCase(t, filepath.Join(cases, c.dir))
			u := r.usage(t, c.step)
			u.Settle()
			if diff := cmp.Diff(r.reasons(t, c.step, c.job), r.asked(t, c.job, u, c.places...)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestEachStartFitted checks that each running job fitted when it was started, and that no pending job
// would have fitted in addition.
func TestEachStartFitted(t *testing.T) {
	for _, dir := range []string{"05-rqs-expanded", "06-rqs-dynamic"} {
		c := readCase(t, filepath.Join(cases, dir))
		u := c.sets.NewUsage()
		grants := c.running(t, "final")
		for _, id := range c.started(t, "final") {
			d := c.demand(t, id)
			var collector Collector
			collector.Reset(d, u, c.values)
			for i, g := range grants[id] {
				if n, f := collector.Left(g.Queue, g.Host, i == 0); n < g.Slots {
					t.Errorf("%s, job %d: %d slots are left: %s", dir, id, n, f.Text())
				}
				collector.Take(g.Queue, g.Host, g.Slots)
				if f, ok := d.Check(u, c.values, g.Queue, g.Host); !ok {
					t.Errorf("%s, job %d: %s", dir, id, f.Text())
				}
			}
			if err := u.Debit(d, grants[id]); err != nil {
				t.Fatal(err)
			}
		}
		for id := range grants {
			if err := u.Credit(c.demand(t, id), grants[id]); err != nil {
				t.Fatal(err)
			}
		}
		if !u.IsEmpty() {
			t.Errorf("%s: something is left", dir)
		}
	}
}
