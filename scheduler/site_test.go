package scheduler_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
)

// site describes a cluster in a form that a naive scheduler can work with directly. What
// package scheduler gets is the same as the files of a configuration directory.
type site struct {
	attributes []siteAttribute
	hosts      []*siteHost // the cluster as a whole is "global", which is not among them
	global     *siteHost
	queues     []*siteQueue // in the order of creation
	pes        []*sitePE
	users      map[string][]string // user sets
	groups     map[string][]string // host groups, with their @
	quotas     []*siteQuotaSet
	scheduler  siteScheduler
	maxAJ      int // max_aj_instances
}

type siteAttribute struct {
	name, typ, relop, requestable, consumable string
	standard                                  float64 // what a job takes that does not ask
	urgency                                   float64
}

func (a *siteAttribute) isConsumable() bool { return a.consumable != "NO" }
func (a *siteAttribute) isText() bool       { return a.typ == "STRING" }
func (a *siteAttribute) isExclusive() bool  { return a.relop == "EXCL" }
func (a *siteAttribute) isForced() bool     { return a.requestable == "FORCED" }

type siteAccess struct{ users, xusers, projects, xprojects []string }

type siteHost struct {
	name    string
	values  map[string]string // complex_values
	scaling map[string]float64
	access  siteAccess
}

type siteQueue struct {
	name         string
	at           []*siteInstance // in the order of the host list
	subordinates []siteSubordinate
}

type siteSubordinate struct {
	queue string
	slots int // 0 for all
}

// siteInstance holds the settings of a queue on one host.
type siteInstance struct {
	queue, host        string
	slots, seqno       int
	values             map[string]string
	access             siteAccess
	pes, checkpoints   []string
	batch, interactive bool
	load               [][2]string // load_thresholds
	runtime            string      // h_rt
}

func (i *siteInstance) name() string { return i.queue + "@" + i.host }

type sitePE struct {
	name, rule string
	slots      int
	access     siteAccess
}

type siteQuotaSet struct {
	name    string
	enabled bool
	rules   []*siteQuotaRule
}

type siteQuotaRule struct {
	users, projects, pes, queues, hosts *siteFilter
	limits                              [][2]string // attribute and value; $num_proc*2 is dynamic
}

// siteFilter is items, some of which begin with "!".
type siteFilter struct {
	expanded bool
	items    []string
}

type siteScheduler struct {
	bySeqno        bool
	maxujobs       int
	adjustments    [][2]string
	decay          int64
	formula        []siteTerm
	maxReservation int
	weights        [5]float64 // priority, urgency, ticket, waiting time, deadline
	more           string     // further lines of sched_conf
}

type siteTerm struct {
	attribute string
	weight    float64 // may be negative
}

func (s *site) attribute(name string) *siteAttribute {
	for i := range s.attributes {
		if s.attributes[i].name == name {
			return &s.attributes[i]
		}
	}
	return nil
}

func (s *site) host(name string) *siteHost {
	for _, h := range s.hosts {
		if h.name == name {
			return h
		}
	}
	return s.global
}

func (s *site) instances() []*siteInstance {
	var all []*siteInstance
	for _, q := range s.queues {
		all = append(all, q.at...)
	}
	return all
}

func (s *site) instance(name string) *siteInstance {
	for _, i := range s.instances() {
		if i.name() == name {
			return i
		}
	}
	return nil
}

func none(s string) string {
	if s == "" {
		return "NONE"
	}
	return s
}

func settingsText(m map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		parts = append(parts, name+"="+m[name])
	}
	return none(strings.Join(parts, ","))
}

func pairsText(list [][2]string) string {
	var parts []string
	for _, p := range list {
		parts = append(parts, p[0]+"="+p[1])
	}
	return none(strings.Join(parts, ","))
}

func (a *siteAccess) write(b *strings.Builder) {
	fmt.Fprintf(b, "user_lists %s\nxuser_lists %s\n", none(strings.Join(a.users, " ")), none(strings.Join(a.xusers, " ")))
}

func (h *siteHost) text() string {
	var b strings.Builder
	var scaling []string
	for _, name := range slices.Sorted(maps.Keys(h.scaling)) {
		scaling = append(scaling, fmt.Sprintf("%s=%g", name, h.scaling[name]))
	}
	fmt.Fprintf(&b, "hostname %s\nload_scaling %s\ncomplex_values %s\n", h.name, none(strings.Join(scaling, ",")), settingsText(h.values))
	h.access.write(&b)
	fmt.Fprintf(&b, "projects %s\nxprojects %s\n", none(strings.Join(h.access.projects, " ")), none(strings.Join(h.access.xprojects, " ")))
	return b.String()
}

