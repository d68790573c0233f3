package binding

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/limits/topology"
)

// host makes a host from a topology string; the cores in lower case are in use. Processors are
// numbered consecutively, and each socket is a memory node.
func host(t testing.TB, shape string) (topology.Topology, InUse) {
	t.Helper()
	sh, err := topology.ParseShape(shape)
	if err != nil {
		t.Fatal(err)
	}
	var top topology.Topology
	cpu := 0
	for s, cores := range sh {
		socket := topology.Socket{ID: s}
		first := cpu
		for c, core := range cores {
			socket.Cores = append(socket.Cores, topology.Core{ID: c, Node: s, CPUs: topology.Range(cpu, cpu+core.Threads-1)})
			cpu += core.Threads
		}
		top.Sockets = append(top.Sockets, socket)
		top.Nodes = append(top.Nodes, topology.Node{ID: s, CPUs: topology.Range(first, cpu-1), Mems: topology.Of(s)})
	}
	used := make(InUse)
	used.Add(sh.InUse())
	return top, used
}

func linear(n int) Request      { return Request{Strategy: Linear, Amount: n} }
func striding(n, s int) Request { return Request{Strategy: Striding, Amount: n, Step: s} }
func from(r Request, socket, core int) Request {
	r.HasStart, r.Socket, r.Core = true, socket, core
	return r
}

func explicit(t testing.TB, pairs string) Request {
	t.Helper()
	p, err := topology.ParsePairs(pairs)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Strategy: Explicit, Pairs: p}
}

func TestCoresOfARequest(t *testing.T) {
	slots := Request{Strategy: Linear, Slots: true}
	for sentence, c := range map[string]struct {
		host    string // cores in lower case are in use by other jobs
		request Request
		slots   int
		want    string
	}{
		"linear takes the first socket":                         {"SCCSCC", linear(1), 1, "0,0"},
		"linear takes successive cores":                         {"SCCSCC", linear(2), 1, "0,0:0,1"},
		"linear goes to the first empty socket":                 {"ScCSCCSCC", linear(1), 1, "1,0"},
		"linear goes on to another empty socket":                {"ScCSCCSCC", linear(3), 1, "1,0:1,1:2,0"},
		"linear fills up from busy sockets":                     {"ScCSCC", linear(3), 1, "1,0:1,1:0,1"},
		"without an empty socket the one with most free cores":  {"SccCSCcCSCcc", linear(1), 1, "1,0"},
		"free cores of a busy socket need not be neighbours":    {"ScccSCcC", linear(2), 1, "1,0:1,2"},
		"the first of sockets with equally many free cores":     {"ScCSCcSCc", linear(2), 1, "0,1:1,0"},
		"behind the first empty socket most free cores count":   {"SCSCSCcCC", linear(3), 1, "0,0:2,0:2,2"},
		"a socket without cores is not empty":                   {"SSCSCC", linear(1), 1, "1,0"},
		"linear takes the last free core":                       {"SccScC", linear(1), 1, "1,1"},
		"linear:slots takes the slots":                          {"SCCCC", slots, 3, "0,0:0,1:0,2"},
		"linear:slots without slots takes one":                  {"SCCCC", slots, 0, "0,0"},
		"linear with a number does not look at slots":           {"SCCCC", linear(1), 3, "0,0"},
		"linear with a start takes successive cores from there": {"SCCSCC", from(linear(2), 0, 1), 1, "0,1:1,0"},
		"linear with a start takes a socket in use":             {"ScCSCC", from(linear(1), 0, 1), 1, "0,1"},
		"linear:slots with a start":                             {"SCCCC", from(slots, 0, 2), 2, "0,2:0,3"},
		"striding searches from the first core":                 {"SCCCC", striding(2, 2), 1, "0,0:0,2"},
		"striding goes on where one is in use":                  {"SCCcCCC", striding(2, 2), 1, "0,1:0,3"},
		"striding skips cores in use between its own":           {"SCcCC", striding(2, 2), 1, "0,0:0,2"},
		"striding numbers cores across sockets":                 {"SCCCSCCC", striding(2, 4), 1, "0,0:1,1"},
		"striding by one core":                                  {"SccCC", striding(2, 1), 1, "0,2:0,3"},
		"striding may start on a later socket":                  {"SccScC", striding(1, 1), 1, "1,1"},
		"striding:1 takes any step":                             {"SCC", striding(1, 1<<30), 1, "0,0"},
		"striding from a start":                                 {"SCCSCC", from(striding(2, 2), 0, 1), 1, "0,1:1,1"},
		"explicit keeps the order":                              {"SCCSCC", explicit(t, "1,0:0,1"), 1, "1,0:0,1"},
		"explicit beside cores in use":                          {"ScCScC", explicit(t, "1,1"), 1, "1,1"},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, used := host(t, c.host)
			b, err := Choose(top, used, c.request, c.slots)
			if got := topology.FormatPairs(b.Cores); err != nil || got != c.want {
				t.Errorf("%v on %s: got %s, %v, want %s", c.request, c.host, got, err, c.want)
			}
		})
	}
}

