package cell

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/execd-project/execd/limits/binding"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/scheduler"
	"github.com/execd-project/execd/scheduler/rangelist"
	"github.com/execd-project/execd/scheduler/tickets"
	"github.com/execd-project/execd/submit"
)

var update = flag.Bool("update", false, "write testdata/records.txt, if the format of records is another one on purpose")

// fill sets every part of a value to something other than zero.
func fill(v reflect.Value, n *int) {
	*n++
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString(fmt.Sprintf("text %d <&> \"\u00e4\u2028", *n))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(int64(*n))
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		v.SetUint(uint64(*n % 256))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), n)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(v.Index(0), n)
		fill(v.Index(1), n)
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, n)
		}
	default:
		panic("there is a kind of field that this test does not know: " + v.Type().String())
	}
}

// TestRequestsAreKept checks that every field of a request is stored and restored.
func TestRequestsAreKept(t *testing.T) {
	n := 0
	var request submit.Request
	fill(reflect.ValueOf(&request).Elem(), &n)
	empty := submit.Request{Args: []string{}, Env: []submit.Variable{}, PrecedingJobs: []string{}}
	foreign := submit.Request{Args: []string{"\xff\xfe\x00", "\ufffd", "\u00e4\\ufffd"}, Name: "\xc3", PE: &submit.ParallelRequest{Name: "\x80"}, Env: []submit.Variable{{Name: "A", Value: "\xe4"}}}
	for name, r := range map[string]submit.Request{"all fields": request, "none": {}, "empty lists": empty, "no Unicode": foreign} {
		fields := requestFields(r)
		var x requestRecord
		if err := decode(encode(&requestRecord{Request: &fields}), &x); err != nil {
			t.Fatal(err)
		}
		x.Request.Script = r.Script // has its own record
		if diff := cmp.Diff(r, submit.Request(*x.Request)); diff != "" {
			t.Errorf("%s:\n%s", name, diff)
		}
	}
	var reservation submit.Reservation
	fill(reflect.ValueOf(&reservation).Elem(), &n)
	fields := reservationFields(reservation)
	var x reservationRecord
	if err := decode(encode(&reservationRecord{Request: &fields}), &x); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(reservation, submit.Reservation(*x.Request)); diff != "" {
		t.Error(diff)
	}
}

// TestFrozenRequestsAreKept checks that the requests of tasks whose job was altered later are stored,
// except for values of the job.
func TestFrozenRequestsAreKept(t *testing.T) {
	slots, err := rangelist.OfStretches([]rangelist.Stretch{{First: 2, Last: 8}, {First: 11, Last: 11}})
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	var want scheduler.Requests
	for i := range reflect.TypeFor[scheduler.Requests]().NumField() {
		if f := reflect.ValueOf(&want).Elem().Field(i); f.Type() != reflect.TypeFor[rangelist.List]() && f.Type() != reflect.TypeFor[binding.Request]() {
			fill(f, &n)
		}
	}
	for i := range reflect.TypeFor[binding.Request]().NumField() {
		if f := reflect.ValueOf(&want.Binding).Elem().Field(i); reflect.TypeFor[binding.Request]().Field(i).Name != "Queue" {
			fill(f, &n)
		}
	}
	want.Audience, want.Slots = nil, slots // jobs have no audience
	j := &Job{Group: want.Group, Project: want.Project}
	j.sched.Owner = want.User
	got, err := requestsOfRecord(recordOfRequests(&want), j)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got, cmp.AllowUnexported(rangelist.List{}), cmpopts.EquateComparable()); diff != "" {
		t.Error(diff)
	}
}

func TestNumbersAreKept(t *testing.T) {
	for _, f := range []float64{0, 1, -1.5, 1e300, 5e-324, 1.0 / 3, math.Inf(1), math.Inf(-1), math.NaN(), math.MaxFloat64} {
		var x decayRecord
		if err := decode(encode(&decayRecord{Hours: number(f)}), &x); err != nil {
			t.Fatal(err)
		}
		if got := float64(x.Hours); got != f && !(math.IsNaN(f) && math.IsNaN(got)) {
			t.Errorf("%g became %g", f, got)
		}
	}
}

// restored returns a cell restored from stored records, without problems.
func (k kept) restored(t testing.TB, now int64, cluster *qconf.Cluster) *harness {
	t.Helper()
	c, problems := Restore(now, cluster, Options{Managers: []string{"admin"}, Operators: []string{"oper"}}, k.all)
	for _, err := range problems {
		t.Error(err)
	}
	return &harness{Cell: c, t: t, now: now}
}