func (q *siteQueue) text() string {
	var b strings.Builder
	var hosts []string
	for _, i := range q.at {
		hosts = append(hosts, i.host)
	}
	fmt.Fprintf(&b, "qname %s\nhostlist %s\n", q.name, strings.Join(hosts, " "))
	row := func(name string, value func(*siteInstance) string) {
		first := value(q.at[0])
		fmt.Fprintf(&b, "%s %s", name, first)
		for _, i := range q.at[1:] {
			if v := value(i); v != first {
				fmt.Fprintf(&b, ",[%s=%s]", i.host, v)
			}
		}
		b.WriteByte('\n')
	}
	words := func(list func(*siteInstance) []string) func(*siteInstance) string {
		return func(i *siteInstance) string { return none(strings.Join(list(i), " ")) }
	}
	row("slots", func(i *siteInstance) string { return fmt.Sprint(i.slots) })
	row("seq_no", func(i *siteInstance) string { return fmt.Sprint(i.seqno) })
	row("complex_values", func(i *siteInstance) string { return settingsText(i.values) })
	row("load_thresholds", func(i *siteInstance) string { return pairsText(i.load) })
	row("pe_list", words(func(i *siteInstance) []string { return i.pes }))
	row("ckpt_list", words(func(i *siteInstance) []string { return i.checkpoints }))
	row("user_lists", words(func(i *siteInstance) []string { return i.access.users }))
	row("xuser_lists", words(func(i *siteInstance) []string { return i.access.xusers }))
	row("projects", words(func(i *siteInstance) []string { return i.access.projects }))
	row("xprojects", words(func(i *siteInstance) []string { return i.access.xprojects }))
	row("h_rt", func(i *siteInstance) string { return i.runtime })
	row("qtype", func(i *siteInstance) string {
		var t []string
		if i.batch {
			t = append(t, "BATCH")
		}
		if i.interactive {
			t = append(t, "INTERACTIVE")
		}
		return none(strings.Join(t, " "))
	})
	var subs []string
	for _, s := range q.subordinates {
		if s.slots > 0 {
			subs = append(subs, fmt.Sprintf("%s=%d", s.queue, s.slots))
		} else {
			subs = append(subs, s.queue)
		}
	}
	fmt.Fprintf(&b, "subordinate_list %s\n", none(strings.Join(subs, ",")))
	return b.String()
}

func (s *siteScheduler) text() string {
	var b strings.Builder
	method := "load"
	if s.bySeqno {
		method = "seqno"
	}
	formula := ""
	for i, t := range s.formula {
		sign := "+"
		if t.weight < 0 {
			sign = "-"
		}
		if i == 0 && t.weight >= 0 {
			sign = ""
		}
		formula += fmt.Sprintf("%s%s*%g", sign, t.attribute, max(t.weight, -t.weight))
	}
	fmt.Fprintf(&b, "queue_sort_method %s\nmaxujobs %d\njob_load_adjustments %s\nload_adjustment_decay_time %d\n",
		method, s.maxujobs, pairsText(s.adjustments), s.decay)
	if formula != "" {
		fmt.Fprintf(&b, "load_formula %s\n", formula)
	}
	fmt.Fprintf(&b, "max_reservation %d\n", s.maxReservation)
	for i, name := range []string{"priority", "urgency", "ticket", "waiting_time", "deadline"} {
		fmt.Fprintf(&b, "weight_%s %g\n", name, s.weights[i])
	}
	b.WriteString(s.more)
	return b.String()
}

func (f *siteFilter) text() string {
	list := strings.Join(f.items, ",")
	if f.expanded {
		return "{" + list + "}"
	}
	return list
}

func (q *siteQuotaSet) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "{\n name %s\n enabled %t\n", q.name, q.enabled)
	for _, r := range q.rules {
		b.WriteString(" limit")
		for _, f := range []struct {
			name   string
			filter *siteFilter
		}{{"users", r.users}, {"projects", r.projects}, {"pes", r.pes}, {"queues", r.queues}, {"hosts", r.hosts}} {
			if f.filter != nil {
				fmt.Fprintf(&b, " %s %s", f.name, f.filter.text())
			}
		}
		fmt.Fprintf(&b, " to %s\n", pairsText(r.limits))
	}
	b.WriteString("}\n")
	return b.String()
}

