package replay

import (
	"strings"
	"testing"
)

// TestWhyJobsWait checks which reason is reported for a pending job that has several. The expected reasons
// are those of the original.
func TestWhyJobsWait(t *testing.T) {
	printed, _, err := run(t, files2(
		"input/complexes", "", "input/sched_conf", "schedule_interval 0:0:2\n",
		"input/hosts/n1", "hostname n1\n",
		"input/queues/a.q", "qname a.q\nhostlist n1\nslots 1\nload_thresholds NONE\n",
		"jobs.txt", `dave: qsub -b y -N j1 /bin/sleep 900
carol: qsub -b y -N j2 -h -hold_jid 1 /bin/sleep 900
dave: qsub -b y -N j3 -h -hold_jid 1 -a 203001010000 /bin/sleep 900
dave: qsub -b y -N j4 -h -a 203001010000 /bin/sleep 900
dave: qsub -b y -N j5 -hold_jid 1 -a 203001010000 /bin/sleep 900
dave: qsub -b y -N j6 -h -hold_jid 1 -t 1-3 /bin/sleep 900
dave: qsub -b y -N j7 -a 203001010000 /bin/sleep 900
# wait 4 s
# capture output/final
`))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	job := ""
	for line := range strings.Lines(printed["final/schedinfo.txt"]) {
		line = strings.TrimSpace(strings.TrimPrefix(line, "scheduling info:"))
		if after, ok := strings.CutPrefix(line, "== job "); ok {
			job = after
		} else {
			got[job] = line // the last one
		}
	}
	for job, want := range map[string]string{
		"2": "Job is in hold state", "3": "Job is in hold state", "4": "Job is in hold state",
		"5": "job dropped because of job dependencies", "6": "Job is in hold state", "7": "execution time not reached",
	} {
		if got[job] != want {
			t.Errorf("job %s: %q, want %q", job, got[job], want)
		}
	}
}

// TestSwitchedOff checks that with a schedule_interval of 0 there are no scheduling runs, and a script
// does not wait for any.
func TestSwitchedOff(t *testing.T) {
	for interval, want := range map[string]string{"0:0:0": " qw ", "0:0:1": " r "} {
		printed, _, err := run(t, files2("input/queues/q", "qname q\nhostlist n1\nload_thresholds NONE\n", "input/sched_conf", "schedule_interval "+interval+"\n",
			"jobs.txt", "alice: qsub -b y /bin/sleep 500\n# wait 10 s\n# capture output/end\n"))
		if err != nil || !strings.Contains(printed["end/qstat.txt"], want) {
			t.Errorf("with an interval of %s: %v\n%s", interval, err, printed["end/qstat.txt"])
		}
	}
}
