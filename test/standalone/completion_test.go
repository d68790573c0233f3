package standalone

import (
	"strings"
	"testing"
)

// TestCompletion checks that the daemon completes names and job numbers.
func TestCompletion(t *testing.T) {
	m, u := newcomer(t)
	m.start()
	m.as(u, "qsub", "-h", "-b", "y", "-N", "asleep", "sleep", "1") // also waits until the daemon answers
	for line, want := range map[string]string{
		"qsub -q a":       "all.q",
		"qsub -l h_vm":    "h_vmem\n",
		"qsub -pe sm":     "smp",
		"qconf -se ":      hostName,
		"qdel ":           "1\tasleep of " + u.Username + ", hqw",
		"execd qhold ":    "1\tasleep of " + u.Username + ", hqw",
		"qsub -hold_jid ": "1\tasleep of " + u.Username + ", hqw",
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
