package standalone

import (
	"strings"
	"testing"
)

// TestCompletion checks that the daemon completes names and job numbers.
func TestCompletion(t *testing.T) {
	m, u := newcomer(t)
	m.start()
	for _, words := range [][]string{{"-sync", "y", "-N", "first", "true"}, {"-h", "-N", "asleep", "sleep", "1"}} {
		if r := m.as(u, "qsub", append([]string{"-wd", "/tmp", "-b", "y", "-j", "y", "-o", "/dev/null"}, words...)...); r.status != 0 { // also waits until the daemon answers
			t.Fatalf("%+v", r)
		}
	}
	for line, want := range map[string]string{
		"qsub -q a":       "all.q",
		"qsub -l h_vm":    "h_vmem\n",
		"qsub -pe sm":     "smp",
		"qconf -se ":      hostName,
		"qsub -q all.q@":  "all.q@" + hostName,
		"qstat -u ":       u.Username + "\n",
		"execd top -u ":   u.Username + "\n",
		"execd seff ":     "1\tfirst of " + u.Username + "\n",
		"qacct -j ":       "1\tfirst of " + u.Username + "\n",
		"qdel ":           "2\tasleep of " + u.Username + ", hqw",
		"execd qhold ":    "2\tasleep of " + u.Username + ", hqw",
		"qsub -hold_jid ": "2\tasleep of " + u.Username + ", hqw",
	} {
		words := strings.Split(line, " ")
		// A busy machine may take longer for an answer than a shell waits.
		for range 50 {
			r := m.as(u, "../execd", append([]string{"__complete"}, words...)...)
			if strings.Contains(r.stdout, want) {
				words = nil
				break
			}
		}
		if words != nil {
			t.Errorf("%q is not completed with %q", line, want)
		}
	}
}
