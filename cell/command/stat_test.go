package command

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/execd-project/execd/submit"
)

const twoQueue = "qname two.q\nhostlist node1\nslots 2\nseq_no 5\nload_thresholds NONE\npe_list NONE\ncomplex_values license=3\n"

// stat returns a cell with two queues: job 1 of alice runs, 2 waits for a license that two.q
// alone has, 3 is held, 4 of bob waits for a time, 5 waits for 3.
func stat(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, "queues/two.q", twoQueue, "queues/all.q", "qname all.q\nhostlist node1\nslots 1\nload_thresholds NONE\npe_list NONE\n", "pes/make", "pe_name make\nslots 4\n",
		"complexes", "license lic INT <= YES YES 0 0\n")
	for _, l := range []string{"qsub -q all.q job.sh", "qsub -l lic=4 job.sh", "qsub -h job.sh"} {
		if r := w.line("alice", l); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
	}
	w.line("bob", "qsub -a 202312010000 job.sh")
	w.line("alice", "qsub -hold_jid 3 job.sh")
	w.schedule()
	return w
}

// listed are the numbers of the jobs, and the queue instances, that qstat lists.
func listed(r *Result) string {
	var words []string
	for l := range strings.Lines(r.Stdout) {
		f := strings.Fields(l)
		if len(f) > 0 && (f[0][0] >= '1' && f[0][0] <= '9' || strings.Contains(f[0], "@")) {
			words = append(words, f[0])
		}
	}
	return strings.Join(words, " ")
}

func TestStatSelects(t *testing.T) {
	w := stat(t)
	for text, want := range map[string]string{
		"qstat":                         "1 2 3 5",
		"qstat -u *":                    "1 2 3 4 5",
		"qstat -u bob,$user":            "1 2 3 4 5",
		"qstat -u b*":                   "4",
		"qstat -u nosuch bob":           "4",
		"qstat -s r p":                  "2 3 5",
		"qstat -q nosuch two.q -f":      "two.q@node1 3 5",
		"qstat -s r":                    "1",
		"qstat -s p -u *":               "2 3 4 5",
		"qstat -s hu":                   "3",
		"qstat -s ho":                   "",
		"qstat -s hj":                   "5",
		"qstat -s ha -u *":              "4",
		"qstat -s h -u *":               "3 4 5",
		"qstat -s s":                    "",
		"qstat -q two.q":                "3 5",
		"qstat -q all.q":                "1 3 5",
		"qstat -q nosuch":               "",
		"qstat -l license=2":            "3 5",
		"qstat -f -l license=2 -s r":    "two.q@node1",
		"qstat -f -s r":                 "all.q@node1 1 two.q@node1",
		"qstat -f -u bob -s r":          "all.q@node1 two.q@node1",
		"qstat -f -ne -s r":             "all.q@node1 1",
		"qstat -f -q two.q -s r":        "two.q@node1",
		"qstat -F slots -q two.q -s r":  "two.q@node1",
		"qstat -f -U alice -q *@n* -ne": "all.q@node1 1 3 5",
		"qselect":                       "all.q@node1 two.q@node1",
		"qselect -l license=3":          "two.q@node1",
		"qselect -l slots=2":            "two.q@node1",
		"qselect -q t*":                 "two.q@node1",
		"qselect -qs d":                 "",
		"qselect -pe make":              "",
	} {
		if got := listed(w.line("alice", text)); got != want {
			t.Errorf("%s lists %q, not %q", text, got, want)
		}
	}
	w.line("root", "qmod -d two.q")
	w.says("alice", "qselect -qs d", "two.q@node1\n", "", 0)
	if got := listed(w.line("alice", "qstat -f -qs d -s r")); got != "two.q@node1" {
		t.Errorf("-qs d lists %q", got)
	}
}

