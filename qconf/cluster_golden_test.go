package qconf

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// reprint reads a file of a configuration directory and prints it.
func reprint(path string, data []byte) (string, error) {
	folder, _, _ := strings.Cut(filepath.ToSlash(path), "/")
	switch folder {
	case "complexes":
		c, err := ParseComplexes(path, data)
		return c.Format(), err
	case "rqs":
		sets, err := ParseResourceQuotas(path, data)
		return FormatResourceQuotas(sets, Wrapped), err
	case "sharetree":
		tree, err := ParseShareTree(path, data)
		return tree.Format(), err
	}
	text, err := parsers[folder](path, data)
	return text.Format(Wrapped), err
}

func goldenClusters(t *testing.T) []string {
	t.Helper()
	clusters, err := filepath.Glob("testdata/golden/*")
	if err != nil || len(clusters) != 24 {
		t.Fatalf("%d clusters, %v", len(clusters), err)
	}
	return clusters
}

// TestWholeClustersThatQconfPrintedArePrintedAgain checks the directories below testdata/golden:
// clusters of Grid Engine 8.1.9, as its qconf printed them.
func TestWholeClustersThatQconfPrintedArePrintedAgain(t *testing.T) {
	clusters := goldenClusters(t)
	// One with values that are wide, long and rare.
	for _, dir := range append(clusters, "testdata/printed") {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
				if err != nil || d.IsDir() {
					return err
				}
				data, err := os.ReadFile(filepath.Join(dir, path))
				if err != nil {
					return err
				}
				printed, err := reprint(path, data)
				if err != nil {
					t.Errorf("%v", err)
					return nil
				}
				if diff := cmp.Diff(string(data), printed); diff != "" {
					t.Errorf("%s (-qconf +printed)\n%s", path, diff)
				}
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}
