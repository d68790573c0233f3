package launcher

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/configdir"
	"github.com/execd-project/execd/internal/submission/claim"
	"github.com/execd-project/execd/internal/testenv"
	"github.com/execd-project/execd/job"
)

// TestForgedSteps checks that a captured front cannot take away or change the programs of root by several changes, of which
// each looks harmless, in any order: with NONE, by removing or adding files, and by groups of hosts.
func TestForgedSteps(t *testing.T) {
	const queue = "hostlist host\nslots 1\nshell /bin/sh\n"
	const global = "min_uid 1000\nmin_gid 1000\n"
	local := [2]string{"conf/host", "prolog NONE\nepilog NONE\n"}
	files := func(more ...string) map[string]string {
		all := map[string]string{
			"queues/all.q": "qname all.q\n" + queue,
			"hosts/host":   "hostname host\n",
			"conf/global":  global + "prolog /site/prolog\nepilog /site/epilog\nmailer /site/mailer\n",
		}
		for i := 0; i < len(more); i += 2 {
			all[more[i]] = more[i+1]
		}
		return all
	}
	root := global + "prolog root@/site/prolog\nepilog /site/epilog\nmailer /site/mailer\n"
	grouped := []string{"queues/all.q", "qname all.q\n" + queue + "suspend_method NONE,[@g=/site/suspend]\n", "hostgroups/@g", "group_name @g\nhostlist host\n"}
	for name, c := range map[string]struct {
		files map[string]string
		steps [][2]string
		want  string // of the refusal
	}{
		"no queue, then NONE":              {files(), [][2]string{{"queues/all.q", ""}, local}, "only root may set it"},
		"NONE, then no queue":              {files(), [][2]string{local, {"queues/all.q", ""}}, "only root may set it"},
		"no queue of root@":                {files("conf/global", root), [][2]string{{"queues/all.q", ""}, local}, "all.q would not be on this host"},
		"NONE instead of root@":            {files("conf/global", root), [][2]string{local}, "only root may set it"},
		"NONE where queues have a prolog":  {files("queues/all.q", "qname all.q\n"+queue+"prolog /site/a\nepilog /site/b\n"), [][2]string{local}, "only root may set it"},
		"NONE before root's global prolog": {files("conf/global", global), [][2]string{local}, "only root may set it"},
		"no mailer":                        {files(), [][2]string{{"conf/host", "mailer NONE\n"}}, "conf/host: mailer"},
		"no load sensor":                   {files("conf/global", global+"load_sensor /site/sensor\n"), [][2]string{{"conf/host", "load_sensor NONE\n"}}, "load_sensor"},
		"without the file of the cluster":  {files(), [][2]string{{"conf/global", ""}}, ""},
		"without the file of the host":     {files("conf/host", "prolog NONE\nepilog NONE\n"), [][2]string{{"conf/host", ""}}, "only root may set it"},
		"without the prolog of the host":   {files("conf/host", "prolog /site/host\n"), [][2]string{{"conf/host", ""}}, "only root may set it"},
		"a file that hides another one":    {files("conf/host.example", "prolog /site/host\n"), [][2]string{{"conf/host", "load_report_time 0:1:0\n"}}, "configuration of the host host: prolog"},
		"a method that a group has":        {files(grouped...), [][2]string{{"hostgroups/@g", "group_name @g\nhostlist NONE\n"}}, "all.q would have another suspend_method"},
		"a method that another group gets": {files("queues/all.q", grouped[1], "hostgroups/@g", "group_name @g\nhostlist NONE\n"), [][2]string{{"hostgroups/@g", grouped[3]}}, "all.q would have another suspend_method"},
		"a method that is ambiguous":       {files("queues/all.q", strings.Replace(grouped[1], "suspend]", "suspend],[@h=/site/other]", 1), "hostgroups/@g", grouped[3], "hostgroups/@h", "group_name @h\nhostlist NONE\n"), [][2]string{{"hostgroups/@h", "group_name @h\nhostlist host\n"}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, dir, _ := newConfiguredWorld(t, c.files)
			s.configuring.RLock()
			was, refused := s.Rules.Site.Objects, ""
			s.configuring.RUnlock()
			for _, step := range c.steps {
				if e := w.ask(kindConfigure, &configureBody{Step: stepChange, Changes: changeOf(step[0], step[1])}); e != nil {
					refused += e.Text + "\n"
				}
			}
			if refused == "" || !strings.Contains(refused, c.want) {
				t.Errorf("refused %q, expected %q; the files are %q", refused, c.want, slices.Sorted(maps.Keys(textsIn(t, dir))))
			}
			s.configuring.RLock()
			defer s.configuring.RUnlock()
			is := s.Rules.Site.Objects
			if !is.Default.sameProcedures(&was.Default) || is.Mailer != was.Mailer {
				t.Errorf("the launcher has %+v and the mailer %q, expected %+v and %q", is.Default, is.Mailer, was.Default, was.Mailer)
			}
			if was.Default.Prolog == "" {
				return
			}
			for _, queue := range []string{"all.q", "x.q"} {
				if err := s.Rules.checkQueue(&job.Description{Queue: queue}); err == nil {
					t.Errorf("a job in %s without the prolog of root passes", queue)
				}
			}
		})
	}
}

