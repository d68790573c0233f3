package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// The cases about priorities and tickets. Others lack files that are read here.
var cases = []string{
	"07-urgency", "08-deadline-wait", "09-functional", "10-functional-notshared", "11-sharetree-users",
	"12-sharetree-projects", "13-override", "22-usage-decay", "23-arrays-tickets", "24-priority-mix",
}

func TestEveryCaseIsRead(t *testing.T) {
	for _, name := range cases {
		c, err := Read(os.DirFS(filepath.Join("../../testdata/golden", name)))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(c.Steps) == 0 {
			t.Errorf("%s: no steps", name)
		}
		for _, s := range c.Steps {
			if len(s.Rows) == 0 {
				t.Errorf("%s: no jobs at %q", name, s.Name)
			}
		}
	}
}