// eventful returns a cell in which every kind of event has happened.
func eventful(t testing.TB) *harness {
	t.Helper()
	h := newHarnessOf(t, rich.cluster(t))
	h.files = rich
	script := func(user, line, text string) {
		r, err := submit.Parse(submit.Input{Args: append(fields(line), "script.sh"), Master: true, ReadFile: func(string) ([]byte, error) { return []byte(text), nil }})
		if err != nil {
			t.Fatal(err)
		}
		by := caller(user)
		by.Origin = &Origin{UID: 7, GID: 8, Directory: "/home", Environment: []string{"HOME=/\xff"}}
		h.logged(h.Submit(h.now, by, r))
	}
	script("alice", "-N one -l gpu=1 -r y", "#!/bin/sh\necho \xff\n")
	script("bob", "-N two -t 1-5 -P p1 -js 3", "echo two\n")
	h.sub("carol", "-N three -pe rr 2 -l fab=1 -binding linear:1")
	h.sub("alice", "-N four -hold_jid one -v A=\xe4,B=b")
	h.sub("alice", "-h -dl 202611202330 -a 202611202201 -p -7")
	h.sub("dave", "-q low.q")
	h.mustLog(h.HostReport(h.now, "n1", map[string]string{"users": "1"}))
	h.mustLog(h.HostReport(h.now, "n2", map[string]string{"users": "1"}))
	h.run()
	h.wait(60)
	h.logged(h.reserve("alice", "-d 300 -pe fill 2 -u alice,bob -N keep"))
	h.sub("alice", "-ar 1")
	if err := h.UsageReport(h.now, 1, 1, tickets.Amounts{tickets.CPU: 12.5, tickets.Mem: 1.0 / 3}); err != nil {
		t.Fatal(err)
	}
	h.run()
	h.end(2, 1, End{Used: tickets.Amounts{tickets.CPU: 100, tickets.IO: 2}})
	h.end(2, 2, End{Failure: JobFailure, Reason: "no such directory"})
	h.alter("root", "-l gpu=1,h_rt=5 -ot 9 1")
	h.ModifyJobs(h.now, caller("root"), SuspendJob, jobs(h, "1"), false)
	h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"high.q@n1"}, false)
	h.end(3, 1, End{Failure: QueueFailure, Reason: "no shell"})
	h.mustLog(h.HostLost(h.now, "n3"))
	h.run()
	h.end(2, 3, End{Used: tickets.Amounts{tickets.CPU: 3}})
	h.mustLog(h.Reconfigure(h.now, h.files.with(files{"queues/low.q": "", "queues/high.q": strings.Replace(rich["queues/high.q"], "\nsubordinate_list low.q=1", "", 1)}).cluster(t)))
	return h
}

// TestOldRecordsCanBeRead checks that records of the first version remain readable; the file in
// testdata is never changed.
func TestOldRecordsCanBeRead(t *testing.T) {
	const file = "testdata/records.txt"
	if *update {
		h := eventful(t)
		store := kept{}
		store.take(h.Cell)
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(store)) {
			fmt.Fprintf(&b, "%s %s\n", key, store[key])
		}
		if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	store := recorded(t, file)
	kinds := map[string]bool{}
	for key := range store {
		prefix, _, _ := strings.Cut(key, "/")
		kinds[prefix] = true
	}
	if len(kinds) != 13 {
		t.Errorf("there are records of %d kinds", len(kinds))
	}
	cluster := rich.with(files{"queues/low.q": "", "queues/high.q": strings.Replace(rich["queues/high.q"], "\nsubordinate_list low.q=1", "", 1)}).cluster(t)
	h := store.restored(t, start+60, cluster)
	h.expect("1 s all.q@n2; 2.4 r high.q@n2; 2.5 r high.q@n2; 2.2 Eqw; 3 Rr all.q@n2 all.q@n1; 4 hqw; 5 hqw; 6 r low.q@n1; 7 r high.q@n1")
	j := h.Job(1)
	if string(j.Request().Script) != "#!/bin/sh\necho \xff\n" || j.Origin.Environment[0] != "HOME=/\xff" {
		t.Errorf("%q, %+v", j.Request().Script, j.Origin)
	}
	again := kept{}
	h.touchAll()
	for _, x := range h.Jobs() {
		x.saved = 0
	}
	again.take(h.Cell)
	if diff := cmp.Diff(store.notDecayed(t), again.notDecayed(t)); diff != "" {
		t.Errorf("- was read, + is kept:\n%s", diff)
	}
}

