package command

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/cell"
	"github.com/execd-project/execd/internal/submission"
	"github.com/execd-project/execd/submit"
)

// TestConfirmed checks that a job is the one that its user has confirmed to the launcher, under a
// key that the launcher accepts. The keys of all jobs must fit into one order to the launcher.
func TestConfirmed(t *testing.T) {
	r, err := submit.Parse(submit.Input{Args: []string{"-b", "y", "true"}, Cwd: "/"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		key, digestOf string
		ok            bool
	}{
		"as it was told":    {"a", "a", true},
		"another key":       {"b", "a", false},
		"no key":            {"", "", false},
		"a long key":        {strings.Repeat("a", 1000), strings.Repeat("a", 1000), false},
		"a key with a path": {"../a", "../a", false},
	} {
		digest := submission.Of(r, "/", nil).Digest(c.digestOf)
		x := &call{in: &Input{
			Confirming: true, Confirmation: &Confirmation{Key: c.key, Digest: digest}, By: cell.Caller{Origin: &cell.Origin{Directory: "/"}},
		}}
		if err := x.confirmed(r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
