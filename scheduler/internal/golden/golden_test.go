package golden

import (
	"os"
	"path/filepath"
	"testing"
)

func TestEveryCaseIsRead(t *testing.T) {
	dirs, err := filepath.Glob("../../testdata/golden/*")
	if err != nil || len(dirs) != 12 {
		t.Fatalf("%d cases, %v", len(dirs), err)
	}
	for _, dir := range dirs {
		c, err := Read(os.DirFS(dir))
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		for _, s := range c.Steps {
			if len(s.Rows) == 0 {
				t.Errorf("%s: no jobs at %q", dir, s.Name)
			}
		}
	}
}