// TestCoresOfAQueue checks that a job gets only cores of the processors of its queue (queue_conf(5)).
func TestCoresOfAQueue(t *testing.T) {
	for sentence, c := range map[string]struct {
		host, queue string
		request     Request
		want        string // or the refusal
	}{
		"linear stays in the queue":              {"SCCCC", "2-3", linear(2), "0,2:0,3"},
		"a socket of which the queue has half":   {"SCCCCSccSCC", "0-1,6-7", linear(3), "0,0:0,1:2,0"},
		"striding counts over the others":        {"SCCCCC", "1,3", striding(2, 2), "0,1:0,3"},
		"a core with one thread is not whole":    {"SCTTCTT", "1-3", linear(1), "0,1"},
		"explicit in it":                         {"SCCCC", "2-3", explicit(t, "0,3"), "0,3"},
		"explicit beyond it":                     {"SCCCC", "2-3", explicit(t, "0,1"), "cannot bind to cores set explicit:0,1: a core is not among the processors of the queue: 0,1"},
		"a start beyond it":                      {"SCCCC", "2-3", from(linear(1), 0, 0), "a core is not among the processors of the queue: 0,0"},
		"more than it has":                       {"SCCCC", "2-3", linear(3), "too few cores are free: 3 of 2 free among the processors 2-3 of the queue"},
		"no such distance in it":                 {"SCCCC", "1-2", striding(2, 2), "too few cores are free: among the processors 1-2 of the queue"},
		"processors that the host does not have": {"SCC", "7", linear(1), "1 of 0 free among the processors 7 of the queue"},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, used := host(t, c.host)
			queue, err := Processors(c.queue)
			if err != nil {
				t.Fatal(err)
			}
			c.request.Queue = queue
			b, err := Choose(top, used, c.request, 1)
			got := topology.FormatPairs(b.Cores)
			if err != nil {
				got = err.Error()
			}
			if got != c.want && (err == nil || !strings.HasSuffix(got, c.want)) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestAffinity(t *testing.T) {
	for sentence, c := range map[string]struct {
		queue, request string
		cpus, mems     string
	}{
		"nothing said":                           {"UNDEFINED", "", "", ""},
		"the cores":                              {"", "set", "0", "0"},
		"the cores, not all of the queue":        {"0-3", "set", "0", "0"},
		"the queue":                              {"1-2", "", "1-2", "0-1"},
		"the queue, for a job that binds itself": {"0-1", "env", "0-1", "0"},
		"half of the queue exists":               {"3-9", "", "3", "1"},
		"nothing of the queue exists":            {"4-9", "", "", ""},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, used := host(t, "SCCSCC")
			queue, err := Processors(c.queue)
			if err != nil {
				t.Fatal(err)
			}
			var r Request
			switch c.request {
			case "set":
				r = linear(1)
			case "env":
				r = linear(1)
				r.Instance = Env
			}
			b, err := Choose(top, used, r, 1)
			if err != nil {
				t.Fatal(err)
			}
			if a := b.Affinity(top, queue); a.CPUs.String() != c.cpus || a.Mems.String() != c.mems {
				t.Errorf("processors %q, memory %q, want %q and %q", a.CPUs, a.Mems, c.cpus, c.mems)
			}
		})
	}
	for _, text := range []string{"1-", "2-1", "a", "0-99999999", "1:2"} {
		if cpus, err := Processors(text); err == nil || !strings.HasPrefix(err.Error(), "cannot read processors ") {
			t.Errorf("%q reads as %s, %v", text, cpus, err)
		}
	}
	if cpus, err := Processors("undefined"); err != nil || !cpus.IsEmpty() {
		t.Errorf("undefined reads as %s, %v", cpus, err)
	}
}

