package serve

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/execd-project/execd/agent/api"
)

// BenchmarkStart measures a start on both sides of a socket, without the work of the agent.
func BenchmarkStart(b *testing.B) {
	for name, batch := range map[string]int{"alone": 1, "in batches of 50": 50} {
		b.Run(name, func(b *testing.B) {
			s, err := New(Options{Socket: filepath.Join(b.TempDir(), "s")})
			if err != nil {
				b.Fatal(err)
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx, newFake()) }()
			c, err := api.Dial(api.Options{Socket: s.Addresses()[0].String()})
			if err != nil {
				b.Fatal(err)
			}
			n := 0
			for b.Loop() {
				var starts []api.Start
				for range batch {
					n++
					starts = append(starts, aStart(n))
				}
				if batch == 1 {
					_, err = c.Start(ctx, starts[0])
				} else {
					_, err = c.StartBatch(ctx, starts)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "starts/s")
			c.Close()
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
		})
	}
}
