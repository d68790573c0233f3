// Command bench measures the cost of a supervisor per job: the time of one lifecycle around
// /bin/true, and the memory, CPU time and context switches of many supervisors that wait for their
// jobs. It measures everything in one run, in turns, together with the lowest possible cost (see
// floor.go) and, if it is installed, the original sge_shepherd: on a busy machine only ratios
// within one run are meaningful.
//
// As root it runs the jobs as user nobody, otherwise as the caller. It skips what the machine does
// not support, and prints the reason.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

type options struct {
	runs      int
	jobs      int
	limits    int
	idle      time.Duration
	dir       string
	json      string
	original  string
	shepherds builds
}

// builds are executables of this project's shepherd to compare, as NAME=PATH.
type builds []struct{ name, path string }

func (b *builds) String() string { return "" }

func (b *builds) Set(s string) error {
	name, path, ok := strings.Cut(s, "=")
	if !ok {
		name, path = "sge_shepherd-go", s
	}
	path, err := filepath.Abs(path)
	*b = append(*b, struct{ name, path string }{name, path})
	return err
}

func main() {
	var o options
	flag.IntVar(&o.runs, "n", 200, "measure each lifecycle `N` times; 0 for not at all")
	flag.IntVar(&o.jobs, "jobs", 200, "measure the memory of `N` shepherds at once; 0 for not at all")
	flag.IntVar(&o.limits, "limits", 100, "measure how exactly limits are kept, with `N` jobs at h_rt; 0 for not at all")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "how long these are watched while their jobs sleep")
	flag.StringVar(&o.dir, "dir", diskDir(), "where job directories are made")
	flag.StringVar(&o.json, "json", "", "write the results to `FILE` as well")
	flag.StringVar(&o.original, "original", "/usr/lib/gridengine/sge_shepherd", "the original's shepherd")
	flag.Var(&o.shepherds, "shepherd", "an executable of ours, [NAME=]PATH, instead of a fresh build; repeat it to compare several")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unexpected argument %q\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := run(o); err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

func run(o options) (err error) {
	// A single thread starts and waits for all processes, because switching threads would affect
	// the measurement.
	runtime.LockOSThread()
	// Ctrl-C must not leave hundreds of processes behind.
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGINT, unix.SIGTERM)
	defer stop()
	// The usual limit of a daemon. The original closes every possible descriptor, so its time
	// depends on this limit.
	if err := setOpenFiles(1024); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.dir, "execd-bench-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o755); err != nil { // the job's user must be able to enter it
		return err
	}

	r := newReport()
	if len(o.shepherds) == 0 {
		path := filepath.Join(dir, "sge_shepherd-go")
		if err := build(ctx, path); err != nil {
			return err
		}
		o.shepherds = append(o.shepherds, struct{ name, path string }{"sge_shepherd-go", path})
	}
	jobs, err := newMaker(dir)
	if err != nil {
		return err
	}
	defer jobs.spool.Close()
	r.User, r.Directory = jobs.user.Name, o.dir
	if r.CreateFile, err = timeCreate(dir); err != nil {
		return err
	}
	var shepherds []shepherd
	for _, b := range o.shepherds {
		shepherds = append(shepherds, shepherd{name: b.name, argv: []string{b.path}, env: []string{"GOMAXPROCS=1"}})
	}
	if _, err := os.Stat(o.original); err != nil {
		r.skip("sge_shepherd", err)
	} else {
		shepherds = append(shepherds, shepherd{name: "sge_shepherd", argv: []string{o.original, "-bg"}})
	}
	for i := range shepherds {
		if err := r.executable(shepherds[i].name, shepherds[i].argv[0]); err != nil {
			return err
		}
	}

	if o.runs > 0 {
		if err := measureLifecycles(ctx, r, jobs, dir, shepherds, o.runs); err != nil {
			return err
		}
	}
	if o.jobs > 0 {
		for _, s := range shepherds {
			err := measureFootprint(ctx, r, jobs, s, command{argv: []string{"/bin/sleep", "3600"}}, o.jobs, time.Second, o.idle)
			if errors.Is(err, os.ErrPermission) {
				// Only root may examine this project's shepherd.
				r.skip("memory of "+s.name, err)
			} else if err != nil {
				return err
			}
		}
	}
	if o.limits > 0 {
		if err := measureLimits(ctx, r, jobs, dir, shepherds[0], o.limits); err != nil {
			return err
		}
	}
	r.print(os.Stdout)
	if o.json == "" {
		return nil
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(o.json, append(text, '\n'), 0o644)
}

// diskDir returns a temporary directory on a disk, as a spool area is. /tmp may be in memory, where
// files cost almost nothing.
func diskDir() string {
	const dir = "/var/tmp"
	if unix.Access(dir, unix.W_OK) == nil {
		return dir
	}
	return os.TempDir()
}

// build builds the shepherd like `make build`.
func build(ctx context.Context, path string) error {
	if err := goBuild(ctx, path, "github.com/execd-project/execd/cmd/shepherd"); err != nil {
		return err
	}
	return reinstall(path)
}

func goBuild(ctx context.Context, path, pkg string) error {
	const ldflags = "-s -w -X runtime.godebugDefault=disablethp=1"
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath", "-ldflags="+ldflags, "-o", path, pkg)
	cmd.Env = append(cmd.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot build %s: %w\n%s", pkg, err, out)
	}
	return nil
}

// reinstall writes an executable again as a whole, like an installer. A linker writes it in pieces,
// which the kernel caches in small pages, and each start from these takes some percent longer.
func reinstall(path string) error {
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.Remove(path)
	}
	if err == nil {
		err = os.WriteFile(path, b, 0o755)
	}
	return err
}

// timeCreate measures the time to create a file of a few bytes. A shepherd creates seven files,
// which on some disks is a large part of its time.
func timeCreate(dir string) (microseconds float64, err error) {
	const files = 100
	dir, err = os.MkdirTemp(dir, "files-")
	if err != nil {
		return 0, err
	}
	start := time.Now()
	for i := range files {
		if err := os.WriteFile(filepath.Join(dir, strconv.Itoa(i)), []byte("12345\n"), 0o644); err != nil {
			return 0, err
		}
	}
	return float64(time.Since(start).Microseconds()) / files, nil
}

// setOpenFiles sets the soft limit of descriptors for this process and its children.
func setOpenFiles(n uint64) error {
	var r unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return err
	}
	r.Cur = min(n, r.Max)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return fmt.Errorf("cannot set the limit of open files to %d: %w", r.Cur, err)
	}
	return nil
}
