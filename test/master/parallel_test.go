package master

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/execd-project/execd/internal/testenv"
)

// TestParallel places jobs over three hosts with the example master, with a task in each slot. An
// agent is killed and restarted while it runs some of them.
func TestParallel(t *testing.T) {
	testenv.Require(t, testenv.Root, testenv.Network)
	s := newSite(t, "n1", "n2", "n3")
	write(t, s.path("conf/queues/all.q"), fmt.Sprintf("qname all.q\nhostlist n1 n2 n3\nslots %d\npe_list mpi extra\nshell /bin/sh\nload_thresholds NONE\n", slots))
	for name, first := range map[string]string{"mpi": "TRUE", "extra": "FALSE"} {
		write(t, s.path("conf/pes", name), "pe_name "+name+"\nslots 999\nallocation_rule $round_robin\ncontrol_slaves TRUE\njob_is_first_task "+first+"\n")
	}
	for _, host := range s.hosts {
		s.start(host)
	}
	// All tasks use the same files.
	place := testenv.Open(t, s.path("place"))
	program := func(name, script string) string {
		path := s.path("scripts", name)
		write(t, path, "#!/bin/sh\n"+script+"\n")
		if err := os.Chmod(path, 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// A task reports its host, and exits when the job has seen all tasks. The job exits when it has
	// waited for them.
	task := program("task", `echo $$ >$D/.pid.$TASK; echo "$HOSTNAME $NSLOTS" >$D/.$TASK; mv $D/.$TASK $D/$TASK; until test -e $D/seen; do sleep 0.1; done; exit $TASK`)
	all := func(n int) string {
		return fmt.Sprintf("until test \"$(ls $D | grep -c '^[0-9]*$')\" = %d; do sleep 0.1; done; ls $D; >$D/seen; "+
			"for p in $(cat $D/.pid.*); do while kill -0 $p 2>/dev/null; do sleep 0.1; done; done; exit 7", n)
	}
	var lines strings.Builder
	submit := func(pe string, dir, task, script string) {
		d := filepath.Join(place, dir)
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&lines, "qsub -wd / -o /dev/null -j y -pe %s -v D=%s -ac tasks=%s %s\n", pe, d, task, program(dir, script))
	}
	// The first job takes all slots, and the others stay pending: their distribution does not
	// depend on the order in which the master has reached the hosts.
	submit(fmt.Sprintf("mpi %d", 3*slots), "one", task, all(3*slots-1))
	submit("extra 4 -hold_jid 1", "two", task, all(4))
	// The last job is killed while its tasks run, which must be killed, too.
	submit("mpi 6 -hold_jid 1", "three", program("sleeper", `>$D/$TASK; exec sleep 1000`),
		`until test "$(ls $D | grep -c '^[0-9]*$')" = 5; do sleep 0.1; done; kill -9 $$`)
	write(t, s.path("jobs"), lines.String())

	away := false
	said := s.runMaster(s.path("jobs"), func(line string, _ int) {
		switch {
		case strings.Contains(line, "task 1.n2 of job 1 has been started"):
			s.kill(s.agents["n2"])
			away = true
		case strings.Contains(line, "host n2 is not reached: "):
			s.start("n2")
		}
	})
	if !away || !strings.Contains(said, "host n2 is reached again") {
		t.Errorf("n2 was not away:\n%s", said)
	}

	got := map[string][]int{} // exit statuses by job and host; those of tasks in their order
	for _, e := range s.ledger() {
		key := fmt.Sprintf("%d on %s", e.Job.Job, e.Host)
		if e.Job.PETask == "" {
			key = fmt.Sprint(e.Job.Job)
		}
		got[key] = append(got[key], e.Job.Outcome.ExitStatus)
	}
	spread := map[int][]int{} // number of tasks by job, largest first
	for key, statuses := range got {
		slices.Sort(statuses)
		var number int
		if n, err := fmt.Sscanf(key, "%d on", &number); err == nil && n == 1 && strings.Contains(key, " on ") {
			spread[number] = append(spread[number], len(statuses))
		}
	}
	for _, counts := range spread {
		slices.Sort(counts)
	}
	if diff := cmp.Diff(map[int][]int{1: {slots - 1, slots, slots}, 2: {1, 1, 2}, 3: {1, 2, 2}}, spread); diff != "" {
		t.Errorf("tasks on hosts: %s\n%s", diff, said)
	}
	statuses := map[int][]int{}
	for _, e := range s.ledger() {
		if e.Job.PETask != "" {
			statuses[e.Job.Job] = append(statuses[e.Job.Job], e.Job.Outcome.ExitStatus)
		}
	}
	for _, list := range statuses {
		slices.Sort(list)
	}
	if diff := cmp.Diff(map[int][]int{1: {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 2: {1, 2, 3, 4}, 3: {137, 137, 137, 137, 137}}, statuses); diff != "" {
		t.Errorf("exit statuses of tasks: %s\n%s", diff, said)
	}
	for job, want := range map[string][]int{"1": {7}, "2": {7}, "3": {137}} {
		if !slices.Equal(got[job], want) {
			b, _ := json.Marshal(s.ledger())
			t.Errorf("job %s: %v, expected %v\n%s\n%s", job, got[job], want, said, b)
		}
	}
	// The hosts reported by the tasks are those on which the agents have run them.
	for _, dir := range []string{"one", "two"} {
		names, err := filepath.Glob(filepath.Join(place, dir, "[0-9]*"))
		if err != nil || len(names) == 0 {
			t.Errorf("%s: %v", dir, err)
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			want := map[string]string{"one": fmt.Sprint(3 * slots), "two": "4"}[dir]
			if f := strings.Fields(string(text)); err != nil || len(f) != 2 || !slices.Contains(s.hosts, f[0]) || f[1] != want {
				t.Errorf("%s has %q, %v", name, text, err)
			}
		}
	}
	s.checkForgotten()
}
