package shepherd

import (
	"os"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/limits"
	"github.com/execd-project/execd/limits/topology"
)

// TestBinding checks the processors to which a job is restricted (sge_submit(1), -binding;
// queue_conf(5), processors), for config files in the format of sge_execd and of this project's
// agent.
func TestBinding(t *testing.T) {
	t.Parallel()
	all, err := limits.Affinity()
	if err != nil {
		t.Fatal(err)
	}
	top, err := topology.Read(os.ReadFile, topology.Allowed{CPUs: all})
	if err != nil {
		t.Fatal(err)
	}
	pairs := top.Pairs()
	if len(pairs) < 2 {
		t.Skip("needs two cores")
	}
	zero, last := pairs[0], pairs[len(pairs)-1]
	cpus := func(cores ...topology.Pair) string { return top.CPUs(cores).String() }
	// topo returns the topology string with cores in lower case.
	topo := func(cores ...topology.Pair) string {
		used := map[topology.Pair]bool{}
		for _, p := range cores {
			used[p] = true
		}
		return top.Shape().With(func(p topology.Pair) bool { return used[p] }).String()
	}
	both := topology.FormatPairs(pairs[:2])
	cpu := func(s string) string { // the first processor of a list
		set, _ := topology.ParseList(s)
		return topology.Of(set.First()).String()
	}
	for sentence, c := range map[string]struct {
		binding, cpus, queue string // of the description
		allowed              string
		variable             string // SGE_BINDING, as a list
		trace                string
	}{
		"nothing asked for":      {"", "", "", all.String(), "", ""},
		"a core of a real execd": {"explicit:" + last.String() + ":" + topo(last), "", "", cpus(last), cpus(last), "bound to processors " + cpus(last)},
		"two cores":              {"explicit:" + both + ":" + topo(pairs[:2]...), "", "", cpus(pairs[:2]...), cpus(pairs[:2]...), "bound to processors "},
		// The original's shepherd does not bind this job at all.
		"bug of the original: linear with a start": {"linear:1:" + last.String() + ":" + topo(last), "", "", cpus(last), cpus(last), "bound to processors " + cpus(last)},
		// The original's shepherd binds to the first core only, and its daemon writes the socket's
		// number in place of the core's.
		"bug of the original: striding, automatic": {"striding:1:1:0,0:" + topo(last), "", "", cpus(last), cpus(last), "bound to processors " + cpus(last)},
		"bug of the original: striding, two cores": {"striding:2:1:0,0:" + topo(pairs[:2]...), "", "", cpus(pairs[:2]...), cpus(pairs[:2]...), "bound to processors " + cpus(pairs[:2]...)},
		"env tells only":                         {"env_explicit:" + last.String() + ":" + topo(last), "", "", all.String(), cpus(last), ""},
		"pe tells only, SGE_BINDING as well":     {"pe_explicit:" + last.String() + ":" + topo(last), "", "", all.String(), cpus(last), ""},
		"the processors that our agent says":     {"explicit:0,0:ScCCCCCCCC", cpus(last), "", cpus(last), cpus(last), "bound to processors " + cpus(last)},
		"another host's topology":                {"explicit:0,0:ScCCCCCCCCCCCCCCC", "", "", all.String(), "", "not bound to cores: "},
		"processors of the queue":                {"", "", cpu(cpus(last)), cpu(cpus(last)), "", "bound to the queue's processors " + cpu(cpus(last))},
		"UNDEFINED":                              {"", "", "UNDEFINED", all.String(), "", ""},
		"cores go before the queue's processors": {"explicit:" + last.String() + ":" + topo(last), "", all.String(), cpus(last), cpus(last), "bound to processors "},
		"env in a queue with processors":         {"env_explicit:" + zero.String() + ":" + topo(zero), "", cpus(last), cpus(last), cpus(zero), "bound to the queue's processors "},
		"no such processors":                     {"", "", "60000", all.String(), "", "cannot bind to the queue's processors 60000: "},
		"processors that make no sense":          {"", "", "lots", all.String(), "", `cannot read processors "lots"`},
	} {
		t.Run(sentence, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, best(), `grep Cpus_allowed_list /proc/self/status; echo "<$SGE_BINDING>"`)
			j.d.Binding, j.d.BindingCPUs, j.d.Processors = c.binding, c.cpus, c.queue
			j.d.Limits = job.Unlimited()
			j.run()
			j.expect(0)
			set, err := topology.ParseList(c.variable)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := j.output("out"), "Cpus_allowed_list:\t"+c.allowed+"\n<"+set.Fields()+">\n"; got != want {
				t.Errorf("the job says %q, want %q", got, want)
			}
			if trace := j.file("trace"); !strings.Contains(trace, c.trace) || c.trace == "" && strings.Contains(trace, "bound") {
				t.Errorf("no %q in the trace\n%s", c.trace, trace)
			}
		})
	}
}
