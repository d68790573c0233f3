package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/execd-project/execd/internal/options"
	"github.com/execd-project/execd/qconf"
)

// lay writes files, by their path, to a new directory.
func lay(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

type outcome struct {
	status   int
	out, err string
	conf     string // the directory
}

func run(t *testing.T, args ...string) outcome {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "conf")
	return runTo(t, dir, args...)
}

func runTo(t *testing.T, dir string, args ...string) outcome {
	t.Helper()
	var out, errs bytes.Buffer
	c := Command{Args: append([]string{"--conf", dir}, args...), Stdout: &out, Stderr: &errs}
	status, err := c.Run()
	if err != nil {
		errs.WriteString(err.Error())
	}
	return outcome{status, out.String(), errs.String(), dir}
}

func load(t *testing.T, dir string) *qconf.Cluster {
	t.Helper()
	c, err := qconf.Load(os.DirFS(dir), nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestInvalidPartsAreSkippedAndReported checks that as little as possible is skipped, and that each
// skipped part is reported with file and line.
func TestInvalidPartsAreSkippedAndReported(t *testing.T) {
	from := lay(t, map[string]string{
		"cqueues/a.q":              "# of another version\nqname a.q\nhostlist n1 @gone n2\nslots many\npe_list smp gone\nrerun TRUE\nnovelty 5 \\\n   and more\nload_thresholds np_load_avg=1,gone=2\nh_rt 1:0:0\nprojects \\\n    gone\ncomplex_values lic=1,[n1=gone=1,lic=2]\n",
		"cqueues/b.q":              "slots 1\n",
		"pe/smp":                   "pe_name smp\nslots 4\nallocation_rule 0x\n",
		"centry":                   "lic lic INT <= YES YES 0 0\nbad bad FISH <= YES YES 0 0\n",
		"resource_quotas/r":        "   name         r\n   description  NONE\n   enabled      TRUE\n   limit        to lic=3\n   limit        to gone=3\n",
		"usersets/staff":           "name staff\ntype ACL\nentries alice\n",
		"sharetree":                "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=7\n",
		"managers":                 "root\nalice\n",
		"surprise/x":               "y",
		"readme":                   "nothing of qconf's\n",
		"schedconf":                "algorithm default\nqueue_sort_method fish\n",
		"configurations/n9":        "#n9:\nxterm /usr/bin/xterm\nmailer mail\n",
		"calendars/nights":         "calendar_name nights\nyear NONE\nweek mon-fri=8-1x=off\n",
		"hostgroups/@h":            "group_name @h\nhostlist n3\n",
		"users/.hidden":            "x",
		"execution/template":       "hostname template\n",
		"execution/n1":             "hostname n1\nload_values a=1, \\\n   b=2\ncomplex_values lic=4\nprocessors 4\n",
		"backup_date":              "today",
		"advance_reservations/1/x": "1",
	})
	r := run(t, "--from", from)
	if r.status != ExitLeft {
		t.Fatalf("exit status %d: %s%s", r.status, r.out, r.err)
	}
	got := strings.Split(strings.TrimSpace(strings.ReplaceAll(r.out, from+"/", "")), "\n")
	for i, line := range got {
		got[i] = regexp.MustCompile(`(not imported: )(all of \S+: )?.*`).ReplaceAllString(line, "$1$2")
	}
	want := []string{
		"advance_reservations: 1: not imported: ",
		"calendars/nights:3: week mon-fri=8-1x=off: not imported: ",
		"centry:2: bad: not imported: ",
		"cqueues/b.q: not imported: all of queues/b.q: ",
		"configurations/n9:3: mailer mail: not imported: ",
		"cqueues/a.q:11: projects gone: not imported: ",
		"cqueues/a.q:13: complex_values gone: not imported: ",
	}
	if testing.Verbose() {
		t.Log(r.out, r.err)
	}
	if len(got) != 18 {
		t.Errorf("%d things are not imported", len(got))
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%q is not said", w)
		}
	}
	c := load(t, r.conf)
	q, err := c.Queue("a.q")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"hostlist": "n1 n2", "slots": "1", "pe_list": "smp", "rerun": "TRUE", "load_thresholds": "np_load_avg=1", "h_rt": "1:0:0", "projects": "NONE",
	} {
		if got, _ := q.Value(name); got != want {
			t.Errorf("%s is %q, expected %q", name, got, want)
		}
	}
	if problems := qconf.Check(os.DirFS(r.conf), qconf.Options{}); len(problems.Errors)+len(problems.Missing) > 0 {
		t.Errorf("what is written is not sound: %v %v", problems.Errors, problems.Missing)
	}
	if sets := c.ResourceQuotas(); len(sets) != 1 || len(sets[0].Rules) != 1 {
		t.Errorf("%v", sets)
	}
}