// TestBadRecords checks that records that cannot be read are reported and not removed, and their
// numbers are not reused.
func TestBadRecords(t *testing.T) {
	h := newHarness(t, small)
	for range 3 {
		h.sub("alice", "-t 1-3")
	}
	h.sub("bob", "")
	h.run()
	h.logged(h.reserve("alice", "-d 100"))
	store := kept{}
	store.take(h.Cell)
	for name, x := range map[string]struct {
		key, value string
		problem    string
		jobs       int
	}{
		"no JSON":                   {"job/0000000002", "{", `record "job/0000000002": it cannot be read: unexpected end of JSON input`, 3},
		"a newer version":           {"job/0000000002", `{"v":2}`, `record "job/0000000002": it is of version 2, and this program knows versions up to 1`, 3},
		"no version":                {"job/0000000002", `{}`, `record "job/0000000002": it has no version`, 3},
		"another type":              {"job/0000000002", `{"v":1,"owner":5}`, `json: cannot unmarshal number into Go struct field jobRecord.owner`, 3},
		"bad holds":                 {"job/0000000002", `{"v":1,"owner":"a","holds":"x"}`, `record "job/0000000002": 'x' is not one of`, 3},
		"bad ranges":                {"job/0000000002", `{"v":1,"owner":"a","waiting":"5-1"}`, `record "job/0000000002":`, 3},
		"a request that is gone":    {"request/0000000002", "", `record "job/0000000002": its record "request/0000000002" is missing or cannot be read`, 3},
		"a job that is gone":        {"job/0000000002", "", `record "job/0000000002": its main record is missing`, 3},
		"a request of nothing":      {"request/0000000002", `{"v":1}`, `record "request/0000000002": it has no request`, 3},
		"a bad task":                {"task/0000000001/0000000001", `{"v":1,"holds":"?"}`, `record "task/0000000001/0000000001":`, 4},
		"no tasks":                  {"job/0000000004", `{"v":1,"owner":"bob"}`, `record "job/0000000004": it has no tasks, or they cannot be read`, 3},
		"tasks of no array":         {"job/0000000002", `{"v":1,"owner":"alice","waiting":"1-3","task_predecessors":[1,4]}`, `record "job/0000000002": it waits for the tasks of job 4, which is not another array job`, 4},
		"a task that runs nowhere":  {"task/0000000001/0000000001", `{"v":1,"run":{"started":1}}`, `record "task/0000000001/0000000001": the task is running, but is pending here: it has no grants`, 4},
		"an invalid number":         {"job/x", `{"v":1}`, `record "job/x": its key has "x" where a number is expected`, 4},
		"a task without a number":   {"task/0000000001", `{"v":1}`, `record "task/0000000001": its key has "" where`, 4},
		"another kind":              {"future/1", `{"v":1}`, `record "future/1": it is of a kind that this program does not know`, 4},
		"another kind without more": {"future", `{"v":1}`, `record "future":`, 4},
		"no counters":               {"counter", "", "", 4},
		"bad counters":              {"counter", "[]", `record "counter": it cannot be read`, 4},
		"a bad reservation":         {"reservation/0000000001", `{"v":1}`, `record "reservation/0000000001": it has no request`, 4},
		"a user with a number":      {"user/zoe", `{"v":1,"number":-4,"usage":{}}`, "", 4},
		"a user with a huge number": {"user/zoe", `{"v":1,"number":2000000000,"automatic":true,"usage":{}}`, "", 4},
		"more than is known":        {"project/p1", `{"v":1,"number":0,"usage":{},"future":{"a":[1]}}`, "", 4},
	} {
		bad := maps.Clone(store)
		if bad[x.key] = x.value; x.value == "" {
			delete(bad, x.key)
		}
		c, problems := Restore(h.now, h.cluster, Options{}, bad.all)
		err := errors.Join(problems...)
		switch {
		case x.problem == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case x.problem != "" && (err == nil || !strings.Contains(err.Error(), x.problem)):
			t.Errorf("%s: %v, expected %s", name, err, x.problem)
		}
		if len(c.Jobs()) != x.jobs {
			t.Errorf("%s: %d jobs, expected %d", name, len(c.Jobs()), x.jobs)
		}
		if a, err := c.Submit(h.now, caller("bob"), h.Job(4).Request()); err != nil || a.ID != 5 {
			t.Errorf("%s: the next job: %+v, %v", name, a, err)
		}
		for _, change := range c.Changes() {
			if change.Key == x.key && change.Value == nil && x.problem != "" {
				t.Errorf("%s: the record is removed", name)
			}
		}
	}
}

