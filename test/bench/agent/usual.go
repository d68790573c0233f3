package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/execd-project/execd/jobdir"
)

// usualReports measures the reports for a master that has received all previous ones: they contain
// the changed load values and the usage of jobs. There is one report each second.
func usualReports(ctx context.Context, b *bench) (string, error) {
	path := filepath.Join(b.spool, "conf", "conf", "global")
	if err := os.WriteFile(path, []byte(global+"load_report_time 00:00:01\n"), 0o644); err != nil { //nolint:gosec // as all of the configuration
		return "", err
	}
	if err := b.end(); err != nil {
		return "", err
	}
	if err := b.start(ctx); err != nil {
		return "", err
	}
	if _, err := b.usual(ctx, nil, settle/12); err != nil { // excludes the cost of the first time
		return "", err
	}
	none, err := b.usual(ctx, nil, 0)
	if err != nil {
		return "", err
	}
	if _, err := b.sleepers(ctx, sleeperJobs); err != nil {
		return "", err
	}
	jobs, err := b.client.Jobs(ctx)
	if err != nil {
		return "", err
	}
	var dirs []string
	for i := range jobs {
		dirs = append(dirs, jobs[i].Directory)
	}
	// Supervisors measure new jobs frequently.
	asleep, err := b.usual(ctx, nil, settle/2)
	if err != nil {
		return "", err
	}
	busy, err := b.usual(ctx, dirs, 0)
	return strings.Join([]string{"without jobs " + none, "with those that sleep " + asleep, "when all have used more " + busy}, "; "), err
}

// usual reads the reports about jobs whose usage grows each time. It returns the amount of data,
// and the CPU time that the agent needs for it.
func (b *bench) usual(ctx context.Context, busy []string, before time.Duration) (string, error) {
	const runs = 20
	s, err := b.open(ctx, false)
	if err != nil {
		return "", err
	}
	defer s.close()
	word := `"load":{`
	for end := time.Now().Add(before); ; {
		if err := s.next(word); err != nil {
			return "", err
		}
		if time.Now().After(end) {
			break
		}
	}
	cpu, err := cpuOf(b.agent.Process.Pid)
	if err != nil {
		return "", err
	}
	size := s.came.n
	if busy != nil {
		word = `"usage":{` // follows the load
	}
	for i := range runs {
		for n, dir := range busy {
			if err := writeUsage(dir, float64(i*runs+n)); err != nil {
				return "", err
			}
		}
		if err := s.next(word); err != nil {
			return "", err
		}
	}
	size = (s.came.n - size) / runs
	after, err := cpuOf(b.agent.Process.Pid)
	return fmt.Sprintf("%.1f KB, %v", float64(size)/1e3, round((after-cpu)/runs)), err
}

// writeUsage writes usage in the same way as a supervisor after a measurement.
func writeUsage(dir string, n float64) error {
	u := jobdir.Online{
		At: time.Now(), Wallclock: 1000 + n, CPU: 1234.567891 + n, Mem: 23.4567891 + n, IO: 0.123456789 * n, IOWait: 0.01 * n,
		Vmem: 123456789 + int64(n)*4096, MaxVmem: 234567890 + int64(n)*4096,
	}
	temp := filepath.Join(dir, "."+jobdir.FileOnline+".new")
	return errors.Join(os.WriteFile(temp, jobdir.FormatOnline(&u), 0o644), os.Rename(temp, filepath.Join(dir, jobdir.FileOnline)))
}