func TestNothingIsOverwritten(t *testing.T) {
	from := lay(t, map[string]string{"queues/a.q": "qname a.q\nhostlist NONE\npe_list NONE\n"})
	dir := lay(t, map[string]string{"mine": "precious"})
	r := runTo(t, dir, "--from", from)
	if r.status != ExitFailed || !strings.Contains(r.err, "--force replaces it") {
		t.Errorf("%d %s", r.status, r.err)
	}
	if r = runTo(t, dir, "--from", from, "--force"); r.status != ExitGood {
		t.Errorf("with --force: %d %s", r.status, r.err)
	}
	if text, err := os.ReadFile(dir + ".old/mine"); err != nil || string(text) != "precious" {
		t.Errorf("what was there: %v", err)
	}
	if r = runTo(t, dir, "--from", lay(t, nil), "--force"); r.status != ExitFailed || !strings.Contains(r.err, "nothing to import") {
		t.Errorf("from nothing: %d %s", r.status, r.err)
	}
	if _, err := load(t, dir).Queue("a.q"); err != nil {
		t.Error("the directory was changed by a command that failed")
	}
	if r = run(t, "--from", from, "--dry-run"); r.status != ExitGood || r.err != "imported: queues 1; not imported: 0\n" {
		t.Errorf("%d %s", r.status, r.err)
	}
	if _, err := os.Stat(r.conf); err == nil {
		t.Error("--dry-run has written")
	}
}

// TestMissingObjectsOfWholeAndPartialCells checks that a missing object does not exist if a whole
// cell was read, and keeps its defaults if only a part was read.
func TestMissingObjectsOfWholeAndPartialCells(t *testing.T) {
	queue := "qname a.q\nhostlist NONE\npe_list mpi\n"
	whole := run(t, "--from", lay(t, map[string]string{"cqueues/a.q": queue}))
	if whole.status != ExitLeft || len(load(t, whole.conf).PENames()) != 0 {
		t.Errorf("%d %s", whole.status, whole.out)
	}
	if _, err := os.Stat(filepath.Join(whole.conf, "pes")); err != nil {
		t.Error("the parallel environments that are built in would be there")
	}
	part := run(t, "--from", lay(t, map[string]string{"queues/a.q": queue}), "--partial")
	if part.status != ExitGood {
		t.Errorf("%d %s %s", part.status, part.out, part.err)
	}
	text, err := os.ReadFile(filepath.Join(part.conf, "queues/a.q"))
	if err != nil || !strings.Contains(string(text), "\npe_list               mpi\n") {
		t.Errorf("%v %s", err, text)
	}
	if _, err := os.Stat(filepath.Join(part.conf, "pes")); err == nil {
		t.Error("a folder was made for what was not read")
	}
}

func TestCell(t *testing.T) {
	spool := lay(t, map[string]string{"cqueues/a.q": "qname a.q\nhostlist NONE\npe_list NONE\n"})
	cell := lay(t, map[string]string{
		"common/bootstrap":           "spooling_method classic\nspooling_params /nowhere;" + spool + "\nqmaster_spool_dir /nowhere\n",
		"common/configuration":       "conf_name global\nconf_version 3\nxterm /usr/bin/xterm\n",
		"common/local_conf/n1":       "conf_name n1\nconf_version 1\nxterm /bin/xterm\n",
		"common/sched_configuration": "algorithm default\nqueue_sort_method 1\nweight_tickets_override 0\n",
		"common/accounting":          "x:y\n",
	})
	r := run(t, "--from", cell)
	if r.status != ExitGood || r.err != "imported: conf 2, queues 1, sched_conf 1; not imported: 0\n" {
		t.Fatalf("%d %s%s", r.status, r.out, r.err)
	}
	if text, err := os.ReadFile(filepath.Join(r.conf, "sched_conf")); err != nil || !regexp.MustCompile(`(?m)^queue_sort_method +seqno$`).Match(text) {
		t.Errorf("%v %s", err, text)
	}
	database := lay(t, map[string]string{"common/bootstrap": "spooling_method berkeleydb\n"})
	if r := run(t, "--from", database); r.status != ExitFailed || !strings.Contains(r.err, "use --live") {
		t.Errorf("%d %s", r.status, r.err)
	}
}

func TestLiveFailures(t *testing.T) {
	for script, want := range map[string]string{
		"echo 'error: qmaster is not alive' >&2; exit 1": "qmaster is not alive",
		"exit 3": "exit status 3",
	} {
		program := filepath.Join(t.TempDir(), "qconf")
		if err := os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		if r := run(t, "--live", "--qconf", program); r.status != ExitFailed || !strings.Contains(r.err, want) {
			t.Errorf("%d %s", r.status, r.err)
		}
	}
	if r := run(t, "--live", "--qconf", "/nowhere/qconf"); r.status != ExitFailed || !strings.Contains(r.err, "/nowhere/qconf") {
		t.Errorf("%d %s", r.status, r.err)
	}
}

