package protocol_test

import (
	"testing"

	"github.com/execd-project/execd/agent/protocol"
)

func TestStates(t *testing.T) {
	before := 0
	for _, s := range protocol.States() {
		phase := 0 // not on the disk yet, holds slots, has ended
		switch {
		case s.Live() && s.Over():
			t.Errorf("%s is live and over", s)
		case s.Live():
			phase = 1
		case s.Over():
			phase = 2
		}
		if (s == protocol.Received) != (phase == 0) || phase < before {
			t.Errorf("%s is in phase %d, and the state before it in phase %d", s, phase, before)
		}
		before = phase
	}
	if s := protocol.State(""); s.Live() || s.Over() {
		t.Error("no state is live or over")
	}
}
