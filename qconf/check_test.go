package qconf

import (
	"errors"
	"flag"
	"maps"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write testdata/check.txt")

// everyKindBroken has a file of each kind of object with several errors: what
// no such object has, values that cannot be read, lists of which several items
// are wrong, names of nothing, and what contradicts the rest.
var everyKindBroken = map[string]string{
	"complexes": "lic l INT <= MAYBE SOME 0 x\n" +
		"gpu g RSMAP >= YES NO 0 0\n" +
		"arch ar STRING == YES NO NONE 0\n" +
		"arch2 ar STRING == YES NO x 0\n" +
		"short\n",
	"sched_conf": "algorithm fair\nweight_user much\nhalftme 12\nmax_reservation 3\ndefault_duration 0:0:0\n" +
		"job_load_adjustments a=x,b\nload_formula nosuch\nparams PROFILE=maybe,FOO=1,MONITOR=2\nhalflife_decay_list cpu:mem=1:io\n",
	"sharetree":       "id=0\nname=Root\ntype=7\nshares=many\nchildnodes=1,2\nid=1\nname=nobody\ntype=0\nshares=1\nchildnodes=NONE\nid=2\nname=a b\ntype=0\nshares=1\nchildnodes=x,y\n",
	"queues/a.q":      "qname a.q\nhostlist @none n/1 n/2\nslotz 4\nslots many,[n1=few],[@nowhere=3],[n1=4]\npe_list a/b nosuch\ncalendar nosuch\nsubordinate_list a.q,b.q=x,c.q\ncomplex_values nosuch=1,lic=1,bad\nh_rt 1:2\nqtype FAST SLOW\n",
	"hosts/n1":        "hostname n1\ncomplex_value a=1\ncomplex_values nosuch=1,nothing\nusage_scaling gpu=1,cpu=x\nuser_lists nosuch\n",
	"conf/global":     "min_uid -1\nmin_gidd 1\nexecd_params KEEP_ACTIVE=perhaps,PDC_INTERVAL=soon\nuser_lists nosuch,a/b\n",
	"conf/n1":         "min_uid 5\nprolog nowhere\nload_sensor a,b\n",
	"hostgroups/@a":   "group_name @a\nhostlst n1\nhostlist @nosuch @b n/1\n",
	"hostgroups/@b":   "group_name @b\nhostlist @b\nfoo bar\n",
	"pes/mpi":         "pe_name mpi\nslots -1\nallocation_rule sometimes\nuser_lists nosuch a/b\nfoo bar\n",
	"rqs/limits":      "{\nname limits\nenabled perhaps\nfoo bar\nlimit usrs {*} hosts {a to slots,nosuch=1\nlimit users a'b,c'd to nosuch=1,slots=x,slots=1\n}\n",
	"calendars/night": "calendar_name nights\nweek mon-fri\nyear x\nfoo bar\n",
	"usersets/staff":  "name staff\ntype TEAM GROUP\nfshare much\nentries a/b,c/d\nfoo bar\n",
	"users/alice":     "name alice\noticket x\nfshare -1\ndefault_project nosuch\nfoo bar\n",
	"projects/p":      "name p\nacl s,t\nxacl s,t\nfshare x\nfoo bar\n",
	"ckpts/c":         "ckpt_name c\ninterface magic\nckpt_dir tmp\nsignal SIGNOT\nfoo bar\n",
}

func TestCheckReportsAllErrorsAtOnce(t *testing.T) {
	refuse := func(string) error { return errors.New("expected something else") }
	found := Check(directory(everyKindBroken), Options{Year: refuse, Week: refuse})
	var b strings.Builder
	for _, e := range found.Errors {
		if e.File == "" || !strings.Contains(e.Problem, "holds") && e.Line == 0 {
			t.Errorf("says not where: %v", e)
		}
		b.WriteString(e.Error() + "\n")
	}
	const golden = "testdata/check.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "errors", string(want), b.String())
	if len(found.Missing)+len(found.Warnings) > 0 {
		t.Error(found.Missing, found.Warnings)
	}
	if c, err := Load(directory(everyKindBroken), nil); c != nil || err == nil {
		t.Error("Load is not all or nothing")
	}
}

// FuzzCheck replaces one file of a directory by any text. The valid parts of that file and of the
// others are still checked.
func FuzzCheck(f *testing.F) {
	for _, name := range sortedKeys(everyKindBroken) {
		f.Add(name, everyKindBroken[name])
	}
	f.Fuzz(func(t *testing.T, name, text string) {
		files := maps.Clone(everyKindBroken)
		if _, ok := files[name]; !ok {
			t.Skip()
		}
		files[name] = text
		if len(Check(directory(files), Options{}).Errors) == 0 {
			t.Error("no errors")
		}
		// Alone, so that nothing hides what it does to objects that are whole.
		c, err := Load(directory(map[string]string{name: text}), nil)
		if (c == nil) == (err == nil) {
			t.Errorf("%v %v", c, err)
		}
	})
}

func TestErrorsOfOneObjectCauseNoErrorsInOthers(t *testing.T) {
	for sentence, c := range map[string]struct {
		files map[string]string
		errs  []string
	}{
		"what has errors exists": {
			map[string]string{
				"pes/mpi": "pe_name mpi\nslots x\n", "usersets/s": "name s\nfoo 1\n", "calendars/c": "foo\n",
				"queues/a.q":    "qname a.q\nhostlist @a\npe_list mpi\ncalendar c\nuser_lists s\nsubordinate_list b.q\ncomplex_values lic=1\n",
				"queues/b.q":    "nothing\n",
				"hostgroups/@a": "group_name @a\nhostlist @b\n", "hostgroups/@b": "group_name @b\nhostlist a/b\n",
				"complexes": "lic l INT <= YES YES x 0\n",
			},
			[]string{
				`calendars/c: calendar_name: is missing, a calendar needs it`,
				`calendars/c:1: unknown attribute "foo" of a calendar, expected one of calendar_conf(5)`,
				`complexes:1: lic: default: "x" is not a value of the type INT, expected an integer`,
				`hostgroups/@b:2: hostlist: "a/b" is not a host name: it contains "/", expected letters, digits, - . _`,
				`pes/mpi:2: slots: "x" is not a number, expected one from 0 to 9999999`,
				`queues/b.q: qname: is missing, a queue needs it`,
				`queues/b.q:1: unknown attribute "nothing" of a queue, expected one of queue_conf(5)`,
				`usersets/s:2: unknown attribute "foo" of a user set, expected one of access_list(5)`,
			},
		},
		"nodes of a share tree whose places are not known": {
			map[string]string{"users/u": "name u\n", "sharetree": "id=0\nname=Root\ntype=0\nshares=1\nchildnodes=1,x\n" +
				"id=1\nname=u\ntype=0\nshares=1\nchildnodes=NONE\nid=2\nname=v\ntype=0\nshares=1\nchildnodes=NONE\n"},
			[]string{`sharetree:5: childnodes: "x" is not a number, expected one from 0 to 4294967295`},
		},
	} {
		t.Run(sentence, func(t *testing.T) {
			_, err := Load(directory(c.files), nil)
			refused(t, err, c.errs...)
		})
	}
}