func TestUsage(t *testing.T) {
	for line, want := range map[string]string{
		"":                            "--conf is missing",
		"--conf x":                    "expected either --from",
		"--conf x --live --from y":    "expected either --from",
		"--conf x --from y --qconf z": "--qconf is for --live",
		"--conf x --from y z":         "unexpected argument",
		"--conf x --form y":           "unknown option --form (did you mean --from?)",
	} {
		c := Command{Args: strings.Fields(line), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
		if status, err := c.Run(); status != options.ExitUsage || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %d %v", line, status, err)
		}
	}
	r := run(t, "--from", "/nowhere")
	if r.status != ExitFailed || r.err != `cannot read "/nowhere": no such file or directory` {
		t.Errorf("%d %s", r.status, r.err)
	}
}

func TestDropItem(t *testing.T) {
	for _, c := range []struct{ line, item, want string }{
		{"pe_list a b c", "b", "pe_list a c"},
		{"pe_list a b c", "a", "pe_list b c"},
		{"pe_list a b c", "c", "pe_list a b"},
		{"pe_list a", "a", "pe_list NONE"},
		{"pe_list aa a-b", "a", ""},
		{"pe_list a,[h=a b],[i=b]", "a", "pe_list NONE,[h=b],[i=b]"},
		{"pe_list a,[h=a b],[i=b]", "b", "pe_list a,[h=a],[i=NONE]"},
		{"slots NONE", "NONE", ""},
		{"x y=1,z=2", "z=2", "x y=1"},
		{"x y=1,z=2,[h=z=3,w=1]", "z", "x y=1,[h=w=1]"},
	} {
		o := newObject("x", "f", c.line+"\n")
		ok := o.dropItem(1, c.item)
		if ok != (c.want != "") || ok && o.lines[0] != c.want {
			t.Errorf("%q without %q: %v %q", c.line, c.item, ok, o.lines[0])
		}
	}
}

// FuzzTake checks that for any input reading terminates and the output can be read back.
func FuzzTake(f *testing.F) {
	f.Add("qname a.q\nhostlist n1 @gone\npe_list x \\\n y\n", "lic lic INT <= YES YES 0 0\n", "{\nname r\nlimit to gone=1\n}\n", "id=0\nname=R\n")
	f.Fuzz(func(t *testing.T, queue, complexes, quotas, tree string) {
		s := newSource()
		s.whole = true
		for path, text := range map[string]string{"queues/a.q": queue, "complexes": complexes, "rqs/r": quotas, "sharetree": tree, "pes/x": "pe_name x\n"} {
			k, _ := find(strings.Split(path, "/")[0])
			if err := s.add(k, newObject(path, "from/"+path, text)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := s.take(false)
		if err != nil {
			return
		}
		dir := filepath.Join(t.TempDir(), "conf")
		for name, text := range r.Files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, text, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		for _, folder := range r.Folders {
			if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if found := qconf.Check(os.DirFS(dir), qconf.Options{}); len(found.Errors)+len(found.Missing) > 0 {
			t.Errorf("%v %v", found.Errors, found.Missing)
		}
	})
}

// TestOpenClusterScheduler imports files that a master of Open Cluster Scheduler 9.1.4 with classic
// spooling has written.
func TestOpenClusterScheduler(t *testing.T) {
	r := run(t, "--from", "testdata/ocs-9.1/common", "--from", "testdata/ocs-9.1/spool")
	if r.status != ExitGood || r.out != "" {
		t.Fatalf("exit status %d: %s%s", r.status, r.out, r.err)
	}
	for _, want := range []string{
		`configuration:60: port_range: "20000-20100" has no effect: Open Cluster Scheduler 9.1 has introduced it`,
		`forks:17: master_forks_slaves: "TRUE" has no effect: Open Cluster Scheduler 9.0 has introduced it`,
	} {
		if !strings.Contains(r.err, want) {
			t.Errorf("no warning %q:\n%s", want, r.err)
		}
	}
	c := load(t, r.conf)
	if tag := c.Global().MailTag; tag != "[lab]" {
		t.Errorf("mail_tag is %q", tag)
	}
	h, err := c.Host("cellhost")
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := h.Value("complex_values"); v != "slots=2,lic=7,scratch=100G,seat=3,device=4(dev0 dev1 dev2 dev3)" {
		t.Errorf("complex_values is %q", v)
	}
	x, _ := c.Complexes().Find("device")
	y, _ := c.Complexes().Find("seat")
	if x.Type != qconf.ComplexRSMap || y.Consumable != qconf.ConsumableHost {
		t.Errorf("%+v %+v", x, y)
	}
}