// TestRestoredInAnotherConfiguration checks that objects that were removed from the configuration
// meanwhile have the same effect as with Reconfigure. A change that Reconfigure would refuse is a
// problem, and the task continues.
func TestRestoredInAnotherConfiguration(t *testing.T) {
	h := newHarness(t, small)
	h.sub("alice", "-q all.q@n2 -l lic=2")
	h.sub("alice", "-pe rr 2 -P p1")
	h.sub("alice", "-h -l lic=1 -q int.q")
	h.run()
	h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"all.q@n2"}, false)
	store := kept{}
	store.take(h.Cell)
	h.expect("1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw")
	for name, x := range map[string]struct {
		change   files
		shown    string
		problems []string
		waits    string // reason why job 3 is pending
	}{
		"the same":    {nil, "1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw", nil, ""},
		"no queue":    {files{"queues/all.q": "", "queues/int.q": ""}, "1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw", nil, `unknown queue "int.q"`},
		"a host less": {files{"queues/all.q": strings.Replace(small["queues/all.q"], "n1 n2", "n1", 1), "hosts/n2": ""}, "1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw", nil, ""},
		"no PE": {
			files{"pes/rr": "", "queues/all.q": strings.Replace(small["queues/all.q"], " rr", "", 1)},
			"1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw",
			[]string{`record "task/0000000002/0000000001": cannot book all resources of a task: job rejected: the requested parallel environment "rr" does not exist`},
			"",
		},
		"no complex": {
			files{"complexes": strings.Replace(small["complexes"], "lic lic INT <= YES YES 0 0\n", "", 1), "hosts/n2": "hostname n2"},
			"1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw",
			[]string{`record "task/0000000001/0000000001": cannot book all resources of a task: unknown resource "lic"`},
			`unknown resource "lic"`,
		},
		"no project": {files{"projects/p1": ""}, "1 r all.q@n2; 2 r all.q@n1 all.q@n2; 3 hqw", nil, ""},
	} {
		cluster := small.with(x.change).cluster(t)
		c, problems := Restore(h.now, cluster, Options{}, store.all)
		var texts []string
		for _, err := range problems {
			texts = append(texts, err.Error())
		}
		if diff := cmp.Diff(x.problems, texts); diff != "" {
			t.Errorf("%s: problems\n%s", name, diff)
		}
		r := &harness{Cell: c, t: t, now: h.now}
		if got := r.show(); got != x.shown {
			t.Errorf("%s: %s", name, got)
		}
		if p := c.Job(3).Problem; p != x.waits && (x.waits == "" || !strings.Contains(p, x.waits)) {
			t.Errorf("%s: job 3 waits: %s", name, p)
		}
		// All jobs end normally, and nothing remains.
		for _, id := range []uint32{1, 2} {
			r.end(id, 1, End{})
		}
		r.Delete(r.now, caller("root"), DeleteRequest{Users: []string{"*"}})
		r.Tick(r.now)
		r.idle()
		left := maps.Clone(store)
		left.take(c)
		for key := range left {
			for _, prefix := range []string{jobPrefix, requestPrefix, taskPrefix, orphanPrefix} {
				if strings.HasPrefix(key, prefix) {
					t.Errorf("%s: %s is left", name, key)
				}
			}
		}
	}
}

