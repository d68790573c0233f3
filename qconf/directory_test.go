package qconf

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/job"
)

func directory(files map[string]string) fstest.MapFS {
	fsys := fstest.MapFS{}
	for name, text := range files {
		fsys[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return fsys
}

func TestBuiltinRunsSimpleScript(t *testing.T) {
	c := Builtin(8)
	same(t, "queues", []string{"all.q"}, c.QueueNames())
	q, err := c.Instance("all.q", "here")
	if err != nil {
		t.Fatal(err)
	}
	if q.Slots != 8 || q.Shell != "/bin/sh" || q.ShellStartMode != job.PosixCompliant || !c.Config("here").ScriptShellFor(q) || strings.Join(q.PEList, " ") != "make smp" {
		t.Errorf("%+v", q)
	}
	for name, rule := range map[string]AllocationName{"smp": PESlots, "make": RoundRobin} {
		p, err := c.PE(name)
		if err != nil || p.AllocationRule.Name != rule || p.Slots == 0 {
			t.Errorf("%s: %+v %v", name, p, err)
		}
	}
	if c.Config("here").MinUID != 1000 || c.Config("here") != c.Global() || len(c.Warnings()) != 0 || c.HostGroups() == nil {
		t.Error("configuration")
	}
	for processors, want := range map[int]string{-1: "0", 1 << 30: "9999999"} {
		q, err := Builtin(processors).Queue("all.q")
		if err != nil {
			t.Fatal(err)
		}
		same(t, "slots", want, value(t, q.Text, "slots"))
	}
}

func TestEmptyDirectoryEqualsBase(t *testing.T) {
	c, err := Load(fstest.MapFS{}, Builtin(4))
	if err != nil {
		t.Fatal(err)
	}
	same(t, "queues", []string{"all.q"}, c.QueueNames())
	same(t, "pes", []string{"make", "smp"}, c.PENames())
	c, err = Load(fstest.MapFS{}, nil)
	if err != nil || len(c.QueueNames()) != 0 || c.Global().MinUID != 1000 {
		t.Error(err, c)
	}
	for what, err := range map[string]error{
		"queue":                       second(c.Queue("x")),
		"parallel environment":        second(c.PE("x")),
		"checkpointing environment":   second(c.Checkpoint("x")),
		"local configuration of host": second(c.Local("x")),
	} {
		if !errors.Is(err, ErrNotFound) || err.Error() != what+` "x" does not exist` {
			t.Error(what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func TestADirectoryIsRead(t *testing.T) {
	base := Builtin(4)
	c, err := Load(directory(map[string]string{
		"conf/global":         "#global:\nmin_uid 500\nprolog /g\n",
		"conf/N1.example.org": "prolog /n1\n",
		"hostgroups/@every":   "group_name @every\nhostlist @some n3\n",
		"hostgroups/@some":    "group_name @some\nhostlist n1 n2\n",
		"pes/mpi":             "pe_name mpi\nslots 10\n",
		"ckpts/c":             "ckpt_name c\n",
		"queues/a.q":          "qname a.q\nhostlist @every\npe_list mpi\nckpt_list c,[@some=NONE]\nsubordinate_list b.q=1\nslots 1,[@some=2],[n2=3]\n",
		"queues/b.q":          "qname b.q\nprolog /b\n",
		"queues/.b.q.swp":     "\x00",
		"queues/b.q~":         "rubbish",
		".git/config":         "x",
		"complexes":           "h_vmem hv MEMORY <= YES JOB 0 0\n",
		"rqs/limit":           "{\nname limit\nlimit users {*} to hv=4G\n}\n",
		"rqs/also":            "{\nname also\nlimit to slots=4\n}\n",
		"hosts/global":        "hostname global\ncomplex_values h_vmem=100G\n",
		"hosts/N1":            "hostname N1\nuser_lists staff\n",
		"calendars/night":     "calendar_name night\nweek mon-fri=8-18\n",
		"usersets/staff":      "name staff\nentries alice\n",
		"users/alice":         "name alice\ndefault_project p\n",
		"projects/p":          "name p\nacl staff\n",
		"sched_conf":          "maxujobs 7\n",
		"sharetree":           "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,2\nid=1\nname=p\ntype=1\nshares=1\nchildnodes=NONE\nid=2\nname=alice\ntype=0\nshares=1\nchildnodes=NONE\n",
	}), base)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "queues", []string{"a.q", "b.q"}, c.QueueNames())
	same(t, "pes", []string{"mpi"}, c.PENames())
	same(t, "ckpts", []string{"c"}, c.CheckpointNames())
	if x, ok := c.Complexes().Find("hv"); !ok || x.Consumable != ConsumableJob {
		t.Errorf("hv is %+v", x)
	}
	same(t, "locals", []string{"n1.example.org"}, c.LocalNames())
	same(t, "hosts", []string{"n1"}, c.HostNames())
	same(t, "calendars", []string{"night"}, c.CalendarNames())
	same(t, "user sets", []string{"arusers", "deadlineusers", "defaultdepartment", "staff"}, c.UserSetNames())
	same(t, "users", []string{"alice"}, c.UserNames())
	same(t, "projects", []string{"p"}, c.ProjectNames())
	same(t, "quotas", "{\n   name         also\n", FormatResourceQuotas(c.ResourceQuotas(), Wrapped)[:len("{\n   name         also\n")])
	same(t, "share tree", 2, len(c.ShareTree().Root.Children))
	same(t, "scheduler", 7, c.Scheduler().MaxUJobs)
	same(t, "global host", []Setting{{"h_vmem", "100G"}}, c.GlobalHost().ComplexValues)
	if h, err := c.Host("n1.example.org"); err != nil || h.Name != "N1" {
		t.Error("host", h, err)
	}
	if len(c.Missing()) != 0 {
		t.Error(c.Missing())
	}
	for host, want := range map[string][3]string{
		"n1": {"/n1", "n1", "2"}, "n1.example.org": {"/n1", "n1", "2"}, "n2": {"/g", "n2", "3"}, "n3": {"/g", "n3", "1"},
	} {
		i, err := c.Instance("a.q", host)
		if err != nil {
			t.Fatal(err)
		}
		same(t, "prolog on "+host, want[0], c.Config(host).PrologFor(i))
		same(t, "slots on "+host, want[2], string(rune('0'+i.Slots)))
		same(t, "global parameters on "+host, 500, c.Config(host).MinUID)
	}
	local, err := c.Local("n1")
	if err != nil || local.Format(Wrapped) != "#N1.example.org:\nprolog                       /n1\n\n" {
		t.Error(err, local)
	}
	same(t, "the base", []string{"all.q"}, base.QueueNames())
}

func TestTheBuiltinQueueOffersTheDirectorysPEs(t *testing.T) {
	c, err := Load(directory(map[string]string{"pes/mpi": "pe_name mpi", "pes/omp": "pe_name omp"}), Builtin(4))
	if err != nil {
		t.Fatal(err)
	}
	q, err := c.Queue("all.q")
	if err != nil {
		t.Fatal(err)
	}
	same(t, "pe_list", "mpi omp", value(t, q.Text, "pe_list"))
}

func TestADirectoryIsRefused(t *testing.T) {
	for sentence, c := range map[string]struct {
		files map[string]string
		errs  []string
	}{
		"an unknown entry lists what is known": {map[string]string{"queue/a.q": "qname a.q"}, []string{
			"queue: unknown entry of a configuration directory, expected one of adminhosts, calendars, ckpts, complexes, conf, hostgroups, hosts, managers, operators, pes, projects, queues, rqs, sched_conf, sharetree, submithosts, users, usersets",
		}},
		"a file for a folder": {map[string]string{"queues": "qname a.q", "complexes/x": ""}, []string{
			"complexes: is a folder, expected a file", "queues: is a file, expected a folder",
		}},
		"a file not named like its object": {map[string]string{"queues/a.q": "qname b.q", "hostgroups/a": "group_name @a"}, []string{
			`hostgroups/a: holds "@a", expected the file to be named like its object`,
			`queues/a.q: holds "b.q", expected the file to be named like its object`,
		}},
		"errors of all files with their lines": {map[string]string{
			"queues/a.q": "qname a.q\nslots x\n", "queues/b.q": "qname b.q\n\nh_rt 1:2:3:4\n", "conf/global": "min_uid x", "conf/n1": "mailer x", "pes/p": "pe_name p\nslots x", "ckpts/c": "ckpt_name c\nwhen z",
		}, []string{
			`ckpts/c:2: when: "z" contains "z", expected letters of s m x r, or NONE`,
			`conf/global:1: min_uid: "x" is not a number, expected one from 0 to 2147483647`,
			`conf/n1:1: mailer: "x" is not a command, expected NONE or [user@] and an absolute path with arguments`,
			`pes/p:2: slots: "x" is not a number, expected one from 0 to 9999999`,
			`queues/a.q:2: slots: "x" is not a number, expected one from 0 to 9999999`,
			`queues/b.q:3: h_rt: "1:2:3:4" has 4 parts, expected hours:minutes:seconds`,
		}},
		"names of objects that do not exist": {map[string]string{
			"queues/a.q":    "qname a.q\nhostlist n1 @x\npe_list mpi,[n1=nope]\nckpt_list c d\nslots 1,[@y=2]\nsubordinate_list a.q, z.q=1, b.q\n",
			"queues/b.q":    "qname b.q\nhostlist @g\n",
			"pes/mpi":       "pe_name mpi\n",
			"ckpts/c":       "ckpt_name c\n",
			"hostgroups/@g": "group_name @g",
		}, []string{
			`queues/a.q:2: hostlist: host group "@x" does not exist`,
			`queues/a.q:3: pe_list: parallel environment "nope" does not exist`,
			`queues/a.q:4: ckpt_list: checkpointing environment "d" does not exist`,
			`queues/a.q:5: slots: host group "@y" does not exist`,
			`queues/a.q:6: subordinate_list: queue "a.q" cannot be its own subordinate`,
			`queues/a.q:6: subordinate_list: queue "z.q" does not exist`,
		}},
		"PEs are not looked for without a folder of them": {map[string]string{"queues/a.q": "qname a.q\npe_list mpi\nckpt_list c"}, nil},
		"groups are, without one": {map[string]string{"queues/a.q": "qname a.q\nhostlist @x"}, []string{
			`queues/a.q:2: hostlist: host group "@x" does not exist`,
		}},
		"one error for a broken PE, not another for its queue": {map[string]string{"queues/a.q": "qname a.q\npe_list mpi", "pes/mpi": "pe_name mpi\nslots x"}, []string{
			`pes/mpi:2: slots: "x" is not a number, expected one from 0 to 9999999`,
		}},
		"a circle of groups": {map[string]string{"hostgroups/@a": "group_name @a\nhostlist @a", "queues/a.q": "qname a.q\nhostlist @a"}, []string{
			`hostgroups/@a:2: hostlist: host groups form a circle: @a -> @a`,
		}},
		"two configurations for a host": {map[string]string{"conf/N1": "mailer /a", "conf/n1": "mailer /b"}, []string{
			`conf/n1: is for the same host as "conf/N1"`,
		}},
		"a configuration for no host": {map[string]string{"conf/a b": "mailer /a"}, []string{
			`conf/a b: "a b" is not a host name: it contains " ", expected letters, digits, - . _`,
		}},
		"a folder in a folder": {map[string]string{"queues/old/a.q": "qname a.q"}, []string{
			`queues/old: is not a regular file, expected one with an object`,
		}},
	} {
		t.Run(sentence, func(t *testing.T) {
			got, err := Load(directory(c.files), Builtin(1))
			refused(t, err, c.errs...)
			if (err == nil) != (got != nil) {
				t.Error("a cluster and an error, or neither")
			}
		})
	}
}

type noDirectory struct{}

func (noDirectory) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

func TestADirectoryThatCannotBeRead(t *testing.T) {
	_, err := Load(noDirectory{}, nil)
	if !errors.Is(err, fs.ErrPermission) {
		t.Error(err)
	}
	refused(t, err, ".: cannot read: open .: permission denied")
}

func TestBuiltinOn(t *testing.T) {
	c, err := BuiltinOn("Node1.example", 4)
	if err != nil {
		t.Fatal(err)
	}
	if got := c.HostNames(); !slices.Equal(got, []string{"node1.example"}) {
		t.Errorf("the hosts are %q", got)
	}
	q, err := c.Queue("all.q")
	if err != nil || !slices.Equal(c.HostGroups().Resolve(q.Hosts), []string{"Node1.example"}) {
		t.Errorf("%+v, %v", q, err)
	}
	if i, err := c.Instance("all.q", "Node1.example"); err != nil || i.Slots != 4 || i.Shell != "/bin/sh" {
		t.Errorf("%+v, %v", i, err)
	}
	if _, err := BuiltinOn("no host", 4); err == nil {
		t.Error("a host name with a blank is taken")
	}
}
