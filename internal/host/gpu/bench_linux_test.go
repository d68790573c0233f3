package gpu_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/internal/host/gpu"
	"github.com/execd-project/execd/internal/testenv"
)

// BenchmarkDetect measures what the search for eight GPUs costs a daemon when it starts and once a minute. The floor is to
// read the files of their tree once.
func BenchmarkDetect(b *testing.B) {
	root := b.TempDir()
	for i := range 8 {
		testenv.GPUs(b, root, testenv.GPU{
			Vendor: "nvidia", Address: fmt.Sprintf("0000:%d1:00.0", i+1), Model: "NVIDIA H100", UUID: fmt.Sprint(uuid, i), Minor: i, Root: "pci0000:40",
		})
	}
	b.Run("eight GPUs", func(b *testing.B) {
		for b.Loop() {
			if v := gpu.Detect(root); len(v.GPUs) != 8 {
				b.Fatalf("found %d", len(v.GPUs))
			}
		}
	})
	b.Run("floor", func(b *testing.B) {
		var files []string
		err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			for _, path := range files {
				if _, err := os.ReadFile(path); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("no GPU", func(b *testing.B) {
		root := b.TempDir()
		for b.Loop() {
			gpu.Detect(root)
		}
	})
}