// TestStatByQueues checks that a pending job is shown with a queue that lists its project, and with
// a queue that the job requests literally. With -U, all named users and their projects must have
// access to a queue.
func TestStatByQueues(t *testing.T) {
	w := newWorld(t, "complexes", "tok tok INT <= FORCED YES 0 0\nseq_no seq INT == NO NO 0 0\nload_avg la DOUBLE >= NO NO 0 0\n",
		"usersets/ul", "name ul\nentries bob\n", "projects/pr1", "name pr1\n", "projects/pr2", "name pr2\nacl ul\n",
		"queues/all.q", "qname all.q\nhostlist node1\nslots 2\n",
		"queues/aq", "qname aq\nhostlist node1\nslots 1\nseq_no 3\nuser_lists ul\ncomplex_values tok=2\n",
		"queues/zq", "qname zq\nhostlist node1\nslots 1\nprojects pr1\n", "queues/mq", "qname mq\nhostlist node1\nslots 1\nxprojects pr2\n")
	for _, l := range []string{"", "-P pr1", "-q all.q", "-q *.q", "-q zq@node1,aq", "-l tok=2"} {
		if r := w.line("alice", "qsub -h "+l+" job.sh"); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
	}
	for text, want := range map[string]string{
		"qstat -q all.q": "1 3", "qstat -q zq": "1 2 5", "qstat -q aq": "1 5 6", "qstat -l seq_no=3": "1 5 6", "qstat -l tok=1": "1 5 6",
		"qselect -l slots=2": "all.q@node1", "qselect -l tok=3": "", "qselect -l seq=3": "aq@node1", "qselect -l h=nosuch": "",
		"qselect -U alice": "all.q@node1 mq@node1 zq@node1", "qselect -U bob": "all.q@node1 aq@node1 zq@node1",
		"qselect -U alice,bob": "all.q@node1 zq@node1", "qselect -U b*": "all.q@node1 aq@node1 zq@node1",
	} {
		if got := listed(w.line("alice", text)); got != want {
			t.Errorf("%s lists %q, not %q", text, got, want)
		}
	}
	w.line("root", "qconf -mattr exechost user_lists ul node1")
	w.says("alice", "qselect -U alice", "", "error: no queues remaining after -U queue selection\n", 1)
	w.says("alice", "qstat -U alice", "", "error: no queues remaining after -U queue selection\n", 0)
}

// TestListOrder checks that a modified queue goes to the end of the list, even if the modification
// changes nothing.
func TestListOrder(t *testing.T) {
	w := newWorld(t, "queues/all.q", "qname all.q\nhostlist node1\nseq_no 9\n", "queues/b", "qname b\nhostlist node1\n", "queues/c", "qname c\nhostlist node1\n")
	w.says("root", "qselect", "all.q@node1\nb@node1\nc@node1\n", "", 0)
	w.line("root", "qconf -mattr queue seq_no 0 b")
	w.says("root", "qselect", "all.q@node1\nc@node1\nb@node1\n", "", 0)
	if got := strings.Fields(strings.ReplaceAll(w.line("root", "qmod -d *").Stdout, "\"", " ")); len(got) < 18 || got[4] != "all.q@node1" || got[10] != "c@node1" || got[16] != "b@node1" {
		t.Errorf("qmod -d: %q", got)
	}
}

// TestStatRefuses checks the messages about invalid selections that no other test covers (tested).
func TestStatRefuses(t *testing.T) {
	w := stat(t)
	for text, want := range map[string]string{
		"qstat -q nosuch":   "",
		"qstat -l nosuch=1": "",
		"qstat -pe nosuch":  "error: no such parallel environment\n",
		"qstat -qs x":       "error: unknown queue state: x found in string: x\nunknown queue state: x found in string: x\n",
		"qstat -explain x":  "error: unknown queue state: x found in string: x\nunknown queue state: x found in string: x\n",
		"qstat -g x":        "wrong character 'x' for -g option\n",
		"qstat -u":          "-u option must have argument\n",
		"qstat -j 99,98":    "Following jobs do not exist: \n99, 98\n",
		"qselect -q nosuch": "",
		"qhost -l nosuch=1": "error: unknown resource \"nosuch\"\n",
		"qhost -h":          "error: -h option must have argument\n",
		"sge_share_mon -h":  "No share tree\n",
		"qrstat -foo":       "error: invalid option argument \"-foo\"\n",
	} {
		r := w.line("alice", text)
		if r.Stdout != "" || r.Stderr != want || r.Exit == 0 {
			t.Errorf("%s exits with %d and says %q", text, r.Exit, r.Stderr)
		}
	}
}

