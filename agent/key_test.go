package agent

import (
	"strings"
	"testing"

	"github.com/execd-project/execd/job"
)

// TestTaskKeysAreBounded checks the bound for the keys of tasks: the agent remembers 20,000 keys in
// memory and on the disk, and users choose the keys of the tasks of their jobs.
func TestTaskKeysAreBounded(t *testing.T) {
	w := newWorld(t)
	for key, says := range map[string]string{
		"": "invalid key", "a\nb": "invalid key",
		strings.Repeat("x", mostKey+1): "the key has 1025 bytes, at most 1024 are possible",
	} {
		_, err := w.agent.StartTask(t.Context(), &TaskStart{Job: job.ID{Job: 1}, Key: key, Command: []string{"true"}})
		if codeOf(err) != InvalidArgument || !strings.Contains(err.Error(), says) || len(err.Error()) > 200 {
			t.Errorf("a key of %d bytes: %.300v", len(key), err)
		}
	}
}
