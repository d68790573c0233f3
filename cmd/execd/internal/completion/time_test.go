package completion

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

// TestInTime asks a daemon that takes various times for its answer.
func TestInTime(t *testing.T) {
	const never = time.Hour
	for name, c := range map[string]struct {
		age, takes time.Duration
		answer     bool
		waited     time.Duration
	}{
		"an answer at once":                   {0, 0, true, 0},
		"an answer in time":                   {20 * time.Millisecond, 100 * time.Millisecond, true, 100 * time.Millisecond},
		"an answer that comes too late":       {0, 151 * time.Millisecond, false, 150 * time.Millisecond},
		"no answer":                           {0, never, false, 150 * time.Millisecond},
		"no answer, and a slow start":         {100 * time.Millisecond, never, false, 50 * time.Millisecond},
		"an answer after a very slow start":   {time.Second, 10 * time.Millisecond, true, 10 * time.Millisecond},
		"no answer after a very slow start":   {time.Second, never, false, 20 * time.Millisecond},
		"a start in the future of this clock": {-time.Second, never, false, 150 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				got := InTime(c.age, func(context.Context) []Candidate { // deaf to the end of its context
					<-time.After(c.takes)
					return []Candidate{{Word: "1"}}
				})
				if waited := time.Since(began); waited != c.waited || (len(got) == 1) != c.answer {
					t.Errorf("%v after %s, expected an answer (%t) after %s", got, waited, c.answer, c.waited)
				}
				<-time.After(2 * never)
			})
		})
	}
}
