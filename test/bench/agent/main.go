// Command agent measures the cost of the node daemon: the time from an order to the start of the
// job, jobs per second, the resource usage of an idle agent and of one with sleeping jobs, and the
// downtime after the agent was killed. It uses the agent's interface in the same way as a master.
//
// As root it runs the jobs as user nobody, otherwise as the caller.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"os/user"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// measurement is one line of the results.
type measurement struct {
	name string
	run  func(ctx context.Context, b *bench) (string, error)
}

var measurements = []measurement{
	{"one job: from the order to its first instruction", latency},
	{"500 short jobs, 512 slots: jobs per second", throughput},
	{"idle agent", idle},
	{"200 sleeping jobs: agent and supervisors", sleeping},
	{"report of load and usage with 200 jobs, for a master that comes anew", reports},
	{"report of load and usage with 200 jobs, as it comes from time to time", usualReports},
	{"kill -9 and restart under 50 jobs, 25 of which end meanwhile with status 7", restart},
	{"recovery with 1,000 running jobs", recovery},
}

func main() {
	dir := flag.String("dir", "", "where the spool directory is made (default: the directory for temporary files)")
	only := flag.Int("only", 0, "measure only the `N`th line, from 1")
	bin := flag.String("bin", "", "directory with execd and sge_shepherd-go (default: a fresh build)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	if err := run(ctx, *dir, *bin, *only); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, where, bin string, only int) (err error) {
	dir, err := os.MkdirTemp(where, "execd-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	b := &bench{dir: dir, bin: bin}
	if b.owner, err = user.Current(); err != nil {
		return err
	}
	if b.owner.Uid == "0" {
		if b.owner, err = user.Lookup("nobody"); err != nil {
			return err
		}
	}
	if bin == "" {
		b.bin = filepath.Join(dir, "bin")
		if err := build(ctx, b.bin); err != nil {
			return err
		}
	}
	for i, m := range measurements {
		if only != 0 && only != i+1 {
			continue
		}
		text, err := b.measure(ctx, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		fmt.Printf("%s\n    %s\n", m.name, text)
	}
	return nil
}

// build builds the executables in the same way as for a release.
func build(ctx context.Context, dir string) error {
	cmd := exec.CommandContext(ctx, "make", "build")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make build: %w\n%s", err, out)
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	return exec.CommandContext(ctx, "cp", "bin/execd", "bin/sge_shepherd-go", dir).Run()
}
