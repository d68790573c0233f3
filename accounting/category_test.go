package accounting

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/execd-project/execd/qconf"
	"github.com/execd-project/execd/submit"
)

// TestCategory compares categories with those of the original for the same jobs, and checks rules of the
// manual page. cmd/execd/test/accounting compares the categories of a running cell with the original's.
func TestCategory(t *testing.T) {
	files := fstest.MapFS{}
	for name, text := range map[string]string{
		"usersets/staff":   "name staff\ntype ACL\nentries alice\n",
		"usersets/other":   "name other\ntype ACL\nentries bob,@users\n",
		"usersets/third":   "name third\ntype ACL\nentries bob\n",
		"usersets/quota":   "name quota\ntype ACL\nentries carol\n",
		"usersets/unnamed": "name unnamed\ntype ACL\nentries alice\n",
		"projects/p1":      "name p1\n",
		"projects/p2":      "name p2\n",
		"hosts/n1":         "hostname n1\nxprojects p1\n",
		"queues/all.q":     "qname all.q\nhostlist n1\nuser_lists staff,[n1=staff other third]\npe_list smp\nckpt_list ck\n",
		"pes/smp":          "pe_name smp\nslots 9\nuser_lists staff\n",
		"ckpts/ck":         "ckpt_name ck\ninterface userdefined\n",
		"rqs":              "{\n name q\n enabled TRUE\n limit users alice,@quota to slots=5\n}\n{\n name off\n enabled FALSE\n limit users dave to slots=5\n}\n",
	} {
		files[name] = &fstest.MapFile{Data: []byte(text)}
	}
	c, err := qconf.Load(files, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range map[string]struct{ owner, options, want string }{
		"no options":          {"alice", "", "-U staff,other -u alice"},
		"an owner in no list": {"dave", "", "-U other"},
		"a list in a quota":   {"carol", "", "-U other -u carol"},
		"everything": {
			"alice", "-ckpt ck -pe smp 1,3-4,6- -l h_rt=0:10:0,a=lx* -q all.q,b.q -soft -l s_rt=100 -q c.q -hard -masterq all.q -now y -ar 1 -P p1",
			"-U staff,other -u alice -q all.q,b.q -masterq all.q -l arch=lx*,h_rt=600 -soft -l s_rt=100 -pe smp 1,3,4,6-9999999 -ckpt ck -I y -P p1 -ar 1",
		},
		"a project that nothing names": {"dave", "-P p2", "-U other"},
		"a text with a colon":          {"dave", "-l calendar=a:b|NONE", "-U other -l calendar=a:b|NONE"},
		"another complex":              {"dave", "-l gpu=0:1", "-U other -l gpu=0:1"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := submit.Parse(submit.Input{Args: append(strings.Fields(x.options), "-b", "y", "true")})
			if err != nil {
				t.Fatal(err)
			}
			if got := Category(c, x.owner, "users", r.Project, r); got != x.want {
				t.Errorf("got  %s\nwant %s", got, x.want)
			}
		})
	}
}