// TestManagersRemoveQueues checks that managers can remove and add queues without programs of their own, also the last one.
func TestManagersRemoveQueues(t *testing.T) {
	const text = "qname all.q\nhostlist host\nslots 1\nshell /bin/sh\n"
	w, s, _, _ := newConfiguredWorld(t, map[string]string{
		"queues/all.q": text, "queues/b.q": strings.Replace(text, "all.q", "b.q", 1), "hosts/host": "hostname host\n",
		"conf/global": "min_uid 1000\nmin_gid 1000\nprolog /site/prolog\n",
	})
	for _, step := range [][2]string{{"queues/all.q", ""}, {"queues/all.q", text}, {"queues/b.q", ""}, {"queues/all.q", ""}} {
		if e := w.ask(kindConfigure, &configureBody{Step: stepChange, Changes: changeOf(step[0], step[1])}); e != nil {
			t.Errorf("%s: %v", step[0], e)
		}
	}
	s.configuring.RLock()
	defer s.configuring.RUnlock()
	if err := s.Rules.checkQueue(&job.Description{Queue: "all.q"}); err == nil {
		t.Error("a job without the prolog of root passes")
	}
}

// TestNamesThatCannotBeWritten checks that the launcher starts after a change that no launcher can make, which an earlier one
// has begun, and that it does not start with a part of such a change.
func TestNamesThatCannotBeWritten(t *testing.T) {
	long := "calendars/" + strings.Repeat("c", 250)
	for name, c := range map[string]struct {
		changes []fileChange
		starts  bool
	}{
		"a long name":                {changeOf(long, "x\n"), true},
		"the removal of a long name": {changeOf(long+strings.Repeat("c", 50), ""), false}, // as if it was removed
		"a folder":                   {changeOf("calendars/folder", "x\n"), true},
		"the removal of a folder":    {changeOf("calendars/folder", ""), false},                            // likewise
		"a file and its folder":      {append(changeOf("rqs", "x\n"), changeOf("rqs/a", "y\n")...), false}, // a part of it is in effect
		"a part":                     {append(changeOf("calendars/weekend", rootFiles["calendars/weekend"]), changeOf(long, "x\n")...), false},
	} {
		t.Run(name, func(t *testing.T) {
			_, s, dir, _ := newConfiguredWorld(t, rootFiles)
			testenv.WriteFile(t, filepath.Join(dir, "calendars/folder/file"), "")
			before := textsIn(t, dir)
			text, err := json.Marshal(&journal{Dir: dir, Changes: c.changes})
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Spool.Dir().WriteDurably(confJournal, text); err != nil {
				t.Fatal(err)
			}
			notice, err := CompleteConfiguration(s.Spool)
			if !c.starts {
				if err == nil {
					t.Errorf("the launcher starts: %q", notice)
				}
				return
			}
			if err != nil || !strings.Contains(notice, confFailed) {
				t.Fatalf("%q %v", notice, err)
			}
			if is, err := os.ReadFile(filepath.Join(s.Spool.Path(), confFailed)); err != nil || string(is) != string(text) {
				t.Errorf("%s has %q: %v", confFailed, is, err)
			}
			if notice, err := CompleteConfiguration(s.Spool); notice != "" || err != nil {
				t.Errorf("the start after that: %q %v", notice, err)
			}
			if now := textsIn(t, dir); !maps.EqualFunc(now, before, func(a, b []byte) bool { return string(a) == string(b) }) {
				t.Errorf("the files have changed: %q", now)
			}
		})
	}
}

