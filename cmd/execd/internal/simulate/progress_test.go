package simulate

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/execd-project/execd/simulate/runner"
)

func TestProgress(t *testing.T) {
	p := runner.Progress{Now: 3*24*3600 + 5, Submitted: 100, Running: 7, Finished: 60}
	const text = "day 3: 100 jobs submitted, 7 tasks running, 60 finished"
	for sentence, c := range map[string]struct {
		terminal bool
		want     string // output for 25 seconds, with a report each second
	}{
		"a log gets a line every ten seconds": {false, strings.Repeat("execd simulate: "+text+"\n", 2)},
		"a terminal has one that changes":     {true, strings.Repeat("\r\x1b[K"+text, 25)},
	} {
		t.Run(sentence, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var errs strings.Builder
				tell := (&Command{Stderr: &errs, Terminal: c.terminal}).progress()
				for range 25 {
					<-time.After(time.Second)
					tell(p)
				}
				if errs.String() != c.want {
					t.Errorf("%q, want %q", errs.String(), c.want)
				}
			})
		})
	}
}