// TestDefaultOptions checks that commands read default options from files.
func TestDefaultOptions(t *testing.T) {
	w := stat(t)
	w.in.Home, w.in.Dir = "/home/alice", "/work"
	w.in.Files = map[string][]byte{"/home/alice/.sge_qstat": []byte("# mine\n-u *\n")}
	if got := listed(w.line("alice", "qstat")); got != "1 2 3 4 5" {
		t.Errorf("lists %q", got)
	}
	w.in.Defaults = map[string][]byte{"sge_qstat": []byte("-s r\n")}
	if got := listed(w.line("alice", "qstat")); got != "1" {
		t.Errorf("lists %q", got)
	}
	if got := listed(w.line("alice", "qstat -s hu")); got != "3" {
		t.Errorf("lists %q", got)
	}
	w.in.Files["/home/alice/.sge_request"] = []byte("-N mine\n")
	w.in.Files["job.sh"] = []byte("true\n")
	w.says("alice", "qsub job.sh", "Your job 6 (\"mine\") has been submitted\n", "", 0)
	// What is wrong with the file as a whole has no line.
	w.in.Files["/home/alice/.sge_request"] = []byte(strings.Repeat("# mine\n", submit.MaxOptionFiles/7+1))
	if text := w.line("alice", "qsub job.sh").Stderr; !strings.Contains(text, "more than 4194304 bytes") || strings.Contains(text, "line 0") || !strings.Contains(text, "/home/alice/.sge_request") {
		t.Errorf("says %q", text)
	}
}

func TestSummary(t *testing.T) {
	w := stat(t)
	w.says("alice", "qstat -g c", `CLUSTER QUEUE                   CQLOAD   USED    RES  AVAIL  TOTAL aoACDS  cdsuE  
--------------------------------------------------------------------------------
all.q                             -NA-      1      0      0      1      0      0 
two.q                             -NA-      0      0      2      2      0      0 
`, "", 0)
}

// TestJSON checks that JSON contains the data of the text output, in one document.
func TestJSON(t *testing.T) {
	w := stat(t)
	for text, want := range map[string]string{
		"qstat -json":           "jobs",
		"qstat -f -json":        "jobs queues",
		"qstat -g c -json":      "summary",
		"qstat -j 1 -json":      "details",
		"qhost -json":           "hosts",
		"qhost -q -j -json":     "hosts jobs queues",
		"qquota -json":          "quotas",
		"qrstat -json":          "reservations",
		"qstat -u nobody -json": "jobs",
	} {
		var d map[string]any
		r := w.line("alice", text)
		if err := json.Unmarshal([]byte(r.Stdout), &d); err != nil || r.Exit != 0 {
			t.Errorf("%s: %v, %s%s", text, err, r.Stdout, r.Stderr)
		}
		var keys []string
		for _, k := range []string{"details", "groups", "hosts", "jobs", "queues", "quotas", "reasons", "reservations", "shares", "summary"} {
			if _, ok := d[k]; ok {
				keys = append(keys, k)
			}
		}
		if got := strings.Join(keys, " "); got != want {
			t.Errorf("%s has %q, not %q", text, got, want)
		}
	}
}

// TestEnvironmentOfQstat checks that SGE_LONG_QNAMES and SGE_LOAD_AVG (qstat(1)) change a line as
// in the original.
func TestEnvironmentOfQstat(t *testing.T) {
	w := stat(t)
	for _, c := range []struct{ variable, line, want string }{
		{"SGE_LONG_QNAMES=", "qstat -f -q all.q", "all.q@node BI    0/1/1          -NA-     -NA-"},
		{"SGE_LONG_QNAMES=-5", "qstat -f -q all.q", "all.q@node BI    0/1/1          -NA-     -NA-"},
		{"SGE_LONG_QNAMES=12x", "qstat -f -q all.q", "all.q@node1  BI    0/1/1          -NA-     -NA-"},
		{"SGE_LONG_QNAMES=-1", "qstat -g c -q all.q", "all.q    -NA-      1      0      0      1"},
		{"SGE_LOAD_AVG=license", "qstat -f -q two.q", "two.q@node1                    BI    0/0/2          3.00     -NA-"},
		{"SGE_LOAD_AVG=qname", "qstat -f -q two.q", "two.q@node1                    BI    0/0/2          -NA-     -NA-"},
		{"SGE_LOAD_AVG=h_rt", "qstat -f -q two.q", "two.q@node1                    BI    0/0/2          -NA-     -NA-"},
	} {
		w.in.Environment = []string{c.variable}
		if r := w.line("alice", c.line); !strings.Contains(r.Stdout, "\n"+c.want) {
			t.Errorf("%s %s: no %q in\n%s%s", c.variable, c.line, c.want, r.Stdout, r.Stderr)
		}
	}
}