// files are the site as a configuration directory.
func (s *site) files() fstest.MapFS {
	files := fstest.MapFS{}
	file := func(name, text string) { files[name] = &fstest.MapFile{Data: []byte(text)} }
	complexes := qconf.DefaultComplexes().Format()
	for _, a := range s.attributes {
		if _, standard := qconf.DefaultComplexes().Find(a.name); standard {
			continue
		}
		standard := fmt.Sprint(a.standard)
		if a.isText() {
			standard = "NONE"
		}
		complexes += fmt.Sprintf("%s %s %s %s %s %s %s %g\n", a.name, a.name, a.typ, a.relop, a.requestable, a.consumable, standard, a.urgency)
	}
	file("complexes", complexes)
	file("hosts/global", s.global.text())
	for _, h := range s.hosts {
		file("hosts/"+h.name, h.text())
	}
	for _, q := range s.queues {
		file("queues/"+q.name, q.text())
	}
	for _, p := range s.pes {
		var b strings.Builder
		fmt.Fprintf(&b, "pe_name %s\nslots %d\nallocation_rule %s\nurgency_slots min\n", p.name, p.slots, p.rule)
		p.access.write(&b)
		file("pes/"+p.name, b.String())
	}
	for name, entries := range s.users {
		file("usersets/"+name, fmt.Sprintf("name %s\ntype ACL\nentries %s\n", name, none(strings.Join(entries, ","))))
	}
	for name, hosts := range s.groups {
		file("hostgroups/"+name, fmt.Sprintf("group_name %s\nhostlist %s\n", name, none(strings.Join(hosts, " "))))
	}
	for _, p := range []string{"p1", "p2", "p3"} {
		file("projects/"+p, "name "+p+"\n")
	}
	file("ckpts/ck", "ckpt_name ck\ninterface userdefined\n")
	var quotas strings.Builder
	for _, q := range s.quotas {
		quotas.WriteString(q.text())
	}
	if quotas.Len() > 0 {
		file("rqs", quotas.String())
	}
	if s.maxAJ > 0 {
		file("conf/global", fmt.Sprintf("max_aj_instances %d\n", s.maxAJ))
	}
	file("sched_conf", s.scheduler.text())
	return files
}

// String returns the site as it is shown when a test fails.
func (s *site) String() string {
	var b strings.Builder
	files := s.files()
	names := slices.Sorted(maps.Keys(files))
	sort.Strings(names)
	for _, name := range names {
		text := string(files[name].Data)
		if name == "complexes" {
			text = strings.TrimPrefix(text, qconf.DefaultComplexes().Format())
		}
		fmt.Fprintf(&b, "---- %s\n%s", name, text)
	}
	return b.String()
}

// fatal is the common interface of *testing.T and *rapid.T.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// model compiles a configuration directory of which no part may be left out.
func modelOf(t fatal, files fstest.MapFS, queues ...string) *scheduler.Model {
	t.Helper()
	cluster, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	m, problems := scheduler.NewModel(cluster, scheduler.Options{Queues: queues})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return m
}

// directory returns a configuration directory from the names of files and their texts. It
// has the standard complexes with those lines added that a file "complexes" has.
func directory(texts map[string]string) fstest.MapFS {
	files := fstest.MapFS{}
	for name, text := range texts {
		if name == "complexes" {
			text = qconf.DefaultComplexes().Format() + text
		}
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return files
}

// serialJob returns a job of one task that asks for what the requests say.
func serialJob(t fatal, m *scheduler.Model, id uint32, r *scheduler.Requests) *scheduler.Job {
	t.Helper()
	if r.User == "" {
		r.User, r.Group = "alice", "users"
	}
	c, err := m.Category(r)
	if err != nil {
		t.Fatal(err)
	}
	return &scheduler.Job{
		ID: id, Category: c, Owner: r.User, Submitted: 1000, Tasks: tasksOf(t, "1"),
	}
}

func tasksOf(t fatal, text string) rangelist.List {
	t.Helper()
	l, err := rangelist.ParseTasks(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func slotsOf(t fatal, text string) rangelist.List {
	t.Helper()
	l, err := parseSlots(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// parseSlots reads slot ranges as -pe has them: n, n-m, -m, n- and -, with commas between them.
func parseSlots(text string) (rangelist.List, error) {
	var stretches []rangelist.Stretch
	for item := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(item, "-")
		s := rangelist.Stretch{First: 1, Last: rangelist.Infinity}
		var errs [2]error
		if from != "" || !isRange {
			s.First, errs[0] = strconv.Atoi(from)
		}
		if !isRange {
			s.Last = s.First
		} else if to != "" {
			s.Last, errs[1] = strconv.Atoi(to)
		}
		if err := errors.Join(errs[:]...); err != nil {
			return rangelist.List{}, err
		}
		stretches = append(stretches, s)
	}
	return rangelist.OfStretches(stretches)
}

var _ fatal = (*testing.T)(nil)

// submit adds a valid job to the pending jobs.
func submit(t fatal, s *scheduler.State, j *scheduler.Job) {
	t.Helper()
	if err := s.Enqueue(j); err != nil {
		t.Fatal(err)
	}
}

func addReservation(t fatal, s *scheduler.State, ar *scheduler.Reservation) {
	t.Helper()
	if err := s.AddReservation(ar); err != nil {
		t.Fatal(err)
	}
}
