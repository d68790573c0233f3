package command

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/scheduler/tickets"
)

// outlook returns the last part of qstat -j.
func (w *world) outlook(id string) string {
	w.t.Helper()
	text := w.line("root", "qstat -j "+id).Stdout
	if i := strings.Index(text, "array progress:"); i >= 0 {
		return text[i:]
	}
	if i := strings.Index(text, "waiting for:"); i >= 0 {
		return text[i:]
	}
	return ""
}

// TestOutlook checks the sentences that say why a job is pending, and when it will start if that is
// known.
func TestOutlook(t *testing.T) {
	for sentence, c := range map[string]struct {
		before []string // command lines of root and alice in turn are typed by alice
		want   string
	}{
		"a hold":          {[]string{"qsub -h job.sh"}, "waiting for:                its user hold to be taken off: qrls 1\n"},
		"a start time":    {[]string{"qsub -a 202312010000 job.sh"}, "waiting for:                its start time (-a), in 16 days and 1:46:40\nexpected start:             Fri Dec  1 00:00:00 2023\n"},
		"the scheduler":   {[]string{"qsub job.sh"}, "waiting for:                the next scheduling run\n"},
		"a busy queue":    {[]string{"qsub -t 1-9 job.sh", "run"}, "array progress:             0 of 9 done, 4 running\nwaiting for:                room in all.q@node1: all slots are in use\n"},
		"a disabled one":  {[]string{"root qmod -d all.q", "qsub job.sh", "run"}, "waiting for:                room in all.q@node1: it is disabled\n"},
		"what is nowhere": {[]string{"qsub -l arch=vax job.sh", "run"}, "waiting for:                a place that fits: no queue meets the requests\n                            all.q@node1: there is no arch\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := newWorld(t)
			for _, l := range c.before {
				user := "alice"
				if rest, ok := strings.CutPrefix(l, "root "); ok {
					user, l = "root", rest
				}
				if l == "run" {
					w.schedule()
				} else if r := w.line(user, l); r.Exit != 0 {
					t.Fatalf("%s: %s%s", l, r.Stdout, r.Stderr)
				}
			}
			if got := w.outlook("1"); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestOutlookOfPlaces checks that a sentence names each reason that excludes a host or queue
// instance, with the attribute that causes it.
func TestOutlookOfPlaces(t *testing.T) {
	const nowhere = "waiting for:                a place that fits: no queue meets the requests\n                            "
	for sentence, c := range map[string]struct {
		before []string
		want   string
	}{
		"a list of users":        {[]string{"root qconf -au bob people", "root qconf -mattr queue user_lists people all.q", "qsub job.sh"}, nowhere + "queue all.q: this user may not use it (user_lists, xuser_lists)\n"},
		"a list on a host":       {[]string{"root qconf -au bob people", "root qconf -mattr exechost user_lists people node1", "qsub job.sh"}, nowhere + "host node1: this user may not use it (user_lists, xuser_lists)\n"},
		"a list of the cluster":  {[]string{"root qconf -au bob people", "root qconf -mattr exechost user_lists people global", "qsub job.sh"}, nowhere + "the whole cluster: this user may not use it (user_lists, xuser_lists)\n"},
		"projects":               {[]string{"root qconf -Aprj p1", "root qconf -mattr queue projects p1 all.q", "qsub job.sh"}, nowhere + "queue all.q: it is for other projects (projects)\n"},
		"no batch jobs":          {[]string{"root qconf -rattr queue qtype INTERACTIVE all.q", "qsub job.sh"}, nowhere + "all.q@node1: it takes no batch jobs (qtype)\n"},
		"a forced resource":      {[]string{"root qconf -Mc forced", "root qconf -mattr queue complex_values gpu=1 all.q", "qsub job.sh"}, nowhere + "all.q@node1: it is for jobs that ask for gpu (FORCED)\n"},
		"no checkpointing there": {[]string{"root qconf -Ackpt k1", "qsub -ckpt k1 job.sh"}, nowhere + "all.q@node1: it is for no checkpointing environment (ckpt_list)\n"},
	} {
		t.Run(sentence, func(t *testing.T) {
			w := configured(t)
			w.in.Files["forced"] = []byte(w.line("root", "qconf -sc").Stdout + "gpu gpu INT <= FORCED NO 0 0\n")
			for _, l := range c.before {
				user := "alice"
				if rest, ok := strings.CutPrefix(l, "root "); ok {
					user, l = "root", rest
				}
				if r := w.line(user, l); r.Exit != 0 {
					t.Fatalf("%s: %s%s", l, r.Stdout, r.Stderr)
				}
			}
			w.schedule()
			if got := w.outlook("1"); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
		})
	}
}

// TestUsageOfWhatRuns checks that a running job is shown with its current usage, and not with that
// of its previous run.
func TestUsageOfWhatRuns(t *testing.T) {
	w := newWorld(t)
	w.line("alice", "qsub -r y job.sh")
	w.schedule()
	used := func() string {
		_, text, _ := strings.Cut(w.line("alice", "qstat -j 1").Stdout, "usage         1:            ")
		text, _, _ = strings.Cut(text, "\n")
		return text
	}
	if err := w.cell.UsageReport(w.now, 1, 1, tickets.Amounts{tickets.CPU: 60, tickets.Mem: 2, tickets.IO: 0.25}); err != nil {
		t.Fatal(err)
	}
	if err := w.cell.LiveReport(1, 1, cell.Live{Vmem: 1 << 20, MaxVmem: 3 << 30}); err != nil {
		t.Fatal(err)
	}
	if got, want := used(), "cpu=00:01:00, mem=2.00000 GB s, io=0.25000 GB, vmem=1.000M, maxvmem=3.000G"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := w.cell.TaskEnded(w.now, 1, 1, 0, cell.End{Failure: cell.NobodysFailure}); err != nil {
		t.Fatal(err)
	}
	w.schedule()
	if got := used(); strings.Contains(got, "3.000G") {
		t.Errorf("after another start: %q", got)
	}
	if err := w.cell.LiveReport(9, 1, cell.Live{}); err == nil {
		t.Error("a job that there is none of is reported")
	}
}

// TestOutlookOfQuotas checks that the sentence about a resource quota says to whom it applies, and
// how much of it is in use.
func TestOutlookOfQuotas(t *testing.T) {
	for limit, c := range map[string]struct{ options, want string }{
		"to slots=2":           {"", "2 of 2 slots are in use"},
		"users {*} to slots=2": {"", "users alice: 2 of 2 slots are in use"},
		"users {*} to slots=0": {"", "users alice: 0 of 0 slots are in use, and the job asks for more than there are"},

		"users alice to h_vmem=1G":          {"-l h_vmem=2G", "users alice: no more than h_vmem=1.000G may be asked for"},
		"users {*} queues all.q to slots=2": {"-now n", "users alice queues all.q: 2 of 2 slots are in use"},

		"users alice,bob hosts {node1} to slots=2": {"", "users alice,bob hosts node1: 2 of 2 slots are in use"},
	} {
		w := newWorld(t, "rqs/few", "{\n name few\n enabled TRUE\n limit "+limit+"\n}\n")
		for range 2 {
			if r := w.line("alice", "qsub job.sh"); r.Exit != 0 {
				t.Fatal(r.Stderr)
			}
		}
		w.schedule()
		if r := w.line("alice", "qsub "+c.options+" job.sh"); r.Exit != 0 {
			t.Fatal(r.Stderr)
		}
		w.schedule()
		if got, want := w.outlook("3"), "waiting for:                a resource quota, few/1: "+c.want+"\n"; got != want {
			t.Errorf("%s: got\n%swant\n%s", limit, got, want)
		}
	}
}

func TestOutlookOfDependentJobs(t *testing.T) {
	w := newWorld(t)
	w.line("alice", "qsub -N first job.sh")
	w.line("alice", "qsub -hold_jid first job.sh")
	w.schedule()
	if got := w.outlook("2"); got != "waiting for:                job 1 (first) to end (-hold_jid)\n" {
		t.Errorf("got %q", got)
	}
	if _, err := w.cell.TaskEnded(w.now, 1, 1, 0, cell.End{Failure: cell.JobFailure, Reason: "no such directory"}); err != nil {
		t.Fatal(err)
	}
	if got := w.outlook("1"); !strings.Contains(got, "its error to be cleared with qmod -cj 1: no such directory\n") {
		t.Errorf("got %q", got)
	}
	if text := w.line("root", "qstat -j 1").Stdout; !strings.Contains(text, "error reason          1:      no such directory\n") {
		t.Errorf("the error is not shown:\n%s", text)
	}
}

// TestEndsAreExplained checks that the output about a finished job says why it ended, and that
// about an array job how its tasks ended.
func TestEndsAreExplained(t *testing.T) {
	w := newWorld(t)
	w.line("alice", "qsub -N array -t 1-9 job.sh")
	w.line("alice", "qsub -N single job.sh")
	w.schedule()
	end := func(id, task uint32, e cell.End) {
		t.Helper()
		if _, err := w.cell.TaskEnded(w.now, id, task, 0, e); err != nil {
			t.Fatal(err)
		}
		w.schedule()
	}
	end(1, 1, cell.End{})
	if got := w.outlook("1"); strings.Contains(got, "last ended") {
		t.Errorf("got %q", got)
	}
	end(1, 2, cell.End{Reason: "job exceeded limit h_rt"})
	if got := w.outlook("1"); !strings.Contains(got, "last ended:                 task 2, 11/14/2023 22:13:20: job exceeded limit h_rt\n") {
		t.Errorf("got %q", got)
	}
	for task := range uint32(7) {
		end(1, task+3, cell.End{})
	}
	end(2, 1, cell.End{Reason: "job exceeded limit h_cpu"})
	w.line("alice", "qsub -h -N never job.sh")
	w.line("alice", "qdel 3")
	unknown := "Following jobs do not exist: \n1, 2, 3, 4\n"
	w.says("bob", "qstat -j 1,2,3,4", "", unknown, 1) // scripts see what the original prints
	const ends = `job 1 (array) has ended at 11/14/2023 22:13:20, its task 2: job exceeded limit h_rt; qacct -j 1 has its accounting
job 2 (single) has ended at 11/14/2023 22:13:20: job exceeded limit h_cpu; qacct -j 2 has its accounting
job 3 (never) has ended at 11/14/2023 22:13:20
`
	w.says("bob", "qstat -s z -j 1,2,3,4", ends, "Following jobs do not exist: \n4\n", 1)
	w.says("bob", "qstat -j 1,2,3 -s z", ends, "", 0)
	w.in.Terminal = true
	w.says("bob", "qstat -j 1,2,3,4", "", unknown+ends, 1)
}

// TestReasonsAreFoundOnDemand checks that reasons are computed when a user asks, if scheduling runs
// do not collect them.
func TestReasonsAreFoundOnDemand(t *testing.T) {
	w := newWorld(t)
	w.cell = cell.New(start, w.cell.Cluster(), cell.Options{Up: []string{"node1"}, Unexplained: true})
	w.line("alice", "qsub -t 1-9 job.sh")
	w.schedule()
	w.schedule()
	if got := w.outlook("1"); !strings.Contains(got, "all slots are in use") {
		t.Errorf("got %q", got)
	}
}

func TestVerify(t *testing.T) {
	w := newWorld(t)
	w.in.Environment = []string{"HOME=/home/alice", "LOGNAME=alice", "PATH=/bin", "SHELL=/bin/sh", "HOST=node1"}
	w.says("alice", "qsub -verify -b y sleep 10", `job_number:                 unassigned
owner:                      
uid:                        0
group:                      
gid:                        0
sge_o_home:                 /home/alice
sge_o_log_name:             alice
sge_o_path:                 /bin
sge_o_shell:                /bin/sh
sge_o_workdir:              /work
sge_o_host:                 node1
mail_list:                  alice@node1
notify:                     FALSE
job_name:                   sleep
jobshare:                   0
verify:                     -verify
env_list:                   TERM
job_args:                   10
script_file:                sleep
job_type:                   binary
`, "", 0)
}
