package record

import (
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	dir := os.Getenv("TRY")
	lines, err := Run(t, dir, "/tmp/record/out")
	if err != nil {
		t.Fatal(err)
	}
	_ = lines
}
