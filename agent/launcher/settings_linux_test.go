package launcher

import (
	"fmt"
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
	"github.com/execd-project/execd/qconf"
)

// TestForgedPriorities checks that a captured front gives jobs only priorities that root's configuration permits.
func TestForgedPriorities(t *testing.T) {
	w, s := makeWorld(t)
	var err error
	if s.Config, err = qconf.ParseConfiguration("global", []byte("reprioritize 1\nexecd_params PTF_MAX_PRIORITY=3,PTF_MIN_PRIORITY=9\n")); err != nil {
		t.Fatal(err)
	}
	w.serve(s)
	id := job.ID{Job: 7}
	if err := w.ask(kindPrepare, &prepareBody{Plan: w.plan(id), Script: true}, w.script()); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		jobs []sharer
		want string
	}{
		"no weight":               {[]sharer{{id, 5, 0}}, "weight 0"},
		"a weight out of range":   {[]sharer{{id, 5, mostWeight + 1}}, "weight 10001"},
		"a task that leads up":    {[]sharer{{job.ID{Job: 7, PETask: "../x"}, 5, 100}}, "expected a name of the form"},
		"a job that there is not": {[]sharer{{job.ID{Job: -1}, 5, 100}}, "invalid job ID"},
	} {
		w.refusedWith(name, w.ask(kindPrioritise, &prioritiseBody{c.jobs}), c.want)
	}
	a := s.prioritise(&prioritiseBody{[]sharer{{id, -20, 100}, {id, 10, 100}, {id, 0, 100}, {id, 9, 100}, {job.ID{Job: 8}, 5, 100}}})
	for i, refused := range []bool{true, true, false, false, true} { // 0 is the nice value of the queue
		if err := a.Results[i].Error; (err != nil) != refused {
			t.Errorf("priority %d: %+v, expected a refusal: %v", i, err, refused)
		}
	}
	if audits := w.audits(); len(audits) != 2 {
		t.Errorf("the audit log has %q", audits)
	}
	if err := s.checkPriorities(&prioritiseBody{make([]sharer, mostSharers+1)}); err == nil || !strings.Contains(err.Error(), "at most 4096") {
		t.Errorf("too many jobs: %v", err)
	}
	off := Server{}
	if off.Config, err = qconf.ParseConfiguration("global", nil); err != nil {
		t.Fatal(err)
	}
	if err := off.checkPriorities(&prioritiseBody{}); err == nil {
		t.Error("priorities are permitted without reprioritize")
	}
}

// TestSettings checks that the front refuses a configuration whose control groups, supervisor or priorities differ
// from those of root's configuration.
func TestSettings(t *testing.T) {
	parse := func(text string) *qconf.Configuration {
		c, err := qconf.ParseConfiguration("global", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	root := settingsOf(parse("shepherd_cmd /site/wrapper\n"))
	if err := root.permit(parse("shepherd_cmd /site/wrapper\nprolog /x\n")); err != nil {
		t.Error(err)
	}
	for _, text := range []string{"", "shepherd_cmd /tmp/x\n", "shepherd_cmd /site/wrapper\nreprioritize 1\n", "shepherd_cmd /site/wrapper\ncgroups_params cpuset=false\n", "shepherd_cmd /site/wrapper\nexecd_params USE_CGROUPS=false\n"} {
		if root.permit(parse(text)) == nil {
			t.Errorf("%q is permitted", text)
		}
	}
}

// TestForgedNice checks that a captured front gives jobs only the nice values below 0 that root's configuration has
// for their queues.
func TestForgedNice(t *testing.T) {
	w, s := newStrictWorld(t, func(s *Server) {
		s.Rules.Site.Queues = []Queue{{Name: "all.q", Priority: -5}, {Name: "other.q", Priority: -10}}
	})
	for i, c := range []struct {
		queue string
		nice  int
		good  bool
	}{{"all.q", -5, true}, {"all.q", 3, true}, {"all.q", -4, false}, {"all.q", -10, false}, {"new.q", -5, false}} {
		id := job.ID{Job: 7 + i}
		o := w.order(s, fmt.Sprintf("key%d", i), id)
		w.queue(o, c.queue)
		o.plan.Description.Nice = c.nice
		if got := w.prepare(o); c.good && got != nil {
			t.Errorf("%s with %d: %v", c.queue, c.nice, got)
		} else if !c.good {
			w.refusedWith(c.queue, got, "nice value")
		}
	}
}