// TestOrphansAreWhatTheyWere checks that a restart does not change the settings of an orphaned queue.
func TestOrphansAreWhatTheyWere(t *testing.T) {
	h := newHarness(t, small.with(files{"queues/own.q": "qname own.q\nhostlist n1\nslots 7\nrerun TRUE\nload_thresholds NONE"}))
	h.sub("alice", "-q own.q")
	h.run()
	store := kept{}
	store.take(h.Cell)
	h.mustLog(h.Reconfigure(h.now, small.cluster(t)))
	store.take(h.Cell)
	r := store.restored(t, h.now, h.cluster)
	id, ok := r.model.Instance("own.q", "n1")
	if !ok || r.state.Status(id)&scheduler.Orphaned == 0 || r.model.Settings(id).Slots != 7 || !r.model.Settings(id).Rerun {
		t.Fatalf("%v, %v", ok, r.state.Status(id))
	}
	r.end(1, 1, End{})
	r.Tick(r.now)
	store.take(r.Cell)
	if _, ok := r.model.Instance("own.q", "n1"); ok || store[orphanKey("own.q@n1")] != "" {
		t.Error("it is there still")
	}
}

// TestChangesAreFew checks that the number of changed records depends on the events, not on the size
// of the cell.
func TestChangesAreFew(t *testing.T) {
	h := newHarness(t, small)
	for range 2000 {
		h.sub("alice", "")
	}
	if n := len(h.Changes()); n < 4000 {
		t.Errorf("at first %d", n)
	}
	h.run()
	h.Changes()
	keys := func() (list []string) {
		for _, c := range h.Changes() {
			if c.Value == nil {
				c.Key += " removed"
			}
			list = append(list, c.Key)
		}
		return list
	}
	for _, x := range []struct {
		what string
		do   func()
		want string
	}{
		{"nothing", func() {}, ""},
		{"a load report", func() { h.report() }, ""},
		{"a scheduling run", func() { h.wait(10); h.run() }, ""},
		{"a submission", func() { h.sub("bob", "") }, "counter job/0000002001 request/0000002001 user/bob"},
		{"a refusal", func() { _, _ = h.try("bob", "-l nosuch=1") }, "counter"},
		{"a hold", func() {
			h.Hold(h.now, caller("root"), jobs(h, "2001"), nil, submit.HoldChange{Set: submit.HoldUser})
		}, "counter job/0000002001"},
		{"usage", func() { _ = h.UsageReport(h.now, 1, 1, tickets.Amounts{1}) }, "task/0000000001/0000000001"},
		{"an end", func() { h.end(1, 1, End{}) }, "job/0000000001 removed request/0000000001 removed task/0000000001/0000000001 removed usage/0000000001/0000000001"},
		{"a start", func() { h.run() }, "counter job/0000000005 task/0000000005/0000000001 usage/0000000001/0000000001 removed user/alice user/bob"},
		{"a job that comes and goes", func() {
			id := h.sub("bob", "")
			h.Delete(h.now, caller("root"), DeleteRequest{Jobs: jobs(h, itoa(id))})
		}, "counter user/bob"},
		{"an altered request", func() { h.alter("root", "-N other 7") }, "counter job/0000000007 request/0000000007"},
		{"a disabled queue", func() { h.ModifyQueues(h.now, caller("root"), DisableQueue, []string{"all.q@n1"}, false) }, "queue/all.q@n1"},
	} {
		x.do()
		if got := strings.Join(keys(), " "); got != x.want {
			t.Errorf("%s: %s, expected %s", x.what, got, x.want)
		}
	}
}

// BenchmarkRestore measures the time and memory per job of restoring 100,000 pending jobs.
func BenchmarkRestore(b *testing.B) {
	const count = 100000
	cluster := small.cluster(b)
	store := kept{}
	var original int64 // memory of the original jobs
	{
		before := heapSize()
		c := New(start, cluster, Options{})
		for i := range count {
			r := request1(b, "-l", "h_rt=60", "-N", fmt.Sprint("job", i), "-o", "/home/alice/out", "-v", fmt.Sprint("A=", i, ",B=some,C=more"))
			if _, err := c.Submit(start+int64(i/1000), Caller{User: fmt.Sprint("u", i%100)}, r); err != nil {
				b.Fatal(err)
			}
		}
		original = heapSize() - before
		store.take(c)
	}
	bytes := 0
	for _, value := range store {
		bytes += len(value)
	}
	for b.Loop() {
		before := heapSize()
		c, problems := Restore(start, cluster, Options{}, store.all)
		if len(c.Jobs()) != count || problems != nil {
			b.Fatal(problems)
		}
		b.ReportMetric(float64(heapSize()-before)/count, "bytes/job")
		_ = c.Jobs()
	}
	b.ReportMetric(float64(original)/count, "bytes/job-before")
	b.ReportMetric(float64(bytes)/count, "kept-bytes/job")
}

func heapSize() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
