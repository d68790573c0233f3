package replay

import (
	"strings"
	"testing"
)

// Why a job waits, where there are several causes: what the original said of these jobs.
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
