package client

import (
	"testing"
	"time"

	"github.com/execd-project/execd/standalone/verifier"
)

func TestVerifierPatience(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"": verifier.Patience, "60": time.Minute, "0": verifier.Patience, "-5": verifier.Patience, "1.5": verifier.Patience, "999999999999": verifier.Patience,
	} {
		t.Setenv("SGE_JSV_TIMEOUT", value)
		if got := verifierPatience(); got != want {
			t.Errorf("SGE_JSV_TIMEOUT=%s: %v, want %v", value, got, want)
		}
	}
}