func TestReasonsOfARefusal(t *testing.T) {
	for sentence, c := range map[string]struct {
		host    string
		request Request
		reason  Reason
		text    string
	}{
		"more cores than the host has":        {"SCC", linear(5), TooFewCores, "cannot bind to cores set linear:5: the host has too few cores: 5 of 2"},
		"more cores than are free":            {"ScC", linear(2), TooFewFree, "cannot bind to cores set linear:2: too few cores are free: 2 of 1 free"},
		"all cores in use":                    {"Scc", linear(1), TooFewFree, "1 of 0 free"},
		"no core":                             {"SCC", linear(0), Malformed, "the request makes no sense: 0 cores"},
		"no host":                             {"NONE", linear(1), TooFewCores, "1 of 0"},
		"linear over the end":                 {"SCC", from(linear(2), 0, 1), TooFewCores, "set linear:2:0,1: the host has too few cores"},
		"linear from a core that is not":      {"SCC", from(linear(1), 0, 2), NoSuchCore, "the host has no such core: 0,2"},
		"linear from a core in use":           {"ScC", from(linear(1), 0, 0), CoreInUse, "a core is in use by another job: 0,0"},
		"linear over a core in use":           {"SCc", from(linear(2), 0, 0), CoreInUse, "0,1"},
		"striding farther than the host":      {"SCC", striding(2, 2), TooFewCores, "set striding:2:2: the host has too few cores"},
		"striding much farther than the host": {"SCCC", striding(3, math.MaxInt), TooFewCores, ""},
		"striding with no step":               {"SCC", striding(2, 0), Malformed, "step 0"},
		"striding over cores in use":          {"SCcCc", striding(2, 1), TooFewFree, ""},
		"striding where all cores are in use": {"Sccc", striding(1, 2), TooFewFree, ""},
		"striding from a core in use":         {"ScCC", from(striding(2, 2), 0, 0), CoreInUse, "0,0"},
		"striding from a start over the end":  {"SCCC", from(striding(2, 2), 0, 2), TooFewCores, ""},
		"explicit core that is not":           {"SCC", explicit(t, "0,0:1,0"), NoSuchCore, "1,0"},
		"explicit core in use":                {"SCc", explicit(t, "0,0:0,1"), CoreInUse, "set explicit:0,0:0,1: a core is in use by another job: 0,1"},
		"explicit core twice":                 {"SCC", explicit(t, "0,1:0,1"), Malformed, "core 0,1 twice"},
		"explicit without cores":              {"SCC", Request{Strategy: Explicit}, Malformed, "no cores"},
		"an invalid strategy":                 {"SCC", Request{Strategy: 9}, Malformed, "unknown strategy"},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, used := host(t, c.host)
			b, err := Choose(top, used, c.request, 1)
			var no *RefusedError
			if !errors.As(err, &no) || no.Reason != c.reason || !strings.Contains(err.Error(), c.text) {
				t.Errorf("%v on %s: got %v, %v, want %v: %s", c.request, c.host, b.Cores, err, c.reason, c.text)
			}
		})
	}
}

func TestFormsOfABinding(t *testing.T) {
	in := func(i Instance, r Request) Request { r.Instance = i; return r }
	for sentence, c := range map[string]struct {
		host                              string
		request                           Request
		config, environment, column, cpus string
		mems                              string
		binds                             bool
	}{
		"linear is explicit for the shepherd":    {"SCC", linear(2), "explicit:0,0:0,1:Scc", "0 1", "", "0-1", "0", true},
		"linear with a start, too":               {"SCC", from(linear(1), 0, 1), "explicit:0,1:SCc", "1", "", "1", "0", true},
		"striding, too":                          {"SCC", striding(2, 1), "explicit:0,0:0,1:Scc", "0 1", "", "0-1", "0", true},
		"only cores of this job in lower case":   {"ScCSCC", from(linear(2), 0, 1), "explicit:0,1:1,0:SCcScC", "1 2", "", "1-2", "0-1", true},
		"all threads of a core":                  {"SCTTCTT", explicit(t, "0,1"), "explicit:0,1:SCTTctt", "2 3", "", "2-3", "0", true},
		"processors ascend where cores do not":   {"SCTTCTT", explicit(t, "0,1:0,0"), "explicit:0,1:0,0:Scttctt", "0 1 2 3", "", "0-3", "0", true},
		"env tells the job only":                 {"SCC", in(Env, linear(1)), "env_explicit:0,0:ScC", "0", "", "0", "0", false},
		"pe tells the parallel environment, too": {"SCCSCC", in(PE, explicit(t, "0,0:1,0")), "pe_explicit:0,0:1,0:ScCScC", "0 2", "0,0:1,0", "0,2", "0-1", false},
		"nothing asked for":                      {"SCC", Request{}, "NULL", "", "", "", "", false},
	} {
		t.Run(sentence, func(t *testing.T) {
			top, used := host(t, c.host)
			b, err := Choose(top, used, c.request, 1)
			if err != nil {
				t.Fatal(err)
			}
			got := []string{b.Config(), b.Environment(), b.HostfileColumn(), b.CPUs.String(), b.Mems.String()}
			want := []string{c.config, c.environment, c.column, c.cpus, c.mems}
			if !slices.Equal(got, want) || b.Binds() != c.binds {
				t.Errorf("got %q, binds %v, want %q", got, b.Binds(), want)
			}
		})
	}
}

func TestTopologyInUse(t *testing.T) {
	top, used := host(t, "SCTTcttSccCTT")
	if got := TopologyInUse(top, used); got != "SCTTcttSccCTT" {
		t.Errorf("got %s", got)
	}
	used.Remove([]topology.Pair{{Socket: 1, Core: 0}, {Socket: 1, Core: 2}, {Socket: 7, Core: 0}})
	if got := TopologyInUse(top, used); got != "SCTTcttSCcCTT" {
		t.Errorf("after an end: got %s", got)
	}
}

func TestCoreOfTwoJobsIsInUseUntilBothEnd(t *testing.T) {
	used := make(InUse)
	core := []topology.Pair{{Socket: 0, Core: 1}}
	used.Add(core)
	used.Add(core)
	used.Remove(core)
	if !used.Has(core[0]) {
		t.Error("free while a job has it")
	}
	used.Remove(core)
	used.Remove(core) // the same end may be reported twice
	if used.Has(core[0]) || len(used) != 0 {
		t.Errorf("still in use: %v", used)
	}
	used.Add(core)
	if !used.Has(core[0]) {
		t.Error("a double end makes a core free for the next job, too")
	}
}
