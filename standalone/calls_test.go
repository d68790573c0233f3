package standalone

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/standalone/api"
)

func TestOnlyShows(t *testing.T) {
	for line, want := range map[string]bool{
		"qstat -f": true, "qhost": true, "qsub job.sh": false, "qdel 1": false, "qconf": true,
		"qconf -sq all.q": true, "qconf -sconf -sm": true, "qconf -aq": false, "qconf -sq all.q -dq all.q": false,
		"qconf -mattr queue slots 2 all.q": false, "qconf -clearusage": false, "nonsense": false,
	} {
		words := strings.Fields(line)
		if got := onlyShows(&api.CommandRequest{Name: words[0], Args: api.Texts(words[1:])}); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}