// TestJournalsCanBeWritten checks that the launcher writes no journal of a change that it cannot make.
func TestJournalsCanBeWritten(t *testing.T) {
	w, s, dir, _ := newConfiguredWorld(t, rootFiles)
	for i := range 1000 { // all temporary names
		testenv.WriteFile(t, filepath.Join(dir, fmt.Sprintf("calendars/.night.%d.%d", os.Getpid(), i)), "")
	}
	// It would have to replace a journal that is a directory.
	testenv.WriteFile(t, filepath.Join(s.Spool.Path(), confJournal, "file"), "")
	e := w.ask(kindConfigure, &configureBody{Step: stepChange, Changes: append(changeOf("managers", "alice\n"), changeOf("calendars/night", "calendar_name night\nyear NONE\nweek NONE\n")...)})
	if e == nil || !strings.Contains(e.Text, "there are 1000 temporary files") || strings.Contains(e.Text, confJournal) {
		t.Error(e)
	}
	if found, err := filepath.Glob(filepath.Join(dir, ".managers*")); err != nil || len(found) > 0 {
		t.Errorf("temporary files: %q %v", found, err)
	}
}

// TestUnconfirmedGrowth checks that a captured front cannot fill the configuration, and that managers can make a large one
// smaller.
func TestUnconfirmedGrowth(t *testing.T) {
	calendar := func(name string, size int) string {
		return "# " + strings.Repeat("x", size) + "\ncalendar_name " + name + "\nyear NONE\nweek NONE\n"
	}
	w, _, dir, socket := newConfiguredWorld(t, map[string]string{
		"hosts/host": "hostname host\n", "conf/global": "min_uid 1000\nmin_gid 1000\n",
		"calendars/a": calendar("a", 4<<20-100), "calendars/b": calendar("b", 4<<20-100), "calendars/c": calendar("c", 4<<20-100), "calendars/d": calendar("d", 4<<20-4000),
	})
	order := func(key, name, text string) *Error {
		return w.ask(kindConfigure, &configureBody{Step: stepChange, Key: key, Changes: changeOf("calendars/"+name, text)})
	}
	if e := order("", "e", calendar("e", 1)); e != nil {
		t.Errorf("a small file: %v", e)
	}
	more := calendar("f", 5000)
	if e := order("", "f", more); e == nil || e.Code != codeRefused || !strings.Contains(e.Text, "more than 16777216") {
		t.Errorf("too much: %v", e)
	}
	q := claim.Configure{Step: claim.StepConfirm, Key: "key", Base: configdir.Sum(textsIn(t, dir)), Digest: configdir.Digest("key", (&configureBody{Changes: changeOf("calendars/f", more)}).list())}
	if err := rootSays(t, socket, q); err != nil {
		t.Fatal(err)
	}
	if e := order("key", "f", more); e != nil {
		t.Errorf("root adds a file: %v", e)
	}
	if e := order("", "e", ""); e != nil {
		t.Errorf("less: %v", e)
	}
	for _, c := range []struct {
		files int
		ok    bool
	}{{mostUnconfirmed / (perFile + 8), true}, {mostUnconfirmed/(perFile+8) + 1, false}} {
		var list []configdir.Change
		for i := range c.files {
			list = append(list, configdir.Change{Path: fmt.Sprintf("x/%06x", i)})
		}
		if err := checkGrowth(nil, list); (err == nil) != c.ok {
			t.Errorf("%d empty files: %v", c.files, err)
		}
	}
}
