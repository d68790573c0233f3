// Package accounting compares our accounting records with those of the real Grid Engine.
package accounting

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/accounting"
	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
	"github.com/execd-project/execd/test/gridengine"
)

var update = flag.Bool("update", false, "write the golden file of package accounting")

// golden has recorded lines, for the tests of package accounting.
const golden = "../../accounting/testdata/gridengine.txt"

// objects are in the cell, and in a configuration directory of ours.
var objects = []struct{ option, folder, name, text string }{
	{"-Au", "usersets", "staff", "name staff\ntype ACL\nfshare 0\noticket 0\nentries alice\n"},
	{"-Au", "usersets", "other", "name other\ntype ACL\nfshare 0\noticket 0\nentries bob,alice\n"},
	{"-Au", "usersets", "third", "name third\ntype ACL\nfshare 0\noticket 0\nentries bob\n"},
	{"-Au", "usersets", "unnamed", "name unnamed\ntype ACL\nfshare 0\noticket 0\nentries alice\n"},
	{"-Aprj", "projects", "p1", "name p1\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"},
	{"-Aprj", "projects", "p2", "name p2\noticket 0\nfshare 0\nacl NONE\nxacl NONE\n"},
	{"-Arqs", "", "rqs", "{\n name rq\n enabled TRUE\n limit users {alice} to slots=50\n}\n"},
}

var queues = []gridengine.Queue{
	{Name: "all.q", Attributes: map[string]string{
		"shell_start_mode": "unix_behavior", "slots": "40", "priority": "3", "pe_list": "smp", "ckpt_list": "ck",
		"user_lists": "staff other third", "rerun": "TRUE",
	}},
	{Name: "b.q", Attributes: map[string]string{"projects": "p1", "slots": "20"}},
}

// jobs are submitted by alice.
var jobs = [][]string{
	{},
	{"-A", "acc+ount", "-N", "n+m%e"},
	{"-l", "calendar=a:b|NONE"},
	{"-l", "h_rt=0:10:0,a=lx*", "-soft", "-l", "s_rt=100"},
	{"-l", "h_vmem=2G", "-l", "h_cpu=1:0:0", "-soft", "-q", "all.q@*"},
	{"-q", "all.q,b.q", "-masterq", "all.q", "-pe", "smp", "2-4"},
	{"-pe", "s*", "1,3-4,6-"},
	{"-t", "2-4:2"},
	{"-P", "p1", "-p", "-10"},
	{"-P", "p2", "-now", "y", "-ckpt", "ck"},
	{"-soft", "-l", "h_rt=10", "-hard", "-l", "h_fsize=1k"},
	{"-l", "h_rt=0:0:1", "w.sh"},
	{"k.sh"},
	{"r.sh"},
	{"-pe", "smp", "2", "-V", "pe.sh"},
	{"-ar", "1", "-ckpt", "ck", "-P", "p1"},
	{"-o", "/nonexistent/x"},
}

// records is how many records a job has, where it is not one.
var records = map[string]int{"-t": 2, "r.sh": 2, "-V": 3}

var scripts = map[string]string{
	"k.sh":  "kill -9 $$\n",
	"w.sh":  "sleep 30\n",
	"r.sh":  "test $RESTARTED = 1 && exit 3\nexit 99\n",
	"pe.sh": "qrsh -inherit $(hostname) /bin/true\nqrsh -inherit $(hostname) /bin/sh -c 'exit 4'\nexit 0\n",
}

// TestRecordsOfGridEngine reads what the original writes and prints it again, and compares
// categories.
func TestRecordsOfGridEngine(t *testing.T) {
	cell := gridengine.Start(t, gridengine.Config{})
	prepare(t, cell)
	cluster := directory(t)
	want, categories := map[int]int{}, map[int]string{}
	for _, args := range jobs {
		if last := len(args) - 1; last < 0 || scripts[args[last]] == "" {
			args = append(args[:last+1:last+1], "-b", "y", "/bin/true")
		}
		id, err := cell.Submit("alice", args...)
		if err != nil {
			t.Fatal(err)
		}
		want[id] = 1
		for _, a := range args {
			want[id] = max(want[id], records[a])
		}
		categories[id] = category(t, cluster, args)
	}
	if err := cell.Wait(want, time.Minute); err != nil {
		t.Fatal(err)
	}
	text, err := cell.Root("sh", "-c", "cat $SGE_ROOT/default/common/accounting")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for line := range strings.Lines(text) {
		r, err := accounting.ParseClassic(line)
		if errors.Is(err, accounting.ErrNoRecord) {
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		seen++
		if diff := cmp.Diff(line, string(accounting.AppendClassic(nil, r))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(categories[r.Job], r.Category); diff != "" {
			t.Errorf("the category of job %d: -ours +theirs\n%s", r.Job, diff)
		}
	}
	t.Attr("records", fmt.Sprint(seen))
	compare(t, cell, text)
	if *update {
		if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func prepare(t *testing.T, cell *gridengine.Cell) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, o := range objects {
		if o.folder != "" {
			check(cell.Configure(o.option, o.name, o.text))
		}
	}
	check(cell.AddPE("smp", map[string]string{"slots": "12", "control_slaves": "TRUE", "job_is_first_task": "FALSE"}))
	check(cell.AddCkpt("ck", map[string]string{"interface": "userdefined"}))
	check(cell.AddQueues(queues...))
	for _, o := range objects {
		if o.folder == "" {
			check(cell.Configure(o.option, o.name, o.text))
		}
	}
	for name, text := range scripts {
		check(cell.AddFile("/home/alice/"+name, "#!/bin/sh\n"+text, 0o755))
	}
	_, err := cell.Root("qconf", "-au", "alice", "arusers")
	check(err)
	out, err := cell.User("alice", "qrsub", "-d", "300", "-q", "all.q")
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// directory returns the configuration of the cell as one of ours.
func directory(t *testing.T) *qconf.Cluster {
	t.Helper()
	files := fstest.MapFS{
		"pes/smp":  {Data: []byte("pe_name smp\nslots 12\n")},
		"ckpts/ck": {Data: []byte("ckpt_name ck\ninterface userdefined\n")},
	}
	for _, o := range objects {
		files[strings.TrimPrefix(o.folder+"/"+o.name, "/")] = &fstest.MapFile{Data: []byte(o.text)}
	}
	for _, q := range queues {
		text := "qname " + q.Name + "\n"
		for name, value := range q.Attributes {
			text += name + " " + value + "\n"
		}
		files["queues/"+q.Name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func category(t *testing.T, c *qconf.Cluster, args []string) string {
	t.Helper()
	if scripts[args[len(args)-1]] != "" {
		args = append(args[:len(args)-1:len(args)-1], "-b", "y", "/bin/true")
	}
	r, err := submit.Parse(submit.Input{Args: args})
	if err != nil {
		t.Fatal(err)
	}
	return accounting.Category(c, "alice", "alice", r.Project, r)
}
